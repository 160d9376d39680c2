"""Answers and news as words and as JSON, and the help that is made from the grammar."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.verbs import WORKLOAD_GRAMMAR, WORKLOAD_VERBS, workload_ended
from fakedev.lines.framing import Dialect
from fakedev.lines.grammar import CODES, ProtocolError
from fakedev.lines.json_lines import (
    Notification,
    Reply,
    bare_digit,
    encode_error,
    encode_notification,
    encode_reply,
    printable,
)
from fakedev.lines.words import split_words


@pytest.mark.parametrize(
    ("reply", "words", "data"),
    [
        (Reply(), b"ok\n", {}),
        (Reply("w17", data={"workload": "w17"}), b"ok w17\n", {"workload": "w17"}),
        (Reply("12 s"), b"ok 12 s\n", {"text": "12 s"}),
        (Reply(lines=[]), b"ok 0 lines\n", {"lines": []}),
        (Reply(lines=["a", "b c"]), b"ok 2 lines\na\nb c\n", {"lines": ["a", "b c"]}),
        (Reply(lines=["a"], data={"devices": [1]}), b"ok 1 lines\na\n", {"devices": [1]}),
    ],
)
def test_good_answers(reply, words, data):
    assert encode_reply(reply, Dialect.WORDS) == words
    assert json.loads(encode_reply(reply, Dialect.JSON_LINES)) == {"ok": True, **data}
    assert json.loads(encode_reply(reply, Dialect.JSON_LINES, 0)) == {"id": 0, "ok": True, **data}


def test_errors():
    error = ProtocolError("unknown-name", "no 'a'")
    assert encode_error(error, Dialect.WORDS) == b"error unknown-name no 'a'\n"
    assert encode_error(error, Dialect.JSON_LINES, 1) == (
        b'{"id":1,"ok":false,"error":{"code":"unknown-name","message":"no \'a\'"}}\n'
    )
    with pytest.raises(ValueError, match="not one of the codes"):
        ProtocolError("oops", "x")
    assert len(set(CODES)) == 9


def test_news():
    """A workload's end, told in both ways; a name with spaces is one word."""
    news = workload_ended("w17", "my train", 1, "Limit memory reached, terminated")
    assert encode_notification(news, Dialect.WORDS) == b'ended "my train" 1 Limit memory reached, terminated\n'
    assert json.loads(encode_notification(news, Dialect.JSON_LINES)) == {
        "event": "ended",
        "workload": "w17",
        "name": "my train",
        "code": 1,
        "text": "Limit memory reached, terminated",
    }


def test_bare_digits():
    assert (bare_digit(0), bare_digit(1)) == (b"0", b"1")


@given(st.text() | st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zl", "Zp"])))
def test_a_text_is_one_line_in_every_answer(text):
    """Whatever peers put into names, an answer is one line, and nothing in it moves a cursor."""
    error = ProtocolError("internal", text)
    answers = [
        encode_reply(Reply("x" + text), Dialect.WORDS),
        encode_error(error, Dialect.WORDS),
        encode_error(error, Dialect.JSON_LINES, text),
        encode_reply(Reply(text), Dialect.JSON_LINES),
        encode_notification(Notification(text, {"name": text}), Dialect.JSON_LINES),
        encode_notification(Notification(text, {}), Dialect.WORDS),
    ]
    for answer in answers:
        assert len(answer.decode().splitlines()) == 1 or answer == b"\n"
        assert answer.endswith(b"\n")
        assert answer[:-1].decode().isprintable()


def test_escapes():
    assert printable("é\n\r\t\0\x1b\x9b\u2028\ud800\U000e0001") == "é\\n\\r\\t\\x00\\x1b\\x9b\\u2028\\ud800\\U000e0001"


def test_help_has_every_verb_and_every_argument():
    lines = WORKLOAD_GRAMMAR.help_lines()
    assert [line.split()[0] for line in lines] == [verb.name for verb in WORKLOAD_VERBS]
    for verb in WORKLOAD_VERBS:
        text = " ".join(" ".join(WORKLOAD_GRAMMAR.help_lines(verb.name)).split())
        assert verb.summary in text
        for argument in verb.arguments:
            assert argument.summary in text
    assert "detach" in "\n".join(WORKLOAD_GRAMMAR.help_lines("run"))
    assert WORKLOAD_GRAMMAR.help_lines("workloads") == WORKLOAD_GRAMMAR.help_lines("list")


def test_help_lines_print():
    for name in ("", *(verb.name for verb in WORKLOAD_VERBS)):
        assert all(line.isprintable() and len(line) <= 110 for line in WORKLOAD_GRAMMAR.help_lines(name))


def test_help_of_an_unknown_verb():
    with pytest.raises(ProtocolError, match="did you mean stop"):
        WORKLOAD_GRAMMAR.help_lines("stp")


def test_usage_in_a_shell():
    for verb in WORKLOAD_VERBS:
        assert shlex.split(verb.usage) == split_words(verb.usage)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.dictionaries(st.text(), SCALARS | st.lists(SCALARS)))
def test_any_data_is_one_line_of_ascii(data):
    """A program reads what was said; a terminal meets no character that does something."""
    line = encode_notification(Notification("", data), Dialect.JSON_LINES)
    assert json.loads(line) == data
    assert line.isascii()
    assert line.decode()[:-1].isprintable()
    assert line.endswith(b"\n")


def test_what_json_has_no_word_for_is_a_fault():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_notification(Notification("", {"a": float("nan")}), Dialect.JSON_LINES)
