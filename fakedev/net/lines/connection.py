"""The protocol class of line ports: bounded slices of input, the answers of a slice together, and an orderly end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.lines.held_input import PIECE_BYTES, HeldInput
from fakedev.net.lines.held_output import HeldOutput, Hold
from fakedev.net.lines.outbox import Outbox, StreamTransport, host_of, name_of
from fakedev.net.lines.peer import LinePort, Peer, Session
from fakedev.net.lines.tokens import MAX_BYTES_BEFORE_TOKEN, TokenGate
from fakedev.net.system.unix_sockets import has_hung_up
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import MAX_BYTES, Dialect, ObjectReader, Opening
from fakedev.wire.replies import excerpt

#: A slice of input ends after so many messages, seconds, or bytes of answers.
_SLICE_MESSAGES: Final = 256
_SLICE_SECONDS: Final = 0.005
_SLICE_ANSWER_BYTES: Final = 65536
# Larger messages are sent at once in the turn of another peer: a turn may have hundreds of messages.
_LARGE_BYTES: Final = 4096


@implementer(IHalfCloseableProtocol)
class LineConnection(LineReceiver):
    """One connection to a line port.

    It starts in raw mode. When the first bytes show words or JSON lines it changes to line mode; bare JSON stays raw.
    LineReceiver's ``paused`` stops a slice at any time: the rest of the input waits for the next slice.

    :ivar closing: whether further input is dropped.
    :ivar ended: whether the peer has closed its sending side.
    :ivar is_admitted: whether the peer has given its token, or needs none.
    """

    log = Logger()
    line_mode = 0
    delimiter = b"\n"
    MAX_LENGTH = MAX_BYTES
    _outbox: Outbox | HeldOutput

    # Attributes are few, and parts are made when they are first needed: thousands of connections are idle.
    def __init__(self, port: LinePort, make_session: Callable[[Peer], Session], gate: TokenGate) -> None:
        self._port = port
        self._peer = Peer(self, port.grammar, make_session, gate)
        self.is_admitted = gate.is_open
        self.closing = False
        self.ended = False
        self._left = False
        self._linger = False
        self._reading = True
        # Input
        self._opening: Opening | None = Opening() if self.is_admitted else Opening(MAX_BYTES_BEFORE_TOKEN)
        self._objects: ObjectReader | None = None
        self._held: HeldInput | None = None
        self._in_line = False
        self._messages = 0
        # The current slice
        self._slicing = False
        self._slice_last_message = 0
        self._slice_answer_bytes = 0
        self._slice_until = 0.0
        self._unsent: list[bytes] = []

    # For the peer

    def write(self, data: bytes) -> None:
        """Send bytes: all of one slice together, and so small ones in the turn of another peer."""
        if self.closing:
            return
        if self._port.verbose:
            self.log.info("to {peer}: {message}", peer=self.describe(), message=excerpt(data), log_unlimited=True)
        self._unsent.append(data)
        if self._slicing:
            self._slice_answer_bytes += len(data)
        elif len(data) > _LARGE_BYTES:
            self.turn_ended()
        elif len(self._unsent) == 1:
            self._port.fair_share.call_after_turn(self)

    def close(self, linger: bool, reason: str = "") -> None:
        """Drop all input from now on, and close when everything written is sent.

        :param linger: let the peer read its answer although it may still be sending.
        :param reason: for the statistics; empty when it is the peer's wish.
        """
        if self.closing:
            return
        self.closing = True
        if reason:
            self._port.closed[reason] += 1
        self._port.silent_peers.forget(self)
        self._linger = linger and not self.ended
        self._drop_input()
        self._port.message_timer.stop(self)
        if not self._slicing:
            self._conclude()

    def resume(self) -> None:
        """Serve on: what blocked the messages after it, or the close after the end of input, is done."""
        if not self._slicing:
            self._request_turn()

    def hold(self) -> Hold:
        """Hold the answers of this turn, and what follows until the hold is sealed, until it is released."""
        if not isinstance(self._outbox, HeldOutput):
            self._outbox = HeldOutput(self._outbox, self.turn_ended, self.resume, self.dismiss)
        return self._outbox.begin()

    def admitted(self) -> None:
        """The peer has given its token: the limits of others are over."""
        self.is_admitted = True
        del self.MAX_LENGTH
        self._port.silent_peers.forget(self)

    def likely_dialect(self) -> Dialect:
        """The dialect that the first bytes suggest, while it is not clear."""
        return self._opening.likely_dialect() if self._opening is not None else Dialect.WORDS

    def host(self) -> str:
        """The peer's host; empty on a UNIX socket."""
        return host_of(self._transport)

    def describe(self) -> str:
        """The peer's address, for the log."""
        return name_of(self._transport)

    # For the port

    def is_silent(self) -> bool:
        """Whether nothing runs or waits for the peer: no work, no request, no input, no answer."""
        peer = self._peer
        busy = self.closing or self.paused or self._held or self._outbox.full or peer.pending
        return not (busy or peer.session.is_working())

    def dismiss(self, error: ProtocolError, reason: str = "") -> None:
        """Send a fatal error, and close at once.

        :param reason: see :meth:`Peer.send_error`.
        """
        self._peer.send_error(error, linger=False, reason=reason)

    # For the reactor

    def connectionMade(self) -> None:
        self._transport = cast(StreamTransport, self.transport)
        self._outbox = Outbox(self._transport, self._port.outbox_timer, self._request_turn, self._abort)
        self._port.peers.add(self)
        self._port.silent_peers.note(self)
        if not self.is_admitted:
            self.MAX_LENGTH = MAX_BYTES_BEFORE_TOKEN
        if self._port.idle_answer_seconds is not None:
            self._port.message_timer.bytes_received(self, self._messages)

    def dataReceived(self, data: bytes) -> None:
        """Keep bytes until the connection has its turn, which is usually at once."""
        if self.closing:
            return
        if self._held is None:
            self._held = HeldInput()
        self._held.add(data)
        self._request_turn()

    def readConnectionLost(self) -> None:
        """The peer has closed its sending side, or both."""
        self.ended = True
        if self.closing:
            self._transport.loseConnection()
        else:
            self._request_turn()

    def writeConnectionLost(self) -> None:
        """Our sending side is closed; nothing to do."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone. Input that arrived before its regular end is still served."""
        self._port.peers.discard(self)
        self._port.silent_peers.forget(self)
        self._outbox.lost()
        self._port.message_timer.stop(self)
        if self.ended and not self.closing:
            self._request_turn()
        else:
            self.closing = True
            self._leave()

    # Turns

    def take_turn(self) -> bool:
        """Serve a slice of the input; return whether there is more to do now."""
        more = self._can_serve() and self._run_slice()
        if self.ended and not more and not self.closing and self._is_finished():
            self.close(linger=False)
        if self.closing:
            self._conclude()
            more = False
        else:
            self._settle(more)
            self._note()
        if self._port.turn_observer is not None:
            self._port.fair_share.call_after_turn(self._port.turn_observer)
        return more

    def turn_ended(self) -> None:
        """Send what was written in this slice, or in the turn of another peer."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            self._outbox.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
            if not self._slicing:
                self._note()

    def _note(self) -> None:
        if not self.closing and self in self._port.peers:
            self._port.silent_peers.note(self)

    def _request_turn(self) -> None:
        self._port.fair_share.request_turn(self, is_long=self._held is not None and self._held.size > PIECE_BYTES)

    def _can_serve(self) -> bool:
        return not (self.closing or self._outbox.full) and (not self._peer.blocking or self._is_next_urgent())

    def _is_next_urgent(self) -> bool:
        """Whether the next line is served although a request blocks."""
        if self._held is None or self._peer.cannot_wait is None:
            return False
        self._held.put_back(self.clearLineBuffer())
        return self._peer.is_urgent(self._held.first_line())

    def _is_finished(self) -> bool:
        """Whether, after the end of input, all is answered, or the peer has left what works for it."""
        used_up = not self.paused and not self._held
        peer = self._peer
        has_left = peer.blocking and has_hung_up(self._transport)
        return bool(has_left) or (used_up and not peer.pending) or peer.session.is_working()

    def _run_slice(self) -> bool:
        """Serve messages until the input is used up, or ``paused``; return whether there is more to do now."""
        self._slicing = True
        try:
            self._consume()
        except Exception:
            self._peer.report_failure()
        self._slicing = False
        self.turn_ended()
        return bool(self.paused) and self._can_serve()

    def _settle(self, more: bool) -> None:
        """After a slice: read or stop reading, and limit the time of an incomplete message."""
        if not more and not self.ended and self._is_incomplete() and self._can_serve():
            self._port.message_timer.bytes_received(self, self._messages)
        else:
            self._port.message_timer.stop(self)
        # While a request blocks, some more is read, so that the end of input is still noticed.
        is_held_full = self._held is not None and self._held.size > MAX_BYTES
        has_room = not (is_held_full if self._peer.blocking else more)
        self._read(has_room and not self._outbox.full)

    def _read(self, wanted: bool) -> None:
        if wanted != self._reading and not self.ended:
            self._reading = wanted
            if wanted:
                self._transport.resumeProducing()
            else:
                self._transport.pauseProducing()

    # Framing

    def _consume(self) -> None:
        was_paused, self.paused = self.paused, False
        self._slice_last_message = self._messages + _SLICE_MESSAGES
        self._slice_answer_bytes = 0
        seconds = self._port.clock.seconds
        until = self._slice_until = seconds() + _SLICE_SECONDS
        if was_paused:
            super().dataReceived(b"")  # what the slice before left in the buffer
        while self._held and not self.paused:
            piece = self._held.take()
            if self.line_mode:
                _, newline, after = piece.rpartition(b"\n")
                self._in_line = bool(after.strip()) or (self._in_line and not newline)
            super().dataReceived(piece)
            if self._held and seconds() >= until:
                self.paused = True
        if self.ended and not self.paused:
            self._end_input()

    def _is_incomplete(self) -> bool:
        """Whether the input ends inside a message, when all of it has been read."""
        reader = self._objects or self._opening
        return self._in_line if reader is None else reader.begun

    def rawDataReceived(self, data: bytes) -> None:
        """Read the first bytes until they show the dialect, and bare JSON after that."""
        try:
            if self._objects is not None:
                message, rest = self._objects.feed(data)
            else:
                assert self._opening is not None
                opened = self._opening.feed(data)
                if opened is None:
                    return
                self._peer.dialect, message, rest = opened.way, opened.message, opened.rest
                self._opening = None
                if opened.way is Dialect.BARE:
                    self._objects = ObjectReader()
                else:
                    self.setLineMode()
        except ProtocolError as error:
            self._peer.send_error(error)
            return
        if self._held is not None:  # before the message is served: that may drop the input
            self._held.put_back(rest)
        if message:
            self.lineReceived(message)

    def lineReceived(self, line: bytes) -> None:
        """Serve a line of words or JSON, or a whole object."""
        self._messages += 1
        peer = self._peer
        if self._port.verbose:
            peer.log_message(line)
        peer.message_received(line)
        if (
            self._messages >= self._slice_last_message
            or self._slice_answer_bytes >= _SLICE_ANSWER_BYTES
            or peer.blocking
            or self._port.clock.seconds() >= self._slice_until
        ):
            self.paused = True

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a line that is too long; where the next begins is not known."""
        self._peer.send_error(ProtocolError("too-long", f"a line is at most {self.MAX_LENGTH} bytes", fatal=True))

    def _end_input(self) -> None:
        """Serve what the end of input completes: a last line without LF."""
        if self.line_mode:
            if line := self.clearLineBuffer():
                self.lineReceived(line)
        elif self._is_incomplete():
            self._peer.send_error(ProtocolError("bad-argument", "the input ended inside an object", fatal=True))

    def _drop_input(self) -> None:
        self.paused = True
        self._held = None
        self.clearLineBuffer()

    # The time of a message

    def has_input(self) -> bool:
        """Whether bytes that have arrived wait to be served."""
        return bool(self._held)

    def message_is_late(self, error: ProtocolError, *, is_silent: bool) -> None:
        """A message was not complete in time, or no further byte of the first one came."""
        (self._peer.send_bare_error if is_silent else self._peer.send_error)(error)

    # The end

    def _conclude(self) -> None:
        if self._left:
            return
        self._leave()
        self.turn_ended()
        if self._linger:
            self._read(True)
        self._outbox.finish(self._linger)

    def _leave(self) -> None:
        """End the session, once."""
        if self._left:
            return
        self._left = True
        peer = self._peer
        del self._peer  # it refers to the connection, which is to be freed at once, without the garbage collector
        peer.leave()
        if self._port.turn_observer is not None:
            self._port.fair_share.call_after_turn(self._port.turn_observer)

    def _abort(self, reason: str) -> None:
        self._port.closed["unread"] += 1
        self.log.warn("{peer} is cut: {reason}", peer=self.describe(), reason=reason)
        self._transport.abortConnection()
