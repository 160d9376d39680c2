"""The workload port in JSON lines, over the whole application."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.application import application
from tests.support.fleet.workload_ports import PORTS, WorkloadPortCase


class TestJson(WorkloadPortCase):
    """For programs."""

    def test_run(self) -> None:
        """All arguments; the answer has the id, the end is an event."""
        workload = {
            "name": "train", "devices": ["a/0", "a/1"], "profile": [[98, 1, 3]], "repeat": 1, "node": "a",
            "pod": "a", "namespace": "b", "container": "c", "limits": {"memory": 79e9}, "run-time-limit": "5m",
            "ttl": 3600, "metrics": {"memory": "40GiB", "tensor": 0.5, "pcie-rx": [[{"ramp": ["0%", "9%"]}, 0, 5]]},
            "measured-frequency": 1980.0,
        }  # fmt: skip
        assert self.peer.ask(op="run", id=1, **workload) == {"id": 1, "ok": True, "workload": "w2"}
        shown = self.peer.ask(op="show", workload="w2")
        assert shown["ok"] is True
        said = {name: shown["workload"][name] for name in workload}
        metrics = {"memory": "42949672960:0:0", "tensor": "0.5:0:0", "pcie-rx": "ramp(0%,9%):0%:5"}
        assert said == {**workload, "profile": "98:1:3", "run-time-limit": 300.0, "ttl": 3600.0, "metrics": metrics}
        self.app.tick(3)
        ended = {"event": "ended", "workload": "w2", "name": "train", "code": 0, "text": "OK"}
        assert self.peer.told() == [ended]

    def test_null_is_not_given(self) -> None:
        """As programs that always send all keys have it."""
        nothing: dict[str, Any] = dict.fromkeys(
            ("repeat", "node", "pod", "namespace", "container", "limits", "run-time-limit", "ttl", "detach")
        )
        answer = self.peer.ask(op="run", name="x", devices="a/0", profile="5", **nothing)
        assert answer == {"ok": True, "workload": "w2"}

    def test_errors(self) -> None:
        """With the id when there is one, never costing the connection."""
        good = {"op": "run", "name": "x", "devices": ["a/0"], "profile": "10"}
        for change, code, text in (
            ({"op": "rum"}, "unknown-verb", "no verb 'rum'"),
            ({"op": None}, "bad-argument", "op: missing"),
            ({"op": 5}, "bad-argument", "op: must be a text"),
            ({"devices": []}, "bad-argument", "devices: a workload needs"),
            ({"devices": [1]}, "bad-argument", "devices: must be a list of texts"),
            ({"devices": ["a/9"]}, "unknown-name", "no device '9'"),
            ({"profile": [[101]]}, "bad-argument", "profile: activity 1: load 101"),
            ({"profile": [[60, 50]]}, "bad-argument", "profile: activity 1: load 60 + fluctuation 50"),
            ({"profile": [["60"]]}, "bad-argument", "profile: activity 1: load must be a number"),
            ({"profile": [{"load": 1, "weight": 2}]}, "bad-argument", "profile: activity 1: unknown 'weight'"),
            ({"profile": {"load": 5}}, "bad-argument", "profile: unknown 'load': a schedule"),
            ({"profile": []}, "bad-argument", "profile: a profile needs at least one activity"),
            ({"name": 5}, "bad-argument", "name: must be a text"),
            ({"name": "a\0b"}, "bad-argument", "name: must not hold a NUL"),
            ({"name": None}, "bad-argument", "name: missing"),
            ({"repeat": True}, "bad-argument", "repeat: must be a whole number"),
            ({"repeat": -1}, "bad-argument", "repeat: must be a whole number"),
            ({"repeat": 2**60}, "bad-argument", "repeat: must be a whole number"),
            ({"limits": {"memory": "x"}}, "bad-argument", "limits: memory: 'x' is no size"),
            ({"limits": {"power": "1"}}, "bad-argument", "limits: the limit of 'power' must be a number"),
            ({"metrics": {"memory": "x"}}, "bad-argument", "metrics: memory: activity 1: 'x' is no size"),
            ({"limits": {"speed": 1}}, "unknown-name", "no metric 'speed'"),
            ({"ttl": -1}, "bad-argument", "ttl: "),
            ({"ttl": [1]}, "bad-argument", "ttl: must be a duration"),
            ({"detach": "yes"}, "bad-argument", "detach: must be true or false"),
            ({"colour": 1}, "bad-argument", "colour: not an argument of run"),
        ):
            answer = self.peer.ask(**{**good, "id": "q", **change})
            assert (answer["ok"], answer["id"], answer["error"]["code"]) == (False, "q", code), change
            assert answer["error"]["message"].startswith(text), answer
        assert self.peer.ask(op="list") == {"ok": True, "workloads": [], "total": 0}

    def test_not_json(self) -> None:
        """In a connection of JSON lines: an error without an id; the connection lives."""
        self.peer.ask(op="list")
        lines = (b"{", b"[]", b"5", b"NaN", b'{"op":"list","op":"list"}', b'{"op":"list","x":NaN}', b"list", b"\xff")
        for line in (*lines, b'{"op":"stop","workload":"\\ud800"}'):
            self.peer.send(line + b"\n")
            (answer,) = self.peer.told()
            assert (answer["ok"], answer["error"]["code"], "id" in answer) == (False, "bad-argument", False), line
        assert self.peer.ask(op="list")["ok"] is True

    def test_stop_list_show_devices(self) -> None:
        """The answers of the other verbs."""
        self.peer.ask(op="run", name="x", devices=["a/0"], profile="50:0:0")
        self.app.tick()
        listed = self.peer.ask(op="workloads", id=5)
        assert (listed["total"], listed["id"], listed["workloads"][0]["id"]) == (1, 5, "w2")
        assert self.peer.ask(op="show", workload="x")["workload"] == listed["workloads"][0]
        devices = self.peer.ask(op="devices", devices=["a/*"])
        assert devices["total"] == 2
        assert devices["devices"][0]["device"] == "a/0"
        assert devices["devices"][0]["usage_ratio"] == 0.5
        assert self.peer.ask(op="devices")["total"] == 4
        assert self.peer.ask(op="stop", workload="x") == {"ok": True, "stopped": ["w2"]}
        assert self.peer.ask(op="stop", workload="x")["error"]["code"] == "unknown-name"
        assert self.peer.ask(op="help", verb="run")["lines"][0].startswith("run NAME")
        assert self.peer.ask(op="help", verb="nope")["error"]["code"] == "unknown-verb"

    def test_many_devices(self) -> None:
        """At most 1000 in an answer; total is the number of all."""
        text = PORTS.replace("devices-per-node: 2", "devices-per-node: 600")
        with application(text) as app:
            peer = app.connect()
            answer = peer.ask(op="devices")
            assert (len(answer["devices"]), answer["total"]) == (1000, 1200)
            lines = app.connect().say("devices")
            assert (lines[0], len(lines), lines[-1]) == ("ok 1001 lines", 1002, "... and 200 more")

    @pytest.mark.slow
    def test_advance(self) -> None:
        """The answer has the clock; a second advance meanwhile is busy, other requests overtake."""
        answer = self.peer.ask(op="advance", duration="15m", id=3)
        assert (answer["id"], answer["ok"], answer["tick"], answer["seconds"]) == (3, True, 900, 900.0)
        assert self.peer.ask(op="advance", duration=60)["tick"] == 960
        for duration in (0, -1, 1e300, True, [5], "soon"):
            assert self.peer.ask(op="advance", duration=duration)["error"]["code"] == "bad-argument"

    def test_an_advance_that_takes_long(self) -> None:
        """A second one gets busy; a request without waiting overtakes; the answer comes when the clock is there."""
        clock = self.app.reactor
        self.app.slow_down()
        self.peer.send(b'{"op":"advance","duration":"20s","id":1}\n{"op":"advance","duration":"1s","id":2}\n')
        self.peer.send(b'{"op":"devices","devices":["a/0"],"id":3}\n')
        clock.turn()
        clock.turn()
        first = [json.loads(line) for line in self.peer.transport.value().splitlines()]
        assert [(each["id"], each["ok"]) for each in first] == [(2, False), (3, True)]
        assert first[0]["error"]["code"] == "busy"
        told = self.peer.told()
        assert (told[-1]["id"], told[-1]["tick"]) == (1, 20)

    def test_quit(self) -> None:
        """An answer, then the end."""
        assert self.peer.ask(op="quit", id=7) == {"id": 7, "ok": True}
        assert self.peer.closed
