"""Bodies: pieces of bounded size, and one gzip for all."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from fakedev.web.encoding import PIECE, Body
from tests.support.wire.http_wire import Threads, no_threads

LARGE = b"".join(b"metric_%d 1.0\n" % number for number in range(20_000))


@given(st.lists(st.integers(0, 3 * PIECE), max_size=5))
def test_pieces(lengths: list[int]) -> None:
    """For all kinds of content, a body holds the same bytes in pieces of at most 64 KiB, and not many of them."""
    chunks = [bytes([number]) * length for number, length in enumerate(lengths)]
    body = Body(*chunks)
    assert bytes(body) == b"".join(chunks)
    assert body.length == sum(lengths)
    assert all(0 < len(piece) <= PIECE for piece in body.pieces)
    assert len(body.pieces) <= 2 * (body.length // PIECE + 1)


def test_good_chunks_are_not_copied() -> None:
    """Chunks that are pieces already are kept as they are."""
    chunks = [bytes(PIECE), bytes(PIECE), b"end"]
    assert all(piece is chunk for piece, chunk in zip(Body(*chunks).pieces, chunks, strict=True))
    # Nor where another chunk is too large.
    assert Body(bytes(PIECE + 1), *chunks).pieces[2] is chunks[0]


def test_only_bytes() -> None:
    """Text is refused where it is put in, not when it is sent."""
    with pytest.raises(TypeError):
        Body("text")  # type: ignore[arg-type]


@given(st.binary(max_size=3000))
def test_small_gzip(data: bytes) -> None:
    """A small body is compressed at once, once, and is the same after decompression; no time is in it."""
    body = Body(data)
    compressed = body.compressed(no_threads)
    assert isinstance(compressed, Body)
    assert gzip.decompress(bytes(compressed)) == data
    assert bytes(compressed)[4:8] == bytes(4)
    assert body.compressed(no_threads) is compressed


def test_equal_bodies_have_equal_gzip() -> None:
    """Also where a thread has compressed them; afterwards the compressed body is there at once."""
    threads = Threads()
    found: list[Body] = []
    for body in (Body(LARGE), Body(LARGE)):
        body.compressed(threads).addCallback(found.append)  # type: ignore[union-attr]
        threads.run()
        assert body.compressed(threads) is found[-1]
    assert bytes(found[0]) == bytes(found[1]) and gzip.decompress(bytes(found[0])) == LARGE


def test_failed_gzip() -> None:
    """When compression fails all waiting requests fail, and the next one may try again."""
    threads = Threads()
    body = Body(LARGE)
    failures: list[Failure] = []
    for _ in range(2):
        body.compressed(threads).addErrback(failures.append)  # type: ignore[union-attr]
    assert len(threads.waiting) == 1
    threads.waiting.pop()[1].errback(Failure(MemoryError()))
    assert [failure.type for failure in failures] == [MemoryError, MemoryError]
    assert isinstance(body.compressed(threads), Deferred) and len(threads.waiting) == 1
