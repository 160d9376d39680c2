"""The HTTP site of one address: its connections and what they share, TLS and passwords."""

from __future__ import annotations

from collections import Counter
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IAddress, IProtocol, IReactorTime
from twisted.web import server
from twisted.web.http_headers import Headers
from twisted.web.resource import getChildForRequest

from fakedev import __version__
from fakedev.lines.port_limits import first_to_leave
from fakedev.lines.server import Handshakes
from fakedev.runtime.clock import SteadySeconds, Timeouts
from fakedev.runtime.threads import wait_in_thread
from fakedev.runtime.tls import tls_context
from fakedev.runtime.tls_settings import TlsServer, WebConfig
from fakedev.runtime.turns import FairShare
from fakedev.web.channel import Channel
from fakedev.web.encoding import DeferToThread
from fakedev.web.guard import AccessGuard, Authentication, has_hash
from fakedev.web.http_limits import HttpError, HttpLimits
from fakedev.web.request import Request
from fakedev.web.response import Dropped, error_response
from fakedev.web.sending import InFlightBodies
from fakedev.web.sliced_answers import SlicedAnswers

if TYPE_CHECKING:
    from fakedev.runtime.tls_transport import WrapTls

#: How long a channel reads on after a refusal: closing at once could destroy the answer on its way to the peer.
_LINGER_SECONDS: Final = 2.0
#: The part of the connections that is closed at once to make room, and for how long none is looked for after a failure.
_EVICTED_SHARE: Final = 0.01
_NO_ROOM_SECONDS: Final = 0.1
#: Connections beyond the limit that are answered with 503; further ones are closed without an answer.
_ANSWERED_BEYOND: Final = 100
#: Headers of requests that are kept, and the largest size of their lines.
_MOST_KNOWN: Final = 64
_KNOWN_BYTES: Final = 1024
#: How requests of HTTP begin.
_HTTP_BEGINNINGS: Final = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"PATCH", b"DELET", b"OPTIO")
#: The words of Go's net/http, which servers of Prometheus' family use.
_PLAIN_ANSWER: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class Site(server.Site):
    """The site of one address, plain or with TLS, for everybody or for users with passwords.

    Unlike a plain Site it writes no access log but counts answers, bounds its connections, and has no sessions.

    :param guard: decides who may read the API, and who may change something.
    :param fair_share: shares the reactor between all connections of the program; with this address alone when None.
    :param defer_to_thread: runs long work; the reactor's own threads when None.
    :param dropped: counts connections that were dropped, by reason (:class:`Dropped`); one of its own when None.
    :ivar codes: answers by status, also of requests that were refused before their resource was known; 499: the
        client left; 444: closed by a fault.
    """

    noisy = False
    protocol = Channel  # type: ignore[assignment]  # without the proxy for HTTP/2
    requestFactory = Request  # type: ignore[assignment]  # made without an argument about forms

    def __init__(
        self,
        resource: Any,
        reactor: IReactorTime,
        *,
        guard: AccessGuard | None = None,
        limits: HttpLimits | None = None,
        fair_share: FairShare | None = None,
        defer_to_thread: DeferToThread | None = None,
        dropped: Counter[str] | None = None,
    ) -> None:
        super().__init__(resource, timeout=None, reactor=reactor, parsePOSTFormSubmission=False)
        self.guard = guard or AccessGuard()
        self.limits = limits = limits or HttpLimits()
        self.fair_share = fair_share or FairShare(reactor)
        self.slices = SlicedAnswers(reactor, self.fair_share)
        self._in_thread = partial(wait_in_thread, reactor)  # type: ignore[arg-type]  # it has threads too
        self.defer_to_thread = defer_to_thread or self._in_thread
        self.held = InFlightBodies()
        self.codes: Counter[int] = Counter()
        self.dropped = Counter[str]() if dropped is None else dropped
        self.authentication: Authentication | None = None
        self.channels: set[Channel] = set()
        #: By the time of their last answer; then those that wait for a peer to send, to read, to close.
        self.idle = Timeouts[Channel](reactor, limits.idle_seconds, Channel.idle_too_long)
        self.receiving = Timeouts[Channel](reactor, limits.head_seconds, Channel.late)
        self.sending = Timeouts[Channel](reactor, limits.stall_seconds, Channel.unread)
        self.lingering = Timeouts[Channel](reactor, _LINGER_SECONDS, Channel.lingered)
        #: By the header lines of requests.
        self.known_headers: dict[bytes, Headers] = {}
        self._is_full_until = 0.0
        self._common_lines, self._common_second, self._more_headers = b"", -1, b""
        self._handshakes = Handshakes(reactor, self.dropped, limits.head_seconds)
        self._wrap_tls: WrapTls | None = None

    # Called by Twisted

    def startFactory(self) -> None:
        """Open no access log."""

    def stopFactory(self) -> None:
        """Nothing was opened."""

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:  # type: ignore[override]  # also one of TLS
        """Make the channel of a new connection; None when there are far too many."""
        if len(self.channels) > self.limits.max_connections + _ANSWERED_BEYOND:
            self.dropped[Dropped.FULL.value] += 1
            return None
        channel: IProtocol = super().buildProtocol(addr)
        return channel if self._wrap_tls is None else self._wrap_tls(channel)

    def acceptableProtocols(self) -> list[bytes]:
        """HTTP/1.1 only, for peers that negotiate by TLS."""
        return [b"http/1.1"]

    def getResourceFor(self, request: Any) -> Any:
        """The resource of the path; without the path of a session's cookie."""
        return getChildForRequest(self.resource, request)

    def log(self, request: Any) -> None:
        self.codes[request.code] += 1
        request.count()

    # The configuration

    @property
    def is_tls(self) -> bool:
        return self._wrap_tls is not None

    def use(self, config: WebConfig, guard: AccessGuard) -> None:
        """Serve as a web configuration says, from the next connection and the next request on.

        :raises CannotUseTls: when TLS cannot be used as it says; nothing has changed.
        """
        self._wrap_tls = None if config.tls is None else self._tls_wrapper(config.tls)
        self._more_headers = "".join(f"{name}: {value}\r\n" for name, value in config.headers).encode()
        self._common_second = -1
        self.guard = guard
        self.authentication = None
        if config.users or config.interval_seconds:
            self.authentication = Authentication(
                config, guard, SteadySeconds(self.reactor),
                lambda hashed, password: self._in_thread(partial(has_hash, hashed, password)),
            )  # fmt: skip

    def _tls_wrapper(self, tls: TlsServer) -> WrapTls:
        context = tls_context(tls)
        from fakedev.runtime.tls_transport import tls_wrapper  # noqa: PLC0415 - needs pyOpenSSL

        return tls_wrapper(context, self, self.reactor, _plain_answer, self._handshakes)

    # Called by channels and requests

    def note_headers(self, fields: bytes, headers: Headers) -> None:
        """Keep the headers of a request without a body, which are often the same in the next; none with credentials."""
        has_credentials = headers.hasHeader(b"authorization") or headers.hasHeader(b"cookie")
        if len(fields) <= _KNOWN_BYTES and not has_credentials:
            if len(self.known_headers) >= _MOST_KNOWN:
                self.known_headers.clear()
            self.known_headers[fields] = headers

    def common_lines(self) -> bytes:
        """The header lines of every answer, made once a second: this program, the date, configured headers."""
        second = int(self.reactor.seconds())
        if second != self._common_second:
            self._common_second = second
            date = formatdate(second, usegmt=True)
            own = f"Server: fakedev/{__version__} (simulated)\r\nDate: {date}\r\n"
            self._common_lines = own.encode() + self._more_headers
        return self._common_lines

    def refusal(self, status: int, reason: str) -> tuple[bytes, ...]:
        """Count, and make, the answer to bytes that are no request; the connection is closed after it."""
        self.codes[status] += 1
        response = error_response(HttpError(status, reason), as_json=False)
        head = b"HTTP/1.1%b%bConnection: close\r\n\r\n" % (response.block(response.body), self.common_lines())
        return head, *response.body.pieces

    def joined(self, channel: Channel) -> bool:
        """A connection was made; return whether there is room for it.

        Beyond the limit the longest silent connections of the host with the most connections are closed: those without
        a request, then those that have sent a part of one, or do not read their answers. No host loses one for a host
        that has as many.
        """
        self.channels.add(channel)
        if len(self.channels) <= self.limits.max_connections:
            return True
        now = self.reactor.seconds()
        if now < self._is_full_until:
            return False
        hosts = Counter(peer.origin for peer in self.channels)
        own = channel.origin
        silent = {
            peer: peer.origin
            for peer in (*(peer for peer in self.idle if peer.is_idle), *self.receiving, *self.sending)
            if peer in self.channels and (peer.origin == own or hosts[peer.origin] >= hosts[own])
        }
        leaving = first_to_leave(silent, hosts, max(1, int(self.limits.max_connections * _EVICTED_SHARE)))
        for peer in leaving:
            self.dropped[Dropped.FULL.value] += 1
            self.channels.discard(peer)
            (peer.close if peer.is_idle else peer.abort)()
        if not leaving:
            self._is_full_until = now + _NO_ROOM_SECONDS
        return bool(leaving)

    def left(self, channel: Channel) -> None:
        self.channels.discard(channel)
        for timeouts in (self.idle, self.receiving, self.sending, self.lingering):
            timeouts.stop(channel)

    def shut_down(self) -> None:
        """Close all connections, each as soon as the request being answered has its answer."""
        for channel in list(self.channels):
            channel.shut_down()


def _plain_answer(begin: bytes) -> bytes | None:
    """The answer to a request of plain HTTP; other bytes only end the connection."""
    if len(begin) < len(_HTTP_BEGINNINGS[0]):
        return None
    return _PLAIN_ANSWER if begin.startswith(_HTTP_BEGINNINGS) else b""
