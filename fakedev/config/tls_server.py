"""The keys of ``tls_server_config``: the server's side of TLS, for HTTP addresses and for line ports.

Keys, defaults and checks: the documentation of exporter-toolkit (docs/web-configuration.md, web/tls_config.go, 2025).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fakedev.config.schema.files import Unreadable, absolute
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Key, Section, Values
from fakedev.config.schema.types import Boolean, Choice, ListOf, Text
from fakedev.spec.web_config import ClientAuth, TlsServer

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
PATHS_DOC: Final = "Paths begin in the folder of the file that has the keys."
_PEM: Final = Text("PEM", longest=200_000)
TLS_SERVER: Final = Section(
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
    doc=f"TLS, by the keys of Prometheus' exporters. {PATHS_DOC}",
)  # fmt: skip


def read_tls_server(
    values: Values | None, folder: str, read: Callable[[str], str], report: Report, files: list[str]
) -> TlsServer | None:
    """The server's side of TLS; None when nothing of it is given. Problems are reported.

    :param folder: where relative paths begin.
    :param read: gives the text of a file, or raises Unreadable.
    :param files: gets the paths of all files that were read.
    """
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
