"""One HTTP connection: reads requests one after the other, within the limits, and sends their answers.

Unlike twisted.web's channel it checks a head as a whole before the head is parsed, refuses bodies before they are read,
drops a peer that does not read its answer, and answers many requests in one segment in slices, with turns for other
connections between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, Final

from twisted.internet.interfaces import IHalfCloseableProtocol, ISSLTransport
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web.http_headers import Headers
from zope.interface import implementer

from fakedev.lines.peers import origin_of
from fakedev.runtime.turns import ITurnTaker
from fakedev.web.encoding import PIECE
from fakedev.web.heads import Head, check_host, read_head
from fakedev.web.http_limits import HttpError, HttpLimits
from fakedev.web.response import Dropped

#: About how long a connection may answer requests before others have a turn.
_SLICE_SECONDS: Final = 0.003
#: Bytes of a body that are parsed at once: in chunks of one byte each they take a millisecond.
_BODY_PIECE: Final = 4 * 1024
#: Bytes of further requests that are read while one is being answered.
_READ_AHEAD: Final = 16 * 1024


class _State(Enum):
    HEAD = auto()  # waiting for a request, or for the rest of its head
    BODY = auto()  # waiting for the rest of a body
    BUSY = auto()  # a request is being answered
    CLOSING = auto()  # further input is dropped


@implementer(IHalfCloseableProtocol, ITurnTaker)
class Channel(http.HTTPChannel):
    """One connection.

    Its input waits here until the request before it was answered: twisted.web's parser gets the lines of one head, or a
    piece of a body, at a time. While something is unsent the channel is the pull producer of its transport, because
    only a pull producer learns when a transport is empty.

    :ivar origin: the peer's host; on a UNIX socket its process.
    :ivar unsent: bytes given to the transport since it was last empty.
    """

    log = Logger()
    waits_for_ticks = False  # its requests do, see Resource
    site: Any  # our Site, whose module imports this one
    transport: Any  # of TCP, of a UNIX socket, or TLS
    totalHeadersSize = HttpLimits.head  # heads were checked before
    unsent = 0
    _host = _peer = None
    _state = _State.HEAD
    _input = b""
    _head: Head
    _known_headers: Headers | None = None
    _has_ended = False  # the peer sends nothing more
    _is_paused = False  # the transport reads nothing
    _is_watching = False  # for the moment when the transport is empty
    _is_advancing = _awaits_turn = False
    _lingers = False  # after the answer
    _is_dropped = False

    # Called by the transport

    def connectionMade(self) -> None:
        super().connectionMade()
        self.origin = origin_of(self.transport)
        self.transport.unregisterProducer()  # registered again while something is unsent
        if self.site.joined(self):
            self.site.idle.start(self)
        else:
            self._refuse(503, "too many connections", Dropped.FULL)

    def dataReceived(self, data: bytes) -> None:
        if self._state is _State.CLOSING:
            return
        self._input += data
        if self._state is _State.BUSY:
            self._throttle()
        else:
            self._request_turn()

    def readConnectionLost(self) -> None:
        """The peer sends nothing more, but may still read: answer the complete requests."""
        self._has_ended = True
        if self._state is _State.CLOSING:
            self.transport.loseConnection()
        elif not self._abort_if_left():
            self._request_turn()

    def writeConnectionLost(self) -> None:
        """Do nothing: we closed our side for writing."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._state = _State.CLOSING
        self._input = b""
        self.site.left(self)
        super().connectionLost(reason)
        # Nothing may refer to this channel in a circle: the producer of an answer, the reader of an unfinished body.
        self.unregisterProducer()
        self.requests.clear()
        self._transferDecoder = None

    def resumeProducing(self) -> None:
        """The transport is empty; or it asks for bytes at once because it has a new producer."""
        if not self.unsent:
            return
        was_full, self.unsent = self.unsent >= PIECE, 0
        if was_full:
            super().resumeProducing()
        if not self.unsent:
            self._stop_watching()
        if self._state is _State.HEAD and (self._input or self._has_ended):
            self._request_turn()

    # Called by requests

    # Each request wants both addresses, and a transport makes them anew, one with a call of the system.

    def getHost(self) -> Any:
        if self._host is None:
            self._host = super().getHost()
        return self._host

    def getPeer(self) -> Any:
        if self._peer is None:
            self._peer = super().getPeer()
        return self._peer

    def write(self, data: bytes) -> None:
        self.writeSequence((data,))

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Give some bytes to the transport, and watch for the moment when it has sent them."""
        if not self.unsent:
            self.site.sending.start(self)
        if not self._is_watching:
            self._is_watching = True
            self.transport.registerProducer(self, False)
        self.unsent += sum(map(len, iovec))
        self.transport.writeSequence(iovec)
        if self.unsent >= PIECE:
            self.pauseProducing()

    def requestDone(self, request: Any) -> None:
        """The request is answered: go on with the next, or close."""
        further, self._input = self._input, b""
        super().requestDone(request)  # returns what followed a body in chunks
        if self._state is _State.CLOSING:
            return
        self._input += further
        self._state = _State.HEAD
        self.site.idle.start(self)
        if self._input or self._has_ended:
            self._request_turn()
        else:
            self._throttle()

    def loseConnection(self) -> None:
        """Close when all is sent. twisted.web calls this after the last answer, and after its 400 for a bad request."""
        if self._state in (_State.HEAD, _State.BODY):
            self._count_drop(Dropped.REFUSED)
            self.site.codes[400] += 1
            self.requests.clear()
            self._lingers = True
        self.close(self._lingers)

    def abort(self) -> None:
        self.stopProducing()
        self._stop_watching()
        self._forget_input()
        self.transport.abortConnection()

    # Called by the site

    @property
    def is_idle(self) -> bool:
        """Whether the peer has asked for nothing."""
        return self._state is _State.HEAD and not self._input

    def close(self, linger: bool = False) -> None:
        """Close when all is sent.

        :param linger: the peer may still be sending; read on for a moment, since closing now could destroy our answer.
        """
        if self._state is _State.CLOSING:
            return
        self._forget_input()
        self._stop_watching()
        self.site.sending.start(self)
        half_close = getattr(self.transport, "loseWriteConnection", None)
        if half_close is None or not linger or self._has_ended or ISSLTransport.providedBy(self.transport):
            self.transport.loseConnection()
            return
        if self._is_paused:
            self.transport.resumeProducing()
        self.site.lingering.start(self)
        half_close()

    def shut_down(self) -> None:
        """Close as soon as the request being answered, if any, has its answer."""
        self.persistent = False
        if self._state is _State.BUSY:
            self.requests[0].end_endless()
        else:
            self.close()
            self.transport.loseConnection()  # also one that lingers

    def idle_too_long(self) -> None:
        if self.is_idle:
            self.close()

    def late(self) -> None:
        if self._awaits_turn:
            self.site.receiving.start(self)
        else:
            self._refuse(408, "the request was not complete in time", Dropped.LATE)

    def unread(self) -> None:
        """Drop a peer that does not read its answer, or holds a body too long."""
        if self.unsent or self._state is _State.CLOSING:
            self._count_drop(Dropped.UNREAD)
            self.log.debug("A peer does not read its answer, or reads too slowly: dropped")
            self.abort()

    def lingered(self) -> None:
        self.transport.loseConnection()

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

    def allHeadersReceived(self) -> None:
        """Check what must be known before a body is read."""
        request, head = self.requests[-1], self._head
        if self._known_headers is not None:
            request.requestHeaders = self._known_headers
            super().allHeadersReceived()
            return
        headers = request.requestHeaders
        check_host(head, headers.getRawHeaders(b"host", ()))
        if head.authority:
            headers.setRawHeaders(b"host", [head.authority])
        codings = headers.getRawHeaders(b"transfer-encoding")
        if codings and (self.length is not None or len(codings) > 1 or head.version != b"HTTP/1.1"):
            raise HttpError(400, "Transfer-Encoding must be chunked, and needs HTTP/1.1")
        if self.length != 0:
            self._state = _State.BODY
            refusal = request.early_refusal(head)
            if refusal is not None:
                self._refuse_request(request, refusal)
                return
            if self.length is not None and self.length > self.site.limits.body:
                raise too_large(self.site.limits.body)
            self.site.receiving.start(self)
        if self.length == 0 or self._input:
            headers.removeHeader(b"expect")  # nothing waits for 100 Continue
        if self.length == 0 and head.version == b"HTTP/1.1" and not head.authority:
            self.site.note_headers(head.fields, headers)
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        """Answer the request, which is complete."""
        if self._state is _State.CLOSING:
            return  # it was refused
        if self._state is _State.BODY:
            self.site.receiving.stop(self)
        self._state = _State.BUSY
        super().allContentReceived()
        self._abort_if_left()

    def _request_turn(self) -> None:
        """Use what was read: now, or when the connections before this one had their turns."""
        if self._is_advancing:
            return
        if not self._awaits_turn:
            self._awaits_turn = True
            self.site.fair_share.request_turn(self)
        if self._awaits_turn:
            self._throttle()

    def _advance(self) -> None:
        """Use what was read, as far as it goes in one slice."""
        self._is_advancing = True
        seconds = self.site.reactor.seconds
        until = seconds() + _SLICE_SECONDS
        try:
            while self._input and self._state in (_State.HEAD, _State.BODY):
                if self._state is _State.BODY:
                    piece, self._input = self._input[:_BODY_PIECE], self._input[_BODY_PIECE:]
                    super().dataReceived(piece)
                # Further requests wait until the peer has read its answers.
                elif self.unsent >= PIECE or not self._read_head():
                    break
                if self._input and seconds() >= until:
                    self._awaits_turn = self._state in (_State.HEAD, _State.BODY)
                    break
        except HttpError as error:
            self._refuse(error.status, error.message, Dropped.REFUSED)
        finally:
            self._is_advancing = False
        is_reading = self._state in (_State.HEAD, _State.BODY) and not self._awaits_turn
        if is_reading and self._has_ended and self.unsent < PIECE:
            if self._input or self._state is _State.BODY:
                self._refuse(400, "the request is not complete", Dropped.REFUSED)
            else:
                self.close()
        self._throttle()

    def _read_head(self) -> bool:
        """Parse a head that was read; False when it is not complete."""
        self._input = self._input.lstrip(b"\r\n")  # some clients end a body with an empty line
        known = self.site.known_headers
        found = read_head(self._input, self.site.limits, known)
        if found is None:
            if self._input and self not in self.site.receiving:
                self.site.receiving.start(self)
            return False
        self.site.receiving.stop(self)
        self._head, self._input = head, _ = found
        # Scrapers send the same header lines again and again: these are parsed once.
        self._known_headers = None if head.authority else known.get(head.fields)
        lines = [b""] if self._known_headers is not None else head.fields.replace(b"\r\n", b"\n").split(b"\n")[:-1]
        for line in (b"%b %b %b" % head[:3], *lines):
            if self._state is _State.CLOSING:
                break  # twisted.web has answered a malformed line with 400
            self.lineReceived(line)
        return True

    def _throttle(self) -> None:
        """Let the transport read only a bounded number of bytes ahead."""
        if self._state is _State.CLOSING or self._has_ended:
            return
        waits = self._awaits_turn or self._state is _State.BUSY or self.unsent >= PIECE
        is_paused = waits and len(self._input) > _READ_AHEAD
        if is_paused:
            self.transport.pauseProducing()
        elif self._is_paused:
            self.transport.resumeProducing()
        self._is_paused = is_paused

    # Refusing and closing

    def _refuse(self, status: int, reason: str, dropped: Dropped) -> None:
        """Answer what is being read with an error, and close."""
        self._count_drop(dropped)
        if self._state is _State.BODY:
            request = self.requests[-1]
            self._refuse_request(request, request.error(status, reason))
            return
        self.requests.clear()
        self.writeSequence(self.site.refusal(status, reason))
        self.close(linger=True)

    def _refuse_request(self, request: Any, response: Any) -> None:
        self._state = _State.BUSY
        self.persistent = False
        self._lingers = True
        self._input = b""
        request.respond(response)

    def _count_drop(self, reason: Dropped) -> None:
        """Count this connection as dropped, by the first reason."""
        if not self._is_dropped:
            self._is_dropped = True
            self.site.dropped[reason.value] += 1

    def _abort_if_left(self) -> bool:
        """Abort when the end of the input means that the peer does not wait for its answer."""
        has_left = self._has_ended and self._state is _State.BUSY and self.requests[0].ends_with_input
        if has_left:
            self.abort()
        return has_left

    def _forget_input(self) -> None:
        self._state = _State.CLOSING
        self._input = b""
        self.site.receiving.stop(self)

    def _stop_watching(self) -> None:
        """Wait no longer for the transport to be empty."""
        self.unsent = 0
        if self._is_watching:
            self._is_watching = False
            self.transport.unregisterProducer()


def too_large(limit: int) -> HttpError:
    """The refusal of a body over the limit, in bytes."""
    return HttpError(413, f"the body is longer than {limit} bytes")
