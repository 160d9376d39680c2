"""Web configuration files, as Prometheus' exporters take them with ``--web.config.file``: TLS, passwords, headers.

Keys, defaults and checks: the documentation of exporter-toolkit (docs/web-configuration.md, web/tls_config.go, 2025).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fakedev.config.schema.documents import read_document
from fakedev.config.schema.files import Unreadable, absolute, read_file
from fakedev.config.schema.nodes import ConfigurationError, Place, Problem, Report
from fakedev.config.schema.schema import INVALID, Key, Section, Values
from fakedev.config.schema.types import Boolean, Duration, Integer, MapOf, OneOf, Text
from fakedev.config.tls_server import PATHS_DOC, TLS_SERVER, read_tls_server
from fakedev.spec.web_config import WebConfig

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
_RATE: Final = Section(
    "rate_limit",
    (
        Key("interval", Duration(), "The mean time between two requests.", default=0.0),
        Key("burst", Integer(0, 1_000_000), "Requests that may come at once.", default=0),
    ),
)
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
WEB_CONFIG_TYPE: Final = OneOf((Text("path"), WEB_CONFIG), words="path of a web configuration file, or its keys")


@dataclass(frozen=True)
class WebConfigSource:
    """Where a web configuration is: in a file of its own, or as keys in our configuration.

    It is read later than our configuration, and more often: certificates change, and must not get into a record.

    :param file: the absolute path of the file; empty for keys.
    :param values: the keys, which are known to be right one by one; of a line port only ``tls_server_config``.
    :param folder: where relative paths of the keys begin.
    """

    file: str = ""
    values: Values | None = field(default=None, hash=False)
    folder: str = ""

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
            tls = read_tls_server(self.values, self.folder, read, report, files)
            report.raise_if_any()
            return WebConfig(tls, files=tuple(files))
        return _read_values(self.values, self.folder, [], read)


def web_config_source(given: str | Values | None, folder: str) -> WebConfigSource | None:
    """The source that a key of :data:`WEB_CONFIG_TYPE` names; None: it has no value.

    :param folder: where relative paths begin.
    """
    if not given:
        return None
    return WebConfigSource(absolute(given, folder)) if isinstance(given, str) else WebConfigSource("", given, folder)


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
    report = Report()
    node = read_document(text, path, report)
    report.raise_if_any()
    assert node is not None
    values = WEB_CONFIG.read(node, "", report)
    report.raise_if_any()
    assert values is not INVALID
    return _read_values(values, os.path.dirname(path), [path], read)


def _read_values(values: Values, folder: str, files: list[str], read: Callable[[str], str]) -> WebConfig:
    """The keys, with the files that they name.

    :param files: those that were read so far.
    :raises ConfigurationError: with every problem.
    """
    report = Report()
    tls = read_tls_server(values["tls_server_config"], folder, read, report, files)
    headers = _headers(values["http_server_config"]["headers"], report)
    rate = values["rate_limit"]
    report.raise_if_any()
    return WebConfig(tls, values["basic_auth_users"], headers, rate["interval"], rate["burst"], tuple(files))


def _headers(values: Values, report: Report) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, Any]] = [(name, values[name]) for name in _HEADERS if values[name]]
    for name, value in found:
        allowed = _HEADERS[name]
        if allowed is not None and value not in allowed:
            report.problem(values.place_of(name), f"{name}: {value!r} is not {' or '.join(allowed)}")
    return tuple(found)
