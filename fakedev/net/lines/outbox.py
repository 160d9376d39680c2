"""What waits to be read by a peer: bounded, and given up when the peer does not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IDelayedCall, IHalfCloseableDescriptor, IPushProducer, IReactorTime, ITransport
from zope.interface import implementer

from fakedev.net.system.timing import no_op

#: Bytes handed to the transport at once.
CHUNK_BYTES = 65536
#: Bytes beyond those in the transport that may wait before a further message cuts the connection.
MAX_BYTES = 256 * 1024
#: Seconds for the peer to take what the transport holds, once its buffer is full.
PATIENCE_SECONDS = 10.0
#: Seconds that a peer has to see why it is closed, while what it still sends is thrown away.
LINGER_SECONDS = 2.0


@implementer(IPushProducer)
class Outbox:
    """Writes to a transport no faster than the peer reads.

    How full a transport's buffer is, Twisted tells only by pausing a registered producer (over 64 KiB) and
    resuming it (empty). So this is that producer: between the two it keeps the bytes itself, where they can be counted.

    As long as a socket takes all at once it is written to at once. The transport would wait for the next turn of the
    reactor, and ask the system to be told of room and then no more: a third of what a short answer costs.

    :param drained: called when the peer has read everything after the transport was full.
    :param give_up: called with the reason when the peer does not read; the connection must be aborted.
    """

    def __init__(
        self,
        transport: ITransport,
        clock: IReactorTime,
        drained: Callable[[], None],
        give_up: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._drained = drained
        self._give_up = give_up
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._timer: IDelayedCall | None = None
        self._finish: Callable[[], None] | None = None
        self._gone = False
        # Whether the transport is sure to hold nothing.
        self._direct = isinstance(transport, FileDescriptor)
        #: Whether the peer has to read before more should be written.
        self.full = False
        transport.registerProducer(self, True)

    def write(self, data: bytes) -> None:
        """Send the bytes as soon as the peer takes them. One message of any size always has room."""
        if self._gone or not data:
            return
        if not self.full and not self._chunks and len(data) <= CHUNK_BYTES:
            self._hand_over(data)
            return
        if self._size > MAX_BYTES:
            self._cut("it does not read its answers")
            return
        self._chunks.extend(data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
        self._size += len(data)
        self._pump()

    def finish(self, linger: bool) -> None:
        """Close the connection when everything is sent.

        :param linger: close the sending side first and leave the peer some time to read: closing while it
            still sends would make the system throw away the answer.
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
        self._chunks.clear()
        self._stop_timer()
        # Nothing points back at the connection: it is gone at once, not when garbage is looked for.
        self._finish = None
        self._drained = no_op
        self._give_up = no_op

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self.full = True
        self._start_timer(PATIENCE_SECONDS, lambda: self._cut("it takes too long to read its answers"))

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        if self._gone:
            return
        self.full = False
        self._direct = isinstance(self._transport, FileDescriptor)
        self._stop_timer()
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
            # An error comes again when the transport writes, and that knows what to do.
            data = data[sent:] if isinstance(sent, int) else data
        self._transport.write(data)

    def _half_close(self) -> None:
        if not IHalfCloseableDescriptor.providedBy(self._transport):
            self._close()
            return
        self._transport.unregisterProducer()
        self._transport.loseWriteConnection()
        self._start_timer(LINGER_SECONDS, self._lose)

    def _close(self) -> None:
        # With a producer that was paused the transport would wait for it and never close.
        self._transport.unregisterProducer()
        self._lose()

    def _lose(self) -> None:
        self._start_timer(PATIENCE_SECONDS, lambda: self._cut("it takes too long to read its last answer"))
        self._transport.loseConnection()

    def _cut(self, reason: str) -> None:
        give_up = self._give_up
        self.lost()
        give_up(reason)

    def _start_timer(self, seconds: float, call: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._clock.callLater(seconds, call)

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
