"""Settings of TLS and of HTTP servers: ``tls_server_config``, web configuration files, the API server of Kubernetes.

The keys of ``tls_server_config`` are the server's side of TLS, for HTTP addresses and for line ports. Keys, defaults
and checks: the documentation of exporter-toolkit (docs/web-configuration.md, web/tls_config.go, 2025).

The values of a web configuration file of Prometheus' exporters are TLS, passwords, headers and a rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fakedev.schema.declare import LONGEST_SECONDS, setting
from fakedev.schema.places import Report
from fakedev.schema.sections import Key, Section, Values
from fakedev.schema.types import Choice, ListOf, Path, Text, keys_from


class ClientAuth(Enum):
    """What a server asks of clients' certificates, by the names of Go's crypto/tls."""

    NONE = "NoClientCert"
    REQUEST = "RequestClientCert"
    REQUIRE_ANY = "RequireAnyClientCert"
    VERIFY_IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRE_AND_VERIFY = "RequireAndVerifyClientCert"


_VERSIONS: Final = ("TLS10", "TLS11", "TLS12", "TLS13")


@dataclass(frozen=True)
class TlsServer:
    """The server's side of TLS.

    :param certificate_pem: its certificate, and those between it and the root.
    :param client_ca_pem: the authorities of clients' certificates; empty for none.
    :param ciphers: up to TLS 1.2, by the names of OpenSSL; empty: its own choice.
    :param curve: for the exchange of keys: secp256r1, secp384r1 or secp521r1; empty: OpenSSL's choice.
    """

    certificate_pem: str
    key_pem: str = field(repr=False)
    client_ca_pem: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    allowed_names: tuple[str, ...] = setting(
        "Names, one of which a client's certificate must have.", default=(), name="client_allowed_sans", absent="none"
    )
    least_version: str = setting(
        "The lowest version of TLS.", default="TLS12", name="min_version", choices=_VERSIONS
    )
    most_version: str = setting(
        "The highest version of TLS.", default="TLS13", name="max_version", choices=_VERSIONS
    )
    ciphers: tuple[str, ...] = ()
    prefers_own_ciphers: bool = setting(
        "The server's order decides.", default=True, name="prefer_server_cipher_suites"
    )
    curve: str = ""


@dataclass(frozen=True)
class WebConfig:
    """What a web configuration file says.

    :param tls: None: plain HTTP.
    :param users: hashes of passwords (bcrypt) by name; empty: no password is needed.
    :param headers: of each answer.
    :param files: all files that were read.
    """

    tls: TlsServer | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    interval_seconds: float = setting("The mean time between two requests.", default=0.0, high=LONGEST_SECONDS)
    burst: int = setting("Requests that may come at once.", default=0, high=1_000_000)
    files: tuple[str, ...] = ()


#: The older name of RequireAnyClientCert.
_OLD_REQUIRE: Final = "RequireClientCert"
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
        Key("cert_file", Path(), "The server's certificate, in PEM."),
        Key("key_file", Path(), "Its key."),
        Key("cert", _PEM, "The certificate itself, in place of cert_file."),
        Key("key", _PEM, "The key itself, in place of key_file.", secret=True),
        Key("client_ca_file", Path(), "Authorities of clients' certificates."),
        Key("client_ca", _PEM, "The authorities themselves, in place of client_ca_file."),
        Key(
            "client_auth_type", Choice((*(client_auth.value for client_auth in ClientAuth), _OLD_REQUIRE)),
            "What clients must present.", default=ClientAuth.NONE.value,
        ),
        *keys_from(TlsServer, "allowed_names", "least_version", "most_version"),
        Key("cipher_suites", ListOf(Choice(tuple(_CIPHERS))), "For versions up to TLS 1.2.", default=()),
        *keys_from(TlsServer, "prefers_own_ciphers"),
        Key("curve_preferences", ListOf(Choice(tuple(_CURVES))), "For the exchange of keys: one.", default=()),
    ),
    doc=f"TLS, by the keys of Prometheus' exporters. {PATHS_DOC}",
)  # fmt: skip


def read_tls_server(
    values: Values | None, read: Callable[[str], str], report: Report, files: list[str]
) -> TlsServer | None:
    """The server's side of TLS; None when nothing of it is given. Problems are reported.

    :param read: gives the text of a file, or raises Unreadable.
    :param files: gets the paths of all files that were read.
    """
    used = ("cert", "cert_file", "key", "key_file", "client_ca", "client_ca_file", "client_auth_type")
    if values is None or not any(values.given(key) for key in used):
        return None

    def pem(name: str) -> str:
        """A text in PEM: from its file, or as it is given; empty when there is neither."""
        if values.given(f"{name}_file"):
            path, place = values[f"{name}_file"], values.place_of(f"{name}_file")
            files.append(path)
            if values.given(name):
                report.problem(place, f"{name} and {name}_file: give one of them")
            return report.tried(place, f"{name}_file: {path}: ", read, path) or ""
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
    curves = [_CURVES[name] for name in values["curve_preferences"]]
    if len(curves) > 1:
        report.problem(values.place_of("curve_preferences"), "curve_preferences: one curve can be given, not several")
    ciphers = tuple(found for name in values["cipher_suites"] if (found := _CIPHERS[name]))
    return values.build(
        TlsServer, certificate_pem=certificate, key_pem=key, client_ca_pem=authority, client_auth=auth, ciphers=ciphers,
        curve=curves[0] if curves else "",
    )  # fmt: skip


#: Where a pod has the token and the certificate of its service account.
SERVICE_ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class ApiServer:
    """How an API server is reached. Secrets are not shown by ``repr``.

    :param url: ``https://10.96.0.1:443``; a path is put before those of the API; http: without TLS (kubectl proxy).
    :param ca_pem: the certificates that sign the server's, in PEM; empty: those that the system trusts.
    :param is_insecure: whether any certificate of the server is accepted.
    :param server_name: the name in the server's certificate; empty: the host of the URL.
    :param certificate_pem: our own certificate in PEM, with ``key_pem``; empty: none.
    :param token: sent with each request; empty: none.
    :param token_file: its token replaces ``token``; it is read again when it has changed.
    :param namespace: of what fakedev itself writes: its lease and its events.
    :param source: where this comes from, in messages.
    """

    url: str
    ca_pem: str = field(default="", repr=False)
    is_insecure: bool = False
    server_name: str = ""
    certificate_pem: str = field(default="", repr=False)
    key_pem: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    namespace: str = "default"
    source: str = ""
