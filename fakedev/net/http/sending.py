"""What one HTTP connection sends: at most 64 KiB at a time are handed to the transport, the next when these are gone.

So the peer sets the pace, and one that does not read holds no more than that. The transport says when it is empty to
its pull producer, which this is while there is anything to be taken.

Answers that are on their way to peers, piece by piece: what slow peers keep in memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.interfaces import IPullProducer
from zope.interface import implementer

from fakedev.net.http.deadlines import Deadlines
from fakedev.net.system.timing import no_op

#: What all answers on their way may hold together.
MAX_BYTES: Final = 256 * 1024 * 1024
#: Or so many times the size of the newest of them, where that is more: pages of as many ticks.
MAX_TIMES: Final = 8


@dataclass
class _Answer:
    """One body, whoever reads it."""

    pieces: Sequence[bytes]
    length: int
    readers: dict[object, Callable[[], None]] = field(default_factory=dict)


class InFlightBodies:
    """The bodies that are being sent, each counted once however many peers read it.

    A page of a tick that is over is kept by nobody but its readers. When peers that hardly read come tick after tick,
    each holds another page; those of the oldest are dropped before it is too much.

    :param max_bytes: what all may hold, or MAX_TIMES the newest.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._answers: dict[int, _Answer] = {}
        self._read_by: dict[object, int] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """What they hold now."""
        return self._bytes

    def add(self, reader: object, pieces: Sequence[bytes], drop: Callable[[], None]) -> None:
        """A peer begins to read a body.

        :param drop: ends that; the reader is forgotten already when it is called.
        """
        newest = id(pieces)
        answer = self._answers.get(newest)
        if answer is None:
            answer = self._answers[newest] = _Answer(pieces, sum(map(len, pieces)))
            self._bytes += answer.length
        answer.readers[reader] = drop
        self._read_by[reader] = newest
        most = max(self._max_bytes, MAX_TIMES * answer.length)
        for key in list(self._answers):
            if self._bytes > most and key != newest:
                for each, drop_it in list(self._answers[key].readers.items()):
                    self.remove(each)
                    drop_it()

    def remove(self, reader: object) -> None:
        """A peer has read its body, or is gone; nothing to do if it was forgotten already."""
        key = self._read_by.pop(reader, None)
        if key is None:
            return
        answer = self._answers[key]
        del answer.readers[reader]
        if not answer.readers:
            del self._answers[key]
            self._bytes -= answer.length


@implementer(IPullProducer)
class Outgoing:
    """The sending side of a connection.

    :param held: the answers on their way, of all connections.
    :param taken: is called when the peer has taken everything; whether that was the end of an answer in pieces.
    :param drop: ends the connection, whose peer holds pieces too long.
    :ivar is_endless: an answer is being sent that goes on until somebody leaves.
    :ivar unsent: bytes given to the transport since it was last empty.
    """

    __slots__ = (
        "_deadlines", "_drop", "_has_given_way", "_held", "_pieces", "_registering", "_stall_seconds", "_taken",
        "_transport", "_watching", "is_endless", "unsent",
    )  # fmt: skip

    def __init__(
        self,
        transport: Any,
        held: InFlightBodies,
        deadlines: Deadlines,
        stall_seconds: float,
        taken: Callable[[bool], None],
        drop: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._held = held
        self._deadlines = deadlines
        self._stall_seconds = stall_seconds
        self._taken = taken
        self._drop = drop
        self._pieces: Iterator[bytes] | None = None
        self._watching = False  # registered as the transport's producer
        self._registering = False
        self._has_given_way = False
        self.is_endless = False
        self.unsent = 0

    def write(self, parts: Sequence[bytes]) -> None:
        """Hand some bytes to the transport, and ask it to say when it has taken them."""
        self._transport.writeSequence(parts)
        if not self._has_given_way:
            self.watch(sum(map(len, parts)))

    def write_pieces(self, head: Sequence[bytes], pieces: Sequence[bytes]) -> None:
        """Send the head and the first of several pieces, and the others as the peer reads."""
        self._pieces = iter(pieces[1:])
        self._held.add(self, pieces, self._drop)
        self.write((*head, pieces[0]))

    # Answers without an end

    def begin_endless(self, head: bytes) -> None:
        """Begin an answer that goes on, by :meth:`send_more`."""
        self.is_endless = True
        self.write((head,))

    @property
    def takes_more(self) -> bool:
        """Whether the peer has taken all that it was sent of an endless answer."""
        return self.is_endless and self.unsent == 0

    def send_more(self, pieces: Sequence[bytes]) -> None:
        """Send more of an endless answer, when the peer takes it: piece by piece, as of other answers."""
        if len(pieces) > 1:
            self.write_pieces((), pieces)
        else:
            self.write(pieces)

    # Producers of others

    def give_way(self, producer: Any, streaming: bool) -> None:
        """Somebody else produces, and the transport regulates it."""
        self.stop_watching()
        self._has_given_way = True
        self._transport.registerProducer(producer, streaming)

    def come_back(self) -> bool:
        """Whether somebody else has produced, who has no more."""
        has_given_way, self._has_given_way = self._has_given_way, False
        if has_given_way:
            self._transport.unregisterProducer()
        return has_given_way

    # The end

    def forget(self) -> None:
        """Send no further pieces, and nothing more of an endless answer; nothing here points back at the connection."""
        self.is_endless = False
        self._pieces = None
        self._held.remove(self)
        self._taken = self._drop = no_op

    def stop_watching(self) -> None:
        """It is nothing to us any more when the transport is empty."""
        self.unsent = 0
        self._deadlines.output_left()
        if self._watching:
            self._watching = False
            self._transport.unregisterProducer()

    def watch(self, length: int = 0) -> None:
        """Ask the transport to say when it has taken what it was given, so many bytes just now."""
        self.unsent += length
        if not self._deadlines.awaits_output:
            self._deadlines.output_in(self._stall_seconds)
        if not self._watching:
            self._watching = self._registering = True
            # A transport asks for more at once; only what it asks later means that it is empty.
            self._transport.registerProducer(self, False)
            self._registering = False

    # What the transport says

    def resumeProducing(self) -> None:
        """The transport has taken all that it was given."""
        if self._registering or not self._watching:
            return
        self.unsent = 0
        pieces = self._pieces
        if pieces is not None:
            piece = next(pieces, None)
            if piece is not None:
                self.unsent = len(piece)
                self._deadlines.output_in(self._stall_seconds)
                self._transport.write(piece)
                return
            self._pieces = None
            self._held.remove(self)
        self.stop_watching()
        self._taken(pieces is not None and not self.is_endless)

    def stopProducing(self) -> None:
        """Nothing to do: the channel is told that the connection is lost."""
