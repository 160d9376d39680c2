"""What one HTTP connection sends, and the deadlines of both its directions.

The transport is given at most 64 KiB at a time, and the next piece when it has sent these. So the peer sets the pace,
and a peer that does not read holds no more than that. The transport reports to its pull producer that it is empty;
Outgoing is that producer while anything is unsent.

InFlightBodies bounds the memory of all bodies that slow peers are still reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from twisted.internet.interfaces import IPullProducer, IReactorTime
from zope.interface import implementer

from fakedev.net.system.timing import PatientCall, no_op

#: Bytes that all bodies in flight may hold together.
MAX_BYTES: Final = 256 * 1024 * 1024
#: Or this many times the size of the newest body, where that is more: pages of as many ticks.
MAX_TIMES: Final = 8


class Connection(Protocol):
    """The transport of a connection, over TCP, UNIX sockets or TLS; see Twisted's ITransport and IConsumer."""

    def write(self, data: bytes, /) -> None: ...
    def writeSequence(self, iovec: Iterable[bytes], /) -> None: ...
    def registerProducer(self, producer: IPullProducer, streaming: bool, /) -> None: ...
    def unregisterProducer(self) -> None: ...
    def pauseProducing(self) -> None: ...
    def resumeProducing(self) -> None: ...
    def loseConnection(self) -> None: ...
    def abortConnection(self) -> None: ...
    def getHost(self) -> object: ...
    def getPeer(self) -> object: ...


@dataclass(eq=False, slots=True)
class Deadlines:
    """Two deadlines of a connection with one timer: for expected input, and for output that the peer should read.

    The timer is only moved to earlier times; when it fires too early it is set again. So each request costs a
    comparison, not a timer. It is a PatientCall: what waits at the socket is read before a peer is late.
    """

    _reactor: IReactorTime
    _input_is_late: Callable[[], None]
    _output_is_late: Callable[[], None]
    _input_by: float | None = None
    _output_by: float | None = None
    _timer: PatientCall | None = None
    _timer_at: float = 0.0

    @property
    def awaits_output(self) -> bool:
        """Whether the peer has something to read."""
        return self._output_by is not None

    def input_in(self, seconds: float) -> None:
        """The expected input must arrive within ``seconds``."""
        self._input_by = self._reactor.seconds() + seconds
        self._set_timer(self._input_by)

    def output_in(self, seconds: float) -> None:
        """The peer must read something within ``seconds``."""
        self._output_by = self._reactor.seconds() + seconds
        self._set_timer(self._output_by)

    def input_arrived(self) -> None:
        """No input is expected."""
        self._input_by = None

    def output_left(self) -> None:
        """The peer has nothing to read."""
        self._output_by = None

    def stop(self) -> None:
        """Drop both deadlines, and the references to the connection."""
        self._input_by = self._output_by = None
        self._input_is_late = self._output_is_late = no_op
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        if self._timer is None:
            self._timer_at = when
            self._timer = PatientCall(self._reactor, max(0.0, when - self._reactor.seconds()), self._run_out)
        elif when < self._timer_at:
            self._timer_at = when
            self._timer.reset(max(0.0, when - self._reactor.seconds()))

    def _run_out(self) -> None:
        self._timer = None
        now = self._reactor.seconds()
        if self._output_by is not None and now >= self._output_by:
            self._output_by = None
            self._output_is_late()
        elif self._input_by is not None and now >= self._input_by:
            self._input_by = None
            self._input_is_late()
        following = [when for when in (self._input_by, self._output_by) if when is not None]
        if following:
            self._set_timer(min(following))


@dataclass
class _Answer:
    """One body with its readers."""

    pieces: Sequence[bytes]
    length: int
    readers: dict[object, Callable[[], None]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class InFlightBodies:
    """The bodies that are being sent, each counted once for all peers that read it.

    Only its readers keep the page of an earlier tick. When peers that hardly read connect tick after tick, each holds
    another page; the readers of the oldest pages are dropped before these take too much memory.

    :param max_bytes: the limit of all bodies together, unless MAX_TIMES the newest is more.
    :param changed: called with the size of all bodies in flight when it has changed.
    """

    _max_bytes: int = MAX_BYTES
    _changed: Callable[[int], None] = no_op
    _answers: dict[int, _Answer] = field(default_factory=dict)
    _read_by: dict[object, int] = field(default_factory=dict)
    _bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """The size of all bodies in flight."""
        return self._bytes

    def add(self, reader: object, pieces: Sequence[bytes], drop: Callable[[], None]) -> None:
        """A peer begins to read a body.

        :param drop: ends that; called after the reader was removed.
        """
        newest = id(pieces)
        answer = self._answers.get(newest)
        if answer is None:
            answer = self._answers[newest] = _Answer(pieces, sum(map(len, pieces)))
            self._bytes += answer.length
            self._changed(self._bytes)
        answer.readers[reader] = drop
        self._read_by[reader] = newest
        most = max(self._max_bytes, MAX_TIMES * answer.length)
        for key in list(self._answers):
            if self._bytes > most and key != newest:
                for each, drop_it in list(self._answers[key].readers.items()):
                    self.remove(each)
                    drop_it()

    def remove(self, reader: object) -> None:
        """A peer has read its body, or has left; a peer that was removed before is ignored."""
        key = self._read_by.pop(reader, None)
        if key is None:
            return
        answer = self._answers[key]
        del answer.readers[reader]
        if not answer.readers:
            del self._answers[key]
            self._bytes -= answer.length
            self._changed(self._bytes)


@implementer(IPullProducer)
@dataclass(eq=False, slots=True)
class Outgoing:
    """The sending side of a connection.

    :param held: the bodies in flight of all connections.
    :param taken: called when the peer has read everything; its argument: whether an answer in pieces ended with that.
    :param drop: closes the connection of a peer that holds a body too long.
    :ivar is_endless: an answer is being sent that ends only when the peer or the program ends it.
    :ivar unsent: bytes given to the transport since it was last empty.
    """

    _transport: Connection
    _held: InFlightBodies
    _deadlines: Deadlines
    _stall_seconds: float
    _taken: Callable[[bool], None]
    _drop: Callable[[], None]
    _pieces: Iterator[bytes] | None = None
    _is_watching: bool = False  # registered as the transport's producer
    _registering: bool = False
    is_endless: bool = False
    unsent: int = 0

    def write(self, parts: Sequence[bytes]) -> None:
        """Give some bytes to the transport, and watch for the moment when it has sent them."""
        self._transport.writeSequence(parts)
        self.unsent += sum(map(len, parts))
        if not self._deadlines.awaits_output:
            self._deadlines.output_in(self._stall_seconds)
        if not self._is_watching:
            self._is_watching = self._registering = True
            # A transport asks for more at once; only a later question means that it is empty.
            self._transport.registerProducer(self, False)
            self._registering = False

    def write_pieces(self, head: Sequence[bytes], pieces: Sequence[bytes]) -> None:
        """Send the head and the first of several pieces, and the other pieces as the peer reads."""
        self._pieces = iter(pieces[1:])
        self._held.add(self, pieces, self._drop)
        self.write((*head, pieces[0]))

    def begin_endless(self, head: bytes) -> None:
        """Begin an answer that :meth:`send_more` continues."""
        self.is_endless = True
        self.write((head,))

    @property
    def takes_more(self) -> bool:
        """Whether the peer has read all that was sent so far of an endless answer."""
        return self.is_endless and self.unsent == 0

    def send_more(self, pieces: Sequence[bytes]) -> None:
        """Continue an endless answer when the peer takes more: in pieces, as other answers."""
        if len(pieces) > 1:
            self.write_pieces((), pieces)
        else:
            self.write(pieces)

    def forget(self) -> None:
        """Send no further pieces, and drop the references to the connection."""
        self.is_endless = False
        self._pieces = None
        self._held.remove(self)
        self._taken = self._drop = no_op

    def stop_watching(self) -> None:
        """Stop waiting for the transport to be empty."""
        self.unsent = 0
        self._deadlines.output_left()
        if self._is_watching:
            self._is_watching = False
            self._transport.unregisterProducer()

    def resumeProducing(self) -> None:
        """The transport has sent all that it was given."""
        if self._registering or not self._is_watching:
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
        """Do nothing: connectionLost of the channel follows."""
