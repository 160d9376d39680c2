"""Messages of the node port, as fakedev-node reads and writes them."""

from __future__ import annotations

import json

import pytest

from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import MAX_BYTES
from fakedev.wire.node_messages import Answer, Notice, Refusal, parse_node_message, report_parts
from fakedev.wire.queue_messages import encode_request


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id":3,"ok":true,"view":{"node":"a"}}', Answer(3, {"view": {"node": "a"}})),
        (b'{"ok":true}', Answer(None, {})),
        (b'{"event":"changed","view":{}}', Notice("changed", {"view": {}})),
        (b'{"id":3,"ok":false,"error":{"code":"full","message":"no"}}', Refusal(3, "full", "no")),
        (b'{"ok":false,"error":{"code":"denied","message":"no"}}', Refusal(None, "denied", "no")),
        (b"error busy 10000 connections are open", Refusal(None, "busy", "10000 connections are open")),
    ],
)
def test_each_kind(line: bytes, message: object) -> None:
    """Answers, errors and notices."""
    assert parse_node_message(line) == message


@pytest.mark.parametrize("line", [b"", b"ok", b"[]", b'{"ok":false}', b'{"id":1}', b"HTTP/1.1 400 Bad Request"])
def test_other_protocols_are_refused(line: bytes) -> None:
    """What is none of this protocol."""
    with pytest.raises(ProtocolError):
        parse_node_message(line)


@pytest.mark.parametrize("count", [0, 1, 400, 1000])
def test_the_parts_of_a_report_fit_into_lines(count: int) -> None:
    """Together they are the list, and all but the last say that more follow."""
    whole = [
        {"namespace": "n" * 60, "pod": f"pod-{number}", "container": "c", "resource": "r", "ids": ["i" * 63]}
        for number in range(count)
    ]
    parts = list(report_parts(whole))
    assert [each for part in parts for each in part["allocations"]] == whole
    assert [part.get("more", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    lines = [encode_request("report", 123456789, part) for part in parts]
    assert max(map(len, lines)) <= MAX_BYTES
    assert len(parts) <= 1 + sum(map(len, map(json.dumps, whole))) // (MAX_BYTES - 1000)
