"""The connections with an API server: Twisted's Agent with kept connections, and what errors mean in plain words."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import CancelledError
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, HTTPConnectionPool
from twisted.web.error import SchemeNotSupported
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from fakedev.net.kube.api_error import NO_ANSWER, ApiError
from fakedev.net.system.tls_client import tls_options
from fakedev.spec.api_server import ApiServer
from fakedev.spec.errors import printable
from fakedev.spec.os_errors import plain_reason

_CONNECT_SECONDS: Final = 10.0
#: Shorter than the 90 s for which servers and load balancers usually keep a connection without requests.
_KEEP_SECONDS: Final = 60


def make_agent(reactor: Any, server: ApiServer, most_connections: int) -> tuple[Agent, HTTPConnectionPool]:
    """An agent for one server, and the connections that it keeps.

    :raises CannotConnect: with the remedy.
    """
    pool = HTTPConnectionPool(reactor, persistent=True)
    pool.maxPersistentPerHost = most_connections
    pool.cachedConnectionTimeout = _KEEP_SECONDS
    # The client itself repeats what failed.
    pool.retryAutomatically = False
    pool._factory.noisy = False
    parts = urlsplit(server.url)
    tls = tls_options(server, parts.hostname or "") if parts.scheme == "https" else None
    return Agent.usingEndpointFactory(reactor, _Endpoints(reactor, tls), pool), pool


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """The endpoint of the server's URL."""

    def __init__(self, reactor: Any, tls: Any) -> None:
        self._reactor = reactor
        self._tls = tls

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        if uri.scheme not in (b"http", b"https"):
            raise SchemeNotSupported(f"Unsupported scheme: {uri.scheme!r}")
        host, port = uri.host.decode(), uri.port
        endpoint: IStreamClientEndpoint
        if isIPAddress(host):
            endpoint = TCP4ClientEndpoint(self._reactor, host, port, timeout=_CONNECT_SECONDS)
        elif isIPv6Address(host):
            endpoint = TCP6ClientEndpoint(self._reactor, host, port, timeout=_CONNECT_SECONDS)
        else:
            endpoint = HostnameEndpoint(self._reactor, host, port, timeout=_CONNECT_SECONDS)
        return endpoint if self._tls is None else wrapClientTLS(self._tls, endpoint)


def no_answer(error: BaseException, url: str) -> ApiError:
    """Why there is no answer, in one line."""
    for each in _causes(error):
        if isinstance(each, ApiError):
            return each
        module = type(each).__module__
        if module.startswith("service_identity"):
            text = f"the certificate of {url} is for another name: give the name in it as tls-server-name"
            return ApiError(NO_ANSWER, "Certificate", text)
        if module.startswith("OpenSSL"):
            return ApiError(NO_ANSWER, "Certificate", _tls_text(each, url))
        if isinstance(each, DNSLookupError):
            return ApiError(NO_ANSWER, "NoConnection", f"{url}: there is no such host")
        if isinstance(each, (ConnectTimeout, TimeoutError)):
            return ApiError(NO_ANSWER, "NoAnswer", f"{url} does not answer in time")
        if isinstance(each, ConnectError):
            number = each.osError
            reason = plain_reason(OSError(number, "")) if isinstance(number, int) else _plain(each)
            return ApiError(NO_ANSWER, "NoConnection", f"cannot connect to {url}: {reason}")
        if isinstance(each, ConnectionClosed):
            return ApiError(NO_ANSWER, "Broken", f"{url} has closed the connection")
    return ApiError(NO_ANSWER, "Garbled", f"{url} does not answer in HTTP: {_plain(error)}")


def _causes(error: BaseException) -> list[BaseException]:
    """The errors that an error of the HTTP client is made of."""
    reasons = getattr(error, "reasons", None)
    if not isinstance(reasons, list):
        return [error]
    inner = [each.value if isinstance(each, Failure) else each for each in reasons]
    return [cause for each in inner if isinstance(each, BaseException) for cause in _causes(each)]


def _plain(error: BaseException) -> str:
    """The first words of an error's text, on one line."""
    if type(error).__name__ == "ConnectionRefusedError":
        return "no program listens there"
    return printable(str(error))[:200].rstrip(".") or type(error).__name__


def _tls_text(error: BaseException, url: str) -> str:
    text = str(error)
    if "certificate verify failed" in text:
        return f"the certificate of {url} is not signed by the given certificate authority, or not valid now"
    if "wrong version number" in text or "packet length too long" in text or "record layer" in text:
        return f"{url} does not speak TLS: is it an http:// URL?"
    if "alert" in text and "certificate" in text:
        return f"{url} refuses our client certificate"
    return f"{url}: TLS fails: {printable(text)[:200]}"


def is_cancelled(error: BaseException) -> bool:
    """Whether a request ended because its Deferred was cancelled."""
    return any(isinstance(each, CancelledError) for each in _causes(error))
