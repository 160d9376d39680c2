"""The workload port in words, command by command as doc/protocol-workload.txt has them, over the whole application."""

from __future__ import annotations

import re

import pytest

from fakedev.fleet.spec.limits import Limits
from tests.support.fleet.workload_ports import CLOCK_ONLY, OF_NODE_B, WORKLOADS_ONLY, WorkloadPortCase, bare


class TestWords(WorkloadPortCase):
    """For people and netcat."""

    def test_run(self) -> None:
        """Answered with an id at once, notified when it ends."""
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
        """By the workload's own limit, and by the memory of its device."""
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
            "run x devices=a/0 profile=10 label=team": "label: 'team' is not NAME:TEXT",
            "run x devices=a/0 profile=10 use=:5": "use: ':5' is not NAME:PROFILE",
            "run x devices=a/0 profile=10 use=memory:1 use=memory:2": "use: 'memory' is given twice",
            "run x devices=a/0 profile=10 use=memry:1": "use: 'memry' is no metric that workloads bring; did you",
            "run x devices=a/0 profile=10 use=memory:lots": "use: memory: activity 1: 'lots' is no size",
            "run x devices=a/0 profile=10 limit=memory:lots": "limit: memory: 'lots' is no size",
            "run x devices=a/0 profile=10 measured-frequency=fast": "measured-frequency: 'fast' is not a finite number",
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
        self.app.fleet.budget.limits = Limits(workloads=2)
        self.peer.say("run x devices=a/0 profile=10:0:1", "run y devices=a/0 profile=10")
        full = self.error("run z devices=a/0 profile=10", "full")
        assert full.startswith("limits.workloads is 2: 1 more are needed, and 0 remain: stop some")
        self.app.tick()
        assert self.peer.lines() == ["ended x 0 OK"]
        assert self.peer.say("run z devices=a/0 profile=10")[0].startswith("ok w")

    def test_stop(self) -> None:
        """By id one, by name all; their peers are notified with the next tick."""
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
        """Its end is still notified, and no page ever shows it."""
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

    @pytest.mark.slow
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
        assert self.error("show y", "unknown-name") == "no workload 'y'; there are x"
        assert self.error("show", "bad-argument").startswith("workload: missing")

    def test_wrong_names(self) -> None:
        """What would be right is in the answer."""
        self.peer.say("run train devices=a/0 profile=50")
        self.app.tick()
        answers = {
            "stop trian": "no workload 'trian'; did you mean train?",
            "show trian": "no workload 'trian'; did you mean train?",
            "explain a": "no device 'a': it is a node; name its devices, as a/0 or a/*",
            "explain 33": "no device '33': name a device as a/0",
            "explain a/0 temprature": "no metric 'temprature'; did you mean temperature?",
            "devices c/0": "no node 'c'; there are a, b",
        }
        for line, text in answers.items():
            assert self.error(line, "unknown-name") == text

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

    @pytest.mark.slow
    def test_advance(self) -> None:
        """Answered when the clock has reached the time; workloads that end on the way are notified before."""
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
        assert self.error("GET /", "unknown-verb").startswith("no verb 'GET'")

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
