"""TLS with the optional pyOpenSSL: the contexts of clients and of servers, from certificates and keys.

Client: the certificate authority of the server, and our own certificate. Server: as the configuration says.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from zope.interface import implementer

from fakedev.base.errors import install_extra
from fakedev.runtime.tls_settings import ApiServer, ClientAuth, TlsServer

_END: Final = "-----END CERTIFICATE-----"
_MISSING: Final = (
    f"TLS needs pyOpenSSL and service-identity, which are not installed: {install_extra('kubernetes')}, "
    "for line ports with the extra tls; or for an API server run `kubectl proxy` and use its http:// URL"
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


_MISSING_FOR_SERVERS: Final = f"TLS needs pyOpenSSL, which is not installed: {install_extra('tls')}"
#: The only protocol that peers may ask for by its name (ALPN).
_ALPN: Final = b"http/1.1"
_SESSION_ID: Final = b"fakedev"
#: Contexts that are kept (chosen: more than the addresses of a service with different settings).
_MOST_CONTEXTS: Final = 8


class CannotUseTls(ValueError):
    """TLS cannot be used as it is configured: a package is missing, or a certificate cannot be used."""


@lru_cache(maxsize=_MOST_CONTEXTS)
def tls_context(server: TlsServer) -> Any:
    """A context of OpenSSL with the settings; the same one for equal settings, as it takes some 5 ms to make.

    :raises CannotUseTls: when pyOpenSSL is missing, or a certificate or a key cannot be used.
    """
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - as OpenSSL
        from OpenSSL import SSL  # noqa: PLC0415 - an optional package
    except ImportError:
        raise CannotUseTls(_MISSING_FOR_SERVERS) from None
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    chain = _certificate_chain(server.certificate_pem, "the certificate")
    try:
        context.use_certificate(chain[0])
        for certificate in chain[1:]:
            context.add_extra_chain_cert(certificate)
        key: Any = load_pem_private_key(server.key_pem.encode(), None)
        context.use_privatekey(key)
        context.check_privatekey()
    except (SSL.Error, ValueError, TypeError):
        raise CannotUseTls("the key is not in PEM, has a password, or does not belong to the certificate") from None
    versions = {"TLS10": SSL.TLS1_VERSION, "TLS11": SSL.TLS1_1_VERSION, "TLS12": SSL.TLS1_2_VERSION,
                "TLS13": SSL.TLS1_3_VERSION}  # fmt: skip
    context.set_min_proto_version(versions[server.least_version])
    context.set_max_proto_version(versions[server.most_version])
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    if server.prefers_own_ciphers:
        context.set_options(SSL.OP_CIPHER_SERVER_PREFERENCE)
    # OpenSSL 3 speaks the versions before 1.2 only without its rules for key lengths.
    level = "@SECLEVEL=0" if server.least_version < "TLS12" else ""
    ciphers = ":".join(server.ciphers) or "DEFAULT"
    context.set_cipher_list(f"{ciphers}{level and ':'}{level}".encode())
    if server.curve:
        context.set_tmp_ecdh(_curve(server.curve))
    context.set_session_id(_SESSION_ID)
    context.set_alpn_select_callback(
        lambda _, offered: _ALPN if _ALPN in offered else SSL.NO_OVERLAPPING_PROTOCOLS
    )
    _ask_clients(context, server)
    return context


def _curve(name: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - comes with pyOpenSSL

    if name == "secp256r1":
        return ec.SECP256R1()
    return ec.SECP384R1() if name == "secp384r1" else ec.SECP521R1()


def _ask_clients(context: Any, server: TlsServer) -> None:
    """Ask clients for certificates, as the settings say."""
    from OpenSSL import SSL, crypto  # noqa: PLC0415 - an optional package

    auth = server.client_auth
    if auth is ClientAuth.NONE:
        return
    is_checked = auth in (ClientAuth.VERIFY_IF_GIVEN, ClientAuth.REQUIRE_AND_VERIFY)
    is_required = auth in (ClientAuth.REQUIRE_ANY, ClientAuth.REQUIRE_AND_VERIFY)
    if server.client_ca_pem:
        store = context.get_cert_store()
        for each in _certificate_chain(server.client_ca_pem, "client_ca"):
            store.add_cert(crypto.X509.from_cryptography(each))
            context.add_client_ca(each)

    def is_accepted(_connection: object, certificate: Any, _error: int, depth: int, is_valid: int) -> bool:
        if is_checked and not is_valid:
            return False
        if depth > 0 or not server.allowed_names:
            return True
        return not _names_of(certificate.to_cryptography()).isdisjoint(server.allowed_names)

    mode = SSL.VERIFY_PEER | (SSL.VERIFY_FAIL_IF_NO_PEER_CERT if is_required else 0)
    context.set_verify(mode, is_accepted)


def _certificate_chain(text: str, what: str) -> list[Any]:
    from cryptography import x509  # noqa: PLC0415 - comes with pyOpenSSL

    try:
        return [*x509.load_pem_x509_certificates(text.encode())]
    except ValueError:
        raise CannotUseTls(f"{what} is not in PEM") from None


def _names_of(certificate: Any) -> frozenset[str]:
    """The alternative names in a certificate: DNS names, e-mail and IP addresses, URIs."""
    from cryptography import x509  # noqa: PLC0415 - comes with pyOpenSSL

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    kinds = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    return frozenset(str(value) for kind in kinds for value in extension.value.get_values_for_type(kind))
