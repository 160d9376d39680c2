"""The client's side of TLS: the server's certificate authority, our own certificate; by the optional pyOpenSSL."""

from __future__ import annotations

from typing import Any, Final

from zope.interface import implementer

from fakedev.spec.api_server import ApiServer

_END: Final = "-----END CERTIFICATE-----"
_MISSING: Final = (
    "TLS needs pyOpenSSL and service-identity, which are not installed: pip install 'fakedev[kubernetes]', "
    "for line ports 'fakedev[tls]'; or for an API server run `kubectl proxy` and use its http:// URL"
)


class CannotConnect(ValueError):
    """The value of a server cannot be used: a package is missing, or a certificate cannot be read."""


def tls_options(server: ApiServer, host: str) -> Any:
    """How connections with a server are encrypted, for Twisted's wrapClientTLS.

    :param host: the host of the URL, also an IP address: the certificate must be for it.
    :raises CannotConnect: with the remedy.
    """
    try:
        import service_identity  # noqa: F401, PLC0415 - Twisted needs it to compare names
        from OpenSSL import SSL, crypto  # noqa: PLC0415 - an optional package
        from twisted.internet import ssl  # noqa: PLC0415 - needs pyOpenSSL
    except ImportError:
        raise CannotConnect(_MISSING) from None
    source = server.source or server.url
    own = None
    if server.certificate_pem:
        try:
            own = ssl.PrivateCertificate.loadPEM(f"{server.certificate_pem}\n{server.key_pem}")
        except (SSL.Error, crypto.Error, ValueError):
            raise CannotConnect(f"{source}: the client certificate or its key is no PEM, or one has no match") from None
    if server.is_insecure:
        return _any_certificate((own.options() if own is not None else ssl.CertificateOptions()).getContext())
    trust = ssl.platformTrust()
    if server.ca_pem:
        try:
            trust = ssl.trustRootFromCertificates(_certificates(ssl, server.ca_pem))
        except (SSL.Error, crypto.Error, ValueError):
            raise CannotConnect(f"{source}: the certificate authority is no certificate in PEM") from None
    return ssl.optionsForClientTLS(server.server_name or host, trustRoot=trust, clientCertificate=own)


def _certificates(ssl: Any, text: str) -> list[Any]:
    blocks = [block + _END for block in text.split(_END) if "-----BEGIN CERTIFICATE-----" in block]
    if not blocks:
        raise ValueError("no certificate")
    return [ssl.Certificate.loadPEM(block) for block in blocks]


def _any_certificate(context: Any) -> Any:
    """TLS that accepts any certificate, as ``insecure-skip-tls-verify`` asks for."""
    from OpenSSL import SSL  # noqa: PLC0415 - an optional package
    from twisted.internet.interfaces import IOpenSSLClientConnectionCreator  # noqa: PLC0415 - needs pyOpenSSL

    @implementer(IOpenSSLClientConnectionCreator)
    class Creator:
        def clientConnectionForTLS(self, tlsProtocol: Any) -> Any:
            return SSL.Connection(context, None)

    return Creator()
