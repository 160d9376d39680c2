"""Targets of fakedev-node: the node port, and what the program reads of it."""

from __future__ import annotations

import json
from typing import Final

from twisted.internet.task import Clock

from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.kubernetes.nodes.node_view import NODE_VERBS, to_fields
from fakedev.node.service_link import Conversation, ConversationOver
from tests.fuzz import seeds
from tests.fuzz.engine import Target
from tests.fuzz.port_targets import check_answer, pieces
from tests.support.kube.node_service import VIEW, MemoryNodeService, struck
from tests.support.wire.line_peers import connect

_ALLOCATION: Final = {"namespace": "n", "pod": "p", "container": "c", "resource": "nvidia.com/gpu", "ids": ["GPU-0"]}
_REQUESTS: Final = (
    b"attach a\n", b"attach a\nping\nrestarted\nregistered nvidia.com/gpu,x\nprepare n c u\nhelp attach\n",
    b"attach a\nreport '" + json.dumps([_ALLOCATION]).encode() + b"' more\nreport []\n",
    b"attach a\nprefer nvidia.com/gpu 2 available=GPU-0,GPU-1,GPU-2 must=GPU-1\nquit\n",
    b'{"op":"attach","node":"a","id":1}\n{"op":"report","allocations":[' + json.dumps(_ALLOCATION).encode() + b"]}\n",
    b'{"op":"attach","node":"a"}\n{"op":"prefer","resource":"nvidia.com/gpu","count":1,"available":["GPU-0"],"id":4}\n',
)  # fmt: skip
_ANSWERS: Final = (
    b'{"ok":true}\n', json.dumps({"id": 1, "ok": True, "view": to_fields(VIEW)}).encode() + b"\n",
    json.dumps({"event": "changed", "view": to_fields(struck(VIEW, 1))}).encode() + b"\n",
    b'{"id":2,"ok":true,"ids":["GPU-1"]}\n', b"error busy no room\n",
    b'{"id":3,"ok":false,"error":{"code":"unknown-name","message":"no claim"}}\n',
)  # fmt: skip


class NodePort:
    """A node port, and a good peer."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._service = MemoryNodeService(VIEW)
        self._factory = NodePortFactory(self._service, self._clock)
        self._good, self._transport = connect(self._factory)
        self._good.dataReceived(b"attach a\n")
        self._transport.clear()

    def run(self, data: bytes) -> str:
        """Send it on a new connection; the good peer is served and told meanwhile."""
        bad, transport = connect(self._factory)
        for piece in (*pieces(data), b"\n"):
            bad.dataReceived(piece)
            self._clock.advance(0)
        self._service.change(VIEW)
        self._clock.advance(0)
        assert self._transport.value() == b"changed a plugin=up devices=4 unhealthy=0\n"
        self._transport.clear()
        answer = transport.value()
        bad.connectionLost()
        assert len(self._service.attached) == 1
        if answer.startswith(b"{"):
            return check_answer(answer)
        return check_answer(b"".join(line for line in answer.splitlines(True) if not line.startswith(b"changed ")))

    def stop(self) -> None:
        """The good peer leaves."""
        self._good.connectionLost()
        assert self._service.attached == []


class Heard:
    """What the program makes of the service's bytes: the same, however they are cut."""

    def run(self, data: bytes) -> str:
        """Feed it at once, and in pieces."""
        whole, cut = self._heard([data]), self._heard(list(pieces(data)))
        assert whole == cut
        return whole[:500]

    def stop(self) -> None:
        """Nothing is left."""

    def _heard(self, segments: list[bytes]) -> str:
        conversation = Conversation("a")
        heard: list[object] = []
        try:
            for segment in segments:
                heard += conversation.feed(segment)
        except ConversationOver as over:
            return str(over)
        return repr(heard)


def _words() -> tuple[bytes, ...]:
    names = {verb.name for verb in NODE_VERBS}
    names |= {argument.name for verb in NODE_VERBS for argument in verb.arguments}
    names |= {"view", "resources", "numa-node", "unhealthy", "plugin-down", "driver", "event", "changed", "pool"}
    return (*(name.encode() for name in sorted(names)), *seeds.line_words())


TARGETS: Final = (
    Target("node port", NodePort, lambda: list(_REQUESTS), _words),
    Target("answers of the node port", Heard, lambda: list(_ANSWERS), _words),
)
