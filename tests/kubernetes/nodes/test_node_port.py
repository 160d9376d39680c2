"""The node port: views, notices, reports in parts, choices of devices."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

from fakedev.commands.main import main
from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.kubernetes.nodes.node_view import (
    MAX_ALLOCATIONS,
    MAX_PARTS,
    Allocation,
    NodeView,
    PreparedDevice,
    ViewedSlot,
)
from fakedev.lines.tokens import token_of
from tests.support.examples import examples
from tests.support.kube.node_service import GPU, SLOTS, VIEW, MemoryNodeService, struck
from tests.support.wire.line_peers import connect

ALLOCATION = {"namespace": "n", "pod": "p", "container": "c", "resource": GPU, "ids": ["GPU-0"]}
WORDS = (
    b"attach a\nping\nreport '" + json.dumps([ALLOCATION]).encode() + b"'\nprefer nvidia.com/gpu 2 "
    b"available=GPU-0,GPU-1,GPU-2 must=GPU-1\nattach b\nrestarted\nprepare n c u\nhelp prefer\nquit\nping\n"
)
LINES = b"".join(
    json.dumps(each).encode() + b"\n"
    for each in (
        {"op": "attach", "id": 1, "node": "a"},
        {"op": "report", "id": 2, "allocations": [ALLOCATION], "more": True},
        {"op": "report", "id": 3, "allocations": [ALLOCATION]},
        {"op": "prefer", "id": 4, "resource": GPU, "count": 1, "available": ["GPU-9"]},
        {"op": "prepare", "id": 5, "namespace": "n", "claim": "c", "uid": "u"},
        {"op": "quit", "id": 6},
    )
)


class Port:
    """A port in memory, and one peer."""

    def __init__(self, *views: NodeView, **options: object) -> None:
        self.clock = Clock()
        self.service = MemoryNodeService(*(views or (VIEW,)))
        self.factory = NodePortFactory(self.service, self.clock, **options)
        self.peer, self.transport = connect(self.factory)

    def say(self, line: str | bytes) -> list[str]:
        """The lines that a line is answered with."""
        self.transport.clear()
        self.peer.dataReceived((line.encode() if isinstance(line, str) else line) + b"\n")
        self.clock.advance(0)
        return self.transport.value().decode().splitlines()

    def ask(self, verb: str, **fields: object) -> dict[str, object]:
        """The answer to a request in JSON."""
        (answer,) = self.say(json.dumps({"op": verb, **fields}))
        return json.loads(answer)

    def error(self, verb: str, **fields: object) -> str:
        """The code and the text of the error that a request is answered with."""
        error = self.ask(verb, **fields)["error"]
        return f"{error['code']} {error['message']}"

    def notices(self) -> list[str]:
        """The lines that have come since the last answer."""
        self.clock.advance(0)
        lines = self.transport.value().decode().splitlines()
        self.transport.clear()
        return lines


def test_a_view_and_its_changes() -> None:
    port = Port(replace(VIEW, driver="gpu.nvidia.com"))
    view = port.ask("attach", id=1, node="a")["view"]
    assert view["driver"] == "gpu.nvidia.com"
    assert view["resources"][GPU][2] == {"id": "GPU-2", "numa-node": 1}
    port.transport.clear()
    port.service.change(replace(struck(VIEW, 2), is_plugin_down=True))
    (notice,) = map(json.loads, port.notices())
    assert notice["event"] == "changed"
    assert notice["view"]["plugin-down"] is True
    assert notice["view"]["resources"][GPU][2] == {"id": "GPU-2", "numa-node": 1, "unhealthy": "XID 79"}


def test_words_for_people() -> None:
    """A line for the plugins, and one for each device; a notice is one line."""
    port = Port(struck(VIEW, 1))
    assert port.say("attach a") == [
        "ok 5 lines",
        "plugin=up driver=",
        "nvidia.com/gpu GPU-0 healthy numa-node=0",
        'nvidia.com/gpu GPU-1 unhealthy numa-node=0 reason="XID 79"',
        "nvidia.com/gpu GPU-2 healthy numa-node=1",
        "nvidia.com/gpu GPU-3 healthy numa-node=1",
    ]
    port.transport.clear()
    port.service.change(replace(struck(VIEW, 2), is_plugin_down=True))
    assert port.notices() == ["changed a plugin=down devices=4 unhealthy=1"]
    port.service.claims["n", "c", "u"] = [PreparedDevice("gpu", "a", "gpu-0")]
    assert port.say("prepare n c u") == ["ok 1 lines", "gpu a gpu-0"]


def test_attach_again() -> None:
    port = Port()
    port.ask("attach", node="a")
    port.service.views["a"] = struck(VIEW, 0)
    assert port.ask("attach", node="a")["view"]["resources"][GPU][0]["unhealthy"] == "XID 79"
    assert len(port.service.attached) == 1


@pytest.mark.parametrize("verb", ["restarted", "registered", "report", "reserve", "prefer", "prepare"])
def test_the_node_comes_first(verb: str) -> None:
    fields = {
        "report": {"allocations": []},
        "reserve": {"ids": []},
        "prefer": {"resource": GPU, "count": 0, "available": []},
        "prepare": {"namespace": "n", "claim": "c", "uid": "u"},
    }
    text = "bad-argument name the node of this connection first: attach NODE"
    assert Port().error(verb, **fields.get(verb, {})) == text


def test_a_node_that_is_not_simulated() -> None:
    port = Port()
    assert port.error("attach", node="z") == "unknown-name node: no 'z' is simulated"
    assert port.error("restarted").startswith("bad-argument name the node")
    assert port.ask("attach", node="a")["ok"] is True
    assert port.error("attach", node="b") == "bad-argument node: this connection belongs to a; open another one"


def test_a_report_in_parts() -> None:
    port = Port()
    port.ask("attach", node="a")
    assert port.ask("report", id=7, allocations=[ALLOCATION], more=True) == {"id": 7, "ok": True, "allocations": 1}
    assert port.service.reports == {}
    assert port.ask("report", allocations=[ALLOCATION | {"pod": "q"}])["allocations"] == 2
    assert port.service.reports == {
        "a": [[Allocation("n", "p", "c", GPU, ("GPU-0",)), Allocation("n", "q", "c", GPU, ("GPU-0",))]]
    }
    assert port.ask("report", allocations=[], starting=["GPU-1"])["allocations"] == 0
    assert (port.service.reports["a"][-1], port.service.starting["a"]) == ([], ["GPU-1"])


def test_devices_are_reserved() -> None:
    port = Port()
    port.service.claimed = {"GPU-2"}
    port.ask("attach", node="a")
    assert port.ask("reserve", ids=["GPU-0", "GPU-1"])["ok"]
    assert port.error("reserve", ids=["GPU-1", "GPU-2"]).startswith("busy ids: ")
    assert port.service.reserved == ["GPU-0", "GPU-1"]


def test_the_limits_of_a_report() -> None:
    port = Port()
    port.ask("attach", node="a")
    for _ in range(MAX_PARTS - 1):
        port.ask("report", allocations=[ALLOCATION], more=True)
    text = "full allocations: a report has at most"
    assert port.error("report", allocations=[ALLOCATION], more=True).startswith(text)
    small = {"namespace": "n", "pod": "p", "container": "c", "resource": "r"}
    for _ in range(MAX_ALLOCATIONS // 500):
        assert port.ask("report", allocations=[small] * 500, more=True)["ok"] is True
    assert port.error("report", allocations=[small]).startswith("full ")
    assert port.service.reports == {}
    assert port.ask("report", allocations=[ALLOCATION])["allocations"] == 1


def test_a_wrong_report() -> None:
    port = Port()
    port.ask("attach", node="a")
    port.ask("report", allocations=[ALLOCATION], more=True)
    assert port.error("report", allocations=[{}]) == "bad-argument allocations[0].namespace: missing"
    assert port.error("report", allocations={"a": 1}) == "bad-argument allocations: must be a list"
    assert port.ask("report", allocations=[])["allocations"] == 0
    words = Port()
    words.say("attach a")
    assert words.say("report nonsense")[0].startswith("error bad-argument not JSON")
    assert words.say("ping") == ["ok"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"count": 4}, "bad-argument count: must be 1 to 3"),
        ({"count": 0}, "bad-argument count: must be 1 to 3"),
        ({"must": ["GPU-3"]}, "bad-argument must: has a device that is not available"),
        ({"must": ["GPU-0", "GPU-0"]}, "bad-argument available: a device is there twice"),
        ({"available": ["GPU-0", "GPU-9"]}, "unknown-name available: a has no GPU-9"),
    ],
)
def test_an_impossible_choice(fields: dict[str, object], text: str) -> None:
    port = Port()
    port.ask("attach", node="a")
    good = {"resource": GPU, "count": 2, "available": ["GPU-0", "GPU-1", "GPU-2"], "must": ["GPU-0"]}
    assert port.error("prefer", **(good | fields)) == text


def test_a_connection_that_waits_is_not_closed_for_new_ones() -> None:
    port = Port(max_connections=1)
    port.ask("attach", node="a")
    assert port.factory.make_room() is False
    idle = Port(max_connections=1)
    idle.ask("ping")
    assert idle.factory.make_room() is True


def test_tokens() -> None:
    port = Port(tokens=["secret"])
    assert port.say("attach a") == ["error denied this port requires a token first: auth TOKEN"]
    assert port.transport.disconnecting
    port = Port(tokens=["secret"])
    assert port.say("auth secret") == ["ok"]
    assert port.say("attach a")[0] == "ok 5 lines"


def test_bare_json_is_refused() -> None:
    port = Port()
    (answer,) = port.say('{"node":"a"}')
    assert json.loads(answer)["error"] == {"code": "bad-argument", "message": "op: missing"}
    assert port.transport.disconnecting


def test_a_view_that_is_too_long(log_events: list[LogEvent]) -> None:
    """Is refused; as a notice it is left out, and the log says so."""
    many = NodeView("a", {GPU: tuple(ViewedSlot(f"GPU-{number:059}") for number in range(16_000))})
    port = Port(many)
    assert port.error("attach", node="a").startswith("full the view of a is longer than 1048576 bytes")
    assert port.service.attached == []
    port.service.views["a"] = VIEW
    port.ask("attach", node="a")
    port.transport.clear()
    port.service.change(many)
    assert port.notices() == []
    (told,) = [text for text in map(formatEvent, log_events) if text and "is not told" in text]
    assert told == "the view of a is longer than 1048576 bytes: its fakedev-node is not told of it"


def played(*segments: bytes) -> tuple[bytes, bool]:
    """What a session that arrives in these segments is answered, and whether it was closed."""
    port = Port(VIEW, NodeView("b", {GPU: SLOTS}))
    for segment in segments:
        port.peer.dataReceived(segment)
        port.clock.advance(0)
    return port.transport.value(), port.transport.disconnecting


@pytest.mark.parametrize("said", [WORDS, LINES], ids=["words", "JSON lines"])
def test_byte_by_byte(said: bytes) -> None:
    whole = played(said)
    assert whole[0].count(b"\n") >= 6
    assert whole[1] is True
    assert played(*(said[place : place + 1] for place in range(len(said)))) == whole


@pytest.mark.parametrize("said", [WORDS, LINES], ids=["words", "JSON lines"])
@settings(max_examples=examples(20))
@given(data=st.data())
def test_in_any_segments(said: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=6)))
    segments = [said[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    assert played(*segments) == played(said)


def test_the_token_of_a_node() -> None:
    """It is derived from the port's: with it a peer has one node, and with another token of the port it ends."""
    tokens = ["the-old-one", "the-new-one"]
    for token in tokens:
        port = Port(tokens=tokens)
        assert port.say(f"auth {token_of('a', token)}") == ["ok"]
        assert port.say("attach b") == ["error denied node: the token of this connection is for a"]
        assert port.say("attach a")[0].startswith("ok")
    for wrong in (token_of("a", "the-old-one"), token_of("b", "the-new-one").replace("b:", "a:"), "a:"):
        assert port_says_no(Port(tokens=["the-new-one"]), wrong)
    assert port_says_no(Port(tokens=[token_of("a", "x")]), token_of("b", "x"))
    whole = Port(tokens=["with:colon"])
    assert whole.say("auth with:colon") == ["ok"]
    assert whole.say("attach a")[0].startswith("ok")


def port_says_no(port: Port, token: str) -> bool:
    return port.say(f"auth {token}") == ["error denied the token is wrong"]


def test_the_command_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("the-new-one\n")
    assert main(["kube", "token", "a", "--token-file", str(tmp_path / "token")]) == 0
    assert capsys.readouterr().out == f"{token_of('a', 'the-new-one')}\n"
    assert main(["kube", "token", "a", "--token-file", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"fakedev kube token: {tmp_path}: is a folder, not a file\n"
