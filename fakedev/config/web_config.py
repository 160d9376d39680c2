"""Web configuration files, as Prometheus' exporters take them with ``--web.config.file``: TLS, passwords, headers.

Keys, defaults and checks: the documentation of exporter-toolkit (docs/web-configuration.md, web/tls_config.go, 2025).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final

from fakedev.config.schema.documents import read_document
from fakedev.config.schema.files import Unreadable, absolute, read_file
from fakedev.config.schema.nodes import ConfigurationError, Problem, Report
from fakedev.config.schema.schema import INVALID, Key, Section, Values
from fakedev.config.schema.types import Boolean, Choice, Duration, Integer, ListOf, MapOf, Text
from fakedev.spec.web_config import ClientAuth, TlsServer, WebConfig

#: The older name of RequireAnyClientCert.
_OLD_REQUIRE: Final = "RequireClientCert"
_VERSIONS: Final = ("TLS10", "TLS11", "TLS12", "TLS13")
#: Cipher suites by their names in Go, with those in OpenSSL; the suites of TLS 1.3 cannot be chosen in Go either.
_CIPHERS: Final = {
    **dict.fromkeys(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"), ""),
    **{
        f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
        for key in ("ECDSA", "RSA")
        for go, openssl in (
            ("AES_128_CBC_SHA", "AES128-SHA"),
            ("AES_256_CBC_SHA", "AES256-SHA"),
            ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
            ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
            ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        )
    },
}
#: OpenSSL offers X25519 first where no other is given.
_CURVES: Final = {"CurveP256": "secp256r1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": ""}
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


def _user_name(text: str) -> str:
    if ":" in text:
        raise ValueError(f"{text!r} cannot be a user's name: it has a colon, which ends the name in a request")
    return text


_PEM: Final = Text("PEM", longest=200_000)
_TLS: Final = Section(
    "tls_server_config",
    (
        Key("cert_file", Text("path"), "The server's certificate, in PEM."),
        Key("key_file", Text("path"), "Its key."),
        Key("cert", _PEM, "The certificate itself, in place of cert_file."),
        Key("key", _PEM, "The key itself, in place of key_file.", secret=True),
        Key("client_ca_file", Text("path"), "Authorities of clients' certificates."),
        Key("client_ca", _PEM, "The authorities themselves, in place of client_ca_file."),
        Key(
            "client_auth_type", Choice((*(each.value for each in ClientAuth), _OLD_REQUIRE)),
            "What is asked of clients.", default=ClientAuth.NONE.value,
        ),
        Key("client_allowed_sans", ListOf(Text()), "Names, one of which a client's certificate must have."),
        Key("min_version", Choice(_VERSIONS), "The lowest version of TLS.", default="TLS12"),
        Key("max_version", Choice(_VERSIONS), "The highest version of TLS.", default="TLS13"),
        Key("cipher_suites", ListOf(Choice(tuple(_CIPHERS))), "For versions up to TLS 1.2.", default=()),
        Key("prefer_server_cipher_suites", Boolean(), "The server's order decides.", default=True),
        Key("curve_preferences", ListOf(Choice(tuple(_CURVES))), "For the exchange of keys: one.", default=()),
    ),
)  # fmt: skip
_HTTP: Final = Section(
    "http_server_config",
    (
        Key("http2", Boolean(), "Accepted; HTTP/1.1 is spoken.", default=True),
        Key(
            "headers",
            Section("headers", tuple(Key(name, Text("text", _header_text), "") for name in _HEADERS)),
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
_FILE: Final = Section(
    "",
    (
        Key("tls_server_config", _TLS, "TLS.", optional=True),
        Key("http_server_config", _HTTP, "Headers."),
        Key("basic_auth_users", MapOf(Text("hash", _hash), _user_name), "Passwords.", default={}, secret=True),
        Key("rate_limit", _RATE, "A limit."),
    ),
)


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
    values = _FILE.read(node, "", report)
    report.raise_if_any()
    assert values is not INVALID
    files = [path]
    tls = _tls(values["tls_server_config"], os.path.dirname(path), read, report, files)
    headers = _headers(values["http_server_config"]["headers"], report)
    rate = values["rate_limit"]
    report.raise_if_any()
    return WebConfig(tls, values["basic_auth_users"], headers, rate["interval"], rate["burst"], tuple(files))


def _tls(
    values: Values | None, folder: str, read: Callable[[str], str], report: Report, files: list[str]
) -> TlsServer | None:
    used = ("cert", "cert_file", "key", "key_file", "client_ca", "client_ca_file", "client_auth_type")
    if values is None or not any(values.given(key) for key in used):
        return None

    def pem(name: str) -> str:
        """A text in PEM: from its file, or as it is given; empty when there is neither."""
        if values.given(f"{name}_file"):
            path, place = absolute(values[f"{name}_file"], folder), values.place_of(f"{name}_file")
            files.append(path)
            if values.given(name):
                report.problem(place, f"{name} and {name}_file: give one of them")
            return report.tried(place, f"{name}_file: {path}: ", _tried, read, path) or ""
        return values[name] or ""

    certificate, key, authority = pem("cert"), pem("key"), pem("client_ca")
    for name, found in (("cert", certificate), ("key", key)):
        if not found and not values.given(f"{name}_file"):
            report.problem(values.place, f"missing one of {name} or {name}_file")
    auth = ClientAuth(values["client_auth_type"].replace(_OLD_REQUIRE, ClientAuth.REQUIRE_ANY.value))
    verifies = auth in (ClientAuth.VERIFY_IF_GIVEN, ClientAuth.REQUIRE_AND_VERIFY)
    place = values.place_of("client_auth_type")
    if authority and auth is ClientAuth.NONE:
        report.problem(place, "client_ca_file goes with a client_auth_type, as RequireAndVerifyClientCert")
    if verifies and not authority and not values.given("client_ca_file"):
        report.problem(place, f"client_auth_type: {auth.value} needs client_ca_file")
    names = values["client_allowed_sans"]
    if names is not None and auth not in (ClientAuth.REQUIRE_ANY, ClientAuth.REQUIRE_AND_VERIFY):
        text = "client_allowed_sans: needs client_auth_type RequireAnyClientCert or RequireAndVerifyClientCert"
        report.problem(values.place_of("client_allowed_sans"), text)
    if values["min_version"] > values["max_version"]:
        report.problem(values.place_of("min_version"), "min_version: is above max_version")
    curves = [_CURVES[each] for each in values["curve_preferences"]]
    if len(curves) > 1:
        report.problem(values.place_of("curve_preferences"), "curve_preferences: one curve can be given, not several")
    ciphers = tuple(found for each in values["cipher_suites"] if (found := _CIPHERS[each]))
    return TlsServer(
        certificate, key, authority, auth, names or (), values["min_version"], values["max_version"], ciphers,
        values["prefer_server_cipher_suites"], curves[0] if curves else "",
    )  # fmt: skip


def _tried(read: Callable[[str], str], path: str) -> str:
    try:
        return read(path)
    except Unreadable as error:
        raise ValueError(str(error)) from None


def _headers(values: Values, report: Report) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, Any]] = [(name, values[name]) for name in _HEADERS if values[name]]
    for name, value in found:
        allowed = _HEADERS[name]
        if allowed is not None and value not in allowed:
            report.problem(values.place_of(name), f"{name}: {value!r} is not {' or '.join(allowed)}")
    return tuple(found)
