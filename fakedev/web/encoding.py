"""The body of a response, plain and by gzip, shared by all its readers; and content negotiation by Accept headers.

Negotiation chooses content codings and exposition formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import DEFLATED, MAX_WBITS

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

try:
    from isal.isal_zlib import compressobj  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from zlib import compressobj

#: Maximum bytes passed to a transport at once, and so the most that a peer that does not read can hold.
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
        defer_to_thread(lambda: _gzip(self.pieces)).addBoth(self._made)
        return waiter

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def _made(self, chunks: list[bytes] | Failure) -> None:
        waiting, self._waiting = self._waiting or [], None
        if isinstance(chunks, Failure):
            for waiter in waiting:
                waiter.errback(chunks)
            return
        self._compressed = Body(*chunks)
        for waiter in waiting:
            waiter.callback(self._compressed)


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
    # Only chunks that are too large are copied: all of a page of 40 MB would take 50 ms.
    parts = [chunk[at : at + PIECE] for chunk in chunks for at in range(0, len(chunk), PIECE)]
    if len(parts) * PIECE <= 2 * length:
        return tuple(parts)
    pieces: list[bytes] = []
    gathered = bytearray()
    for chunk in chunks:
        gathered += chunk
        while len(gathered) >= PIECE:
            pieces.append(bytes(memoryview(gathered)[:PIECE]))
            del gathered[:PIECE]
    if gathered:
        pieces.append(bytes(gathered))
    return tuple(pieces)


#: Escapings under which names of ASCII letters, digits, ``_`` and ``:`` stay as they are (``dots`` doubles ``_``).
_HARMLESS_ESCAPINGS: Final = frozenset({"allow-utf-8", "underscores", "values"})


@dataclass(frozen=True)
class Exposition:
    """A text format for metrics, with its Content-Type."""

    openmetrics: bool
    content_type: str


TEXT: Final = Exposition(False, "text/plain; version=0.0.4; charset=utf-8")
OPENMETRICS: Final = Exposition(True, "application/openmetrics-text; version=1.0.0; charset=utf-8")


class _Wish(NamedTuple):
    """How much a client wants a format."""

    fit: int = -1  # of the media range
    quality: float = 0.0
    order: int = -1_000_000  # the first range of the header is the highest
    escaping: str = ""


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: bytes | None) -> bool:
    """Whether the client wants gzip: by name or ``*``, with a quality above 0 and not below identity's."""
    if not accept_encoding:
        return False
    qualities: dict[str, float] = {}
    for coding, parameters in _items(accept_encoding.decode("latin-1")):
        qualities.setdefault("gzip" if coding == "x-gzip" else coding, _quality(parameters))
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


@lru_cache(maxsize=256)
def choose_exposition(accept: bytes | None) -> Exposition:
    """The format of the answer: OpenMetrics only when it is named, and wanted at least as much as text.

    At the same quality the first in the header wins. A client that accepts neither gets text and not 406.
    """
    if not accept:
        return TEXT
    openmetrics = text = _Wish()
    for position, (media, parameters) in enumerate(_items(accept.decode("latin-1"))):
        version, escaping = parameters.get("version"), parameters.get("escaping", "")
        quality = _quality(parameters)
        if media == "application/openmetrics-text" and version in (None, "1.0.0"):
            if quality > openmetrics.quality:
                openmetrics = _Wish(3, quality, -position, escaping)
            continue
        fit = {"text/*": 1, "*/*": 0}.get(media, -1)
        if media == "text/plain":
            fit = {"0.0.4": 3, None: 2}.get(version, -1)
        if fit > text.fit:
            text = _Wish(fit, quality, -position, escaping)
    if openmetrics.quality > 0 and (openmetrics.quality, openmetrics.order) > (text.quality, text.order):
        return _escaped(OPENMETRICS, openmetrics.escaping)
    return _escaped(TEXT, text.escaping)


def _items(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The elements of a list header with their parameters, in lower case."""
    for element in header.split(","):
        name, *rest = element.split(";")
        name = name.strip().lower()
        if name:
            pairs = (parameter.partition("=") for parameter in rest)
            yield name, {key.strip().lower(): value.strip().strip('"').lower() for key, _, value in pairs}


def _quality(parameters: dict[str, str]) -> float:
    """The q of an element; a malformed q counts as 0: not wanted."""
    text = parameters.get("q", "1")
    if not text.replace(".", "", 1).isdecimal():
        return 0.0
    return min(float(text), 1.0)


def _escaped(exposition: Exposition, escaping: str) -> Exposition:
    """``exposition`` with the requested escaping, where that changes none of our names."""
    if escaping not in _HARMLESS_ESCAPINGS:
        return exposition
    return Exposition(exposition.openmetrics, f"{exposition.content_type}; escaping={escaping}")
