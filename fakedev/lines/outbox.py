"""Output of a connection: bytes that the peer has not read, and answers that wait for the disk.

Unread bytes are bounded, and dropped with the connection when the peer does not read. Held answers wait until what
they say is on the disk.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import deque
from itertools import takewhile
from typing import Final, cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IHalfCloseableDescriptor, IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineReceiver
from zope.interface import implementer

from fakedev.lines.grammar import ProtocolError
from fakedev.lines.peers import StreamTransport, name_of
from fakedev.lines.port_limits import PortLimits

#: Bytes handed to the transport at once, and the least that make it call its buffer full.
CHUNK_BYTES: Final = 65536
#: Bytes that may wait in addition to those in the transport; a further message aborts the connection.
MAX_BYTES: Final = 256 * 1024
#: Bytes of held answers above which a connection is not served until they are sent.
MAX_HELD_BYTES: Final = 256 * 1024
#: Events and results come without being requested; above these held bytes the next one closes the connection. All
#: 4096 requests that a client may have open can end, if each end has 1 KiB.
MAX_HELD_EVENTS_BYTES: Final = 4 * 1024 * 1024


class State(enum.IntEnum):
    """The life of a connection: it moves down this list, and may skip states."""

    OPEN = 0  #: messages are served
    ENDED = 1  #: the peer has closed its sending side; what has arrived is served
    CLOSING = 2  #: input is dropped; the messages of this turn are still being answered
    FLUSHING = 3  #: the session is over; its answers are sent
    LINGERING = 4  #: our sending side is closed; the peer may read its last answer
    OVER = 5  #: the transport closes the connection, or has lost it


#: The members by short names: before Python 3.12, to look one up in its class costs more than a call.
OPEN, ENDED, CLOSING, FLUSHING, LINGERING, OVER = State


class Hold:
    """Answers that wait for the same writes, from the turn in which the hold began until it is sealed.

    :ivar waits: number of writes that they wait for.
    :ivar is_sealed: whether later answers are not part of it.
    """

    __slots__ = ("_sender", "chunks", "is_sealed", "waits")

    def __init__(self, sender: BoundedSender, waits: int) -> None:
        self._sender = sender
        self.chunks: deque[bytes] = deque()
        self.waits = waits
        self.is_sealed = not waits

    def seal(self) -> None:
        """Later answers do not wait for this hold, but for their turn."""
        if not self.is_sealed:
            self._sender.turn_ended()
            self.is_sealed = True

    def release(self) -> None:
        """Send the answers, after the answers of earlier holds."""
        self.waits -= 1
        self._sender.send_ready()

    def fail(self, error: ProtocolError) -> None:
        """Drop the answers, send the error, and close."""
        self._sender.drop_held(error)


@implementer(IPushProducer)
class BoundedSender(LineReceiver, ABC):
    """A LineReceiver that sends no faster than its peer reads, and answers in order.

    It is the producer of its own transport, which pauses it with more than 64 KiB in its buffer and resumes it when
    the buffer is empty. Between the two, and while answers are held, the bytes wait here and are counted.

    :ivar state: of the connection.
    """

    log = Logger()
    _transport: StreamTransport

    # Defaults of the class, here and in its subclasses: thousands of connections are idle.
    state: State = OPEN
    _lingers = False
    _is_full = False  # the transport's buffer
    _is_direct = False  # the transport's buffer is certainly empty
    _backlog: deque[Hold] | None = None  # most peers read at once
    _backlog_bytes = 0

    def __init__(self, factory: PortLimits) -> None:
        self.factory = factory

    def connectionMade(self) -> None:
        self._transport = cast(StreamTransport, self.transport)
        self._transport.registerProducer(self, True)
        self._is_direct = isinstance(self._transport, FileDescriptor)

    def describe(self) -> str:
        return name_of(self._transport)

    def hold(self) -> Hold:
        """Hold the answers of this turn, and what follows until the hold is sealed, until it is released."""
        if self._backlog is None:
            self._backlog = deque()
        if not self._backlog or self._backlog[-1].is_sealed:
            self._backlog.append(Hold(self, waits=1))
        else:
            self._backlog[-1].waits += 1
        return self._backlog[-1]

    # For the base class

    @abstractmethod
    def turn_ended(self) -> None:
        """Pass on to :meth:`_transmit` what was written in this turn."""

    @abstractmethod
    def resume(self) -> None:
        """Everything is sent: serve on."""

    @abstractmethod
    def dismiss(self, error: ProtocolError, reason: str = "") -> None:
        """Send a fatal error and close."""

    def _transmit(self, data: bytes) -> None:
        """Send bytes as soon as the peer takes them; a single message of any size always has room."""
        if not (self._is_full or self._backlog) and len(data) <= CHUNK_BYTES:
            self._hand_over(data)
            return
        if not self.connected:
            return
        backlog = self._backlog
        if backlog is None:
            backlog = self._backlog = deque()
        is_held = bool(backlog) and backlog[0].waits > 0
        if self._backlog_bytes > (MAX_HELD_EVENTS_BYTES if is_held else MAX_BYTES):
            if is_held:
                text = f"over {MAX_HELD_EVENTS_BYTES >> 20} MiB of answers and events wait for the disk"
                self.drop_held(ProtocolError("full", text, fatal=True))
            else:
                self._abort("it does not read its answers")
            return
        if not backlog or (backlog[-1].is_sealed and backlog[-1].waits):
            backlog.append(Hold(self, waits=0))
        backlog[-1].chunks.extend(data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
        self._backlog_bytes += len(data)
        self._send_backlog()

    def _send_backlog(self) -> None:
        while self._backlog and not self._is_full:
            first = self._backlog[0]
            if first.waits:
                return
            if first.chunks:
                chunk = first.chunks.popleft()
                self._backlog_bytes -= len(chunk)
                self._hand_over(chunk)
            else:
                self._backlog.popleft()

    def _hand_over(self, data: bytes) -> None:
        # While a socket takes everything, it is written to directly: the transport would register the socket for
        # writing, wait for the next turn of the reactor, and unregister it, which costs a quarter more for each answer.
        if self._is_direct:
            sent = self._transport.writeSomeData(data)
            if sent == len(data):
                return
            self._is_direct = False
            # After an error the transport's own write fails as well, and handles it.
            data = data[sent:] if isinstance(sent, int) else data
        if self.connected:
            self._transport.write(data)

    # For holds

    def send_ready(self) -> None:
        """Send the answers that do not wait any more, and go on with what waited for them."""
        if not self.connected:
            return
        self.turn_ended()
        self._send_backlog()
        self._go_on()

    def drop_held(self, error: ProtocolError) -> None:
        """Drop the answers that wait, send the error and close."""
        self.turn_ended()
        if not self._backlog or not any(hold.waits for hold in self._backlog):
            return
        self._backlog = deque(takewhile(lambda hold: not hold.waits, self._backlog))
        self._backlog_bytes = sum(len(chunk) for hold in self._backlog for chunk in hold.chunks)
        if self.state < CLOSING:
            self.dismiss(error)
        else:
            self._lingers = False
            self._close_when_sent()

    # For the transport

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._is_full = True
        self.factory.reading.start(self)

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._is_full = False
        self._is_direct = isinstance(self._transport, FileDescriptor)
        self.factory.reading.stop(self)
        self._send_backlog()
        self._go_on()

    def stopProducing(self) -> None:
        """The transport is closed; :meth:`connectionLost` follows."""

    # The end

    def _go_on(self) -> None:
        if self.state < CLOSING:
            if not self._is_full:
                self.resume()
        elif self.state is FLUSHING:
            self._close_when_sent()

    def _close_when_sent(self) -> None:
        """Close the connection, if everything is sent.

        Where the peer may still be sending, our side is closed first, and the peer has some time to read: if the
        connection were closed, the system would discard the answer.
        """
        if not self.connected:
            self.state, self._backlog = OVER, None
        elif not (self._is_full or self._backlog):
            # The transport would wait for a producer that is paused, and never close.
            self._transport.unregisterProducer()
            if self._lingers and IHalfCloseableDescriptor.providedBy(self._transport):
                self.state = LINGERING
                self._transport.loseWriteConnection()
                self.factory.lingering.start(self)
            else:
                self.end_linger()

    def end_linger(self) -> None:
        """Close; what the transport holds is sent before."""
        self.state = OVER
        if self._is_direct:
            # The transport would wait until it can write, and then write nothing: a tenth of a bare connection's cost.
            self.factory.clock.callLater(0, self._transport.connectionLost, connectionDone)
            return
        self.factory.reading.start(self)
        self._transport.loseConnection()

    def peer_is_late(self) -> None:
        """The peer has not read in time."""
        last = "answers" if self._is_full else "last answer"
        self._abort(f"it takes too long to read its {last}")

    def _abort(self, reason: str) -> None:
        self.connected = self._is_direct = False
        self.factory.closed["unread"] += 1
        self.log.warn("{peer} is cut: {reason}", peer=self.describe(), reason=reason)
        self._transport.abortConnection()

    def _output_lost(self) -> None:
        self.connected = self._is_direct = self._is_full = False
        self._backlog, self._backlog_bytes = None, 0
        self.factory.reading.stop(self)
        self.factory.lingering.stop(self)
