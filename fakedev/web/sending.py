"""Bodies on their way: each is sent at the speed of its reader, and the memory of all of them is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from fakedev.runtime.clock import no_op
from fakedev.web.channel import Channel

#: Bytes that all bodies in flight may hold together.
MAX_BYTES: Final = 256 * 1024 * 1024
#: Or this many times the size of the newest body, where that is more: pages of as many ticks.
MAX_TIMES: Final = 8


class InFlightBodies:
    """The bodies that are being sent, each counted once for all peers that read it.

    Only its readers keep the page of an earlier tick. When peers that hardly read connect tick after tick, each holds
    another page; the readers of the oldest pages are dropped before these take too much memory.

    :param max_bytes: the limit of all bodies together, unless MAX_TIMES the newest is more.
    :ivar held_bytes: the size of all bodies in flight.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.held_bytes = 0
        self._max_bytes = max_bytes
        #: What drops each reader, by the body's identity and the reader; the oldest body first.
        self._readers: dict[int, dict[object, Callable[[], None]]] = {}
        self._bodies: dict[object, Sequence[bytes]] = {}  # by reader

    def add(self, reader: object, pieces: Sequence[bytes], drop: Callable[[], None]) -> None:
        """A peer begins to read a body.

        :param drop: ends that; called after the reader was removed.
        """
        size = sum(map(len, pieces))
        newest = self._readers.setdefault(id(pieces), {})
        if not newest:
            self.held_bytes += size
        newest[reader] = drop
        self._bodies[reader] = pieces
        most = max(self._max_bytes, MAX_TIMES * size)
        for readers in list(self._readers.values()):
            if self.held_bytes > most and readers is not newest:
                for old_reader, drop_it in list(readers.items()):
                    self.remove(old_reader)
                    drop_it()

    def remove(self, reader: object) -> None:
        """A peer has read its body, or has left; a peer that was removed before is ignored."""
        pieces = self._bodies.pop(reader, None)
        if pieces is None:
            return
        readers = self._readers[id(pieces)]
        del readers[reader]
        if not readers:
            del self._readers[id(pieces)]
            self.held_bytes -= sum(map(len, pieces))


@implementer(IPushProducer)
class BodySender:
    """Sends bodies to one peer, each piece when the peer has read the one before.

    It is the producer of a request: its channel resumes it whenever the transport is empty.

    :param sent: called when the transport has the last piece of a body.
    """

    def __init__(self, channel: Channel, held: InFlightBodies, sent: Callable[[], None] = no_op) -> None:
        self._channel = channel
        self._held = held
        self._sent = sent
        self._pieces: Iterator[bytes] | None = None
        self._is_paused = self._is_stopped = False

    @property
    def takes_more(self) -> bool:
        """Whether the peer has read all that was sent so far."""
        return self._pieces is None and self._channel.unsent == 0 and not self._is_stopped

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send a body; not before the one before it was sent."""
        if len(pieces) > 1:
            self._held.add(self, pieces, self._channel.unread)
        self._pieces = iter(pieces)
        self.resumeProducing()

    def resumeProducing(self) -> None:
        """Go on until the channel pauses this producer."""
        self._is_paused = False
        while self._pieces is not None and not self._is_paused:
            piece = next(self._pieces, None)
            if piece is None:
                self._pieces = None
                self._held.remove(self)
                self._sent()
            else:
                self._channel.write(piece)

    def pauseProducing(self) -> None:
        """Wait until the transport is empty."""
        self._is_paused = True

    def stopProducing(self) -> None:
        """Stop sending and release the body."""
        self._is_stopped, self._pieces = True, None
        self._held.remove(self)
