"""What a peer sends, cut into messages, a bounded slice at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from twisted.protocols.basic import LineReceiver

from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import MAX_BYTES, Dialect, ObjectReader, Opening

# LineReceiver copies its whole buffer for each line, so it gets small pieces.
_PIECE_BYTES = 4096
_SLICE_MESSAGES = 256
_SLICE_SECONDS = 0.005
_SLICE_ANSWER_BYTES = 65536


class LineInput(LineReceiver, ABC):
    """Keeps the bytes that came, and works on them in slices.

    A slice is over after 256 messages, 5 ms or 64 KiB of answers. LineReceiver's ``paused`` stops it at any time:
    what was not looked at waits for the next slice.
    """

    delimiter = b"\n"
    MAX_LENGTH = MAX_BYTES

    def __init__(self) -> None:
        #: The way in which the peer speaks; None before it is clear.
        self.way: Dialect | None = None
        #: Messages that were complete.
        self.messages = 0
        #: Bytes that wait for a slice.
        self.held_bytes = 0
        #: Bytes answered in this slice; whoever answers counts them.
        self.slice_answer_bytes = 0
        self._opening = Opening()
        self._objects = ObjectReader()
        self._pieces: deque[bytes] = deque()
        self._line_begun = False
        self._slice_messages = 0
        self.setRawMode()

    @abstractmethod
    def message_received(self, message: bytes) -> None:
        """A complete message of the way that the peer speaks: an object, or a line without LF, perhaps blank."""

    @abstractmethod
    def framing_failed(self, error: ProtocolError) -> None:
        """The input cannot be followed any more."""

    @property
    def begun(self) -> bool:
        """Whether, all slices done, a message was begun and is not complete."""
        return self._line_begun if self.line_mode else self._opening.begun or self._objects.begun

    @property
    def used_up(self) -> bool:
        """Whether everything that came was looked at."""
        return not self.paused and not self._pieces

    def hold(self, data: bytes) -> None:
        """Keep bytes for the next slice."""
        self._pieces.extend(data[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES))
        self.held_bytes += len(data)

    def drop_input(self) -> None:
        """Forget what came, and look at nothing more."""
        self.paused = True
        self._pieces.clear()
        self.held_bytes = 0
        self.clearLineBuffer()

    def likely_way(self) -> Dialect:
        """The way, also while it is not clear: then what the first bytes look like."""
        return self.way or self._opening.likely_way()

    def run_slice(self, now: Callable[[], float], ended: bool) -> None:
        """Work on what came until it is used up, or ``paused``.

        :param ended: whether nothing more will come, so that a last line needs no LF.
        """
        was_paused, self.paused = self.paused, False
        self._slice_messages = self.slice_answer_bytes = 0
        until = now() + _SLICE_SECONDS
        if was_paused:
            super().dataReceived(b"")  # what the slice before left in the buffer
        while self._pieces and not self.paused:
            self._feed(self._pieces.popleft())
            if now() >= until:
                self.paused = True
        if ended and not self.paused:
            self._finish()

    def rawDataReceived(self, data: bytes) -> None:
        """Take bytes while the way is not clear, and bare JSON."""
        try:
            if self.way is not None:
                message, rest = self._objects.feed(data)
            else:
                opened = self._opening.feed(data)
                if opened is None:
                    return
                self.way, message, rest = opened.way, opened.message, opened.rest
        except ProtocolError as error:
            self.framing_failed(error)
            return
        if self.way is not Dialect.BARE:
            self.setLineMode()
        if rest:  # before the message: it may drop the input
            self._pieces.appendleft(rest)
            self.held_bytes += len(rest)
        if message:
            self.lineReceived(message)

    def lineReceived(self, line: bytes) -> None:
        """Take a line of words or JSON, or a whole object."""
        self.messages += 1
        self._slice_messages += 1
        self.message_received(line)
        if self._slice_messages >= _SLICE_MESSAGES or self.slice_answer_bytes >= _SLICE_ANSWER_BYTES:
            self.paused = True

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a line that is too long; where the next begins is not known."""
        self.framing_failed(ProtocolError("too-long", f"a line is at most {self.MAX_LENGTH} bytes", fatal=True))

    def _feed(self, piece: bytes) -> None:
        self.held_bytes -= len(piece)
        if self.line_mode:
            _, newline, after = piece.rpartition(b"\n")
            self._line_begun = bool(after.strip()) or (self._line_begun and not newline)
        super().dataReceived(piece)

    def _finish(self) -> None:
        """Take what the end of input completes: a last line without LF."""
        if not self.line_mode:
            if self.begun:
                self.framing_failed(ProtocolError("bad-argument", "the input ended inside an object", fatal=True))
        elif line := self.clearLineBuffer():
            self.message_received(line)
