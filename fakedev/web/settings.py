"""Web configuration files (``--web.config.file``: TLS, passwords, headers), and the keys of addresses.

Web configuration files are as Prometheus' exporters take them. Keys, defaults and checks: the documentation of
exporter-toolkit (docs/web-configuration.md, web/tls_config.go, 2025). The keys of addresses are under ``web`` and
``workloads.listen``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from fakedev.base.names import token_text
from fakedev.runtime.tls_settings import PATHS_DOC, TLS_SERVER, WebConfig, read_tls_server
from fakedev.schema.addresses import ListenAddress
from fakedev.schema.declare import setting
from fakedev.schema.files import Unreadable, read_file
from fakedev.schema.places import ConfigurationError, Place, Problem, Report
from fakedev.schema.reader import read_document
from fakedev.schema.sections import INVALID, Key, Section, Values
from fakedev.schema.types import Boolean, ListOf, MapOf, Mode, OneOf, Path, Text, keys_from

#: The headers that can be set, each with the values that it may have; None: any.
_HEADERS: Final = {
    "Content-Security-Policy": None,
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": None,
    "Strict-Transport-Security": None,
}
_HASH: Final = re.compile(r"\$2[aby]?\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")


def _hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise ValueError("is no bcrypt hash of a password: make one with htpasswd -nBC 10 NAME")
    return text


def _header_text(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError("must be printable ASCII")
    return text


def _header_doc(allowed: tuple[str, ...] | None) -> str:
    return f"Its value: {' or '.join(allowed)}." if allowed else "Its value."


def _user_name(text: str) -> str:
    if ":" in text:
        raise ValueError(f"{text!r} cannot be a user's name: it has a colon, which ends the name in a request")
    return text


_HTTP: Final = Section(
    "http_server_config",
    (
        Key("http2", Boolean(), "Accepted; HTTP/1.1 is spoken.", default=True),
        Key(
            "headers",
            Section(
                "headers",
                tuple(Key(name, Text("text", _header_text), _header_doc(found)) for name, found in _HEADERS.items()),
            ),
            "Headers of each answer.",
        ),
    ),
)
_RATE: Final = Section("rate_limit", keys_from(WebConfig, "interval_seconds", "burst"))
WEB_CONFIG: Final = Section(
    "web-config",
    (
        Key("tls_server_config", TLS_SERVER, "TLS.", optional=True),
        Key("http_server_config", _HTTP, "Headers."),
        Key(
            "basic_auth_users", MapOf(Text("hash", _hash), _user_name), "Hashes of passwords (bcrypt) by user.",
            default={}, secret=True,
        ),
        Key("rate_limit", _RATE, "A limit of requests."),
    ),
    doc=f"What a web configuration file says ([security.md](security.md#tls-and-passwords)). {PATHS_DOC}",
)  # fmt: skip
#: A web configuration in our configuration: a file, or the keys themselves.
WEB_CONFIG_TYPE: Final = OneOf((Path(optional=True), WEB_CONFIG), words="path of a web configuration file, or its keys")


@dataclass(frozen=True)
class WebConfigSource:
    """Where a web configuration is: in a file of its own, or as keys in our configuration.

    It is read later than our configuration, and more often: certificates change, and must not get into a record.

    :param file: the absolute path of the file; empty for keys.
    :param values: the keys, which are known to be right one by one; of a line port only ``tls_server_config``.
    """

    file: str = ""
    values: Values | None = field(default=None, hash=False)

    @property
    def place(self) -> Place:
        """The file, or the line of the keys."""
        return Place(self.file) if self.values is None else self.values.place

    def read(self, read: Callable[[str], str] = read_file) -> WebConfig:
        """What it says now; see :func:`read_web_config`."""
        if self.values is None:
            return read_web_config(self.file, read)
        if self.values.section is TLS_SERVER:
            report, files = Report(), list[str]()
            tls = read_tls_server(self.values, read, report, files)
            report.raise_if_any()
            return WebConfig(tls, files=tuple(files))
        return _read_values(self.values, [], read)


def web_config_source(given: str | Values | None) -> WebConfigSource | None:
    """The source that a key of :data:`WEB_CONFIG_TYPE` names; None: it has no value."""
    if not given:
        return None
    return WebConfigSource(given) if isinstance(given, str) else WebConfigSource("", given)


def read_web_config(path: str, read: Callable[[str], str] = read_file) -> WebConfig:
    """What a web configuration file says.

    :param path: an absolute one; paths in the file begin in its folder.
    :param read: gives the text of a file, or raises Unreadable; it must not remember it: keys are secret.
    :raises ConfigurationError: with every problem, and its line.
    """
    try:
        text = read(path)
    except Unreadable as error:
        raise ConfigurationError([Problem(path, error.line, f"web-config: {error}")]) from None
    report = Report(os.path.dirname(path))
    node = read_document(text, path, report)
    report.raise_if_any()
    assert node is not None
    values = WEB_CONFIG.read(node, "", report)
    report.raise_if_any()
    assert values is not INVALID
    return _read_values(values, [path], read)


def _read_values(values: Values, files: list[str], read: Callable[[str], str]) -> WebConfig:
    """The keys, with the files that they name.

    :param files: those that were read so far.
    :raises ConfigurationError: with every problem.
    """
    report = Report()
    tls = read_tls_server(values["tls_server_config"], read, report, files)
    headers = _headers(values["http_server_config"]["headers"], report)
    report.raise_if_any()
    rate: Values = values["rate_limit"]
    return rate.build(WebConfig, tls=tls, users=values["basic_auth_users"], headers=headers, files=tuple(files))


def _headers(values: Values, report: Report) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, Any]] = [(name, values[name]) for name in _HEADERS if values[name]]
    for name, value in found:
        allowed = _HEADERS[name]
        if allowed is not None and value not in allowed:
            report.problem(values.place_of(name), f"{name}: {value!r} is not {' or '.join(allowed)}")
    return tuple(found)


@dataclass(frozen=True)
class LineListen:
    """An address of a line port without settings of its own: of queues, of fakedev-node.

    :param tokens: its peers must give one of them; empty: they need none.
    :param tls: where its side of TLS is; None: plain text.
    :param token_file: the first file with one of the tokens; empty for none.
    """

    listen: ListenAddress
    tokens: tuple[str, ...] = ()
    open: bool = False
    tls: WebConfigSource | None = None
    token_file: str = ""


#: Reads the addresses of a line port; with what other machines can do there, for problems.
ReadListen = Callable[[Iterable[Values], str], tuple[LineListen, ...]]

LISTEN_DOC = (
    "Where: 9400 (loopback), *:9400, HOST:PORT, [::1]:9400, /path of a UNIX socket, runtime:NAME (a socket in the "
    "default folder), or a Twisted endpoint string."
)


@dataclass(frozen=True, kw_only=True)
class LinePortSettings:
    """The limits of line ports."""

    max_connections: int = setting(
        "Connections of each port. For one more the longest silent one without work is closed; if there is none, the "
        "new one is refused as busy.",
        default=10_000, low=1, high=1_000_000,
    )  # fmt: skip
    message_seconds: float = setting(
        "A message must be complete within this time from its first byte.",
        default=10.0, low=0.01, high=3600, name="message-timeout",
    )  # fmt: skip


MODE = Key("mode", Mode(), "Permissions of a UNIX socket.", default_words="600; with a group 660", unit="octal")
GROUP = Key("group", Text(), "Group that owns a UNIX socket.", default_words="the group of the process")

TOKEN: Final = Text("text", token_text)
LINE_TOKENS = Key(
    "tokens",
    ListOf(TOKEN, words="list of tokens"),
    "Peers must give one of these first: `auth TOKEN`. Bare JSON cannot.",
    default=(),
    default_words="none: peers need no token",
    secret=True,
)

LINE_TOKEN_FILES = Key(
    "token-files",
    ListOf(Path()),
    "Files with one token each, besides `tokens`, e.g. ${CREDENTIALS_DIRECTORY}/token. Read at the start and by "
    "reloads; never in a record.",
    default=(),
)
LINE_TLS = Key(
    "tls_server_config",
    TLS_SERVER,
    "TLS, by the keys of a web configuration ([security.md](security.md#tls-of-line-ports)). Not for UNIX sockets.",
    default_words="none: plain text",
    optional=True,
    field="tls",
)

#: The keys of an address of a line port without settings of its own.
LINE_LISTEN = (
    Key("listen", Text("address"), LISTEN_DOC, required=True),
    MODE,
    GROUP,
    LINE_TOKENS,
    LINE_TOKEN_FILES,
    LINE_TLS,
    Key("open", Boolean(), "Allows other machines to connect.", default=False),
)
