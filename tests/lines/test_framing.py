"""Where messages end and in which dialect a peer speaks: only the content decides, in whatever pieces it comes."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.lines.framing import MAX_BYTES, Dialect, ObjectReader, Opening, has_top_level_key, is_deeper_than
from fakedev.lines.grammar import ProtocolError
from tests.support.wire.original_bytes import go_workload

TRICKY = [
    b"{}",
    b'{"a":"}"}',
    b'{"a":"\\"}"}',
    b'{"a":"\\\\"}',
    b'{"a":"\\\\\\"}{"}',
    b'{"a":{"b":{}},"c":[{},{}]}',
    b'{"a":"\x00{\xff"}',
    b"{'}",
    b"{[}",
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text('ab{}[]"\\\n\u00e9:,'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab{}"\\op'), inner, max_size=3),
    max_leaves=8,
)


def objects_in(pieces):
    """The objects that a reader finds in pieces, fed as the peer would."""
    reader, found = ObjectReader(), []
    for piece in pieces:
        rest = piece
        while rest:
            message, rest = reader.feed(rest)
            if message is not None:
                found.append(message)
    return found, reader.begun


@pytest.mark.parametrize("message", TRICKY)
def test_every_cut_finds_the_same_object(message):
    """An object ends at the same brace wherever its bytes are cut, and byte by byte."""
    for cut in range(len(message) + 1):
        assert objects_in([message[:cut], message[cut:]]) == ([message], False)
    assert objects_in([bytes([byte]) for byte in message]) == ([message], False)


@given(st.lists(st.dictionaries(st.text('ab{}"\\'), JSON_VALUES, max_size=3), min_size=1, max_size=4), st.data())
def test_objects_that_follow_each_other(values, data):
    """Objects with white space between come out as they went in, in any pieces."""
    messages = [json.dumps(value, indent=data.draw(st.sampled_from([None, "\t"]))).encode() for value in values]
    stream = b" \r\n".join(messages)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert objects_in(pieces) == (messages, False)


def test_the_rest_is_given_back_untouched():
    assert ObjectReader().feed(b'\n{"a":1}\n{"b"') == (b'{"a":1}', b'\n{"b"')


def test_begun():
    reader = ObjectReader()
    reader.feed(b" \t\r\n")
    assert not reader.begun
    reader.feed(b"{")
    assert reader.begun


def test_something_else_between_objects():
    reader = ObjectReader()
    _, rest = reader.feed(b"{} x")
    with pytest.raises(ProtocolError) as caught:
        reader.feed(rest)
    assert (caught.value.code, caught.value.fatal) == ("bad-argument", True)


def padded(size):
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


@pytest.mark.parametrize("piece", [1, 1000, 65536, 10**6])
def test_the_limit_is_the_same_in_any_pieces(piece):
    """65536 bytes are taken, one more is not."""
    fits, over = padded(MAX_BYTES), padded(MAX_BYTES + 1)
    assert objects_in([fits[i : i + piece] for i in range(0, len(fits), piece)]) == ([fits], False)
    with pytest.raises(ProtocolError) as caught:
        objects_in([over[i : i + piece] for i in range(0, len(over), piece)])
    assert (caught.value.code, caught.value.fatal) == ("too-long", True)


@given(st.dictionaries(st.text('op"\\{}', max_size=3), JSON_VALUES, max_size=4))
def test_top_level_keys(value):
    """A key is found exactly when the object has it at its top level, escaped or not."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert has_top_level_key(text.encode(), "op") == ("op" in value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"op":1}', True),
        (b'{"\\u006fp":1}', True),
        (b'{"a":"op","b":{"op":1}}', False),
        (b'{"OP":1}', False),
        (b'{"a":["op"],"op" : 1}', True),
        (b'{"op', False),
        (b'{"op":"unfinished', True),
        (b'{"a":"unfinished \\"op\\":1', False),
    ],
)
def test_top_level_keys_of_broken_text(text, expected):
    assert has_top_level_key(text, "op") is expected


def test_depth():
    assert is_deeper_than(b"[" * 65, 64)
    assert not is_deeper_than(b"[" * 64, 64)
    assert not is_deeper_than(b'"' + b"[" * 1000 + b'"', 64)
    assert not is_deeper_than(b"[]" * 1000, 64)


@pytest.mark.parametrize(
    ("hostile", "is_deep"),
    [
        (b'{"' + b'\\"' * 32000, False),
        (b'{"' * 20000, True),
        (b"{" * 65000, True),
        (b'{"a":"' + b"\\" * 65000, False),
    ],
)
def test_hostile_text_takes_linear_time(hostile, is_deep):
    """64 KiB made to be slow, read in small pieces: nothing of it is lost; squared time would be minutes."""
    reader = ObjectReader()
    for start in range(0, len(hostile), 64):
        assert reader.feed(hostile[start : start + 64]) == (None, b"")
    assert reader.incomplete == hostile
    assert not has_top_level_key(hostile, "op")
    assert is_deeper_than(hostile, 64) == is_deep


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
            opened = opening.open(piece)
        except ProtocolError as error:
            return error.text
        if opened is not None:
            way, message, rest = opened
            return way, message, rest + b"".join(pieces[position + 1 :])
    return None


@pytest.mark.parametrize(("stream", "way", "message"), OPENINGS)
def test_every_cut_says_the_same(stream, way, message):
    """The way, the first message and what follows do not depend on how the bytes are cut."""
    whole = open_in([stream])
    assert whole[:2] == (way, message)
    for cut in range(len(stream) + 1):
        assert open_in([stream[:cut], stream[cut:]]) == whole
    assert open_in([bytes([byte]) for byte in stream]) == whole


@given(st.binary(max_size=60), st.sets(st.integers(0, 60)))
def test_any_bytes_in_any_pieces(stream, cuts):
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert open_in(pieces) == open_in([stream])


@pytest.mark.parametrize("piece", [4096, 10**6])
@pytest.mark.parametrize(("head", "way"), [(b'{"op":"run","x":"', Dialect.JSON_LINES), (b'{"Name":"', Dialect.BARE)])
def test_too_long_is_told_in_the_likely_way(head, way, piece):
    """An object that is too long is answered as what it looks like so far."""
    opening = Opening()
    stream = head + b"x" * (MAX_BYTES + 1 - len(head))
    with pytest.raises(ProtocolError, match="65536"):
        for start in range(0, len(stream), piece):
            opening.open(stream[start : start + piece])
    assert opening.likely_dialect() is way
