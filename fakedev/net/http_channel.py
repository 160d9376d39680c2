"""One HTTP connection: the guard that every port of ours has.

Against twisted.web's own channel: a head is read as a whole (faster, and a bad one gets its status), bodies are
refused before they are read, and a peer that does not read what it asked for is dropped. For that the channel hands
the transport at most 64 KiB at a time, and asks it, as a pull producer, to say when they are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IHalfCloseableProtocol, ISSLTransport, ITCPTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from zope.interface import implementer

from fakedev.net.http_body import PIECE
from fakedev.net.http_deadlines import Deadlines
from fakedev.net.http_head import BadRequest, check_unfinished, end_of_head, parse_head
from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_response import HttpError, Response, error_response
from fakedev.net.http_upload import ChunkedUpload, PlainUpload, upload_for

if TYPE_CHECKING:
    from fakedev.net.http_site import GuardedSite

#: How much of further requests is read while one is being answered.
_READ_AHEAD: Final = 16 * 1024
#: How long, and how much, is read after a refusal, so that the refusal is not lost with what the peer still sends.
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 1024 * 1024


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
        self._pending = b""  # read and not yet used
        self._searched = 0  # bytes of it that hold no end of a head
        self._upload: PlainUpload | ChunkedUpload | None = None
        self._outgoing: Iterator[bytes] | None = None
        self._endless = False  # the answer being sent goes on until somebody leaves
        self._unsent = 0  # bytes given to the transport since it was last empty
        self._watching = False  # registered as the transport's producer
        self._registering = False
        self._foreign_producer = False
        self._advancing = False
        self._throttled = False
        self._input_ended = False
        self._linger = False
        self._discarded = 0
        self._deadlines = Deadlines(site.reactor, self._input_is_late, self._output_is_late)

    # What the transport says

    def connectionMade(self) -> None:
        """A peer has connected."""
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self.site.channels.add(self)
        if len(self.site.channels) > self._limits.max_connections:
            self._refuse(503, "too many connections")
        else:
            self._deadlines.input_in(self._limits.idle_seconds)

    def dataReceived(self, data: bytes) -> None:
        """The peer has sent ``data``."""
        if self._state is _State.CLOSING:
            self._discarded += len(data)
            if self._discarded > _LINGER_BYTES:
                self.transport.loseConnection()
            return
        self._pending = self._pending + data if self._pending else data
        if self._state is _State.BUSY:
            self._throttle()
        else:
            self._advance()

    def readConnectionLost(self) -> None:
        """The peer sends nothing more, but may still read: what is complete is answered."""
        self._input_ended = True
        if self._state is _State.CLOSING:
            self.transport.loseConnection()
        else:
            self._advance()

    def writeConnectionLost(self) -> None:
        """Our side was closed for writing, as we asked."""

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """The connection is gone."""
        self.site.channels.discard(self)
        self.site.held.remove(self)
        self._state = _State.CLOSING
        self._pending = b""
        self._outgoing = self._upload = None
        self._deadlines.stop()
        for request in self.requests:
            request.connectionLost(reason)
        self.requests = []

    def resumeProducing(self) -> None:
        """The transport has taken all that it was given."""
        if self._registering or not self._watching:
            return
        self._unsent = 0
        if self._outgoing is not None:
            piece = next(self._outgoing, None)
            if piece is not None:
                self._unsent = len(piece)
                self._deadlines.output_in(self._limits.stall_seconds)
                self.transport.write(piece)
                return
            self._outgoing = None
            self.site.held.remove(self)
            self._stop_watching()
            if not self._endless:
                self.requests[0].sent()
        else:
            self._stop_watching()
        if self._state is _State.HEAD and (self._pending or self._input_ended):
            self._advance()

    def pauseProducing(self) -> None:
        """Nothing to do: nothing is written without being asked for."""

    def stopProducing(self) -> None:
        """Nothing to do: connectionLost follows."""

    # What requests say

    def send(self, request: GuardedRequest, head: bytes, pieces: Sequence[bytes]) -> None:
        """Send an answer: all at once when it is one piece, else piece by piece as the peer reads."""
        if len(pieces) <= 1:
            self.writeSequence((head, *pieces))
            request.sent()
        else:
            self._outgoing = iter(pieces[1:])
            self.site.held.add(self, pieces, self._is_held_too_long)
            self.writeSequence((head, pieces[0]))

    def begin_endless(self, head: bytes) -> None:
        """Begin an answer that goes on, by :meth:`send_more`, until the peer or the program ends it."""
        self._endless = True
        self.persistent = False
        self.writeSequence((head,))

    @property
    def takes_more(self) -> bool:
        """Whether the peer has taken all that it was sent of an endless answer."""
        return self._endless and self._unsent == 0 and self._state is _State.BUSY

    def send_more(self, pieces: Sequence[bytes]) -> None:
        """Send more of an endless answer, when the peer takes it: piece by piece, as of other answers."""
        if len(pieces) > 1:
            self._outgoing = iter(pieces[1:])
            self.site.held.add(self, pieces, self._is_held_too_long)
        self.writeSequence(pieces[:1])

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
        if not self._advancing and (self._pending or self._throttled or self._input_ended):
            self._advance()

    def write(self, data: bytes) -> None:
        """Write a part of an answer."""
        self.transport.write(data)
        self._wrote(len(data))

    def writeSequence(self, iovec: Sequence[bytes]) -> None:
        """Write parts of an answer."""
        self.transport.writeSequence(iovec)
        self._wrote(sum(map(len, iovec)))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """A plain twisted.web resource wants to produce by itself; the transport regulates it."""
        self._stop_watching()
        self._foreign_producer = True
        self.transport.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        """The resource has produced all."""
        if self._foreign_producer:
            self._foreign_producer = False
            self.transport.unregisterProducer()
            if self._state is not _State.CLOSING:
                self._wrote(0)

    def loseConnection(self) -> None:
        """Close the connection when what was written is gone."""
        self._close(False)

    def abort(self) -> None:
        """End the connection at once."""
        self._deadlines.stop()
        self._state = _State.CLOSING
        self._pending = b""
        self._outgoing = None
        self._stop_watching()
        self.transport.abortConnection()

    def shut_down(self) -> None:
        """Close as soon as the request being answered, if any, has its answer."""
        if self._endless and self._state is _State.BUSY:
            self._endless = False
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
            while self._pending:
                if self._state is _State.HEAD:
                    # Further requests wait until the peer has read its answers.
                    if self._unsent > PIECE or not self._read_head():
                        break
                elif self._state is not _State.BODY or not self._read_body():
                    break
        except BadRequest as error:
            self._refuse(error.status, error.reason)
        finally:
            self._advancing = False
        if self._state in (_State.HEAD, _State.BODY) and self._input_ended and self._unsent <= PIECE:
            if self._pending or self._state is _State.BODY:
                self._refuse(400, "the request is not complete")
            else:
                self._close(False)
        self._throttle()

    def _read_head(self) -> bool:
        """Take a head from what was read; False when it is not complete."""
        data = self._pending
        if data[0] in b"\r\n":  # some clients end a body with an empty line
            data = self._pending = data.lstrip(b"\r\n")
        end = end_of_head(data, self._searched)
        if end is None:
            check_unfinished(data, self._limits)
            if data and not self._searched:
                self._deadlines.input_in(self._limits.head_seconds)
            self._searched = len(data)
            return False
        self._searched = 0
        self._deadlines.input_arrived()
        self._pending = data[end[1] :]
        head = parse_head(data[: end[0]], self._limits)
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
        self._upload = upload_for(head, self._limits.body)
        self._state = _State.BODY
        self._deadlines.input_in(self._limits.body_seconds)
        if head.expects_continue and not self._pending:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _read_body(self) -> bool:
        """Take a part of a body from what was read; False when it is not complete."""
        assert self._upload is not None
        data, self._pending = self._pending, b""
        rest = self._upload.feed(data)
        if rest is None:
            return False
        self._pending = rest
        self._deadlines.input_arrived()
        upload, self._upload = self._upload, None
        self._state = _State.BUSY
        self.requests[0].received(upload.value())
        return True

    def _throttle(self) -> None:
        """Read only so far ahead of what can be used."""
        blocked = self._state is _State.BUSY or (self._state is _State.HEAD and self._unsent > PIECE)
        waiting = blocked and len(self._pending) > _READ_AHEAD
        if waiting == self._throttled or self._input_ended or self._state is _State.CLOSING:
            return
        self._throttled = waiting
        if waiting:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    # Refusing and closing

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what is being read with an error, and close."""
        if self.requests:
            self._refuse_request(self.requests[0], self.requests[0].error(status, reason))
            return
        self.site.codes[status] += 1
        response = error_response(HttpError(status, reason), as_json=False)
        block = response.block(response.body, False)
        head = b"HTTP/1.1%b%bConnection: close\r\n\r\n" % (block, self.site.stamp())
        self.transport.writeSequence((head, *response.body.pieces))
        self._close(True)

    def _refuse_request(self, request: GuardedRequest, response: Response) -> None:
        """Answer a request whose body is not read (on), and close."""
        self._state = _State.BUSY
        self._pending = b""
        self._upload = None
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
        self._pending = b""
        self._stop_watching()
        self._deadlines.output_in(self._limits.stall_seconds)
        half_close = getattr(self.transport, "loseWriteConnection", None)
        if linger and half_close is not None and not self._input_ended and not ISSLTransport.providedBy(self.transport):
            if self._throttled:
                self._throttled = False
                self.transport.resumeProducing()
            self._deadlines.input_in(_LINGER_SECONDS)
            half_close()
        else:
            self.transport.loseConnection()

    # Writing, and what takes too long

    def _wrote(self, length: int) -> None:
        """Ask the transport to say when it has taken what was written."""
        if self._foreign_producer:
            return
        self._unsent += length
        if not self._deadlines.awaits_output:
            self._deadlines.output_in(self._limits.stall_seconds)
        if not self._watching:
            self._watching = self._registering = True
            # A transport asks for more at once; only what it asks later means that it is empty.
            self.transport.registerProducer(self, False)
            self._registering = False

    def _stop_watching(self) -> None:
        self._unsent = 0
        self._deadlines.output_left()
        if self._watching:
            self._watching = False
            self.transport.unregisterProducer()

    def _is_held_too_long(self) -> None:
        self.log.debug("A peer reads its answer too slowly beside others: dropped")
        self.abort()

    def _output_is_late(self) -> None:
        self.log.debug("A peer does not read its answer: dropped")
        self.abort()

    def _input_is_late(self) -> None:
        if self._state is _State.CLOSING:
            self.transport.loseConnection()
        elif self._searched or self._state is _State.BODY:
            self._refuse(408, "the request was not complete in time")
        else:
            self._close(False)
