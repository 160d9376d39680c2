"""What a frontend says to a backend, in bare JSON and in JSON lines, in any pieces."""

from __future__ import annotations

import json

import pytest

from fakedev.lines.grammar import ProtocolError
from fakedev.lines.json_lines import parse_json_line
from fakedev.queues.bare import BareReader, BareWork, parse_bare_work
from fakedev.queues.messages import (
    BackendJob,
    BackendMessage,
    Done,
    Refusal,
    Withdrawn,
    encode_request,
    parse_backend_message,
)
from fakedev.queues.verbs import QUEUE_BACKEND_GRAMMAR

#: Captured from the original frontend.
GIVEN = b'{\n\t"Error": "",\n\t"Args": [\n\t\t"0.1"\n\t],\n\t"Limit": 2.5,\n\t"Empty": false\n}'
EMPTY = b'{\n\t"Error": "Queue \'sleep\' is empty",\n\t"Args": null,\n\t"Limit": 0,\n\t"Empty": true\n}'
BRACES = b'{"args":["}{\\"","\\\\"],"limit":-1}'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (GIVEN, BareWork("", ("0.1",), 2.5, False)),
        (EMPTY, BareWork("Queue 'sleep' is empty", (), 0, True)),
        (b" \n" + BRACES + b"\n", BareWork("", ('}{"', "\\"), 0, False)),
    ],
)
def test_an_answer_may_come_in_any_pieces(message: bytes, expected: BareWork) -> None:
    for cut in range(len(message)):
        reader = BareReader(parse_bare_work)
        assert (reader.feed(message[:cut]) or reader.feed(message[cut:])) == expected
    reader = BareReader(parse_bare_work)
    answers = [answer for byte in message if (answer := reader.feed(bytes([byte])))]
    assert answers == [expected]


@pytest.mark.parametrize(
    ("message", "code", "part"),
    [
        (b"error busy too many connections\n", "busy", "too many connections"),
        (b"HTTP/1.1 400 Bad Request\r\n", "bad-argument", "not an answer of a queue's frontend: HTTP/1.1 400"),
        (b'{"Args": 7}', "bad-argument", "Args"),
        (b'{"Limit": "x"}', "bad-argument", "Limit"),
        (b"{]}", "bad-argument", "not JSON"),
        (b"x" * 5000, "bad-argument", "not an answer"),
        (b'{"a":"' + b"x" * 65536, "too-long", "65536"),
    ],
)
def test_what_is_no_answer_is_refused(message: bytes, code: str, part: str) -> None:
    for pieces in ([message], [message[place : place + 1] for place in range(len(message))]):
        reader = BareReader(parse_bare_work)
        with pytest.raises(ProtocolError, match=part) as caught:
            for piece in pieces:
                assert reader.feed(piece) is None
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("hello", {"node": "n", "pod": "p", "device": "card0"}),
        ("take", {"queue": "sleep", "wait": 2.5}),
        ("done", {"job": 7, "exit-code": 0, "run": 0.25}),
        ("fail", {"job": 7, "exit-code": 124, "run": 0.25, "timeout": 0.2, "reason": "ü \n"}),
        ("release", {"job": 7}),
    ],
)
def test_the_port_understands_every_request(verb: str, arguments: dict[str, object]) -> None:
    """What a backend says is what the grammar of the backend port knows."""
    line = encode_request(verb, 3, arguments)
    request = parse_json_line(line.rstrip(b"\n"), QUEUE_BACKEND_GRAMMAR)
    assert (request.verb, request.arguments, request.id) == (verb, arguments, 3)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"id": 1, "ok": True, "jobs": [{"job": 7, "queue": "q", "args": ["a"], "limit-seconds": 2.5}]},
            Done(1, (BackendJob(7, ("a",), 2.5),)),
        ),
        ({"id": 1, "ok": True, "jobs": []}, Done(1)),
        ({"id": 2, "ok": True, "outcome": "success"}, Done(2)),
        ({"id": 2, "ok": False, "error": {"code": "unknown-name", "message": "m"}}, Refusal(2, "unknown-name", "m")),
        ({"ok": False, "error": {"code": "busy", "message": "m"}}, Refusal(None, "busy", "m")),
        ({"event": "withdrawn", "job": 7, "reason": "cancelled"}, Withdrawn(7, "cancelled")),
        ({"event": "something", "job": 7}, None),
    ],
)
def test_lines_that_a_frontend_says(fields: dict[str, object], expected: BackendMessage | None) -> None:
    assert parse_backend_message(json.dumps(fields).encode()) == expected


def test_a_frontend_without_room_says_so_in_words() -> None:
    assert parse_backend_message(b"error busy too many connections") == Refusal(None, "busy", "too many connections")


@pytest.mark.parametrize(
    "line",
    [b"", b"1", b"{", b'{"ok":true}', b'{"id":1,"ok":true,"jobs":[7]}', b'{"Error":"Unknown"}', b'{"id":1,"ok":false}'],
)
def test_lines_that_no_frontend_says(line: bytes) -> None:
    """The other side is something else, an original frontend for one."""
    with pytest.raises(ProtocolError):
        parse_backend_message(line)
