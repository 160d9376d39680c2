"""The bytes that a peer has not read yet: bounded, and dropped with the connection when the peer does not read."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress, IHalfCloseableDescriptor, IPushProducer, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.system.timeouts import Timeouts
from fakedev.net.system.timing import no_op

#: Bytes handed to the transport at once.
CHUNK_BYTES: Final = 65536
#: Bytes that may wait beside those in the transport; a further message aborts the connection.
MAX_BYTES: Final = 256 * 1024
#: Seconds for the peer to take what the transport holds, once its buffer is full.
PATIENCE_SECONDS: Final = 10.0
#: Seconds that a peer has to read its last answer, while its input is dropped.
LINGER_SECONDS: Final = 2.0
#: Pid, user and group of a peer, as Linux gives them.
_CREDENTIALS: Final = struct.Struct("3i")


class StreamTransport(Protocol):
    """What Twisted's TCP and UNIX connections offer; its interfaces describe it in several pieces."""

    reactor: IReactorTime

    def write(self, data: bytes) -> None: ...
    def writeSomeData(self, data: bytes) -> int | BaseException: ...
    def loseConnection(self) -> None: ...
    def loseWriteConnection(self) -> None: ...
    def abortConnection(self) -> None: ...
    def connectionLost(self, reason: Failure) -> None: ...
    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None: ...
    def unregisterProducer(self) -> None: ...
    def pauseProducing(self) -> None: ...
    def resumeProducing(self) -> None: ...
    def getPeer(self) -> IAddress: ...


def host_of(transport: StreamTransport) -> str:
    """The peer's host; empty on a UNIX socket."""
    return str(getattr(transport.getPeer(), "host", ""))


def pid_of(transport: StreamTransport) -> int | None:
    """The process of a peer on a UNIX socket; None for other peers, and for processes of another PID namespace."""
    return _credentials(transport)[0] or None


def user_of(transport: StreamTransport) -> int | None:
    """The number of the user of a peer on a UNIX socket; None for other peers."""
    pid, user, _ = _credentials(transport)
    return user if pid or user else None


def _credentials(transport: StreamTransport) -> tuple[int, int, int]:
    """Pid, user and group of a peer on a UNIX socket; zeros for others, which root's process 0 cannot be."""
    handle = getattr(transport, "getHandle", None)
    if handle is None or not isinstance(transport.getPeer(), UNIXAddress):
        return 0, 0, 0
    try:
        content = handle().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, user, group = _CREDENTIALS.unpack(content)
    except (OSError, AttributeError, struct.error):  # not on Linux, or gone
        return 0, 0, 0
    return pid, user, group


def name_of(transport: StreamTransport) -> str:
    """The peer's address, for the log."""
    address = transport.getPeer()
    if isinstance(address, UNIXAddress):
        return "a peer on a UNIX socket"
    return f"{address.host}:{address.port}" if isinstance(address, IPv4Address | IPv6Address) else str(address)


@implementer(IPushProducer)
@dataclass(eq=False, slots=True)
class Outbox:
    """Writes to a transport no faster than the peer reads.

    Twisted does not show how full a transport's buffer is. It pauses a registered producer above 64 KiB and resumes
    it when the buffer is empty. The outbox is that producer: between the two it keeps the bytes and counts them.

    As long as a socket takes everything, the outbox writes to it directly. The transport would wait for the next turn
    of the reactor, and register the socket for writing and unregister it: a third of the cost of a short answer.

    :param timer: of its port.
    :param drained: called when the peer has read everything after the transport was full.
    :param give_up: called with the reason when the peer does not read; it must abort the connection.
    :ivar full: whether the peer has to read before more should be written.
    """

    _transport: StreamTransport
    _timer: OutboxTimer
    _drained: Callable[[], None]
    _give_up: Callable[[str], None]
    _chunks: deque[bytes] | None = None  # made when it is needed: most peers read at once
    _size: int = 0
    _late: str = ""  # the reason to give up when the peer takes too long; empty: its time is not counted
    _finish: Callable[[], None] | None = None
    _gone: bool = False
    _direct: bool = False  # and its buffer is certainly empty
    full: bool = False

    def __post_init__(self) -> None:
        self._direct = isinstance(self._transport, FileDescriptor)
        self._transport.registerProducer(self, True)

    def write(self, data: bytes) -> None:
        """Send bytes as soon as the peer takes them; a single message of any size always has room."""
        if self._gone or not data:
            return
        if not self.full and not self._chunks and len(data) <= CHUNK_BYTES:
            self._hand_over(data)
            return
        if self._size > MAX_BYTES:
            self._cut("it does not read its answers")
            return
        if self._chunks is None:
            self._chunks = deque()
        self._chunks.extend(data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
        self._size += len(data)
        self._pump()

    def finish(self, linger: bool) -> None:
        """Close the connection when everything is sent.

        :param linger: close the sending side first and give the peer some time to read: if the connection were
            closed while the peer still sends, the system would discard the answer.
        """
        if self._gone:
            return
        self._finish = self._half_close if linger else self._close
        if not self.full:
            self._finish()

    def lost(self) -> None:
        """The connection is gone: forget everything."""
        self._gone = True
        self.full = False
        self._chunks = None
        self._timer.stop(self)
        # No reference to the connection remains: it is freed at once, without the garbage collector.
        self._finish = None
        self._drained = no_op
        self._give_up = no_op

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self.full = True
        self._expect_reading("it takes too long to read its answers")

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        if self._gone:
            return
        self.full = False
        self._direct = isinstance(self._transport, FileDescriptor)
        self._timer.stop(self)
        self._pump()
        if not self.full:
            (self._finish or self._drained)()

    def stopProducing(self) -> None:
        """The transport is closed."""
        self.lost()

    def _pump(self) -> None:
        while self._chunks and not self.full:
            chunk = self._chunks.popleft()
            self._size -= len(chunk)
            self._hand_over(chunk)

    def _hand_over(self, data: bytes) -> None:
        if self._direct:
            sent = self._transport.writeSomeData(data)
            if sent == len(data):
                return
            self._direct = False
            # After an error the transport's own write fails as well, and handles it.
            data = data[sent:] if isinstance(sent, int) else data
        self._transport.write(data)

    def _half_close(self) -> None:
        if not IHalfCloseableDescriptor.providedBy(self._transport):
            self._close()
            return
        self._transport.unregisterProducer()
        self._transport.loseWriteConnection()
        self._timer.linger.start(self)

    def _close(self) -> None:
        # The transport would wait for a producer that is paused, and never close.
        self._transport.unregisterProducer()
        self.end_linger()

    def end_linger(self) -> None:
        """The peer had its time to read: close."""
        if self._direct:
            # The transport would wait until it can write, and then write nothing.
            self._transport.reactor.callLater(0, self._transport.connectionLost, connectionDone)
        else:
            self._expect_reading("it takes too long to read its last answer")
            self._transport.loseConnection()

    def peer_is_late(self) -> None:
        """The peer takes too long to read."""
        self._cut(self._late)

    def _expect_reading(self, reason: str) -> None:
        self._late = reason
        self._timer.reading.start(self)

    def _cut(self, reason: str) -> None:
        give_up = self._give_up
        self.lost()
        give_up(reason)


class OutboxTimer:
    """Limits the time that the peers of a port may take to read.

    :ivar reading: of those that have to read what was sent.
    :ivar linger: of those that may read their last answer while their input is dropped.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self.reading: Timeouts[Outbox] = Timeouts(clock, PATIENCE_SECONDS, Outbox.peer_is_late)
        self.linger: Timeouts[Outbox] = Timeouts(clock, LINGER_SECONDS, Outbox.end_linger)

    def stop(self, outbox: Outbox) -> None:
        """The peer has read, or has gone."""
        self.reading.stop(outbox)
        self.linger.stop(outbox)
