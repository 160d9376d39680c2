"""Answers of a connection that wait until what they say is on the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from fakedev.net.lines.outbox import Outbox
from fakedev.net.system.timing import no_op
from fakedev.wire.errors import ProtocolError

#: A connection whose held answers have so many bytes is not served until they are sent.
MAX_HELD_BYTES: Final = 256 * 1024
#: Events and results come without being asked for; with so many bytes held the next one closes the connection. All
#: 4096 requests that a client may have open can end, if each end has 1 KiB.
MAX_HELD_EVENTS_BYTES: Final = 4 * 1024 * 1024


class Hold(Protocol):
    """Holds the answers that a connection writes, from the turn in which it began until :meth:`seal`."""

    def seal(self) -> None:
        """Later answers do not wait for this hold, but for their turn."""

    def release(self) -> None:
        """Send the answers, after those of earlier holds."""

    def fail(self, error: ProtocolError) -> None:
        """Drop the answers, send the error, and close."""


class HeldOutput:
    """The outbox of a connection that holds answers; used like :class:`~fakedev.net.lines.outbox.Outbox`.

    :param gather: sends here what the connection has written so far.
    :param released: called when answers were sent.
    :param failed: called instead of sending; it sends the error and closes.
    """

    def __init__(
        self,
        outbox: Outbox,
        gather: Callable[[], None],
        released: Callable[[], None],
        failed: Callable[[ProtocolError], None],
    ) -> None:
        self._outbox = outbox
        self._gather = gather
        self._released = released
        self._failed = failed
        self._segments: deque[_Segment] = deque()
        self._held_bytes = 0
        self._lingers: bool | None = None  # how to finish; None: not yet

    @property
    def full(self) -> bool:
        """Whether no more should be written now."""
        return self._outbox.full or self._held_bytes > MAX_HELD_BYTES

    @property
    def is_holding(self) -> bool:
        """Whether answers are held."""
        return bool(self._segments)

    def begin(self) -> Hold:
        """Hold the answers from now on, and those that are not gathered yet."""
        segments = self._segments
        if not segments or segments[-1].is_sealed:
            segments.append(_Segment(self))
        segments[-1].waits += 1
        return segments[-1]

    def write(self, data: bytes) -> None:
        """Send bytes after those that are held, or close the connection if these are too many."""
        if not self._segments:
            self._outbox.write(data)
            return
        if self._held_bytes > MAX_HELD_EVENTS_BYTES:
            text = f"over {MAX_HELD_EVENTS_BYTES >> 20} MiB of answers and events wait for the disk"
            self.fail(ProtocolError("full", text, fatal=True))
            return
        if self._segments[-1].is_sealed:
            self._segments.append(_Segment(self))
        self._segments[-1].chunks.append(data)
        self._held_bytes += len(data)

    def finish(self, linger: bool) -> None:
        """Close the connection when everything is sent."""
        if self._segments:
            self._lingers = linger
        else:
            self._outbox.finish(linger)

    def lost(self) -> None:
        """The connection is gone: forget everything."""
        self._segments.clear()
        self._lingers = None
        self._gather = self._released = no_op
        self._failed = no_op
        self._outbox.lost()

    def gather(self) -> None:
        """Take what the connection has written so far."""
        self._gather()

    def send_ready(self) -> None:
        """Send the answers that do not wait any more."""
        self._gather()
        segments = self._segments
        while segments and not segments[0].waits:
            data = b"".join(segments.popleft().chunks)
            self._held_bytes -= len(data)
            self._outbox.write(data)
        if self._lingers is None:
            self._released()
        elif not segments:
            self._outbox.finish(self._lingers)

    def fail(self, error: ProtocolError) -> None:
        """Drop all answers."""
        self._gather()
        if not self._segments:
            return
        self._segments.clear()
        self._held_bytes = 0
        if self._lingers is None:
            self._failed(error)
        else:
            self._outbox.finish(linger=False)


class _Segment:
    """Answers that wait for the same writes.

    :ivar waits: number of writes that they wait for.
    """

    __slots__ = ("_output", "chunks", "is_sealed", "waits")

    def __init__(self, output: HeldOutput) -> None:
        self._output = output
        self.chunks: list[bytes] = []
        self.waits = 0
        self.is_sealed = False

    def seal(self) -> None:
        if not self.is_sealed:
            self._output.gather()
            self.is_sealed = True

    def release(self) -> None:
        self.waits -= 1
        self._output.send_ready()

    def fail(self, error: ProtocolError) -> None:
        self._output.fail(error)
