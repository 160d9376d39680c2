"""A port's web site: its connections, and what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.web.http import datetimeToString
from twisted.web.resource import IResource
from twisted.web.server import Site

from fakedev import __version__
from fakedev.net.http.change_guard import ChangeGuard
from fakedev.net.http.channel import GuardedChannel
from fakedev.net.http.head import HttpLimits
from fakedev.net.http.response import DeferToThread, HttpError, error_response
from fakedev.net.http.sending import InFlightBodies


class GuardedSite(Site):
    """All connections of one port, and what they share.

    :param changes: who may POST and DELETE.
    :param defer_to_thread: runs what takes long; the reactor's own threads when None.
    :ivar channels: the live connections.
    :ivar held: the answers that are on their way.
    :ivar codes: answers by status, also to what was refused before its resource was known; 499: the client left.
    """

    noisy = False
    channels: set[GuardedChannel]

    def __init__(
        self,
        root: IResource,
        reactor: IReactorTime,
        *,
        changes: ChangeGuard | None = None,
        limits: HttpLimits | None = None,
        defer_to_thread: DeferToThread | None = None,
    ) -> None:
        super().__init__(root, reactor=reactor)
        self.reactor: Any = reactor
        self.changes = changes or ChangeGuard()
        self.limits = limits or HttpLimits()
        self.defer_to_thread = defer_to_thread or self._defer_to_pool
        self.channels = set()
        self.held = InFlightBodies()
        self.codes: Counter[int] = Counter()
        self.server_name = f"fakedev/{__version__} (simulated)".encode()
        self._stamp = b""
        self._stamped = -1

    def buildProtocol(self, addr: object) -> IProtocol | None:
        """A channel for a new connection. A hundred beyond the limit are told so, others are closed without a word."""
        if len(self.channels) > self.limits.max_connections + 100:
            return None
        return GuardedChannel(self)  # type: ignore[return-value]

    def stamp(self) -> bytes:
        """The header lines that every answer of this second has."""
        second = int(self.reactor.seconds())
        if second != self._stamped:
            self._stamped = second
            self._stamp = b"Server: %b\r\nDate: %b\r\n" % (self.server_name, datetimeToString(second))
        return self._stamp

    def refusal(self, status: int, reason: str) -> tuple[bytes, ...]:
        """The answer to what is no request, after which the connection is closed; counted."""
        self.codes[status] += 1
        response = error_response(HttpError(status, reason), as_json=False)
        block = response.block(response.body, False)
        return b"HTTP/1.1%b%bConnection: close\r\n\r\n" % (block, self.stamp()), *response.body.pieces

    def shut_down(self) -> None:
        """Close all connections, each as soon as the request being answered has its answer."""
        for channel in list(self.channels):
            channel.shut_down()

    def acceptableProtocols(self) -> list[bytes]:
        """HTTP/1.1 only, whatever twisted.web could."""
        return [b"http/1.1"]

    def log(self, request: object) -> None:
        """Requests are not logged."""

    def startFactory(self) -> None:
        """There is no access log to open."""

    def stopFactory(self) -> None:
        """There is no access log to close."""

    def _defer_to_pool(self, work: Callable[[], list[bytes]]) -> Deferred[list[bytes]]:
        return deferToThreadPool(self.reactor, self.reactor.getThreadPool(), work)
