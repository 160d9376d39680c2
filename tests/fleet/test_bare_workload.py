"""Bare workloads: what the original's program sends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.verbs import BareWorkload, parse_bare_workload
from fakedev.lines.bare_fields import MAX_NOTES
from fakedev.lines.grammar import ProtocolError
from tests.support.paths import ORIGINALS


def parse(value):
    """A workload from a value, written as the original writes."""
    return parse_bare_workload(json.dumps(value, indent="\t").encode())


def test_what_the_original_sends():
    """Captured from the original's program."""
    workload = parse(
        {
            "Name": "load-10-5min",
            "Repeat": 2,
            "Profile": [
                {"Load": 10, "Fluctuation": 1, "Seconds": 300},
                {"Load": 0, "Fluctuation": 0, "Seconds": 5},
            ],
            "Devices": ["card0", "card1"],
            "Limits": None,
        }
    )
    assert workload.notes == ()
    assert workload.arguments == {
        "name": "load-10-5min",
        "repeat": 2,
        "profile": [[10, 1, 300], [0, 0, 5]],
        "devices": ["card0", "card1"],
        "limits": {},
    }


@pytest.mark.parametrize("name", ["load-10.json", "load-10-exact.json", "load-40-loop-60s.json", "load-50-30s.json"])
def test_the_originals_own_files(name):
    """The original's example files are understood without a note."""
    if not ORIGINALS.is_dir():
        pytest.skip("the originals' files are not beside this checkout")
    workload = parse_bare_workload((ORIGINALS / name).read_bytes())
    assert workload.arguments["profile"]
    assert workload.notes == ()


def test_letter_case_does_not_matter_and_the_last_one_counts():
    """As Go reads JSON."""
    workload = parse_bare_workload(b'{"NAME":"a","name":"b","Name":"c","NAME":"d","profile":[{"lOAD":5}]}')
    assert (workload.arguments["name"], workload.arguments["profile"]) == ("d", [[5, 0, 0]])


def test_what_is_missing_is_empty_or_0():
    """Everything may be missing, or null."""
    nothing = BareWorkload({"name": "", "repeat": 0, "profile": [], "devices": [], "limits": {}})
    assert parse({}) == nothing
    assert parse(dict.fromkeys(("Name", "Repeat", "Profile", "Devices", "Limits"))) == nothing
    assert parse({"Profile": [{}]}).arguments["profile"] == [[0, 0, 0]]


def test_unknown_names_are_noted():
    """They are ignored, and logged."""
    workload = parse({"Name": "a", "Foo": 1, "op2": {}, "Profile": [{"Load": 1, "Bar": 2}]})
    assert workload.notes == ("Foo: unknown, ignored", "op2: unknown, ignored", "Profile[0].Bar: unknown, ignored")


def test_notes_are_few():
    """A message with thousands of unknown names does not fill the log."""
    notes = parse({str(number): 1 for number in range(1000)}).notes
    assert len(notes) == MAX_NOTES + 1 and notes[-1] == "further fields: unknown, ignored"


def test_numbers_that_are_the_rules_matter_pass():
    """Negative and large loads are numbers here."""
    workload = parse({"Repeat": -1, "Profile": [{"Load": 101, "Fluctuation": -1.5, "Seconds": -1}]})
    assert (workload.arguments["repeat"], workload.arguments["profile"]) == (-1, [[101, -1.5, -1]])


def test_limits():
    """Metrics with numbers, under their own letter case."""
    assert parse({"Limits": {"Memory": 5, "power": 1.5}}).arguments["limits"] == {"Memory": 5.0, "power": 1.5}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"{", "not JSON"),
        (b"[1]", "must be a JSON object"),
        (b'{"Name":1}', "Name: must be a text, not a number"),
        (b'{"Repeat":"2"}', "Repeat: must be a whole number"),
        (b'{"Repeat":1.5}', "Repeat: must be a whole number"),
        (b'{"Repeat":true}', "Repeat: must be a whole number"),
        (b'{"Profile":{}}', "Profile: must be a list, not an object"),
        (b'{"Profile":[5]}', "Profile[0]: must be an object, not a number"),
        (b'{"Profile":[{},{"Load":"5"}]}', "Profile[1].Load: must be a number, not a text"),
        (b'{"Profile":[{"Seconds":true}]}', "Profile[0].Seconds: must be a number, not true or false"),
        (b'{"Profile":[{"Load":NaN}]}', "NaN"),
        (b'{"Profile":[{"Load":1e999}]}', "1e999"),
        (b'{"Profile":[{"Load":1' + b"0" * 400 + b"}]}", "Profile[0].Load: is too large"),
        (b'{"Devices":"card0"}', "Devices: must be a list, not a text"),
        (b'{"Devices":[1]}', "Devices[0]: must be a text"),
        (b'{"Limits":[]}', "Limits: must be metrics"),
        (b'{"Limits":{"a":"b"}}', "Limits.a: must be a number"),
        (b'{"Name":"\\udfff"}', "half a surrogate pair"),
        (b'{"Name":"\xff"}', "not UTF-8"),
        (b'{"Name":"a\x00b"}', "not JSON"),
    ],
)
def test_what_is_wrong_is_told(message, text):
    """Each mistake is a bad argument with a text that names the field."""
    with pytest.raises(ProtocolError) as caught:
        parse_bare_workload(message)
    assert caught.value.code == "bad-argument"
    assert text in caught.value.text


@given(st.binary(max_size=80).map(lambda inner: b"{" + inner + b"}"))
def test_any_object_is_understood_or_refused(message):
    """No bytes make anything but a workload or an error."""
    try:
        parse_bare_workload(message)
    except ProtocolError as error:
        assert error.text
