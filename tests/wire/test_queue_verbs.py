"""Words and JSON lines of the queue ports."""

from __future__ import annotations

import pytest

from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.json_lines import parse_json_line
from fakedev.wire.queue_verbs import (
    QUEUE_BACKEND_GRAMMAR,
    QUEUE_CLIENT_GRAMMAR,
    job_withdrawn,
    request_ended,
    result_text,
)
from fakedev.wire.replies import encode_notification
from fakedev.wire.words import parse_words

GRAMMARS = {"client": QUEUE_CLIENT_GRAMMAR, "backend": QUEUE_BACKEND_GRAMMAR}


@pytest.mark.parametrize(
    ("port", "line", "verb", "arguments"),
    [
        ("client", b"put sleep 0.5", "put", {"queue": "sleep", "args": ["0.5"]}),
        ("client", b"put sleep", "put", {"queue": "sleep"}),
        ("client", b"put sleep limit=2s 'b c' -d", "put", {"queue": "sleep", "limit": "2s", "args": ["b c", "-d"]}),
        ("client", b"put sleep a limit=2s b", "put", {"queue": "sleep", "limit": "2s", "args": ["a", "b"]}),
        ("client", b"put sleep -- limit=2s -- x", "put", {"queue": "sleep", "args": ["limit=2s", "--", "x"]}),
        ("client", b"put sleep answer=ended 1", "put", {"queue": "sleep", "answer": "ended", "args": ["1"]}),
        ("client", b"cancel 7", "cancel", {"job": 7}),
        ("backend", b"take sleep", "take", {"queue": "sleep"}),
        ("backend", b"take sleep wait=30s count=4", "take", {"queue": "sleep", "wait": "30s", "count": 4}),
        ("backend", b"done 7 0", "done", {"job": 7, "exit-code": 0}),
        ("backend", b"done 7 -1 run=250ms", "done", {"job": 7, "exit-code": -1, "run": "250ms"}),
        ("backend", b"fail 7 1 reason", "fail", {"job": 7, "exit-code": 1, "reason": "reason"}),
        ("backend", b"fail 7 1 no  such file timeout=2s -- a=b", "fail",
         {"job": 7, "exit-code": 1, "reason": "no such file a=b", "timeout": "2s"}),
        ("backend", b"fail 7 1", "fail", {"job": 7, "exit-code": 1}),
        ("backend", b"bury 7 it crashes", "bury", {"job": 7, "reason": "it crashes"}),
        ("backend", b"hello node=a pod=b device=c", "hello", {"node": "a", "pod": "b", "device": "c"}),
        ("backend", b"kick sleep 10", "kick", {"queue": "sleep", "count": 10}),
        ("backend", b"pause sleep 1m", "pause", {"queue": "sleep", "duration": "1m"}),
        ("backend", b"drain", "drain", {}),
        ("backend", b"resume sleep", "resume", {"queue": "sleep"}),
        ("backend", b"list sleep", "list", {"queue": "sleep"}),
    ],
)  # fmt: skip
def test_words(port, line, verb, arguments):
    """Lines as people write them."""
    request = parse_words(line, GRAMMARS[port])
    assert (request.verb, request.arguments) == (verb, arguments)


@pytest.mark.parametrize(
    ("port", "line", "text"),
    [
        ("client", b"put", "queue: missing; usage: put QUEUE [ARG...] [limit=DURATION]"),
        ("client", b"put sleep size=5", "size: not an argument of put; to give it as ARG, write -- first"),
        ("client", b"put sleep limt=2s", "limt: not an argument of put; did you mean limit?; to give it"),
        ("client", b"put sleep args=x", "args: not an argument of put"),
        ("client", b"put sleep a\0b", "args[0]: contains a NUL"),
        ("client", b"cancel seven", "job: must be a whole number, not 'seven'"),
        ("client", b"take sleep", "no verb 'take'"),
        ("backend", b"done 7", "exit-code: missing; usage: done ID EXITCODE"),
        ("backend", b"done 7 0 well", "unexpected 'well'"),
        ("backend", b"take sleep --", "unexpected '--'"),
    ],
)
def test_what_is_wrong_is_told(port, line, text):
    """Each fault has a text that names the argument."""
    with pytest.raises(ProtocolError) as caught:
        parse_words(line, GRAMMARS[port])
    assert text in caught.value.text


@pytest.mark.parametrize(
    ("value", "fine"),
    [('["a","b=c"]', True), ("[]", True), ('"a"', False), ("[1]", False), ('["a\\u0000"]', False), ("{}", False)],
)
def test_arguments_in_json(value, fine):
    """A list of texts that a command can be given, and nothing else."""
    line = f'{{"op":"put","id":1,"queue":"sleep","args":{value}}}'.encode()
    if fine:
        assert parse_json_line(line, QUEUE_CLIENT_GRAMMAR).verb == "put"
        return
    with pytest.raises(ProtocolError, match="args: must be a list of texts without NUL") as caught:
        parse_json_line(line, QUEUE_CLIENT_GRAMMAR)
    assert caught.value.request_id == 1


def test_results_and_news():
    """The keys of JSON, in words without texts that are empty."""
    result = {
        "job": 7, "outcome": "failure", "exit-code": 3, "error": "exit code 3", "timeout-seconds": 0.0,
        "run-seconds": 0.5, "wait-seconds": 1e-7, "pod": "", "node": "n", "device": "",
    }  # fmt: skip
    words = '7 failure exit-code=3 error="exit code 3" timeout-seconds=0 run-seconds=0.5 wait-seconds=0 node=n'
    assert result_text(result) == words
    assert encode_notification(request_ended(result), Dialect.WORDS) == f"ended {words}\n".encode()
    assert request_ended(result).data == {"event": "ended", **result}
    assert encode_notification(job_withdrawn(7, "timeout"), Dialect.WORDS) == b"withdrawn 7 timeout\n"
    assert job_withdrawn(7, "timeout").data == {"event": "withdrawn", "job": 7, "reason": "timeout"}
