"""The input of a connection that waits for the connection's turn: pieces of bytes, in order."""

from __future__ import annotations

from collections import deque
from typing import Final

from fakedev.wire.framing import BLANKS

#: LineReceiver copies its whole buffer for each line, so it gets small pieces.
PIECE_BYTES: Final = 4096


class HeldInput(deque[bytes]):
    """Pieces of at most PIECE_BYTES: a deque itself, because thousands of connections have one.

    :ivar size: bytes of all pieces.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Hold received bytes."""
        if len(data) <= PIECE_BYTES:
            self.append(data)
        else:
            self.extend(data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))
        self.size += len(data)

    def take(self) -> bytes:
        """Remove the first piece."""
        piece = self.popleft()
        self.size -= len(piece)
        return piece

    def put_back(self, rest: bytes) -> None:
        """Hold the rest of a piece that was taken, before all others."""
        if rest:
            self.appendleft(rest)
            self.size += len(rest)

    def first_line(self) -> bytes | None:
        """The first line that is not blank, without its LF; None while it is not complete, and for a long one."""
        begin = b""
        for piece in self:
            begin += piece
            line, newline, _ = begin.lstrip(BLANKS).partition(b"\n")
            if newline:
                return line
            if len(begin) >= PIECE_BYTES:
                break
        return None
