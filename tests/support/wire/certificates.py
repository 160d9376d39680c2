"""Certificates made in the test: an authority, what it signs for a server, and for a client."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from twisted.internet import ssl

_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates.

    :param name: its common name.
    :param server_name: an IP address or a DNS name, for which the server has its certificate.
    """

    def __init__(self, name: str = "fakedev test", server_name: str = "127.0.0.1") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._server_name = server_name
        builder = self._builder(self._name, self._key.public_key())
        self._certificate = builder.add_extension(x509.BasicConstraints(True, None), True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def pem(self) -> str:
        """The authority's certificate."""
        return _pem(self._certificate)

    @property
    def pem_base64(self) -> str:
        """As kubeconfig files have it."""
        return base64.b64encode(self.pem.encode()).decode()

    def server_options(self, *, asks_for_client: bool = False) -> Any:
        """How the server speaks TLS.

        :param asks_for_client: clients need a certificate of this authority.
        """
        certificate, key = self.sign("server", self._server_name)
        own = ssl.PrivateCertificate.loadPEM(certificate + key)
        if asks_for_client:
            return own.options(ssl.Certificate.loadPEM(self.pem))
        return own.options()

    def sign(self, name: str, server_name: str = "") -> tuple[str, str]:
        """A certificate and its key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
        if server_name:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(server_name)]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _pem(certificate), key_pem.decode()

    def _builder(self, name: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
