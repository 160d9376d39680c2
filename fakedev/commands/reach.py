"""How the commands reach a running service: by an option, a variable, or its registration; and ``fakedev ps``."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fakedev.base.console import table, write_text
from fakedev.base.environment import SOCKET, TOKEN, URL, unknown_variables
from fakedev.base.errors import printable, unknown_name
from fakedev.base.names import token_text
from fakedev.client.http import Access, FleetError, HttpConnection, connected, http_address, refused, with_access
from fakedev.runtime.client_tls import CannotUseTls, connection_reason
from fakedev.runtime.running_services import RunningService, ServedAddress, described, running_services
from fakedev.schema.files import read_password, read_token
from fakedev.schema.options import Failed, OnlyOne, Option, command
from fakedev.schema.peer_addresses import (
    HTTP_SOCKET,
    TLS_OPTIONS,
    TLS_SCHEME,
    WORKLOAD_SOCKET,
    Address,
    ClientTls,
    parse_address,
    runtime_folder,
    with_tls,
)

if TYPE_CHECKING:
    from fakedev.client.fleet_client import Fleet

#: Where a service listens that has not registered itself for this user.
_USUAL_URL: Final = "http://127.0.0.1:9400"
_PROBE_SECONDS: Final = 2.0
#: How long a service may be silent: one that runs answers within a fraction of a second.
ANSWER_SECONDS: Final = 5.0
#: Of every command that shows or changes something of a service; doc/running.md has what it prints.
JSON: Final = Option("json", "", "print JSON")
#: Codes of errors for which the words of a command are at fault.
_WRONG_WORDS: Final = ("bad-argument", "unknown-verb", "unknown-name")
#: The keys of addresses where queues answer ``stats``.
QUEUE_KEYS: Final = ("queue-backends", "queue-clients")


class CannotAsk(Failed):
    """No service answers, or it refuses; the text is a whole sentence."""


def service_options(*, takes_port: bool = False) -> Iterator[Option | OnlyOne]:
    """The options that name the service, its token and its password.

    :param takes_port: the command can also use a workload port.
    """
    url = f"http(s)://HOST:PORT or a UNIX socket; default ${URL}, then this user's only service, then {_USUAL_URL}"
    socket = f"a workload port in place of HTTP: a UNIX socket, HOST:PORT or tls://HOST:PORT; default ${SOCKET}"
    yield OnlyOne((
        Option("url", "URL", url),
        Option("service", "NAME", "a service of this user: a name or pid that fakedev ps lists"),
        *((Option("socket", "ADDRESS", socket),) if takes_port else ()),
    ))  # fmt: skip
    token = f"file with the token, if the address requires one; default ${TOKEN}, then the file that the service named"
    yield from access_options(token)


def access_options(token: str) -> Iterator[Option]:
    """The options for what an address requires; :func:`access_of` takes their values.

    :param token: the help of ``--token-file``.
    """
    yield Option("user", "NAME", "user of an address with passwords, with --password-file")
    files = {"password-file": "file with the password of --user", "token-file": token, **TLS_OPTIONS}
    yield from (Option(name, "FILE", text, "") for name, text in files.items())


@dataclass(frozen=True)
class Reached:
    """Where a command finds its service.

    :param url: its HTTP address; empty when ``port`` is used.
    :param port: its workload port; None when ``url`` is used.
    """

    url: str
    port: Address | None
    token: str
    access: Access

    @property
    def address(self) -> Address:
        return with_tls(http_address(self.url), with_access(self.token, self.access)[0])

    def fleet(self) -> Fleet:
        """A client of its API."""
        # fakedev status needs none, and must be fast.
        from fakedev.client.fleet_client import Fleet  # noqa: PLC0415

        return Fleet(self.url, self.token, ANSWER_SECONDS, **self.access)

    def failed(self, error: FleetError) -> CannotAsk:
        """The error of a command for one of :meth:`fleet`."""
        if isinstance(error.__context__, TimeoutError):  # what NoAnswer was raised for
            return unreachable(self.address, error.__context__)
        return refused_words(getattr(error, "code", ""), str(error))

    def open(self, path: str, patience_seconds: float | None = None) -> http.client.HTTPResponse:
        """The answer to a GET, to be read by the caller.

        :param patience_seconds: how long the service may be silent; None: as all commands have it.
        :raises CannotAsk: when the service does not answer, or not with 200.
        """
        address = self.address
        connection = HttpConnection(address, patience_seconds or ANSWER_SECONDS)
        try:
            connection.request("GET", path, headers=with_access(self.token, self.access)[1])
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise unreachable(address, error) from None
        if response.status != 200:
            raise CannotAsk(f"{address}{path}: {refused(response.status, response.read(4096))}")
        return response


def reach(options: Namespace, environ: Mapping[str, str]) -> Reached:
    """The service that an option or a variable names; else the only one of this user that runs.

    :param options: as :func:`service_options` declares them.
    :raises CannotAsk: when there is none, or several; or an option or a variable cannot be used.
    """
    for variable, problem in unknown_variables(environ):
        write_text(sys.stderr, f"fakedev: note: environment {variable}: {problem}\n")
    takes_port = hasattr(options, "socket")
    flags = {"workloads": vars(options).get("socket"), "web": options.url}
    variables = {"workloads": environ.get(SOCKET) if takes_port else None, "web": environ.get(URL)}
    chosen = flags if options.service or any(flags.values()) else variables
    named = [ServedAddress(key, address) for key, address in chosen.items() if address]
    served = named[0] if named else _registered(options.service, environ, takes_port=takes_port)
    access, is_port = access_of(options), served.key == "workloads"
    token = token_of(options, environ, served.token_file)
    try:
        parse = parse_address if is_port else _http_address
        address = with_tls(parse(served.address), with_access(token, access)[0])
    except ValueError as error:
        raise CannotAsk(str(error), 2) from None
    return Reached("" if is_port else served.address, address if is_port else None, token, access)


def _registered(name: str | None, environ: Mapping[str, str], *, takes_port: bool) -> ServedAddress:
    """An address of the service of this name or pid; without a name, of the only one that runs.

    :raises CannotAsk: when there is none, or several.
    """
    running = [service for service in _services(environ)[0] if not service.stale]
    chosen = [service for service in running if name in (None, service.name, str(service.pid))]
    if name is None:  # a frontend of queues has no address for these commands
        chosen = [service for service in chosen if _can_be_used(service, takes_port=takes_port)] or chosen
    if name is not None and not chosen:
        text = unknown_name("running service", name, [service.name for service in running])
        raise CannotAsk(f"{text}; fakedev ps lists them", 2)
    if len(chosen) > 1:
        raise CannotAsk(f"{len(chosen)} services of this user run: choose one by {_choices(chosen)}", 2)
    if chosen:
        return _usable(chosen[0], takes_port=takes_port)
    for key, file in (("workloads", WORKLOAD_SOCKET), ("web", HTTP_SOCKET)):
        path = os.path.join(runtime_folder(environ.get), file)
        if os.path.exists(path) and (takes_port or key == "web"):
            return ServedAddress(key, path)
    try:
        connected(http_address(_USUAL_URL), _PROBE_SECONDS).close()
    except OSError:
        raise CannotAsk(
            f"no service of this user runs, and none answers at {_USUAL_URL}: start one with fakedev serve, or name "
            f"one by --url, --service or {URL}"
        ) from None
    return ServedAddress("web", _USUAL_URL)


def _services(environ: Mapping[str, str]) -> tuple[list[RunningService], list[str]]:
    try:
        return running_services(environ)
    except ValueError as error:
        raise CannotAsk(str(error)) from None


def _choices(services: Sequence[RunningService]) -> str:
    """The option that chooses each of them: by its name, or its pid where several have that name."""
    counts = Counter(service.name for service in services)
    return ", or ".join(
        f"--service {shlex.quote(service.name) if counts[service.name] == 1 else service.pid} ({service.shown_address})"
        for service in services
    )


def _can_be_used(service: RunningService, *, takes_port: bool) -> list[ServedAddress]:
    return [each for each in service.addresses if each.has_control or (takes_port and each.key == "workloads")]


def _is_frontend(service: RunningService) -> bool:
    has_queues = any(address.key in QUEUE_KEYS for address in service.addresses)
    return has_queues and not _can_be_used(service, takes_port=True)


def frontend(name: str | None, environ: Mapping[str, str]) -> str:
    """An address of the frontend of queues with this name or pid, or of the only one; empty without one.

    :raises CannotAsk: when there are several.
    """
    found = [
        service for service in _services(environ)[0]
        if not service.stale and name in (None, service.name, str(service.pid)) and _is_frontend(service)
    ]  # fmt: skip
    if len(found) > 1:
        raise CannotAsk(f"{len(found)} frontends of this user run: choose one by {_choices(found)}", 2)
    return next((each.address for service in found for each in service.addresses if each.key in QUEUE_KEYS), "")


def _usable(service: RunningService, *, takes_port: bool) -> ServedAddress:
    """An address that a command can use: one without TLS before others, the workload port before HTTP."""
    usable = _can_be_used(service, takes_port=takes_port)
    if not usable and _is_frontend(service):
        raise CannotAsk(f"the service {service.name} (pid {service.pid}) has queues alone: fakedev queues shows them")
    if not usable:
        raise CannotAsk(
            f"the service {service.name} (pid {service.pid}) has no {'workload port and no ' if takes_port else ''}"
            "HTTP address with serve: all: add one to its web:"
        )
    return min(usable, key=lambda each: (each.address.startswith(("https:", TLS_SCHEME)), each.has_control))


def _http_address(url: str) -> Address:
    bare = url.removeprefix("http://").removeprefix("https://").rstrip("/") if "://" in url else url
    if not set(bare) & set("/:@"):
        raise CannotAsk(f"{url!r} has no port: give http://{bare}:9400, or the path of a socket, as ./{bare}", 2)
    return http_address(url)


def access_of(options: Namespace) -> Access:
    """The files of TLS, and the password.

    :raises CannotAsk: when a file cannot be read, or the options do not go together.
    """
    if bool(options.user) is not bool(options.password_file):
        raise CannotAsk("--user and --password-file go together: give both of them", 2)
    try:
        tls = ClientTls(options.ca_file, options.cert_file, options.key_file)
    except ValueError as error:
        raise CannotAsk(f"--{error}", 2) from None
    try:
        password = read_password(options.password_file) if options.password_file else ""
    except ValueError as error:
        raise CannotAsk(f"--password-file: {error}", 2) from None
    return Access(
        ca_file=tls.ca_file, cert_file=tls.cert_file, key_file=tls.key_file, user=options.user or "", password=password
    )


def token_of(options: Namespace, environ: Mapping[str, str], registered: str) -> str:
    """The token of the option, of the variable, or of the file that the service registered; empty without them.

    :raises CannotAsk: when it cannot be used.
    """
    if options.user and not options.token_file:
        return ""
    variable = "" if options.token_file else environ.get(TOKEN, "")
    path = options.token_file or registered
    try:
        return token_text(variable) if variable else read_token(path) if path else ""
    except ValueError as error:
        source = TOKEN if variable else "--token-file" if options.token_file else "the token of the service"
        raise CannotAsk(f"{source}: {error}", 2) from None


def refused_words(code: str, text: str) -> CannotAsk:
    """The service has refused the words (2), or cannot do what they say (1).

    :param code: of the protocols.
    """
    return CannotAsk(text, 2 if code in _WRONG_WORDS else 1)


def unreachable(address: Address, error: Exception) -> CannotAsk:
    """The error of a connection that failed."""
    if isinstance(error, TimeoutError):
        return CannotAsk(f"{address}: no answer within {ANSWER_SECONDS:g} s: {_why_silent(address)}")
    text = f"{address}: {connection_reason(error)}: is fakedev serve running there?"
    return CannotAsk(f"--{error}", 2) if isinstance(error, CannotUseTls) else CannotAsk(text)


def _why_silent(address: Address) -> str:
    """What is known of the service at an address that does not answer."""
    for service in _services(os.environ)[0]:
        own = [http_address(served.address) for served in _can_be_used(service, takes_port=True)]
        place = (address.path, address.host, address.port)
        if not service.stale and place in [(one.path, one.host, one.port) for one in own]:
            what = f"is suspended: kill -CONT {service.pid} resumes it" if service.is_suspended else "runs, but is busy"
            return f"the service {service.name} (pid {service.pid}) {what}"
    return "is it fakedev, and does its machine answer?"


def write_json(value: object) -> None:
    write_text(sys.stdout, json.dumps(value, indent=1) + "\n")


@command(
    "fakedev ps",
    "Lists the services of this user that run, and those that ended without removing their file.",
    JSON,
)
def ps(options: Namespace) -> None:
    """List the services of this user.

    :raises CannotAsk: when there is no folder for sockets.
    """
    services, problems = _services(os.environ)
    write_text(sys.stderr, "".join(f"fakedev ps: {problem}\n" for problem in problems))
    rows = [
        {
            "NAME": printable(service.name),
            "PID": str(service.pid),
            "VERSION": printable(service.version),
            "STATE": f"stale: {service.stale}" if service.stale else "suspended" if service.is_suspended else "runs",
            "ADDRESSES": printable(", ".join(address.address for address in service.addresses)),
            "CONFIGURATION": printable(service.configuration)
            or ("the built-in demo" if service.name == "demo" else "none: it has options"),
        }
        for service in services
    ]
    if options.json:
        write_json([described(each) | {"stale": each.stale, "suspended": each.is_suspended} for each in services])
    else:
        write_text(sys.stdout, table(rows) if rows else "no service of this user runs\n")
