"""Only the content decides the format of a peer."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import MAX_BYTES, Dialect, Opened, Opening
from tests.support.original_bytes import go_workload

WORKLOAD = go_workload([(10, 1, 300)])
OPENINGS = [
    (b"help\n", Dialect.WORDS, b""),
    (b"  \r\n\nhelp\n", Dialect.WORDS, b""),
    (b'["op"]\n', Dialect.WORDS, b""),
    (b"\x00{}", Dialect.WORDS, b""),
    (b'{"op":"list"}\n', Dialect.JSON_LINES, b'{"op":"list"}'),
    (b'\n {\n"id":1,\n"op":"list"\n}\n{"op":"quit"}\n', Dialect.JSON_LINES, b'{\n"id":1,\n"op":"list"\n}'),
    (b'{"op": bad}\n', Dialect.JSON_LINES, b'{"op": bad}'),
    (WORKLOAD, Dialect.BARE, WORKLOAD),
    (b'{"Op":"x"}', Dialect.BARE, b'{"Op":"x"}'),
    (b'{"a":{"op":"list"}}', Dialect.BARE, b'{"a":{"op":"list"}}'),
    (b"{}", Dialect.BARE, b"{}"),
]


def open_in(pieces):
    """What an opening says of pieces: the way, the first message, and all bytes after it; or its error."""
    opening = Opening()
    for position, piece in enumerate(pieces):
        try:
            opened = opening.feed(piece)
        except ProtocolError as error:
            return error.text
        if opened is not None:
            return Opened(opened.way, opened.message, opened.rest + b"".join(pieces[position + 1 :]))
    return None


@pytest.mark.parametrize(("stream", "way", "message"), OPENINGS)
def test_every_cut_says_the_same(stream, way, message):
    """The way, the first message and what follows do not depend on how the bytes are cut."""
    whole = open_in([stream])
    assert (whole.way, whole.message) == (way, message)
    for cut in range(len(stream) + 1):
        assert open_in([stream[:cut], stream[cut:]]) == whole
    assert open_in([bytes([byte]) for byte in stream]) == whole


@given(st.binary(max_size=60), st.sets(st.integers(0, 60)))
def test_any_bytes_in_any_pieces(stream, cuts):
    """So it is for bytes that mean nothing."""
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert open_in(pieces) == open_in([stream])


def test_begun():
    """White space begins no message."""
    opening = Opening()
    assert opening.feed(b"\n\t ") is None
    assert not opening.begun
    assert opening.feed(b"{") is None
    assert opening.begun


@pytest.mark.parametrize("piece", [4096, 10**6])
@pytest.mark.parametrize(("head", "way"), [(b'{"op":"run","x":"', Dialect.JSON_LINES), (b'{"Name":"', Dialect.BARE)])
def test_too_long_is_told_in_the_likely_way(head, way, piece):
    """An object that is too long is answered as what it looks like so far."""
    opening = Opening()
    stream = head + b"x" * (MAX_BYTES + 1 - len(head))
    with pytest.raises(ProtocolError, match="65536"):
        for start in range(0, len(stream), piece):
            opening.feed(stream[start : start + piece])
    assert opening.likely_dialect() is way


def test_nothing_said_is_words():
    """A peer that sent nothing is answered in words."""
    assert Opening().likely_dialect() is Dialect.WORDS
