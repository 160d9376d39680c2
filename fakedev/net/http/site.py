"""The HTTP site of one port: its connections, and what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IProtocol,
    IProtocolNegotiationFactory,
    IReactorFromThreads,
    IReactorThreads,
    IReactorTime,
)
from twisted.internet.protocol import ServerFactory
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.admission import Admission, has_hash
from fakedev.net.http.body import DeferToThread
from fakedev.net.http.channel import GuardedChannel
from fakedev.net.http.limits import HttpLimits
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import CommonHeaders, HttpError, error_response
from fakedev.net.http.sending import MAX_BYTES, InFlightBodies
from fakedev.net.http.slices import SlicedAnswers
from fakedev.net.http.statistics import Dropped
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.memory import AfterPeak
from fakedev.net.system.timing import SteadySeconds
from fakedev.net.system.tls_context import tls_context
from fakedev.spec.web_config import TlsServer, WebConfig

if TYPE_CHECKING:
    from fakedev.net.system.tls_transport import WrapTls

#: How requests of HTTP begin.
_OF_HTTP: Final = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"PATCH", b"DELET", b"OPTIO")
#: The words of Go's net/http, which servers of Prometheus' family use.
_PLAIN_ANSWER: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


@implementer(IProtocolNegotiationFactory)
class GuardedSite(ServerFactory):
    """All connections of one port, and what they share.

    :param guard: decides who may read the API, and who may change something.
    :param fair_share: shares the reactor between all connections of the program; with this port alone when None.
    :param defer_to_thread: runs long work; the reactor's own threads when None.
    :param dropped: counts connections that were dropped, by reason (:class:`Dropped`); one of its own when None.
    :ivar codes: answers by status, also of requests that were refused before their resource was known; 499: the
        client left.
    """

    noisy = False

    def __init__(
        self,
        resource: GuardedResource,
        reactor: IReactorTime,
        *,
        guard: AccessGuard | None = None,
        limits: HttpLimits | None = None,
        fair_share: FairShare | None = None,
        defer_to_thread: DeferToThread | None = None,
        dropped: Counter[str] | None = None,
    ) -> None:
        self.resource = resource
        self.reactor = reactor
        self.guard = guard or AccessGuard()
        self.limits = limits or HttpLimits()
        self.fair_share = fair_share or FairShare(reactor)
        self.slices = SlicedAnswers(reactor, self.fair_share)
        self.defer_to_thread = defer_to_thread or self._defer_to_pool
        self.channels: set[GuardedChannel] = set()
        self.after_peak = AfterPeak(reactor)
        self.held = InFlightBodies(MAX_BYTES, self.after_peak.note)
        self.codes: Counter[int] = Counter()
        self.dropped = Counter[str]() if dropped is None else dropped
        self.common_headers = CommonHeaders(reactor)
        self.admission: Admission | None = None
        self._wrap_tls: WrapTls | None = None

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:  # type: ignore[override]  # also one of TLS
        """Make the channel of a new connection.

        A hundred connections beyond the limit are answered 503, further ones are closed without an answer.
        """
        if len(self.channels) > self.limits.max_connections + 100:
            self.dropped[Dropped.FULL.value] += 1
            return None
        channel = GuardedChannel(self)
        return channel if self._wrap_tls is None else self._wrap_tls(channel)

    @property
    def is_tls(self) -> bool:
        """Whether new connections speak TLS."""
        return self._wrap_tls is not None

    def use(self, config: WebConfig, guard: AccessGuard) -> None:
        """Serve as a web configuration says, from the next connection and the next request on.

        :raises CannotUseTls: when TLS cannot be used as it says; nothing has changed.
        """
        self._wrap_tls = None if config.tls is None else self._wrapper(config.tls)
        self.common_headers.add(config.headers)
        self.guard = guard
        is_open = not config.users and not config.interval_seconds
        seconds = SteadySeconds(self.reactor)
        self.admission = None if is_open else Admission(config, guard, seconds, self._check_password)

    def _wrapper(self, tls: TlsServer) -> WrapTls:
        context = tls_context(tls)
        from fakedev.net.system.tls_transport import tls_wrapper  # noqa: PLC0415 - needs pyOpenSSL

        return tls_wrapper(context, self, self.reactor, _plain_answer)

    def _check_password(self, hashed: str, password: bytes) -> Deferred[bool]:
        threads = cast(IReactorThreads, self.reactor)
        pool = threads.getThreadPool()
        return deferToThreadPool(cast(IReactorFromThreads, self.reactor), pool, has_hash, hashed, password)

    def refusal(self, status: int, reason: str) -> tuple[bytes, ...]:
        """Count, and make, the answer to bytes that are no request; the connection is closed after it."""
        self.codes[status] += 1
        response = error_response(HttpError(status, reason), as_json=False)
        block = response.block(response.body, False)
        return b"HTTP/1.1%b%bConnection: close\r\n\r\n" % (block, self.common_headers.lines()), *response.body.pieces

    def shut_down(self) -> None:
        """Close all connections, each as soon as the request being answered has its answer."""
        self.after_peak.stop()
        for channel in list(self.channels):
            channel.shut_down()

    def acceptableProtocols(self) -> list[bytes]:
        """HTTP/1.1 only, for peers that negotiate by TLS."""
        return [b"http/1.1"]

    def _defer_to_pool(self, work: Callable[[], list[bytes]]) -> Deferred[list[bytes]]:
        threads = cast(IReactorThreads, self.reactor)
        return deferToThreadPool(cast(IReactorFromThreads, self.reactor), threads.getThreadPool(), work)


def _plain_answer(begin: bytes) -> bytes | None:
    """The answer to a request of plain HTTP; other bytes only end the connection."""
    if len(begin) < len(_OF_HTTP[0]):
        return None
    return _PLAIN_ANSWER if begin.startswith(_OF_HTTP) else b""
