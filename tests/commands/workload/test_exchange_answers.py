"""fakedev-workload: what it makes of a server's answers, however they are cut into pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.commands.workload.exchange import AnswerReader, Verdict

OK = b'{"id":1,"ok":true,"workload":"w17"}\n'
ENDED = b'{"event":"ended","workload":"w17","name":"t","code":0,"text":"OK"}\n'
LIMIT = b'{"event":"ended","workload":"w17","code":1,"text":"Limit <memory> reached, terminated"}\r\n'
OTHER = b'{"event":"ended","workload":"w18","code":1,"text":"not ours"}\n'
NEWS = b'{"event":"reloaded"}\n'
REFUSED = b'{"id":1,"ok":false,"error":{"code":"unknown-name","message":"no device card9"}}\n'

CONVERSATIONS = [
    (OK + ENDED, ["w17", Verdict(0, "OK")]),
    (OK + LIMIT, ["w17", Verdict(1, "Limit <memory> reached, terminated")]),
    (OK + NEWS + b"\n" + OTHER + ENDED, ["w17", Verdict(0, "OK")]),
    (ENDED + OK, [Verdict(0, "OK")]),
    (b'{"ok":true}\n' + ENDED, ["", Verdict(0, "OK")]),
    (OK + b'{"event":"ended","code":3}\n', ["w17", Verdict(3, "")]),
    (REFUSED, [Verdict(1, "the server refuses: unknown-name no device card9")]),
    (b'{"ok":false}\n', [Verdict(1, "the server refuses: error")]),
    (b'{"ok":false,"error":"full"}\n', [Verdict(1, "the server refuses: error")]),
    (b"error busy too many connections\n", [Verdict(1, "the server refuses: busy too many connections")]),
    (b"0", [Verdict(0, "", bare=True)]),
    (b"1", [Verdict(1, "", bare=True)]),
    (b" \n1", [Verdict(1, "", bare=True)]),
    (OK + b"1\n", ["w17", Verdict(1, "this is no answer of a workload server: 1")]),
    (b"hello\n", [Verdict(1, "this is no answer of a workload server: hello")]),
    (b"{\n", [Verdict(1, "this is no answer of a workload server: {")]),
    (b"[]\n", [Verdict(1, "this is no answer of a workload server: []")]),
]


@pytest.mark.parametrize(("said", "news"), CONVERSATIONS)
def test_conversations(said: bytes, news: list[str | Verdict]) -> None:
    """Each conversation in one piece, and cut at every byte in turn."""
    assert AnswerReader().feed(said) == news
    for cut in range(len(said)):
        reader = AnswerReader()
        assert reader.feed(said[:cut]) + reader.feed(said[cut:]) == news


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_give_the_same_news_in_any_pieces(said: bytes, cuts: list[int]) -> None:
    """Nothing a server may say raises, and how it is cut does not matter; at most one verdict, the last."""
    whole, pieces = AnswerReader(), AnswerReader()
    news = whole.feed(said)
    bounds = [0, *sorted(cuts), len(said)]
    assert [item for a, b in itertools.pairwise(bounds) for item in pieces.feed(said[a:b])] == news
    assert [isinstance(item, Verdict) for item in news].count(True) <= 1
    assert whole.finish() == pieces.finish()


@pytest.mark.parametrize("code", ["null", "true", '"0"', "-1", "256", "1.0", "1e400"])
def test_a_strange_code_is_an_error(code: str) -> None:
    """No exit code can be made of these: 1, with what the server said."""
    line = f'{{"event":"ended","workload":"w17","code":{code},"text":"so"}}\n'
    (verdict,) = AnswerReader().feed(line.encode())
    assert isinstance(verdict, Verdict)
    assert verdict.code == 1
    assert verdict.text.endswith("and says: so")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", "the server closed the connection before it had answered"),
        (b" \n", "the server closed the connection before it had answered"),
        (NEWS, "the server closed the connection before it had answered"),
        (OK, "the server closed the connection while the workload ran"),
        (OK + ENDED[:20], "the server closed the connection while the workload ran"),
        (b"HTTP/1.1 400 Bad Request", "this is no answer of a workload server: HTTP/1.1 400 Bad Request"),
    ],
)
def test_a_lost_connection_is_an_error(said: bytes, text: str) -> None:
    """Whatever was said before, an end without a verdict is 1, and tells what was lost."""
    reader = AnswerReader()
    reader.feed(said)
    assert reader.finish() == Verdict(1, text)


def test_a_last_line_needs_no_newline() -> None:
    reader = AnswerReader()
    reader.feed(OK + ENDED.rstrip())
    assert reader.finish() == Verdict(0, "OK")


def test_answers_are_bounded() -> None:
    """A server that never ends its line does not fill the memory."""
    reader = AnswerReader()
    assert reader.feed(b"{" + b" " * 65000) == []
    (verdict,) = reader.feed(b" " * 1000)
    assert verdict == Verdict(1, "the server's answer is longer than 65536 bytes")


def test_deep_nesting_is_no_answer() -> None:
    """An answer that would exhaust the reader's stack is one that cannot be used."""
    (verdict,) = AnswerReader().feed(b'{"a":' + b"[" * 60000 + b"\n")
    assert isinstance(verdict, Verdict)
    assert verdict.text.startswith("this is no answer")
