"""The workload port, command by command as doc/protocol-workload.txt has them, over the whole application."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from fakedev.sim import turnstile as turnstile_module
from tests.application import LineClient, MemoryApplication, application
from tests.originals import go_workload

PORTS = """
version: 1
fleet:
  seed: 7
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
web: ["127.0.0.1:9400"]
workloads:
  listen:
    - {listen: "127.0.0.1:9500", allow: [workloads, clock]}
    - {listen: "127.0.0.1:9501", node: b}
    - {listen: "127.0.0.1:9502", allow: [clock]}
    - {listen: "127.0.0.1:9503", allow: [workloads]}
"""
#: Places of the ports above.
OPEN, OF_NODE_B, CLOCK_ONLY, WORKLOADS_ONLY = range(4)

#: What the original's client sends.
ORIGINAL = go_workload([(10, 1, 3), (0, 0, 2)], devices=("card0", "card1"))


def bare(**changes: object) -> bytes:
    """A bare object, good but for the changes."""
    fields: dict[str, object] = {
        "Name": "x", "Repeat": 1, "Profile": [{"Load": 10, "Fluctuation": 1, "Seconds": 3}], "Devices": ["a/0"],
    }  # fmt: skip
    return json.dumps(fields | changes, indent="\t").encode()


class PortTests(SynchronousTestCase):
    """An application with four ports, and a peer of the first."""

    def setUp(self) -> None:
        manager = application(PORTS)
        self.app: MemoryApplication = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        self.peer: LineClient = self.app.connect()

    @property
    def workloads(self) -> list[str]:
        """Names of all workloads."""
        return [each["name"] for each in self.app.json("/api/v1/workloads")["workloads"]]

    def error(self, line: str, code: str) -> str:
        """The text of the error that a line is answered with; the connection must live."""
        (answer,) = self.peer.say(line)
        begin = f"error {code} "
        assert answer.startswith(begin), answer
        assert self.peer.say("list")[0].startswith("ok ")
        return answer.removeprefix(begin)


class WordsTests(PortTests):
    """For people and netcat."""

    def test_run(self) -> None:
        """Answered with an id at once, told when it is over."""
        assert self.peer.say("run train devices=a/0 profile=98:1:3") == ["ok w2"]
        assert self.peer.say("run other devices=a/1 profile=98") == ["ok w3"]
        self.app.tick(2)
        assert self.peer.lines() == []
        self.app.tick(1)
        assert self.peer.lines() == ["ended train 0 OK"]
        assert self.workloads == ["other"]

    def test_run_with_everything(self) -> None:
        """All arguments, by name, in any order; show tells them again."""
        line = (
            'run profile=50:5:10,20:0:5 repeat=3 devices=0,1 name="two words" node=a pod=pod-0 namespace=on '
            "container=main limit=memory:70e9 limit=power:690 run-time-limit=5m ttl=1h detach"
        )
        assert self.peer.say(line) == ["ok w2"]
        self.app.tick(2)
        assert self.peer.say("show w2") == [
            "ok 18 lines",
            "id: w2",
            "state: running",
            "origin: request",
            'name: "two words"',
            "devices: 0,1",
            "profile: 50:5:10,20:0:5",
            "repeat: 3",
            "node: a",
            "pod: pod-0",
            "namespace: on",
            "container: main",
            "limits: memory:7e+10,power:690",
            "run-time-limit: 300",
            "ttl: 3600",
            "device-count: 2",
            "load-percent: 50",
            "run-seconds: 2",
            "remaining-seconds: 43",
        ]
        assert self.peer.say('stop "two words"')[0] == "ok stopped 1"

    def test_run_with_functions_and_metrics(self) -> None:
        """Typed as they are thought of; show tells them in full, list in short."""
        line = (
            "run leak devices=a/0 profile=ramp(10,90):5:60,sine(50,30,1m30s) use=memory:increase(1GiB,20GiB,10s):0:300 "
            "use=pcie-tx:30%:5% measured-frequency=990 seconds-of=work"
        )
        assert self.peer.say(line) == ["ok w2"]
        self.app.tick(2)
        shown = self.peer.say("show w2")
        assert "profile: ramp(10,90):5:60,sine(50,30,90):0:0" in shown
        assert "metrics: memory:increase(1073741824,21474836480,10):0:300,pcie-tx:30%:5%:0" in shown
        assert "measured-frequency: 990" in shown
        (row,) = [each for each in self.peer.say("list")[1:] if each.startswith("w2 ")]
        assert " profile=ramp(10,90):5:60,sine(50,30,90):0:0 metrics=memory:" in row
        steps = ",".join(["5:0:1"] * 1000)
        assert self.peer.say(f"run long devices=a/0 profile={steps}") == ["ok w3"]
        (row,) = [each for each in self.peer.say("list")[1:] if each.startswith("w3 ")]
        assert " profile=5:0:1," in row
        assert "... repeat=1" in row
        assert f"profile: {steps}" in self.peer.say("show w3")

    def test_ended_by_limits(self) -> None:
        """By one of its own, and by the memory of its device."""
        self.peer.say("run own devices=a/0 profile=10 use=memory:ramp(0,9GiB):0:9 limit=memory:2147483648")
        self.peer.say("run first devices=a/1 profile=10 use=memory:60GiB")
        self.app.tick(2)
        assert self.peer.lines() == []
        self.peer.say("run second devices=a/1 profile=10 use=memory:50%")
        self.app.tick(1)
        assert sorted(self.peer.lines()) == [
            "ended own 1 Limit memory reached, terminated",
            "ended second 1 Limit DCGM_FI_DEV_FB_USED reached, terminated",
        ]

    def test_run_takes_effect_with_the_next_tick(self) -> None:
        """A page of the tick of its arrival does not show it."""
        before = self.app.get("/metrics").body
        self.peer.say("run train devices=a/0 profile=98:0:0 pod=my-pod")
        assert self.app.get("/metrics").body == before
        self.app.tick()
        assert b'pod="my-pod"' in self.app.get("/metrics").body

    def test_ends(self) -> None:
        """Each end has its code and text; a name that needs quotes has them."""
        for line in (
            "run profile-over devices=a/0 profile=10:0:1",
            "run repeated devices=a/0 profile=10:0:1 repeat=2",
            "run limited devices=a/0 profile=90 limit=power:300",
            "run slow devices=a/0 profile=10 run-time-limit=3s",
            "run short devices=a/0 profile=10 ttl=4s",
            'run "a \\"b\\"" devices=a/0 profile=10:0:1',
        ):
            assert self.peer.say(line)[0].startswith("ok w")
        told = []
        for _ in range(5):
            self.app.tick()
            told.append(self.peer.lines())
        assert told == [
            ["ended profile-over 0 OK", 'ended "a \\"b\\"" 0 OK', "ended limited 1 Limit power reached, terminated"],
            ["ended repeated 0 OK"],
            ["ended slow 1 Limit run-time reached, terminated"],
            ["ended short 0 time to live is over"],
            [],
        ]

    def test_run_refused(self) -> None:
        """Each fault with its code, the argument's name first; nothing is started and the connection lives."""
        faults = {
            "run": "name: missing",
            "run x": "devices: missing",
            "run x devices=a/0": "profile: missing",
            "run x devices=a/0 profile=101": "profile: activity 1: load 101 is not within 0 to 100",
            "run x devices=a/0 profile=-1": "profile: activity 1: load -1 is not within",
            "run x devices=a/0 profile=60:50": "profile: activity 1: load 60 + fluctuation 50 is over 100",
            "run x devices=a/0 profile=10:11": "profile: activity 1: fluctuation 11 is not within",
            "run x devices=a/0 profile=10:1:-5": "profile: activity 1: -5 seconds",
            "run x devices=a/0 profile=10:1:0,5": "profile: activity 1: 0 seconds (until stopped) is for the last",
            "run x devices=a/0 profile=nan": "profile: activity 1: numbers must be finite",
            "run x devices=a/0 profile=10:1:1e999": "profile: activity 1: numbers must be finite",
            "run x devices=a/0 profile=": "profile: activity 1",
            "run x devices=a/0 profile=10 repeat=-1": "repeat: must be a whole number",
            "run x devices=a/0 profile=10 repeat=1.5": "repeat: must be a whole number",
            "run x devices=a/0 profile=10 repeat=1 repeat=2": "repeat: given twice",
            "run x devices= profile=10": "devices: a workload needs at least one device",
            "run x devices=a/0 profile=ramp(0,90)": "profile: activity 1: ramp: is spread over its activity",
            "run x devices=a/0 profile=ramp(0,90:0:5": "profile: activity 1: 'ramp(0,90' is no function",
            "run x devices=a/0 profile=ramp(5,90):6:5": "profile: activity 1: ramp: fluctuation 6 is not within",
            "run x devices=a/0 profile=10 use=memory": "use: 'memory' is not NAME:PROFILE",
            "run x devices=a/0 profile=10 use=:5": "use: ':5' is not NAME:PROFILE",
            "run x devices=a/0 profile=10 use=memory:1 use=memory:2": "use: 'memory' is given twice",
            "run x devices=a/0 profile=10 use=memry:1": "use: 'memry' is no metric that workloads bring; did you",
            "run x devices=a/0 profile=10 use=memory:lots": "use: memory: activity 1: 'lots' is no size",
            "run x devices=a/0 profile=10 limit=memory:lots": "limit: memory: 'lots' is no size",
            "run x devices=a/0 profile=10 measured-frequency=fast": "measured-frequency: 'fast' is no finite number",
            "run x devices=a/0 profile=10 measured-frequency=-1": "measured-frequency: must be a number from 0",
            "run x devices=a/0 profile=10 limit=power": "limit: 'power' is not NAME:NUMBER",
            "run x devices=a/0 profile=10 limit=power:nan": "limit: the limit of 'power' must be a number",
            "run x devices=a/0 profile=10 ttl=soon": "ttl: ",
            "run x devices=a/0 profile=10 ttl=-5s": "ttl: ",
            "run x devices=a/0 profile=10 colour=red": "colour: not an argument of run",
            "run x devices=a/0 profile=10 detached": "unexpected 'detached'; did you mean detach?",
            "run x devices=a/0 profile=10 detach=yes": "detach: takes no value",
            'run "" devices=a/0 profile=10': "name: a workload needs a name",
            f"run {'x' * 1025} devices=a/0 profile=10": "name: is longer than 1024 characters",
            "run a\0b devices=a/0 profile=10": "name: must not hold a NUL",
            'run "x devices=a/0 profile=10': "a quote is not closed",
            "run x devices=card0 profile=10": "device 'card0' is on 2 nodes: name one",
        }
        for line, text in faults.items():
            assert self.error(line, "bad-argument").startswith(text), line
        unknown = {
            "run x devices=a/7 profile=10": "no device '7'",
            "run x devices=card77 profile=10": "no device 'card77'",
            "run x devices=all node=c profile=10": "no node 'c'",
            "run x devices=c/0 profile=10": "no node 'c'",
            "run x devices=a/0 profile=10 limit=speed:5": "no metric 'speed' to limit",
        }
        for line, text in unknown.items():
            assert self.error(line, "unknown-name").startswith(text), line
        too_often = self.error("run x devices=a/0 profile=random(1,5,1ms)", "limit")
        assert too_often.startswith("profile with random values: 0.001 seconds are too short for a tick of 1s")
        assert self.workloads == []

    def test_full(self) -> None:
        """There is a most that the fleet takes; when one ends there is room again."""
        self.patch(turnstile_module, "MOST_WORKLOADS", 2)
        self.peer.say("run x devices=a/0 profile=10:0:1", "run y devices=a/0 profile=10")
        assert "2 workloads already" in self.error("run z devices=a/0 profile=10", "full")
        self.app.tick()
        assert self.peer.lines() == ["ended x 0 OK"]
        assert self.peer.say("run z devices=a/0 profile=10")[0].startswith("ok w")

    def test_stop(self) -> None:
        """By id one, by name all; their peers are told with the next tick."""
        other = self.app.connect()
        other.say("run same devices=a/0 profile=10", "run same devices=a/1 profile=10", "run third devices=a profile=1")
        self.peer.say("run same devices=b/0 profile=10")
        self.app.tick()
        assert self.peer.say("stop w2") == ["ok stopped 1"]
        assert self.peer.say("stop same") == ["ok stopped 2"]
        self.app.tick()
        assert other.lines() == ["ended same 0 stopped", "ended same 0 stopped"]
        assert self.peer.lines() == ["ended same 0 stopped"]
        assert self.error("stop same", "unknown-name") == "no workload 'same'"
        assert self.error("stop", "bad-argument").startswith("workload: missing; usage: stop ID|NAME")

    def test_stop_before_it_ran(self) -> None:
        """It is told all the same, and never seen on a page."""
        self.peer.say("run x devices=a/0 profile=50 pod=never")
        assert self.peer.say("stop x") == ["ok stopped 1"]
        assert self.error("stop x", "unknown-name") == "no workload 'x'"
        self.app.tick()
        assert self.peer.lines() == ["ended x 0 stopped"]
        assert b"never" not in self.app.get("/metrics").body

    def test_list(self) -> None:
        """A line each, oldest first; `workloads` is the same."""
        assert self.peer.say("list") == ["ok 0 lines"]
        self.peer.say("run x devices=a/0,a/1 profile=50:0:10,20:0:10 pod=p")
        self.peer.say('run "y z" devices=b/0 profile=30 repeat=0')
        self.app.tick()
        listed = [
            "ok 2 lines",
            "w2 x state=running device-count=2 load-percent=50 run-seconds=1 remaining-seconds=19 "
            "profile=50:0:10,20:0:10 repeat=1 pod=p",
            'w3 "y z" state=running device-count=1 load-percent=30 run-seconds=1 profile=30:0:0 repeat=0',
        ]
        assert self.peer.say("list") == listed
        assert self.peer.say("workloads") == listed
        assert self.error("list x", "bad-argument").startswith("unexpected 'x'")

    def test_a_list_of_many(self) -> None:
        """It is cut at 1000, and says so; the count of lines is right."""
        self.peer.say(*(f"run job-{number} devices=a/0 profile=1" for number in range(1003)))
        first, *lines = self.peer.say("list")
        assert first == "ok 1001 lines"
        assert len(lines) == 1001
        assert lines[-1] == "... and 3 more"

    def test_show(self) -> None:
        """By id, or by name the oldest of that name."""
        self.peer.say("run x devices=a/0 profile=50", "run x devices=a/1 profile=10")
        assert self.peer.say("show x")[1:3] == ["id: w2", "state: starting"]
        assert self.peer.say("show w3")[1] == "id: w3"
        assert self.error("show y", "unknown-name") == "no workload 'y'"
        assert self.error("show", "bad-argument").startswith("workload: missing")

    def test_devices(self) -> None:
        """All, or those that words name, with what a person wants to see."""
        everything = self.peer.say("devices")
        assert everything[0] == "ok 4 lines"
        assert [line.split()[0] for line in everything[1:]] == ["a/0", "a/1", "b/0", "b/1"]
        names = "type usage_ratio power_watts temperature_celsius core_frequency_mhz memory_used_bytes"
        assert re.findall(r" (\w+)=\S", everything[1]) == names.split()
        assert everything[1].startswith("a/0 type=h100-sxm5-80gb usage_ratio=0")
        assert self.peer.say("devices a/0")[1:] == everything[1:2]
        assert self.peer.say("devices b/1,a/*")[1:] == [everything[1], everything[2], everything[4]]
        assert self.peer.say("devices devices=odd")[1:] == [everything[2], everything[4]]
        assert self.error("devices c/0", "unknown-name").startswith("no node 'c'")
        assert self.error("devices card0", "bad-argument").startswith("device 'card0' is on 2 nodes")

    def test_advance(self) -> None:
        """Answered when the clock has got there; workloads that end on the way are told before."""
        self.peer.say("run x devices=a/0 profile=10:0:60")
        assert self.peer.say("advance 15m", "list") == ["ended x 0 OK", "ok tick 900 seconds 900", "ok 0 lines"]
        assert self.error("advance", "bad-argument").startswith("duration: missing")
        assert self.error("advance soon", "bad-argument").startswith("duration: ")
        for word in ("0", "-5s", "1000000h", "nan", "1e999"):
            self.error(f"advance {word}", "bad-argument")
        assert self.app.json("/api/v1/clock")["tick"] == 900

    def test_help(self) -> None:
        """All verbs, or all about one."""
        first, *lines = self.peer.say("help")
        assert first == f"ok {len(lines)} lines"
        for verb in ("run", "stop", "list", "show", "devices", "advance", "help", "quit"):
            assert sum(line.startswith(verb) for line in lines) == 1
        about = "\n".join(self.peer.say("help run"))
        for word in ("limit=", "run-time-limit=", "ttl=", "detach", "namespace=", "ended NAME CODE TEXT"):
            assert word in about
        assert self.error("help nothing", "unknown-verb").startswith("no verb 'nothing'")

    def test_quit(self) -> None:
        """The connection is closed after the answer, what came after it is dropped, and so are its workloads."""
        self.peer.say("run x devices=a/0 profile=10")
        assert self.peer.say("quit", "run y devices=a/0 profile=10") == ["ok"]
        assert self.peer.closed
        assert self.workloads == []

    def test_unknown_verbs(self) -> None:
        """With the nearest; the connection lives."""
        assert self.error("rum x", "unknown-verb") == "no verb 'rum'; did you mean run?"
        assert self.error("GET / HTTP/1.1", "unknown-verb").startswith("no verb 'GET'")

    def test_not_text(self) -> None:
        """Bytes that are no UTF-8, and control characters, come back printable."""
        self.peer.send(b"run \xff devices=a/0 profile=1\n")
        assert self.peer.lines() == ["error bad-argument not UTF-8 at byte 5"]
        (answer,) = self.peer.say("stop \x1b[2Jx")
        assert answer.startswith("error unknown-name")
        assert answer.isprintable()

    def test_what_a_port_may_do(self) -> None:
        """`allow` of the configuration: everything else is refused, looking is always allowed."""
        self.peer.say("run x devices=a/0 profile=10")
        refused = "error bad-argument this port may not {}: its allow: does not name {}"
        clock = self.app.connect(CLOCK_ONLY)
        not_workloads = refused.format("start or stop workloads", "workloads")
        assert clock.say("run y devices=a/0 profile=10", "stop x") == [not_workloads, not_workloads]
        assert clock.say("advance 5s", "show x")[:2] == ["ok tick 5 seconds 5", "ok 10 lines"]
        clock = self.app.connect(CLOCK_ONLY)
        clock.send(bare())
        assert (clock.heard(), clock.closed) == (b"1", True)
        workloads = self.app.connect(WORKLOADS_ONLY)
        assert workloads.say("advance 5s") == [refused.format("move the clock", "clock")]
        assert workloads.say("run y devices=a/0 profile=10", "stop y") == ["ok w5", "ok stopped 1"]
        assert self.app.json("/api/v1/clock")["tick"] == 5

    def test_a_port_of_a_node(self) -> None:
        """Bare device words speak of it, also when the peer's host has a name that the fleet does not know."""
        peer = self.app.connect(OF_NODE_B)
        lines = peer.say("devices all", "devices 1")
        assert [line.split()[0] for line in lines] == ["ok", "b/0", "b/1", "ok", "b/1"]
        peer.say("run x devices=all profile=50", "run y devices=1 profile=50 node=laptop-of-mine")
        peer.say("run z devices=0 profile=50 node=a", "run v devices=a/1 profile=50")
        shown = {each["name"]: each for each in self.app.json("/api/v1/workloads")["workloads"]}
        assert [shown[name]["node"] for name in "xyzv"] == ["b", "b", "a", "b"]
        assert [shown[name]["device-count"] for name in "xyzv"] == [2, 1, 1, 1]
        self.app.tick()
        usage = self.app.json("/api/v1/devices")["devices"]
        assert [device["quantities"]["usage_ratio"] for device in usage] == [0.5, 0.5, 0.5, 1.0]


class JsonTests(PortTests):
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

    def test_advance(self) -> None:
        """The answer has the clock; a second advance meanwhile is busy, other requests overtake."""
        answer = self.peer.ask(op="advance", duration="15m", id=3)
        assert (answer["id"], answer["ok"], answer["tick"], answer["seconds"]) == (3, True, 900, 900.0)
        assert self.peer.ask(op="advance", duration=60)["tick"] == 960
        for duration in (0, -1, 1e300, True, [5], "soon"):
            assert self.peer.ask(op="advance", duration=duration)["error"]["code"] == "bad-argument"

    def test_an_advance_that_takes_long(self) -> None:
        """Who asks for another is told busy; a request without waiting overtakes; the answer comes when it is there."""
        clock = self.app.reactor
        fleet = self.app.factories(type(self.peer.protocol.factory))[0].hub.fleet
        advance = fleet.advance

        def slow() -> Any:
            clock.rightNow += 0.004
            return advance()

        fleet.advance = slow
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


class BareTests(PortTests):
    """The original's client."""

    def send(self, *segments: bytes, place: int = OPEN) -> LineClient:
        """A new peer that has sent these segments."""
        peer = self.app.connect(place)
        peer.send(*segments)
        return peer

    def test_the_original_message(self) -> None:
        """Accepted as it is; answered by one digit in one write when its profile is over twice; then closed."""
        peer = self.send(ORIGINAL, place=OF_NODE_B)
        self.app.tick(9)
        assert (peer.heard(), peer.closed) == (b"", False)
        self.app.tick()
        assert (peer.heard(), peer.transport.writes, peer.closed) == (b"0", [b"0"], True)

    def test_1_for_a_limit(self) -> None:
        """A workload that crosses its limit."""
        peer = self.send(bare(Limits={"power": 10}))
        self.app.tick()
        assert (peer.heard(), peer.closed) == (b"1", True)

    def test_0_when_stopped(self) -> None:
        """By somebody else."""
        peer = self.send(bare(Repeat=0))
        self.app.tick(100)
        assert not peer.heard()
        self.peer.say("stop x")
        self.app.tick()
        assert (peer.heard(), peer.closed) == (b"0", True)

    def test_missing_is_0(self) -> None:
        """Repeat 0 is for ever, seconds 0 until stopped, names in any letter case, unknown ones ignored."""
        peer = self.send(b'{"NAME":"x","profile":[{"LOAD":50}],"devices":["a/0"],"Colour":"red"}')
        self.app.tick(1000)
        assert (peer.heard(), self.workloads) == (b"", ["x"])

    def test_invalid(self) -> None:
        """Everything that cannot be is told 1 and closed; nothing of it is left, and others go on."""
        good = self.send(bare(Name="good", Repeat=0))
        invalid = [
            b"{}",
            b'{"Name": }',
            b'{"Name" "x"}',
            b"{]}",
            bare(Name=None),
            bare(Name=5),
            bare(Name=""),
            bare(Name="a\0b"),
            bare(Name="x" * 1025),
            bare(Devices=[]),
            bare(Devices=None),
            bare(Devices="a/0"),
            bare(Devices=["a/0", 1]),
            bare(Devices=["card99"]),
            bare(Devices=["card0"]),
            bare(Devices=[""]),
            bare(Profile=[]),
            bare(Profile=None),
            bare(Profile={}),
            bare(Profile=[5]),
            bare(Profile=[{"Load": 101}]),
            bare(Profile=[{"Load": -1}]),
            bare(Profile=[{"Load": "50"}]),
            bare(Profile=[{"Load": True}]),
            bare(Profile=[{"Load": 60, "Fluctuation": 50}]),
            bare(Profile=[{"Load": 10, "Fluctuation": 11}]),
            bare(Profile=[{"Load": 10, "Seconds": -1}]),
            bare(Profile=[{"Load": 10, "Seconds": 0}, {"Load": 10}]),
            bare(Profile=[{"Load": float("nan")}]),
            bare(Repeat=-1),
            bare(Repeat=1.5),
            bare(Repeat="2"),
            bare(Limits={"power": "1"}),
            bare(Limits={"nothing": 1}),
            bare(Limits=5),
            bare().replace(b"10", b"1e999"),
            bare().replace(b"10", b"NaN"),
            bare().replace(b'"a/0"', b'"a/\xff"'),
            bare() + b"x",
            bare() + b"{}",
            b"{" + b"[" * 100 + b"]" * 100 + b"}",
            b'{"Name":"' + b"x" * 65536,
        ]
        for message in invalid:
            peer = self.send(message)
            assert (peer.heard(), peer.closed) == (b"1", True), message[:200]
        assert self.workloads == ["good"]
        assert not good.closed

    def test_the_largest_object(self) -> None:
        """64 KiB are taken, one byte more is not."""
        message = bare(Repeat=0)
        space = b" " * (65536 - len(message))
        peer = self.send(b"{" + space + message[1:])
        assert (peer.heard(), peer.closed) == (b"", False)
        peer = self.send(b"{ " + space + message[1:])
        assert (peer.heard(), peer.closed) == (b"1", True)

    def test_half_an_object_then_silence(self) -> None:
        """Told 1 after 10 s, however the bytes trickle; nobody else is delayed."""
        peer = self.send(ORIGINAL[:100])
        for byte in ORIGINAL[100:109]:
            self.app.tick()
            assert not peer.closed
            peer.send(bytes([byte]))
        self.app.tick()
        assert (peer.heard(), peer.closed) == (b"1", True)
        assert self.peer.say("list") == ["ok 0 lines"]

    def test_white_space_after_it(self) -> None:
        """Is ignored, also when it comes later."""
        peer = self.send(bare(), b"\n", b" \t\r\n")
        self.app.tick(3)
        assert (peer.heard(), peer.closed) == (b"0", True)

    def test_a_second_object_while_it_runs(self) -> None:
        """A connection carries one: told 1, and the first is gone."""
        peer = self.send(bare(Repeat=0))
        self.app.tick()
        peer.send(bare())
        assert (peer.heard(), peer.closed) == (b"1", True)
        assert self.workloads == ["x"]
        self.app.tick()
        assert self.workloads == []


class LifeTests(PortTests):
    """A workload lives as long as its connection, unless it is said otherwise."""

    def test_dropped_with_its_connection(self) -> None:
        """With the next tick it is gone, and nobody is told."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=50", "run y devices=a/0 profile=50 detach")
        third = self.app.connect()
        third.send(bare(Name="z", Repeat=0))
        self.app.tick()
        peer.leave()
        third.leave()
        self.app.tick()
        assert self.workloads == ["y"]
        assert self.app.json("/api/v1/devices/a/0")["quantities"]["usage_ratio"] == 0.5

    def test_ttl(self) -> None:
        """A detached workload ends by its ttl."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=50 detach ttl=5s")
        peer.leave()
        self.app.tick(4)
        assert self.workloads == ["x"]
        self.app.tick()
        assert self.workloads == []

    def test_news_of_detached_workloads(self) -> None:
        """Their peer is not told: it asked not to care."""
        self.peer.say("run x devices=a/0 profile=50:0:1 detach")
        self.app.tick(2)
        assert self.peer.lines() == []

    def test_end_of_input_with_work(self) -> None:
        """`nc -N`: everything is answered, then closed; the workload goes with its peer."""
        self.peer.send(b"run x devices=a/0 profile=50\nlist\nrun y devices=a/1 profile=1 detach")
        self.peer.end_input()
        lines = self.peer.lines()
        assert (lines[0], lines[1], lines[-1]) == ("ok w2", "ok 1 lines", "ok w3")
        assert self.peer.closed
        assert self.workloads == ["y"]

    def test_end_of_input_without_work(self) -> None:
        """A last line without LF counts; JSON lines too."""
        self.peer.send(b"help quit")
        self.peer.end_input()
        assert self.peer.lines()[0].startswith("ok ")
        assert self.peer.closed
        peer = self.app.connect()
        peer.send(b'{"op":"list"}\n{"op":"list","id":2}')
        peer.end_input()
        assert [answer.get("id") for answer in peer.told()] == [None, 2]
        assert peer.closed

    def test_end_of_input_while_an_advance_is_waited_for(self) -> None:
        """The peer that asked by `nc -N` has its answer when the clock has got there."""
        self.peer.send(b"advance 60s\n")
        self.peer.end_input()
        assert self.peer.lines() == ["ok tick 60 seconds 60"]

    def test_end_of_input_of_a_bare_peer(self) -> None:
        """Inside its object it is told 1; while its workload runs it has left."""
        peer = self.app.connect()
        peer.send(bare()[:50])
        peer.end_input()
        assert (peer.heard(), peer.closed) == (b"1", True)
        peer = self.app.connect()
        peer.send(bare(Repeat=0))
        self.app.tick()
        peer.end_input()
        assert (peer.heard(), peer.closed) == (b"", True)
        self.app.tick()
        assert self.workloads == []

    def test_an_event_in_the_tick_of_its_own_drop(self) -> None:
        """A workload that came and went within a tick is seen by no tick, and what it held is free."""
        before = self.app.json("/api/v1/devices/a/0")["quantities"]
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98 pod=never")
        peer.leave()
        assert self.workloads == []
        self.app.tick()
        after = self.app.json("/api/v1/devices/a/0")["quantities"]
        assert after["usage_ratio"] == before["usage_ratio"] == 0
        assert b"never" not in self.app.get("/metrics").body

    def test_a_stop_in_the_tick_of_a_drop(self) -> None:
        """Whatever the order, once is enough, and nothing fails."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98")
        self.app.tick()
        self.peer.say("stop x")
        peer.leave()
        assert self.peer.say("stop x") == ["error unknown-name no workload 'x'"]
        self.app.tick()
        assert self.workloads == []
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98")
        self.app.tick()
        peer.leave()
        assert self.peer.say("stop x") == ["error unknown-name no workload 'x'"]
        self.app.tick()
        assert self.workloads == []

    def test_the_end_in_the_tick_of_the_drop(self) -> None:
        """The connection is lost in the tick in which the profile is over."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98:0:2")
        self.app.tick()
        peer.leave()
        self.app.tick()
        assert self.workloads == []


SESSIONS = {
    "words": (
        b"help run\n\n  \r\nrun x devices=a/0 profile=50:0:2 pod='a b'\r\nlist\nrun\nrum\nstop nobody\n"
        b"advance 1s\nshow x\nrun y devices=a/* profile=10 detach\nadvance 5s\ndevices\nstop y\nquit\nlist\n"
    ),
    "JSON lines": (
        b' \n{"op": "run", "name": "x {",\n "devices": ["a/0"], "profile": [[50, 0, 2]], "id": 1}\n{"op":"list"}\n'
        b'{"op":"stop","workload":"nobody","id":"\\u00e9"}\n{"op":"advance","duration":5,"id":2}\n{bad}\n'
        b'\n{"op":"devices"}\r\n{"op":"quit","id":3}\n{"op":"list"}\n'
    ),
    "bare": b" \n" + ORIGINAL + b"\n",
    "bad": b'{"Name":"x"}',
}


def session(*segments: bytes) -> tuple[bytes, bool]:
    """What a session that arrives in these segments is answered, and whether it was closed."""
    with application(PORTS) as app:
        peer = app.connect(OF_NODE_B)
        app.factories(type(peer.protocol.factory))[OF_NODE_B].allow = frozenset({"workloads", "clock"})
        for segment in segments:
            peer.send(segment)
            app.reactor.advance(0)
        app.tick(12)
        return peer.transport.value(), peer.closed


@pytest.mark.parametrize("way", SESSIONS)
def test_byte_by_byte(way: str) -> None:
    """A session that comes byte by byte gets the same answers."""
    said = SESSIONS[way]
    whole = session(said)
    assert whole[0]
    assert whole[1] is True
    assert session(*(said[place : place + 1] for place in range(len(said)))) == whole


@pytest.mark.parametrize("way", SESSIONS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_in_any_segments(way: str, data: st.DataObject) -> None:
    """Wherever it is cut."""
    said = SESSIONS[way]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=6)))
    segments = [said[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    assert session(*segments) == session(said)
