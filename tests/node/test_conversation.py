"""What fakedev-node hears from the service, in pieces of any size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.kubernetes.nodes.node_view import MAX_VIEW_BYTES, Answer, Refusal, to_fields
from fakedev.node.service_link import (
    ANSWER_SECONDS,
    SILENT_SECONDS,
    Conversation,
    ConversationOver,
    Silence,
    ViewChanged,
)
from tests.support.kube.node_service import VIEW, MemoryNodeService, struck
from tests.support.wire.line_peers import connect

ATTACHED = json.dumps({"id": 1, "ok": True, "view": to_fields(VIEW)}).encode() + b"\n"
CHANGED = json.dumps({"event": "changed", "view": to_fields(struck(VIEW, 1))}).encode() + b"\n"
SAID = (
    b'{"ok":true}\n' + ATTACHED + b'{"event":"later","x":1}\n{"id":2,"ok":true,"ids":["GPU-1"]}\n'
    b'{"id":3,"ok":false,"error":{"code":"unknown-name","message":"no claim"}}\n' + CHANGED
)
HEARD = [
    ViewChanged(VIEW),
    Answer(2, {"ids": ["GPU-1"]}),
    Refusal(3, "unknown-name", "no claim"),
    ViewChanged(struck(VIEW, 1)),
]


@given(st.lists(st.integers(0, len(SAID)), max_size=6))
def test_in_any_segments(cuts: list[int]) -> None:
    cuts.sort()
    conversation = Conversation("a", "secret")
    heard = []
    for begin, end in zip([0, *cuts], [*cuts, len(SAID)], strict=True):
        heard += conversation.feed(SAID[begin:end])
    assert heard == HEARD
    assert conversation.is_attached


def test_byte_by_byte() -> None:
    conversation = Conversation("a")
    assert [each for byte in SAID for each in conversation.feed(bytes([byte]))] == HEARD


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"error busy too many\n", "it refuses: busy: too many"),
        (
            b'{"ok":false,"error":{"code":"denied","message":"the token is wrong"}}\n',
            "it refuses: denied: the token is wrong",
        ),
        (
            b'{"id":1,"ok":false,"error":{"code":"unknown-name","message":"node: no a"}}\n',
            "it refuses: unknown-name: node: no a",
        ),
        (
            b'{"id":1,"ok":true,"view":{}}\n',
            "it does not speak the protocol of the node port: view.node: missing",
        ),
        (
            b"HTTP/1.1 400\n",
            "it does not speak the protocol of the node port: not JSON: Expecting value, at character 1",
        ),
        (b"x" * (MAX_VIEW_BYTES + 1), f"a line of it is longer than {MAX_VIEW_BYTES} bytes"),
    ],
)
def test_the_end(said: bytes, reason: str) -> None:
    conversation = Conversation("a")
    with pytest.raises(ConversationOver) as over:
        conversation.feed(said)
    assert str(over.value) == reason
    assert not conversation.is_attached or b"view" in said


def test_with_the_port() -> None:
    service = MemoryNodeService(VIEW)
    peer, transport = connect(NodePortFactory(service, Clock(), tokens=["secret"]))
    conversation = Conversation("a", "secret")
    peer.dataReceived(conversation.opening())
    assert conversation.feed(transport.value()) == [ViewChanged(VIEW)]
    transport.clear()
    number, line = conversation.request("restarted", {})
    peer.dataReceived(line)
    assert conversation.feed(transport.value()) == [Answer(number, {})]
    assert service.restarts == ["a"]


def test_a_service_that_is_silent() -> None:
    """Gets a ping, and the connection is given up when that is not answered; any byte counts as an answer."""
    silence = Silence(100.0)
    assert silence.seconds_left(104.0) == SILENT_SECONDS - 4
    assert not silence.must_ping(104.0)
    pinged = 100.0 + SILENT_SECONDS
    assert silence.must_ping(pinged)
    assert not silence.must_ping(pinged + 1)
    assert silence.seconds_left(pinged + 1) == ANSWER_SECONDS - 1
    silence.heard(pinged + 2)
    assert silence.seconds_left(pinged + 2) == SILENT_SECONDS
    again = pinged + 2 + SILENT_SECONDS
    assert silence.must_ping(again)
    with pytest.raises(ConversationOver, match="it does not answer"):
        silence.seconds_left(again + ANSWER_SECONDS)
