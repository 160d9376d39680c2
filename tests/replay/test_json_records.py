"""Arrays of JSON objects as streams: each object with its line, whatever parts the text comes in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.replay.table_reader import JsonRecords, Lenience, TraceProblems

_OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=9) | st.integers(), max_size=3), max_size=5)


def records_of(text: str, length: int = 5, lenience: Lenience | None = None) -> JsonRecords:
    """The records of a text that comes in parts of one length."""
    parts = (text[begin : begin + length] for begin in range(0, len(text), length))
    return JsonRecords(parts, "log", lenience or Lenience())


@given(_OBJECTS, st.sampled_from([None, 1, "\t"]), st.integers(1, 20))
def test_an_array_is_read_as_it_was_written(objects: list[object], indent: int | str | None, length: int) -> None:
    assert list(records_of(json.dumps(objects, indent=indent), length)) == objects


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "log:1: is not JSON: an array of objects is needed, which begins with '['"),
        ('{"a": 1}', "log:1: is not JSON: an array of objects is needed, which begins with '['"),
        ('[{"a": 1},\n{"b": }]', "log:2: is not JSON: Expecting value"),
        ('[{"a": 1}\n{"b": 1}]', "log:2: is not JSON: a comma or ']' is needed after an object"),
        ('[{"a": 1},\n]', "log:2: is not JSON: Expecting value"),
        ('[{"a": 1}', "log:1: is not JSON: a comma or ']' is needed after an object"),
        ("[]\nx", "log:2: is not JSON: nothing may come after the array"),
        ("[\n1]", "log:2: record: is no object"),
        ('[{"a": ' + "1" * 5000 + "}]", "log:1: is not JSON: a number has too many digits"),
        ("[" * 100_000, "log:1: has too many brackets inside of each other"),
    ],
)
def test_what_is_no_array_of_objects_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(TraceProblems) as caught:
        list(records_of(text, 50))
    assert caught.value.problems == (problem,)


def test_a_record_that_is_refused_may_be_left_out() -> None:
    """Its line is that in which it begins."""
    lenience = Lenience(1)
    records = records_of('[\n{"a": 1},\n\n{"a":\n 2}\n]', lenience=lenience)
    for record in records:
        if record["a"] == 2:
            records.refuse("a", "is 2")
    assert lenience.left_out == ["log:4: a: is 2"]
