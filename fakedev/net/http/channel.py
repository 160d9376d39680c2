"""One HTTP connection, the same on every port: reads requests within the limits, and sends their answers.

Against twisted.web's channel: a head is parsed as a whole (faster, and a bad head gets its status), bodies are refused
before they are read, a peer that does not read its answer is dropped, and many requests in one segment are answered in
slices, with turns for other connections between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, Protocol, cast

from twisted.internet.interfaces import IHalfCloseableProtocol, ISSLTransport
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.http.body import PIECE
from fakedev.net.http.limits import BadRequest, HttpLimits
from fakedev.net.http.parser import Incoming
from fakedev.net.http.request import GuardedRequest, RequestSite
from fakedev.net.http.response import Response
from fakedev.net.http.sending import Connection, Deadlines, InFlightBodies, Outgoing
from fakedev.net.http.statistics import Dropped
from fakedev.net.lines.fair_share import FairShare

#: About how long a connection may answer requests before others have a turn.
_SLICE_SECONDS: Final = 0.003
#: How long the channel reads on after a refusal: closing at once could destroy the answer on its way to the peer.
_LINGER_SECONDS: Final = 2.0


class ChannelSite(RequestSite, Protocol):
    """What a channel uses of its site; see GuardedSite."""

    limits: HttpLimits
    held: InFlightBodies
    channels: set[GuardedChannel]
    fair_share: FairShare
    dropped: Counter[str]

    def refusal(self, status: int, reason: str) -> Sequence[bytes]: ...


class _State(Enum):
    HEAD = auto()  # waiting for a request, or for the rest of its head
    BODY = auto()  # waiting for the rest of a body
    BUSY = auto()  # a request is being answered
    CLOSING = auto()  # further input is dropped


@implementer(IHalfCloseableProtocol)
class GuardedChannel(TwistedProtocol):
    """One connection: reads requests one after the other, within the limits, and sends their answers.

    :ivar persistent: whether the connection stays open after the answer.
    """

    log = Logger()

    def __init__(self, site: ChannelSite) -> None:
        self.persistent = True
        self.site = site
        self._limits = site.limits
        self._state = _State.HEAD
        self._request: GuardedRequest | None = None
        self._advancing = False
        self._awaits_turn = False
        self._linger = False
        self._is_dropped = False
        self._deadlines = Deadlines(site.reactor, self._input_is_late, self._output_is_late)

    # Called by the transport

    def connectionMade(self) -> None:
        # Not by interface: TLS over a UNIX socket says that it is one of TCP.
        set_no_delay = getattr(self.transport, "setTcpNoDelay", None)
        if set_no_delay is not None:
            set_no_delay(True)
        self._connection = connection = cast(Connection, self.transport)
        self._incoming = Incoming(connection, self._deadlines, self._limits)
        self._outgoing = Outgoing(
            connection, self.site.held, self._deadlines, self._limits.stall_seconds, self._output_taken,
            self._output_is_late,
        )  # fmt: skip
        self.site.channels.add(self)
        if len(self.site.channels) > self._limits.max_connections:
            self._refuse(503, "too many connections", Dropped.FULL)
        else:
            self._deadlines.input_in(self._limits.idle_seconds)

    def dataReceived(self, data: bytes) -> None:
        if self._state is _State.CLOSING:
            if self._incoming.discard(data):
                self._connection.loseConnection()
            return
        incoming = self._incoming
        incoming.pending = incoming.pending + data if incoming.pending else data
        if self._state is _State.BUSY:
            self._throttle()
        else:
            self._request_turn()

    def readConnectionLost(self) -> None:
        """The peer sends nothing more, but may still read: answer the complete requests."""
        self._incoming.has_ended = True
        if self._state is _State.CLOSING:
            self._connection.loseConnection()
        elif self._request is not None and self._request.ends_with_input:
            self._connection.abortConnection()
        else:
            self._request_turn()

    def writeConnectionLost(self) -> None:
        """Do nothing: we closed our side for writing."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.site.channels.discard(self)
        self._outgoing.forget()
        self._state = _State.CLOSING
        self._incoming.forget()
        self._deadlines.stop()
        request, self._request = self._request, None
        if request is not None:
            request.connection_lost(reason)

    # Called by the request

    def send(self, head: bytes, pieces: Sequence[bytes]) -> None:
        """Send the answer: all at once when it is one piece, else piece by piece as the peer reads."""
        if len(pieces) <= 1:
            self._outgoing.write((head, *pieces))
            self._answered()
        else:
            self._outgoing.write_pieces((head,), pieces)

    def begin_endless(self, head: bytes) -> Outgoing:
        """Begin an answer that only the peer or the program ends; return the sender of the rest."""
        self.persistent = False
        self._outgoing.begin_endless(head)
        return self._outgoing

    def request_done(self) -> None:
        """The request is answered: go on with the next, or close."""
        self._request = None
        if self._state is _State.CLOSING:
            return
        if not self.persistent:
            self._close(self._linger)
            return
        self._state = _State.HEAD
        self._deadlines.input_in(self._limits.idle_seconds)
        if self._incoming.pending or self._incoming.is_paused or self._incoming.has_ended:
            self._request_turn()

    def abort(self) -> None:
        """Close the connection at once."""
        self._deadlines.stop()
        self._state = _State.CLOSING
        self._incoming.forget()
        self._outgoing.forget()
        self._outgoing.stop_watching()
        self._connection.abortConnection()

    # Called by the site

    def shut_down(self) -> None:
        """Close as soon as the request being answered, if any, has its answer."""
        if self._outgoing.is_endless and self._state is _State.BUSY:
            self._outgoing.is_endless = False
            self._answered()
        elif self._state is _State.BUSY:
            self.persistent = False
        elif self._state is not _State.CLOSING:
            self._close(False)

    # Reading

    def take_turn(self) -> bool:
        """Answer requests for some milliseconds; return whether there is more to do."""
        self._awaits_turn = False
        try:
            if self._state is not _State.CLOSING:
                self._advance()
        except Exception:
            self.abort()
            raise
        return self._awaits_turn

    def _request_turn(self) -> None:
        """Use what was read: now, or when the connections before this one had their turns."""
        if self._advancing:
            return
        if not self._awaits_turn:
            self._awaits_turn = True
            self.site.fair_share.request_turn(self)
        if self._awaits_turn:
            self._throttle()

    def _advance(self) -> None:
        """Use what was read, as far as it goes in one slice."""
        self._advancing = True
        seconds = self.site.reactor.seconds
        until = seconds() + _SLICE_SECONDS
        try:
            while self._incoming.pending:
                if seconds() >= until:
                    self._awaits_turn = self._state in (_State.HEAD, _State.BODY)
                    break
                if self._state is _State.HEAD:
                    # Further requests wait until the peer has read its answers.
                    if self._outgoing.unsent > PIECE or not self._read_head():
                        break
                elif self._state is not _State.BODY or not self._read_body():
                    break
        except BadRequest as error:
            self._refuse(error.status, error.reason, Dropped.REFUSED)
        finally:
            self._advancing = False
        is_reading = self._state in (_State.HEAD, _State.BODY) and not self._awaits_turn
        if is_reading and self._incoming.has_ended and self._outgoing.unsent <= PIECE:
            if self._incoming.pending or self._state is _State.BODY:
                self._refuse(400, "the request is not complete", Dropped.REFUSED)
            else:
                self._close(False)
        self._throttle()

    def _read_head(self) -> bool:
        """Take a head from what was read; False when it is not complete."""
        head = self._incoming.take_head()
        if head is None:
            return False
        self._request = request = GuardedRequest(self, self.site, self._connection, head)
        self.persistent = not head.close
        if not head.has_body:
            self._state = _State.BUSY
            request.received(b"")
            return True
        refusal = request.early_refusal()
        if refusal is not None:
            self._refuse_request(request, refusal)
            return True
        self._incoming.begin_body(head)
        self._state = _State.BODY
        if head.expects_continue and not self._incoming.pending:
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _read_body(self) -> bool:
        """Take a body from what was read; False when it is not complete."""
        body = self._incoming.take_body()
        if body is None:
            return False
        self._state = _State.BUSY
        if self._request is not None:
            self._request.received(body)
        return True

    def _throttle(self) -> None:
        if self._state is not _State.CLOSING:
            waits = self._awaits_turn or (self._state is _State.HEAD and self._outgoing.unsent > PIECE)
            self._incoming.throttle(waits or self._state is _State.BUSY)

    # Refusing and closing

    def _refuse(self, status: int, reason: str, dropped: Dropped) -> None:
        """Answer what is being read with an error, and close."""
        self._count_drop(dropped)
        if self._request is not None:
            self._refuse_request(self._request, self._request.error(status, reason))
            return
        self._connection.writeSequence(self.site.refusal(status, reason))
        self._close(True)

    def _count_drop(self, reason: Dropped) -> None:
        """Count this connection as dropped, by the first reason."""
        if not self._is_dropped:
            self._is_dropped = True
            self.site.dropped[reason.value] += 1

    def _refuse_request(self, request: GuardedRequest, response: Response) -> None:
        """Answer a request without reading its body, and close."""
        self._state = _State.BUSY
        self._incoming.forget()
        self._deadlines.input_arrived()
        self.persistent = False
        self._linger = True
        request.respond(response)

    def _close(self, linger: bool) -> None:
        """Close when all is sent.

        :param linger: the peer may still be sending; read on for a moment, since closing now could destroy our answer.
        """
        if self._state is _State.CLOSING:
            return
        self._state = _State.CLOSING
        self._incoming.forget()
        self._outgoing.stop_watching()
        self._deadlines.output_in(self._limits.stall_seconds)
        half_close = getattr(self._connection, "loseWriteConnection", None)
        linger = linger and half_close is not None and not self._incoming.has_ended
        if half_close is not None and linger and not ISSLTransport.providedBy(self._connection):
            self._incoming.throttle(False)
            self._deadlines.input_in(_LINGER_SECONDS)
            half_close()
        else:
            self._connection.loseConnection()

    # Called by Outgoing and by the deadlines

    def _output_taken(self, is_end: bool) -> None:
        if is_end:
            self._answered()
        if self._state is _State.HEAD and (self._incoming.pending or self._incoming.has_ended):
            self._request_turn()

    def _answered(self) -> None:
        """The transport has the last byte of the answer."""
        if self._request is not None:
            self._request.sent()

    def _output_is_late(self) -> None:
        self._count_drop(Dropped.UNREAD)
        self.log.debug("A peer does not read its answer, or reads too slowly: dropped")
        self.abort()

    def _input_is_late(self) -> None:
        if self._state is _State.CLOSING:
            self._connection.loseConnection()
        elif self._awaits_turn:
            self._deadlines.input_in(self._limits.head_seconds)
        elif self._incoming.is_under_way:
            self._refuse(408, "the request was not complete in time", Dropped.LATE)
        else:
            self._close(False)
