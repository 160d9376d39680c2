"""How the commands find a running service and ask it: by its workload port, and by HTTP."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fakedev.client.connection import HttpConnection, authorization, http_address
from fakedev.client.tls import CannotUseTls, connection_reason
from fakedev.commands.console import write_text
from fakedev.commands.workload.socket import StopSignals, connect, receive, send_all
from fakedev.config.peer_address import (
    HTTP_SOCKET,
    WORKLOAD_SOCKET,
    Address,
    parse_address,
    runtime_folder,
    with_tls,
)
from fakedev.config.schema.files import read_password, read_token
from fakedev.spec.client_tls import NO_FILES, TLS_OPTIONS, TLS_SCHEME, ClientTls
from fakedev.spec.environment import SOCKET, URL, unknown_variables
from fakedev.wire.words import quote_word

_ENVIRONMENT: Final = {WORKLOAD_SOCKET: SOCKET, HTTP_SOCKET: URL}
_PATIENCE_SECONDS: Final = 30.0
_MAX_LINE: Final = 2**20
#: The event that tells how far an advance is.
_PROGRESS: Final = re.compile(r"advancing ([0-9]{1,3}(?:\.[0-9])?) ")


class CannotAsk(Exception):
    """No service answers, or it refuses; the text is a whole sentence.

    :ivar code: the exit code: 1, or 2 when the request was wrong.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def add_address(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options that name the service and its token.

    :param name: WORKLOAD_SOCKET or HTTP_SOCKET.
    """
    default = f"default ${_ENVIRONMENT[name]}, then {name} in the default folder of sockets"
    if name == HTTP_SOCKET:
        text = f"http://HOST:PORT, https://HOST:PORT or a UNIX socket; {default}, then http://127.0.0.1:9400"
        parser.add_argument("--url", metavar="URL", help=text)
        parser.add_argument("--user", metavar="NAME", help="user of an address with passwords, with --password-file")
        parser.add_argument("--password-file", metavar="FILE", help="the password of --user")
    else:
        text = f"the workload port: a UNIX socket, HOST:PORT or tls://HOST:PORT; {default}"
        parser.add_argument("--socket", metavar="ADDRESS", help=text)
    parser.add_argument("--token-file", metavar="FILE", help="the token of the address, if it asks for one")
    for option, text in TLS_OPTIONS.items():
        parser.add_argument(f"--{option}", metavar="FILE", default="", help=text)


def given_tls(options: argparse.Namespace) -> ClientTls:
    """The files of TLS that the options name.

    :raises CannotAsk: when they do not go together.
    """
    try:
        return ClientTls(options.ca_file, options.cert_file, options.key_file)
    except ValueError as error:
        raise CannotAsk(f"--{error}", 2) from None


def given_authorization(options: argparse.Namespace) -> dict[str, str]:
    """The header of requests with the token, or with the password.

    :raises CannotAsk: when a file cannot be read, or the options do not go together.
    """
    if bool(options.user) is not bool(options.password_file):
        raise CannotAsk("--user and --password-file go together: give both of them", 2)
    try:
        password = read_password(options.password_file) if options.password_file else ""
    except ValueError as error:
        raise CannotAsk(f"--password-file: {error}", 2) from None
    return authorization(given_token(options), options.user or "", password)


def given_token(options: argparse.Namespace) -> str:
    """The token that the option names; empty without it.

    :raises CannotAsk: when it cannot be read.
    """
    try:
        return read_token(options.token_file) if options.token_file else ""
    except ValueError as error:
        raise CannotAsk(f"--token-file: {error}", 2) from None


def service_address(
    given: str | None, name: str, environ: Mapping[str, str], tls: ClientTls = NO_FILES
) -> Address:
    """The address that the user named, or that of the running service.

    :param tls: files for an address with TLS.
    :raises CannotAsk: when there is none, or the text is no address.
    """
    for variable, problem in unknown_variables(environ):
        write_text(sys.stderr, f"fakedev: note: environment {variable}: {problem}\n")
    text = given or environ.get(_ENVIRONMENT[name])
    path = ""
    if not text:
        try:
            path = os.path.join(runtime_folder(environ.get), name)
        except ValueError as error:
            raise CannotAsk(str(error)) from None
        text = path if os.path.exists(path) else "127.0.0.1:9400" if name == HTTP_SOCKET else ""
    if not text:
        option = "--url" if name == HTTP_SOCKET else "--socket"
        reason = f"no service of this user runs with the socket {path}"
        raise CannotAsk(f"{reason}: start one with fakedev serve, or name its address with {option}")
    bare = text.removeprefix("http://").removeprefix("https://").rstrip("/") if "://" in text else text
    if name == HTTP_SOCKET and not set(bare) & set("/:@"):
        raise CannotAsk(f"{text!r} has no port: give http://{bare}:9400, or the path of a socket, as ./{bare}", 2)
    try:
        return with_tls(_parsed(text, bare, name), tls)
    except ValueError as error:
        raise CannotAsk(str(error), 2) from None


def _parsed(text: str, bare: str, name: str) -> Address:
    if name == HTTP_SOCKET:
        return http_address(text)
    return parse_address(text if text.startswith(TLS_SCHEME) else bare)


def ask_in_words(
    address: Address, line: str, stop: StopSignals, token: str = "", show: Callable[[float], None] = lambda _: None
) -> Iterator[str]:
    """Send one line to a workload port; the lines of the answer.

    :param token: of the address, if it asks for one.
    :param show: called while the clock advances, with how much of that is done, from 0 to 1.
    :raises CannotAsk: when the service refuses, does not answer, or leaves.
    :raises Stopped: at a signal; the service ends what the line began.
    """
    try:
        with connect(address, stop) as connection:
            # What ends this program early resets the connection: a plain close would say that it still reads.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            auth = f"auth {quote_word(token)}\n" if token else ""
            send_all(connection, f"{auth}{line}\n".encode(), stop)
            lines = _lines(connection, stop)
            first = next(lines, "")
            if token and first.startswith("ok"):
                first = next(lines, "")
            while event := _PROGRESS.match(first):
                show(float(event[1]) / 100)
                first = next(lines, "")
            status, _, text = first.partition(" ")
            if status == "error":
                code, _, reason = text.partition(" ")
                raise CannotAsk(reason or code, 2 if code in ("bad-argument", "unknown-verb", "unknown-name") else 1)
            if status != "ok":
                raise CannotAsk(f"{address}: this is no workload port of fakedev; it says {first[:200]!r}")
            count = text.removesuffix(" lines")
            if not (text.endswith(" lines") and count.isdigit()):
                yield text
                return
            for _ in range(int(count)):
                yield next(lines)
    except OSError as error:
        raise _unreachable(address, error) from None


def _lines(connection: socket.socket, stop: StopSignals) -> Iterator[str]:
    buffer = b""
    while True:
        line, newline, rest = buffer.partition(b"\n")
        if newline:
            buffer = rest
            yield line.decode("utf-8", "replace")
            continue
        data = receive(connection, stop)
        if not data or len(buffer) > _MAX_LINE:
            raise CannotAsk("the service closed the connection before it had answered")
        buffer += data


class HttpService:
    """The API of a running service.

    :param headers: see :func:`given_authorization`.
    :param patience_seconds: how long the service may be silent.
    """

    def __init__(
        self, address: Address, headers: Mapping[str, str], patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        self._address = address
        self._patience_seconds = patience_seconds
        self._headers = dict(headers)

    def open(self, path: str) -> http.client.HTTPResponse:
        """The answer to a GET, to be read by the caller.

        :raises CannotAsk: when the service does not answer, or not with 200.
        """
        connection = HttpConnection(self._address, self._patience_seconds)
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _unreachable(self._address, error) from None
        if response.status != 200:
            raise CannotAsk(f"{self._address}{path}: {_reason(response)}")
        return response


def _unreachable(address: Address, error: Exception) -> CannotAsk:
    if isinstance(error, CannotUseTls):
        return CannotAsk(f"--{error}", 2)
    return CannotAsk(f"{address}: {connection_reason(error)}: is fakedev serve running there?")


def _reason(response: http.client.HTTPResponse) -> str:
    text = response.read(4096).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or f"status {response.status}"
