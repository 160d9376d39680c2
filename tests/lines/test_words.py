"""Lines of words: splitting, arguments, and errors."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.words import parse_words, quote_word, split_words


def parse(line):
    return parse_words(line, WORKLOAD_GRAMMAR)


def fault(line):
    with pytest.raises(ProtocolError) as caught:
        parse(line)
    assert not caught.value.fatal
    return caught.value.code, caught.value.text


@given(st.text("ab \t'\"\\=é", max_size=20))
def test_words_are_split_as_by_a_shell(text):
    """Quotes and backslashes mean what shlex says; what it refuses is refused."""
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ProtocolError):
            split_words(text)
    else:
        assert split_words(text) == expected


@given(st.text(max_size=20))
def test_a_quoted_word_is_one_word(text):
    assert split_words(quote_word(text)) == [text]


def test_run_with_everything():
    """Each argument of run becomes what the rules expect, with the names that JSON uses."""
    request = parse(
        b'run "my train" devices=card0,card1 profile=98:1:10,50 repeat=0 node=dgx-0 pod=a namespace=b container=c '
        b"limit=memory:1e9 limit=a:b:2 run-time-limit=5m ttl=1h detach\r"
    )
    assert request.verb == "run"
    assert request.id is None
    assert request.arguments == {
        "name": "my train",
        "devices": ["card0", "card1"],
        "profile": "98:1:10,50",
        "repeat": 0,
        "node": "dgx-0",
        "pod": "a",
        "namespace": "b",
        "container": "c",
        "limits": {"memory": 1e9, "a:b": 2.0},
        "run-time-limit": "5m",
        "ttl": "1h",
        "detach": True,
    }


@pytest.mark.parametrize(("text", "value"), [("90", 90.0), ("0.25", 0.25), ("0", 0.0), ("1e3", 1000.0), ("5m", "5m")])
def test_a_plain_number_is_a_duration_in_seconds(text, value):
    assert parse(f"run a devices=all profile=1 ttl={text}".encode()).arguments["ttl"] == value


def test_an_argument_with_a_place_may_be_named():
    assert parse(b"run name=a=b devices=all profile=1").arguments["name"] == "a=b"
    assert parse(b"stop workload=w1").arguments == {"workload": "w1"}


def test_an_alias_is_the_verb():
    assert parse(b"workloads").verb == "list"


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        (b"lst", "unknown-verb", "did you mean list?"),
        (b"HELP", "unknown-verb", "did you mean help?"),
        (b"zzz", "unknown-verb", "help lists the verbs"),
        (b"''", "unknown-verb", ""),
        (b"run", "bad-argument", "name: missing; usage: run NAME"),
        (b"run x devices=card0", "bad-argument", "profile: missing"),
        (b"run x device=card0", "bad-argument", "device: not an argument of run; did you mean devices?"),
        (b"run x devices=a devices=b", "bad-argument", "devices: given twice"),
        (b"run x name=y", "bad-argument", "name: given twice"),
        (b"run x repeat=two", "bad-argument", "repeat: must be a whole number, not 'two'"),
        (b"run x repeat=1.5", "bad-argument", "repeat:"),
        (b"run x repeat=1_0", "bad-argument", "repeat:"),
        ("run x repeat=\u0661".encode(), "bad-argument", "repeat:"),
        (b"run x limit=memory", "bad-argument", "limit: 'memory' is not NAME:NUMBER"),
        (b"run x limit=:1", "bad-argument", "limit:"),
        (b"run x limit=memory:-1e999", "bad-argument", "limit: '-1e999' is not a finite number"),
        (b"run x limit=memory:1e999", "bad-argument", "limit: '1e999' is not a finite number"),
        (b"run x limit=a:1 limit=a:2", "bad-argument", "limit: 'a' is given twice"),
        (b"run x detach detach", "bad-argument", "detach: given twice"),
        (b"run x detach=yes", "bad-argument", "detach: takes no value"),
        (b"run x detatch", "bad-argument", "unexpected 'detatch'; did you mean detach?"),
        (b"run x dgx-0/7", "bad-argument", "unexpected 'dgx-0/7'; did you mean devices=...?"),
        (b"run x devices=a/0 b/0", "bad-argument", "unexpected 'b/0'; usage: run NAME devices="),
        (b"list all", "bad-argument", "unexpected 'all': "),
        (b"stop", "bad-argument", "workload: missing"),
        (b'run "x', "bad-argument", "a quote is not closed, at character 5"),
        (b"run x\\", "bad-argument", "a backslash ends the line"),
        (b"run \xff\xfe", "bad-argument", "not UTF-8 at byte 5"),
    ],
)
def test_what_is_wrong_is_told(line, code, text):
    told = fault(line)
    assert told[0] == code
    assert text in told[1]


def test_numbers_that_are_the_rules_matter_pass():
    assert parse(b"run x devices=a profile=-1:0:-5 repeat=-1").arguments["repeat"] == -1


def test_nul_is_a_character():
    assert parse(b"run a\x00b devices=a profile=1").arguments["name"] == "a\0b"


@given(st.binary(max_size=60))
def test_any_line_is_understood_or_refused(line):
    try:
        parse(line)
    except ProtocolError as error:
        assert error.text


@pytest.mark.parametrize("hostile", [b'run "' + b"\\a" * 32000, b"run '" * 13000, b'run ""' * 10000, b"a=b " * 16000])
def test_hostile_lines(hostile):
    """64 KiB made to be slow is only one more bad line."""
    assert fault(hostile)[0] in ("bad-argument", "unknown-verb")
    assert len(fault(hostile)[1]) < 500
