"""The body of an answer: bytes that all its readers share, plain and by gzip."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from zlib import DEFLATED, MAX_WBITS

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

try:
    from isal.isal_zlib import compressobj  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from zlib import compressobj

#: The most bytes that a transport is given at once. A peer that does not read holds no more than this.
PIECE: Final = 64 * 1024
#: Bodies up to this size are compressed in the reactor, larger ones in a thread.
COMPRESSED_AT_ONCE: Final = 64 * 1024

DeferToThread = Callable[[Callable[[], "list[bytes]"]], "Deferred[list[bytes]]"]


class Body:
    """Immutable bytes in pieces of at most 64 KiB.

    Many requests may send one Body at the same time, each at its speed, without copies. Keep it as long as it is valid
    (a page: for its tick), then it is also compressed only once.
    """

    __slots__ = ("_compressed", "_waiting", "length", "pieces")

    def __init__(self, *chunks: bytes) -> None:
        self.pieces: tuple[bytes, ...] = _regrouped(chunks)
        self.length: int = sum(map(len, self.pieces))
        self._compressed: Body | None = None
        self._waiting: list[Deferred[Body]] | None = None

    def compressed(self, defer_to_thread: DeferToThread) -> Body | Deferred[Body]:
        """This body by gzip: at once when it is small or was compressed before, else when a thread has compressed it.

        All callers until then get the same Body. The bytes depend on this body alone.
        """
        if self._compressed is not None:
            return self._compressed
        if self.length <= COMPRESSED_AT_ONCE:
            self._compressed = Body(*_gzip(self.pieces))
            return self._compressed
        waiter: Deferred[Body] = Deferred()
        if self._waiting is not None:
            self._waiting.append(waiter)
            return waiter
        self._waiting = [waiter]
        defer_to_thread(lambda: _gzip(self.pieces)).addCallbacks(self._made, self._failed)
        return waiter

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def _made(self, chunks: list[bytes]) -> None:
        self._compressed = Body(*chunks)
        for waiter in self._end_waiting():
            waiter.callback(self._compressed)

    def _failed(self, reason: Failure) -> None:
        for waiter in self._end_waiting():
            waiter.errback(reason)

    def _end_waiting(self) -> list[Deferred[Body]]:
        waiting, self._waiting = self._waiting or [], None
        return waiting


def _gzip(chunks: Iterable[bytes]) -> list[bytes]:
    """``chunks`` by gzip: the fastest level, no time and no name in the header.

    ISA-L, where it is installed, takes a fifth of zlib's time.
    """
    compressor = compressobj(1, DEFLATED, MAX_WBITS | 16)
    parts = [compressor.compress(chunk) for chunk in chunks]
    parts.append(compressor.flush())
    return [part for part in parts if part]


def _regrouped(chunks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The same bytes in pieces of at most PIECE, and not many more pieces than needed."""
    for chunk in chunks:
        if type(chunk) is not bytes:
            raise TypeError(f"a body is made of bytes, not of {type(chunk).__name__}")
    length = sum(map(len, chunks))
    if length <= PIECE:
        return (chunks[0] if len(chunks) == 1 else b"".join(chunks),) if length else ()
    if len(chunks) * PIECE <= 2 * length and max(map(len, chunks)) <= PIECE:
        return tuple(chunk for chunk in chunks if chunk)
    pieces: list[bytes] = []
    gathered = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            room = PIECE - len(gathered)
            gathered += view[:room]
            view = view[room:]
            if len(gathered) == PIECE:
                pieces.append(bytes(gathered))
                gathered.clear()
    if gathered:
        pieces.append(bytes(gathered))
    return tuple(pieces)
