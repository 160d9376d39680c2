"""JSON lines, and what is not taken as JSON from anybody."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.json_lines import load_object, parse_json_line
from fakedev.lines.words import parse_words
from tests.support.examples import examples


def parse(line):
    return parse_json_line(line if isinstance(line, bytes) else json.dumps(line).encode(), WORKLOAD_GRAMMAR)


def fault(line):
    with pytest.raises(ProtocolError) as caught:
        parse(line)
    assert not caught.value.fatal
    return caught.value


RUN = {"op": "run", "name": "x", "devices": ["card0"], "profile": [[98, 1, 0]]}


def test_run_with_everything():
    fields = {
        "name": "train",
        "devices": ["card0", "card1"],
        "profile": [[98, 1, -5]],
        "repeat": 3,
        "pod": "a",
        "limits": {"memory": 1e9},
        "run-time-limit": "5m",
        "ttl": 60,
        "detach": True,
    }
    request = parse({"op": "run", "id": 7, **fields})
    assert (request.verb, request.id, request.arguments) == ("run", 7, fields)


def test_the_same_request_in_words():
    words = parse_words(b"run x devices=card0 profile=98:1:0 limit=a:1 label=b:c:d detach", WORKLOAD_GRAMMAR)
    lines = parse(
        {**RUN, "profile": "98:1:0", "limits": {"a": 1.0}, "labels": {"b": "c:d"}, "detach": True}
    )
    assert words == lines


def test_null_and_false_are_not_given():
    """null is as an argument that is not there; so is a flag that is false."""
    assert parse({**RUN, "pod": None, "detach": False}) == parse({**RUN, "detach": None}) == parse(RUN)


@pytest.mark.parametrize("request_id", ["a", "", 0, -1, 2**63 - 1, "é" * 256])
def test_ids(request_id):
    assert parse({"op": "list", "id": request_id}).id == request_id


@pytest.mark.parametrize("request_id", [True, 1.5, [], {}, 2**63, "x" * 257])
def test_ids_that_are_none(request_id):
    error = fault({"op": "list", "id": request_id})
    assert error.text.startswith("id: ")
    assert error.request_id is None


def test_an_error_carries_the_id():
    assert fault({"op": "lst", "id": "a"}).request_id == "a"
    assert fault({"op": "run", "id": 5}).request_id == 5


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"help", "not JSON"),
        (b'{"op":"list"', "not JSON"),
        (b'{"op":"list"} x', "not JSON: Extra data, at character 15"),
        (b"[]", "must be a JSON object, not a list"),
        (b"null", "must be a JSON object, not null"),
        (b'{"op":"list","op":"quit"}', "op: given twice"),
        (b'{"op":"run","limits":{"a":1,"a":2}}', "a: given twice"),
        (b'{"op":"run","repeat":NaN}', "NaN"),
        (b'{"op":"run","repeat":-Infinity}', "-Infinity"),
        (b'{"op":"run","repeat":1e999}', "1e999"),
        (b'{"op":"run","repeat":' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"op":"run","name":"\xff"}', "not UTF-8 at byte 21"),
        (b'{"op":"run","name":"a\x00"}', "not JSON"),
        (b'{"op":"run","name":"\\ud800"}', "half a surrogate pair"),
        (b'{"op":"run","\\ud800":1}', "half a surrogate pair"),
        (b'{"op":"run","profile":' + b"[" * 60000, "nested deeper than 64"),
        (b"[" * 60000, "nested deeper than 64"),
        (b'{"a":' * 10000 + b"1" + b"}" * 10000, "nested deeper than 64"),
        (b'{"id":1}', "op: missing"),
        (b'{"op":1}', "op: must be a text, not a number"),
        (b'{"op":"list","x":1}', "x: not an argument of list"),
        (json.dumps({**RUN, "device": "a"}).encode(), "device: not an argument of run; did you mean devices?"),
        (json.dumps({**RUN, "name": 1}).encode(), "name: must be a text, not a number"),
        (json.dumps({**RUN, "devices": [1]}).encode(), "devices: must be a list of texts"),
        (json.dumps({**RUN, "devices": {}}).encode(), "devices: must be a list of texts, not an object"),
        (json.dumps({**RUN, "profile": 98}).encode(), "profile: must be a text, a list or an object"),
        (json.dumps({**RUN, "repeat": 1.5}).encode(), "repeat: must be a whole number"),
        (json.dumps({**RUN, "repeat": True}).encode(), "repeat: must be a whole number, not true or false"),
        (json.dumps({**RUN, "limits": {"a": [1]}}).encode(), "limits: 'a' must have a finite number or a size, not a"),
        (json.dumps({**RUN, "labels": {"a": 1}}).encode(), "labels: 'a' must have a text, not a number"),
        (json.dumps({**RUN, "labels": {"a": ["b"]}}).encode(), "labels: 'a' must have a text, not a list"),
        (json.dumps({**RUN, "metrics": {"a": None}}).encode(), "metrics: 'a' must have a text, a number or a"),
        (json.dumps({**RUN, "limits": {"a": 10**400}}).encode(), "limits: "),
        (json.dumps({**RUN, "ttl": True}).encode(), "ttl: must be a duration"),
        (json.dumps({**RUN, "detach": "yes"}).encode(), "detach: must be true or false"),
    ],
)
def test_what_is_wrong_is_told(line, text):
    error = fault(line)
    assert error.code == "bad-argument"
    assert text in error.text


def test_pairs_of_surrogates_are_characters():
    assert load_object(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@given(st.binary(max_size=80))
def test_any_line_is_understood_or_refused(line):
    try:
        parse(line)
    except ProtocolError as error:
        assert error.text


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.floats(allow_nan=False) | st.integers()))
def test_accepted_objects_can_be_written_again(value):
    try:
        taken = load_object(json.dumps(value).encode())
    except ProtocolError:
        return
    json.dumps(taken, ensure_ascii=False, allow_nan=False).encode("utf-8")


KEYS = ['"a"', '"b"', '"\\u0061"', '"é"']
VALUES = [*KEYS, '{"a":1}', '["x"]', "[1]", '" :"', "1", "-0", "2.5", "1e999", "9" * 25, "NaN", "null", "true", ""]
FIELDS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(":".join), max_size=4).map(", ".join)
SCRAPS = st.lists(st.sampled_from([*VALUES, *"{}[]:, "]), max_size=9).map("".join)


def as_json_has_it(text):
    """What json makes of a text by the rules of load_object, as it prints; None for what these refuse."""

    def pairs(found):
        assert len(dict(found)) == len(found), "a key given twice"
        return dict(found)

    def integer(digits):
        return int(digits) if -(2**63) <= int(digits) < 2**64 else float(digits)

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=float.fromhex, parse_int=integer)
        json.dumps(value, allow_nan=False)
    except (ValueError, AssertionError):
        return None
    return value if "NaN" not in text else None


@settings(max_examples=examples(500))
@given(FIELDS | SCRAPS)
def test_the_quick_way_reads_as_the_strict_one(inside):
    """Plain objects are read by another library, with the same results."""
    text = "{" + inside + "}"
    try:
        taken = load_object(text.encode())
    except ProtocolError:
        taken = None
    expected = as_json_has_it(text)
    assert taken == expected or repr(taken) == repr(expected)


@pytest.mark.parametrize(("word", "name"), [("use", "metrics"), ("limit", "limits"), ("label", "labels")])
def test_either_name_of_a_field(word, name):
    """That of words or that of JSON, in either form; both in one request are refused."""
    value = {"a": "1"} if name != "limits" else {"a": 1.0}
    assert parse({**RUN, word: value}) == parse({**RUN, name: value})
    lines = [f"run x devices=card0 profile=98 {each}=a:1".encode() for each in (word, name)]
    words = [parse_words(line, WORKLOAD_GRAMMAR) for line in lines]
    assert words[0] == words[1]
    assert name in words[0].arguments
    assert fault({**RUN, word: value, name: value}).text == f"{word}: is the same as {name}: give one of the two"
    assert parse({**RUN, word: value, name: None}) == parse({**RUN, name: value})
