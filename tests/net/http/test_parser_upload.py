"""Request bodies, plain and in chunks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.net.http.limits import BadRequest
from fakedev.net.http.uploads import ChunkedUpload, PlainUpload

LIMIT = 64 * 1024


def encode(chunks: list[bytes], trailer: bytes = b"") -> bytes:
    """``chunks`` on the wire."""
    return b"".join(b"%x;x=y\r\n%b\r\n" % (len(c), c) for c in chunks if c) + b"0\r\n" + trailer + b"\r\n"


@given(st.binary(max_size=50), st.binary(max_size=10), st.data())
def test_plain(body: bytes, rest: bytes, data: st.DataObject) -> None:
    """A body of known length comes out however it was cut, and what follows is given back."""
    wire = body + rest
    cut = data.draw(st.integers(0, len(wire)))
    upload = PlainUpload(len(body))
    first = upload.feed(wire[:cut])
    given_back = upload.feed(wire[cut:]) if first is None else first + wire[cut:]
    assert (given_back, upload.value()) == (rest, body)


@given(st.lists(st.binary(max_size=20), max_size=4), st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]))
def test_chunks_at_every_byte(chunks: list[bytes], trailer: bytes) -> None:
    """A body in chunks, byte by byte; trailers are dropped."""
    upload = ChunkedUpload(LIMIT)
    wire = encode(chunks, trailer)
    results = [upload.feed(wire[i : i + 1]) for i in range(len(wire))]
    assert results == [None] * (len(wire) - 1) + [b""]
    assert upload.value() == b"".join(chunks)


def test_what_follows_is_given_back() -> None:
    """A pipelined request after the last chunk is not lost."""
    upload = ChunkedUpload(LIMIT)
    assert upload.feed(encode([b"abc"]) + b"GET /") == b"GET /"
    assert upload.value() == b"abc"


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"x\r\n", 400),
        (b"-1\r\n", 400),
        (b"\r\n", 400),
        (b"3\r\nabcd\r\n", 400),
        (b"1" * 300, 400),
        (b"10001\r\n", 413),
        (b"ffffffffffffffffffff\r\n", 413),
        (b"8000\r\n" + b"a" * 0x8000 + b"\r\n8001\r\n", 413),
        (b" 1\r\n", 400),
        (b"1 \r\n", 400),
        (b"+1\r\n", 400),
        (b"1_0\r\n", 400),
        (b"1\na\r\n", 400),
        (b"1;x\ny\r\na\r\n", 400),
        (b"1;x\ry\r\na\r\n", 400),
        (b"1;x\r\r\na\r\n", 400),
        (b"1;x\n", 400),
        (b"0;\x00\r\n\r\n", 400),
        (b"0\r\nA: b\nC: d\r\n\r\n", 400),
        (b"0\r\n" + b"a" * 5000, 400),
        (b"0\r\n" + b"a: b\r\n" * 2000, 431),
    ],
)
def test_bad_chunks(wire: bytes, status: int) -> None:
    """Sizes that are no numbers, chunks that do not end where they should, and too much are refused at once."""
    with pytest.raises(BadRequest) as caught:
        ChunkedUpload(LIMIT).feed(wire)
    assert caught.value.status == status


def test_small_chunks_take_linear_time() -> None:
    """Chunks of one byte: what was read is not copied again for each of them."""

    class Counted(bytes):
        """Bytes that count what is copied when they are cut."""

        copied = 0

        def __getitem__(self, which: Any) -> Any:
            found = bytes.__getitem__(self, which)
            return self._count(found) if isinstance(found, bytes) else found

        def __radd__(self, before: bytes) -> Counted:
            return Counted(before + bytes(self))

        def partition(self, at: Any) -> Any:
            return tuple(self._count(part) for part in bytes.partition(self, at))

        def _count(self, found: bytes) -> Counted:
            Counted.copied += len(found)
            return Counted(found)

    wire = encode([b"x"] * 4000)
    upload = ChunkedUpload(LIMIT)
    assert upload.feed(Counted(wire)) == b"" and upload.value() == b"x" * 4000
    assert Counted.copied < 2 * len(wire)
