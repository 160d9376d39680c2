"""Where objects end, in whatever pieces they come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import MAX_BYTES, ObjectReader
from fakedev.wire.json_scan import has_top_level_key, is_deeper_than

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
    """Bytes after an object are not looked at."""
    assert ObjectReader().feed(b'\n{"a":1}\n{"b"') == (b'{"a":1}', b'\n{"b"')


def test_begun():
    """White space begins no object; a brace does."""
    reader = ObjectReader()
    reader.feed(b" \t\r\n")
    assert not reader.begun
    reader.feed(b"{")
    assert reader.begun


def test_something_else_between_objects():
    """What is no object cannot be followed."""
    reader = ObjectReader()
    _, rest = reader.feed(b"{} x")
    with pytest.raises(ProtocolError) as caught:
        reader.feed(rest)
    assert (caught.value.code, caught.value.fatal) == ("bad-argument", True)


def padded(size):
    """An object of so many bytes."""
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
    """Text that is broken or unfinished can be asked too."""
    assert has_top_level_key(text, "op") is expected


def test_depth():
    """Levels are counted outside of strings."""
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
