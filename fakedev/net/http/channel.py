"""One HTTP connection: the guard that every port of ours has.

Against twisted.web's own channel: a head is read as a whole (faster, and a bad one gets its status), bodies are
refused before they are read, and a peer that does not read what it asked for is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IHalfCloseableProtocol, ISSLTransport, ITCPTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from zope.interface import implementer

from fakedev.net.http.deadlines import Deadlines
from fakedev.net.http.head import BadRequest
from fakedev.net.http.incoming import Incoming
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import PIECE, Response
from fakedev.net.http.sending import Outgoing

if TYPE_CHECKING:
    from fakedev.net.http.site import GuardedSite

#: How long is read on after a refusal, so that the refusal is not lost with what the peer still sends.
_LINGER_SECONDS: Final = 2.0


class _State(Enum):
    HEAD = auto()  # waiting for a request, or for the rest of its head
    BODY = auto()  # waiting for the rest of a body
    BUSY = auto()  # a request is being answered
    CLOSING = auto()  # what still comes is thrown away


@implementer(IHalfCloseableProtocol)
class GuardedChannel(HTTPChannel):
    """One connection: reads requests one after the other, within the limits, and sends their answers."""

    site: GuardedSite
    transport: Any
    log = Logger()

    def __init__(self, site: GuardedSite) -> None:
        super().__init__()
        self.site = site
        self.factory = site
        self._limits = site.limits
        self._state = _State.HEAD
        self._advancing = False
        self._linger = False
        self._deadlines = Deadlines(site.reactor, self._input_is_late, self._output_is_late)

    # What the transport says

    def connectionMade(self) -> None:
        """A peer has connected."""
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self._incoming = Incoming(self.transport, self._deadlines, self._limits)
        self._outgoing = Outgoing(
            self.transport, self.site.held, self._deadlines, self._limits.stall_seconds, self._output_taken,
            self._output_is_late,
        )
        self.site.channels.add(self)
        if len(self.site.channels) > self._limits.max_connections:
            self._refuse(503, "too many connections")
        else:
            self._deadlines.input_in(self._limits.idle_seconds)

    def dataReceived(self, data: bytes) -> None:
        """The peer has sent ``data``."""
        if self._state is _State.CLOSING:
            if self._incoming.discard(data):
                self.transport.loseConnection()
            return
        incoming = self._incoming
        incoming.pending = incoming.pending + data if incoming.pending else data
        if self._state is _State.BUSY:
            self._throttle()
        else:
            self._advance()

    def readConnectionLost(self) -> None:
        """The peer sends nothing more, but may still read: what is complete is answered."""
        self._incoming.has_ended = True
        if self._state is _State.CLOSING:
            self.transport.loseConnection()
        else:
            self._advance()

    def writeConnectionLost(self) -> None:
        """Our side was closed for writing, as we asked."""

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """The connection is gone."""
        self.site.channels.discard(self)
        self._outgoing.forget()
        self._state = _State.CLOSING
        self._incoming.forget()
        self._deadlines.stop()
        for request in self.requests:
            request.connectionLost(reason)
        self.requests = []

    # What requests say

    def send(self, request: GuardedRequest, head: bytes, pieces: Sequence[bytes]) -> None:
        """Send an answer: all at once when it is one piece, else piece by piece as the peer reads."""
        if len(pieces) <= 1:
            self._outgoing.write((head, *pieces))
            request.sent()
        else:
            self._outgoing.write_pieces((head,), pieces)

    def begin_endless(self, head: bytes) -> Outgoing:
        """Begin an answer that goes on until the peer or the program ends it; what sends the rest of it."""
        self.persistent = False
        self._outgoing.begin_endless(head)
        return self._outgoing

    def requestDone(self, request: GuardedRequest) -> None:
        """``request`` is answered: go on with the next, or close."""
        del self.requests[0]
        if self._state is _State.CLOSING:
            return
        if not self.persistent:
            self._close(self._linger)
            return
        self._state = _State.HEAD
        self._deadlines.input_in(self._limits.idle_seconds)
        if not self._advancing and (self._incoming.pending or self._incoming.is_paused or self._incoming.has_ended):
            self._advance()

    def write(self, data: bytes) -> None:
        """Write a part of an answer."""
        self._outgoing.write((data,))

    def writeSequence(self, iovec: Sequence[bytes]) -> None:
        """Write parts of an answer."""
        self._outgoing.write(iovec)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """A plain twisted.web resource wants to produce by itself."""
        self._outgoing.give_way(producer, streaming)

    def unregisterProducer(self) -> None:
        """The resource has produced all."""
        if self._outgoing.come_back() and self._state is not _State.CLOSING:
            self._outgoing.watch()

    def loseConnection(self) -> None:
        """Close the connection when what was written is gone."""
        self._close(False)

    def abort(self) -> None:
        """End the connection at once."""
        self._deadlines.stop()
        self._state = _State.CLOSING
        self._incoming.forget()
        self._outgoing.forget()
        self._outgoing.stop_watching()
        self.transport.abortConnection()

    def shut_down(self) -> None:
        """Close as soon as the request being answered, if any, has its answer."""
        if self._outgoing.is_endless and self._state is _State.BUSY:
            self._outgoing.is_endless = False
            self.requests[0].sent()
        elif self._state is _State.BUSY:
            self.persistent = False
        elif self._state is not _State.CLOSING:
            self._close(False)

    # Reading

    def _advance(self) -> None:
        """Use what was read, as far as it goes."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._incoming.pending:
                if self._state is _State.HEAD:
                    # Further requests wait until the peer has read its answers.
                    if self._outgoing.unsent > PIECE or not self._read_head():
                        break
                elif self._state is not _State.BODY or not self._read_body():
                    break
        except BadRequest as error:
            self._refuse(error.status, error.reason)
        finally:
            self._advancing = False
        if self._state in (_State.HEAD, _State.BODY) and self._incoming.has_ended and self._outgoing.unsent <= PIECE:
            if self._incoming.pending or self._state is _State.BODY:
                self._refuse(400, "the request is not complete")
            else:
                self._close(False)
        self._throttle()

    def _read_head(self) -> bool:
        """Take a head from what was read; False when it is not complete."""
        head = self._incoming.take_head()
        if head is None:
            return False
        request = GuardedRequest(self, head)
        self.requests.append(request)
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
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _read_body(self) -> bool:
        """Take a body from what was read; False when it is not complete."""
        body = self._incoming.take_body()
        if body is None:
            return False
        self._state = _State.BUSY
        self.requests[0].received(body)
        return True

    def _throttle(self) -> None:
        """Read only so far ahead of what can be used."""
        if self._state is not _State.CLOSING:
            is_busy = self._state is _State.BUSY or (self._state is _State.HEAD and self._outgoing.unsent > PIECE)
            self._incoming.throttle(is_busy)

    # Refusing and closing

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what is being read with an error, and close."""
        if self.requests:
            self._refuse_request(self.requests[0], self.requests[0].error(status, reason))
            return
        self.transport.writeSequence(self.site.refusal(status, reason))
        self._close(True)

    def _refuse_request(self, request: GuardedRequest, response: Response) -> None:
        """Answer a request whose body is not read (on), and close."""
        self._state = _State.BUSY
        self._incoming.forget()
        self._deadlines.input_arrived()
        self.persistent = False
        self._linger = True
        request.respond(response)

    def _close(self, linger: bool) -> None:
        """Close when what was written is gone.

        :param linger: the peer may still be sending; read on for a moment, since closing now could destroy our answer.
        """
        if self._state is _State.CLOSING:
            return
        self._state = _State.CLOSING
        self._incoming.forget()
        self._outgoing.stop_watching()
        self._deadlines.output_in(self._limits.stall_seconds)
        half_close = getattr(self.transport, "loseWriteConnection", None)
        linger = linger and half_close is not None and not self._incoming.has_ended
        if linger and not ISSLTransport.providedBy(self.transport):
            self._incoming.throttle(False)
            self._deadlines.input_in(_LINGER_SECONDS)
            half_close()
        else:
            self.transport.loseConnection()

    # What takes too long, and what is over

    def _output_taken(self, is_end: bool) -> None:
        if is_end:
            self.requests[0].sent()
        if self._state is _State.HEAD and (self._incoming.pending or self._incoming.has_ended):
            self._advance()

    def _output_is_late(self) -> None:
        self.log.debug("A peer does not read its answer, or too slowly beside others: dropped")
        self.abort()

    def _input_is_late(self) -> None:
        if self._state is _State.CLOSING:
            self.transport.loseConnection()
        elif self._incoming.is_under_way:
            self._refuse(408, "the request was not complete in time")
        else:
            self._close(False)
