"""How HTTP is served, as a web configuration file of Prometheus' exporters says it: TLS, passwords, headers, a rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class ClientAuth(Enum):
    """What a server asks of clients' certificates, by the names of Go's crypto/tls."""

    NONE = "NoClientCert"
    REQUEST = "RequestClientCert"
    REQUIRE_ANY = "RequireAnyClientCert"
    VERIFY_IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRE_AND_VERIFY = "RequireAndVerifyClientCert"


@dataclass(frozen=True)
class TlsServer:
    """The server's side of TLS.

    :param certificate_pem: its certificate, and those between it and the root.
    :param client_ca_pem: the authorities of clients' certificates; empty for none.
    :param allowed_names: a client's certificate must have one of these alternative names; empty: any.
    :param least_version, most_version: TLS10 to TLS13.
    :param ciphers: up to TLS 1.2, by the names of OpenSSL; empty: its own choice.
    :param curve: for the exchange of keys: secp256r1, secp384r1 or secp521r1; empty: OpenSSL's choice.
    """

    certificate_pem: str
    key_pem: str = field(repr=False)
    client_ca_pem: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    allowed_names: tuple[str, ...] = ()
    least_version: str = "TLS12"
    most_version: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    prefers_own_ciphers: bool = True
    curve: str = ""


@dataclass(frozen=True)
class WebConfig:
    """What a web configuration file says.

    :param tls: None: plain HTTP.
    :param users: hashes of passwords (bcrypt) by name; empty: no password is needed.
    :param headers: of each answer.
    :param interval_seconds: the mean time between two requests, at least; 0: no limit.
    :param burst: requests that may come at once.
    :param files: all files that were read.
    """

    tls: TlsServer | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    interval_seconds: float = 0.0
    burst: int = 0
    files: tuple[str, ...] = ()
