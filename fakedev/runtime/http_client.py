"""The HTTP connections with a Kubernetes API server: kept connections, bodies, tokens, and one error in plain words.

A body is read whole and bounded, or line by line as it comes. A token in a file is read again when the file has
changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import orjson
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.error import (
    ConnectError,
    ConnectingCancelledError,
    ConnectionClosed,
    ConnectionLost,
    DNSLookupError,
)
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.interfaces import IDelayedCall, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, HTTPConnectionPool, ResponseDone
from twisted.web.error import SchemeNotSupported
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IAgentEndpointFactory, IResponse
from zope.interface import implementer

from fakedev.base.errors import plain_reason, printable, shortened
from fakedev.base.given_files import read_given
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.tls import tls_options
from fakedev.runtime.tls_settings import ApiServer

#: The code of an error without an answer.
NO_ANSWER: Final = 0
#: A server that asks for a longer pause is asked again after this time.
LONGEST_PAUSE_SECONDS: Final = 300.0


class ApiError(Exception):
    """A request that the API server refuses, or that has no answer.

    :param code: of HTTP (404, 409, 422, ...); 0: there was no answer.
    :param reason: the API's word for it: ``NotFound``, ``Conflict``, ``Expired``, ...; for what has no code:
        ``NoConnection``, ``NoAnswer``, ``Certificate``, ``Token``, ``Garbled``, ``NoJson``, ``TooLarge``, ``Broken``,
        ``Silent``, ``Full``, ``Stopped``.
    :param message: on one line.
    :param retry_after_seconds: how long the server asks to wait; None: it does not say.
    :param details: of the API's Status: ``name``, ``kind``, ``causes``.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        retry_after_seconds: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = shortened(printable(message))
        self.retry_after_seconds = retry_after_seconds
        self.details = details or {}
        super().__init__(f"{code} {reason}: {self.message}" if code else self.message)

    @property
    def is_expired(self) -> bool:
        """Whether a resource version is too old: list anew."""
        return self.code == 410 or self.reason in ("Expired", "Gone")


def error_of_status(status: object, code: int = 500, retry_after_seconds: float | None = None) -> ApiError:
    """The error that an object of the kind Status describes; what is missing or wrong in it is left out."""
    if not isinstance(status, Mapping):
        return ApiError(code, "Unknown", "the answer is no Status", retry_after_seconds)
    told = status.get("code")
    details = status.get("details")
    return ApiError(
        told if isinstance(told, int) and told > 0 else code,
        str(status.get("reason") or "Unknown"),
        str(status.get("message") or "no message"),
        retry_after_seconds,
        details if isinstance(details, Mapping) else None,
    )


def error_of_answer(code: int, retry_after: str, body: bytes) -> ApiError:
    """The error that an answer is, whether its body is a Status or a text.

    :param retry_after: the header of this name; only seconds are understood, as API servers write them.
    """
    is_number = retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10
    seconds = min(float(retry_after), LONGEST_PAUSE_SECONDS) if is_number else None
    try:
        status = orjson.loads(body)
    except ValueError:
        text = body[:1000].decode(errors="replace").strip()
        return ApiError(code, "TooManyRequests" if code == 429 else "Unknown", text or "no message", seconds)
    return error_of_status(status, code, seconds)


_CONNECT_SECONDS: Final = 10.0
#: Shorter than the 90 s for which servers and load balancers usually keep a connection without requests.
_KEEP_SECONDS: Final = 60


def make_agent(reactor: IReactor, server: ApiServer, most_connections: int) -> tuple[Agent, HTTPConnectionPool]:
    """An agent for one server, and the connections that it keeps.

    :raises CannotConnect: with the remedy.
    """
    pool = HTTPConnectionPool(reactor, persistent=True)
    pool.maxPersistentPerHost = most_connections
    pool.cachedConnectionTimeout = _KEEP_SECONDS
    # The client itself repeats what failed.
    pool.retryAutomatically = False
    parts = urlsplit(server.url)
    tls = tls_options(server, parts.hostname or "") if parts.scheme == "https" else None
    return Agent.usingEndpointFactory(reactor, _Endpoints(reactor, tls), pool), pool


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """The endpoint of the server's URL."""

    def __init__(self, reactor: IReactor, tls: Any) -> None:
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
    for cause in _causes(error):
        if isinstance(cause, ApiError):
            return cause
        module = type(cause).__module__
        if module.startswith("service_identity"):
            text = f"the certificate of {url} is for another name: give the name in it as tls-server-name"
            return ApiError(NO_ANSWER, "Certificate", text)
        if module.startswith("OpenSSL"):
            return ApiError(NO_ANSWER, "Certificate", _tls_text(cause, url))
        if isinstance(cause, DNSLookupError):
            return ApiError(NO_ANSWER, "NoConnection", f"{url}: there is no such host")
        if isinstance(cause, (ConnectTimeout, ConnectingCancelledError, TimeoutError)):
            return ApiError(NO_ANSWER, "NoAnswer", f"{url} does not answer in time")
        if isinstance(cause, ConnectError):
            number = cause.osError
            reason = plain_reason(OSError(number, "")) if isinstance(number, int) else _plain(cause)
            return ApiError(NO_ANSWER, "NoConnection", f"cannot connect to {url}: {reason}")
        if isinstance(cause, ConnectionClosed):
            return ApiError(NO_ANSWER, "Broken", f"{url} has closed the connection")
    return ApiError(NO_ANSWER, "Garbled", f"{url} does not answer in HTTP: {_plain(error)}")


def _causes(error: BaseException) -> list[BaseException]:
    """The errors that an error of the HTTP client is made of."""
    reasons = getattr(error, "reasons", None)
    if not isinstance(reasons, list):
        return [error]
    inner = [reason.value if isinstance(reason, Failure) else reason for reason in reasons]
    return [cause for inner_error in inner if isinstance(inner_error, BaseException) for cause in _causes(inner_error)]


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
    return any(isinstance(cause, CancelledError) for cause in _causes(error))


#: The longest answer: a page of 500 objects.
MOST_BODY_BYTES: Final = 32 * 2**20
#: The longest event: an object of the API is not longer than 3 MiB.
MOST_LINE_BYTES: Final = 8 * 2**20


class _Reader(Protocol):
    """Reads a body; its Deferred fires at the end of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._error: Exception | None = None
        self.done: Deferred[Any] = Deferred(lambda _: self.abort())

    def fail(self, error: Exception) -> None:
        """Close the connection; the Deferred fails with this error."""
        self._error = self._error or error
        self.abort()

    def abort(self) -> None:
        """Close the connection."""
        transport: Any = self.transport
        if transport is not None:
            getattr(transport, "abortConnection", transport.loseConnection)()

    def result(self) -> Any:
        """What the Deferred fires with."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body has ended, or broken off (called by Twisted)."""
        if self.done.called:
            return
        if self._error is not None:
            self.done.errback(self._error)
        elif reason.check(ResponseDone, PotentialDataLoss):
            self.done.callback(self.result())
        else:
            self.done.errback(no_answer(reason.value or ConnectionLost(), self._url))


class _Whole(_Reader):
    def __init__(self, url: str, most_bytes: int) -> None:
        super().__init__(url)
        self._most_bytes = most_bytes
        self._size = 0
        self._parts: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most_bytes:
            self._parts.clear()
            text = f"the answer of {self._url} is longer than {self._most_bytes // 2**20} MiB"
            self.fail(ApiError(NO_ANSWER, "TooLarge", text))
        elif self._error is None:
            self._parts.append(data)

    def result(self) -> bytes:
        return b"".join(self._parts)


class _Lines(_Reader):
    def __init__(
        self, url: str, received: Callable[[bytes], None], clock: IReactorTime, silence_seconds: float
    ) -> None:
        super().__init__(url)
        self._received = received
        self._silence_seconds = silence_seconds
        self._parts: list[bytes] = []
        self._size = 0
        self._timer: IDelayedCall = clock.callLater(silence_seconds, self._was_silent)

    def dataReceived(self, data: bytes) -> None:
        if self._error is not None or self.done.called:
            return
        self._timer.reset(self._silence_seconds)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._parts.append(line)
            whole = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            if whole:
                try:
                    self._received(whole)
                except ApiError as error:
                    self.fail(error)
                    return
            if self.done.called:
                return  # cancelled by the receiver
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > MOST_LINE_BYTES:
                self._parts.clear()
                text = f"{self._url} sends an event of more than {MOST_LINE_BYTES // 2**20} MiB"
                self.fail(ApiError(NO_ANSWER, "TooLarge", text))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._timer.active():
            self._timer.cancel()
        super().connectionLost(reason)

    def _was_silent(self) -> None:
        self.fail(ApiError(NO_ANSWER, "Silent", f"{self._url} has sent nothing for {self._silence_seconds:.0f} s"))


def read_whole(response: IResponse, url: str, most_bytes: int = MOST_BODY_BYTES) -> Deferred[bytes]:
    """The body; fails with ApiError when it is too long or breaks off. Cancelling closes the connection."""
    reader = _Whole(url, most_bytes)
    response.deliverBody(reader)
    return cast("Deferred[bytes]", reader.done)


def read_lines(
    response: IResponse, url: str, received: Callable[[bytes], None], clock: IReactorTime, silence_seconds: float
) -> Deferred[None]:
    """Calls ``received`` with each line that is not empty; fires when the body ends.

    Fails with the ApiError that ``received`` raises, and when the body breaks off, a line is too long, or nothing comes
    for ``silence_seconds``. Cancelling closes the connection.
    """
    reader = _Lines(url, received, clock, silence_seconds)
    response.deliverBody(reader)
    return cast("Deferred[None]", reader.done)


_MOST_BYTES: Final = 64 * 1024


class Token:
    """The token of a server's value, or of its file, which the kubelet renews."""

    def __init__(self, server: ApiServer) -> None:
        self._path = server.token_file
        self._text = server.token
        self._changed_at: tuple[int, int] | None = None

    def text(self) -> str:
        """The token; empty: there is none.

        :raises ApiError: when its file cannot be read, and has never been.
        """
        if self._path:
            try:
                found = os.stat(self._path)
                if (found.st_mtime_ns, found.st_ino) != self._changed_at:
                    self._read()
                    self._changed_at = (found.st_mtime_ns, found.st_ino)
            except (OSError, ValueError) as error:
                if not self._text:
                    text = f"cannot read the token of the API server: {self._path}: {plain_reason(error)}"
                    raise ApiError(NO_ANSWER, "Token", text) from None
        return self._text

    def was_refused(self) -> bool:
        """Read the file again after 401; whether there is another token now."""
        before = self._text
        self._changed_at = None
        try:
            return self.text() != before
        except ApiError:
            return False

    def _read(self) -> None:
        text = read_given(self._path, _MOST_BYTES).decode("ascii", errors="replace").strip()
        if not text or not text.isprintable() or not text.isascii() or " " in text:
            raise ValueError("it holds no token, which is one line without spaces")
        self._text = text
