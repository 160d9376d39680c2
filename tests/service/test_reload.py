"""Reload in the whole program: what takes effect, what stays, what is refused."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.queues.settings import BrokerSpec, Queues
from fakedev.schema.files import Files
from fakedev.service.reload import restart_reasons
from tests.support.application import SMALL, STANDING, AppReactor, MemoryApplication, NoThreads, application
from tests.support.logged_errors import LoggedErrors
from tests.support.paths import ROOT
from tests.support.reloads import came, own, reload
from tests.support.wire.http_wire import Peer

MORE = SMALL.replace("nodes: [a, b]", "nodes: [c, a]")
QUEUES = SMALL + "queues:\n  drain: 1s\n  names: {one: {max-waiting: 2}, two: {}}\n"


def test_nodes_come_and_go() -> None:
    """Pages, discovery and workloads follow; the answer comes when all is in use."""
    with application() as app:
        peer = app.connect()
        assert peer.say("run one devices=a/1 profile=70 pod=train") == ["ok w2"]
        assert peer.say("run two devices=b/0 profile=20") == ["ok w3"]
        app.tick(3)
        energy = _value(app, "/nodes/a/metrics", 'gpu="1"')
        answer = reload(app, MORE)
        assert answer.status == 200, answer
        assert json.loads(answer.body) == {
            "tick": 4, "fleet": "4 devices on 2 nodes", "notes": [], "sha256": sha256(MORE.encode()).hexdigest(),
        }  # fmt: skip
        assert peer.lines() == ["ended two 1 Device b/0 is no longer in the fleet, terminated"]
        assert [target["labels"]["node"] for target in app.json("/sd")] == ["c", "a"]
        assert app.get("/nodes/b/metrics").status == 404
        assert app.get("/nodes/c/metrics").status == 200
        page = app.get("/nodes/a/metrics").body.decode()
        assert 'pod="train"' in page
        assert _value(app, "/nodes/a/metrics", 'gpu="1"') > energy
        assert app.get("/metrics").body.count(b"\nDCGM_FI_DEV_GPU_UTIL{") == 4
        assert peer.say("run three devices=c/0 profile=5", "list")[1].startswith("ok 2 lines")
        assert app.json("/api/v1/nodes")["total"] == 2
        (app_id,) = [key for key in own(app) if key.startswith("fakedev_config_info")]
        assert sha256(MORE.encode()).hexdigest() in app_id


def _value(app: MemoryApplication, path: str, label: str) -> float:
    lines = app.get(path).body.decode().splitlines()
    (line,) = [line for line in lines if line.startswith("DCGM_FI_DEV_TOTAL_ENERGY") and label in line]
    return float(line.rsplit(" ", 1)[1])


def test_what_is_wrong_changes_nothing() -> None:
    """Every problem is reported with its place, in the answer and by the metrics; the old configuration stays."""
    with application() as app:
        assert own(app)["fakedev_config_last_reload_successful"] == "1.0"
        app.text = SMALL.replace("device: h100", "device: h1000").replace("seed: 7", "sed: 7")
        answer = app.ask("POST", "/-/reload", b"")
        assert answer.status == 400
        assert b"configuration:4: fleet: unknown key 'sed'" in answer.body, answer.body
        assert b"h1000" in answer.body
        metrics = own(app)
        assert metrics["fakedev_config_last_reload_successful"] == "0.0"
        assert metrics['fakedev_config_reloads_total{result="failed"}'] == "1.0"
        app.tick(2)
        assert app.get("/nodes/b/metrics").status == 200
        assert reload(app, MORE).status == 200
        metrics = own(app)
        assert metrics["fakedev_config_last_reload_successful"] == "1.0"
        assert float(metrics["fakedev_config_last_reload_success_timestamp_seconds"]) == app.reactor.seconds()


def test_too_many_workloads() -> None:
    """With those that run there would be too many: the old configuration stays, and ticks continue."""
    small = SMALL + "limits: {workloads: 2}\n"
    with application(small) as app:
        peer = app.connect()
        assert peer.say("run one devices=a/1 profile=70") == ["ok w2"]
        app.tick()
        base = "workloads: {base: [{name: x, devices: all, profile: 10}, {name: y, devices: all, profile: 10}],"
        answer = reload(app, small.replace("workloads: {", base, 1))
        assert answer.status == 400
        assert b"limits.workloads is 2: 2 more are needed, and 1 remain" in answer.body
        assert own(app)['fakedev_config_reloads_total{result="failed"}'] == "1.0"
        app.tick(2)
        assert app.json("/api/v1/workloads")["total"] == 1
        assert peer.say("run two devices=a/0 profile=20")[0].startswith("ok")


def test_a_reset_with_too_many_workloads() -> None:
    """What a reset starts again counts too: the reload is refused at once, and the next one is not."""
    base = "workloads: {base: [{name: x, devices: all, profile: 10}, {name: y, devices: all, profile: 10}],"
    standing = STANDING.replace("workloads: {", base, 1) + "limits: {workloads: 3}\n"
    with application(standing) as app:
        app.connect().say("advance 2s")
        assert app.ask("POST", "/api/v1/reset", b"").status == 200
        more = base.replace("],", ", {name: z, devices: all, profile: 10}, {name: w, devices: all, profile: 10}],")
        app.text = standing.replace(base, more)
        assert app.ask("POST", "/-/reload", b"").status == 400
        assert own(app)['fakedev_config_reloads_total{result="failed"}'] == "1.0"
        app.text = standing.replace("limits: {workloads: 3}", "limits: {workloads: 6}")
        assert app.ask("POST", "/-/reload", b"").status == 200


TESTED = """
tester:
  plans:
    - {name: even, queue: q, frontend: "127.0.0.1:9", rate: 20/s, most-outstanding: 5}
    - {name: poisson, queue: q, frontend: "127.0.0.1:9", rate: "ramp:5/s:50/s:60s", arrivals: poisson}
    - {name: sine, queue: q, frontend: "127.0.0.1:9", rate: "sine:20/s:10/s:60s"}
    - {name: steps, queue: q, frontend: "127.0.0.1:9", rate: "steps:1/s,2/s:5s"}
    - {name: spike, queue: q, frontend: "127.0.0.1:9", rate: "spike:1/s:2/s:5s:6s"}
    - {name: closed, queue: q, frontend: "127.0.0.1:9", parallel: 2}
  reports: [/tmp/report.json]
journal: {file: /tmp/journal}
queues: {names: {q: {}}, window: 10s}
"""


@pytest.mark.parametrize("name", ["", *(f"etc/{each}" for each in ("fakedev.yaml", "loop.yaml", "own/fakedev.yaml"))])
def test_an_unchanged_configuration_needs_no_restart(name: str) -> None:
    """Whatever it contains: nothing in it is equal only to itself."""
    path, text = (str(ROOT / name), None) if name else (None, SMALL + TESTED)
    first, second = (load(path, Files(environ={}), text=text) for _ in range(2))
    assert list(restart_reasons(first, second)) == []


def test_the_document_names_what_needs_a_restart() -> None:
    """Every key, in the section of that name."""
    section = (ROOT / "doc" / "service.md").read_text().split("### What needs a restart")[1].split("\n### ")[0]
    kinds = (Configuration, FleetSpec, Queues, BrokerSpec)
    keys = {field.metadata["restart"] for kind in kinds for field in fields(kind) if "restart" in field.metadata}
    assert {"fleet.seed", "log", "queues.window", "queues.drain"} < keys
    assert keys - {"kubernetes"} < set(re.findall("`([^`]+)`", section))


EVERY = """
fleet: {seed: 7, pools: [{name: p, nodes: cluster}]}
log: {level: info}
state: /tmp/state
watch: false
hpc-jobs: {folder: /tmp/jobs, node: a}
nvml: {file: /tmp/nvml}
kubernetes: {recovery: auto, listen: ["127.0.0.1:9798"], max-connections: 5}
"""


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("seed: 7", "seed: 8", "fleet.seed"),
        ("seed: 7", "seed: 7, tick: 2s", "fleet.tick"),
        ("seed: 7", "seed: 7, speed: 2", "fleet.speed"),
        ("seed: 7", "seed: 7, epoch: 1000", "fleet.epoch"),
        ("seed: 7", "seed: 7, shard: 0/1", "fleet.shard"),
        ("level: info", "level: warn", "log"),
        ("/tmp/state", "/tmp/other", "state"),
        ("watch: false", "watch: true", "watch"),
        ("/tmp/jobs", "/tmp/others", "hpc-jobs"),
        ("/tmp/nvml", "/tmp/nvml2", "nvml"),
        ("recovery: auto", "recovery: vendor", "kubernetes"),
        ("max-connections: 5", "max-connections: 6", "kubernetes"),
        ("window: 10s", "window: 11s", "queues.window"),
        ("window: 10s", "window: 10s, maxima: since-scrape", "queues.maxima"),
        ("window: 10s", "window: 10s, log-interval: 5s", "queues.log-interval"),
        ("window: 10s", "window: 10s, drain: 5s", "queues.drain"),
        ("q: {}", "q: {durable: /tmp/q}", "queues.names.q.durable"),
        ("/tmp/journal", "/tmp/journal2", "journal"),
        ("9798", "9799", ""),
    ],
)
def test_a_changed_key_needs_a_restart(old: str, new: str, key: str) -> None:
    """Each key that a running program cannot change is named; addresses of the node port can be changed."""
    text = EVERY + TESTED
    first, second = (load(None, Files(environ={}), text=each) for each in (text, text.replace(old, new, 1)))
    assert text != text.replace(old, new, 1)
    assert list(restart_reasons(first, second)) == [f"{key}: has changed, which needs a restart"] * bool(key)


@pytest.mark.parametrize(
    ("old", "new"),
    [("20/s", "21/s"), ("50/s:60s", "51/s:60s"), ("20/s:10/s:60s", "20/s:11/s:60s"), ("1/s,2/s", "1/s,3/s")],
)
def test_a_changed_rate_needs_a_restart(old: str, new: str) -> None:
    """Curves are equal only when they have the same values."""
    assert old in TESTED
    first, second = (load(None, Files(environ={}), text=SMALL + text) for text in (TESTED, TESTED.replace(old, new)))
    assert list(restart_reasons(first, second)) == ["tester: has changed, which needs a restart"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("seed: 7", "seed: 8", b"fleet.seed: has changed, which needs a restart"),
        ("seed: 7", "seed: 7\n  tick: 2s", b"fleet.tick: has changed"),
        ("seed: 7", "seed: 7\n  speed: 2", b"fleet.speed: has changed"),
        ("seed: 7", "seed: 7\n  epoch: 5", b"fleet.epoch: has changed"),
        ("version: 1", "version: 1\nlog: {level: debug}", b"log: has changed"),
        ("version: 1", "version: 1\nqueues: {names: [x]}", b"queues: the first queue comes"),
    ],
)
def test_what_needs_a_restart(old: str, new: str, reason: bytes) -> None:
    """It is refused, and says so; the clock of a fleet cannot become another."""
    with application() as app:
        app.text = SMALL.replace(old, new)
        answer = app.ask("POST", "/-/reload", b"")
        assert (answer.status, answer.body[: len(reason)]) == (400, reason)
        app.tick()
        assert app.json("/api/v1/clock")["tick"] == 1


def test_only_post() -> None:
    """GET changes nothing; what another site's page sends is refused, and so is a configuration as its body."""
    with application() as app:
        assert app.get("/-/reload").status == 405
        answer = app.ask("POST", "/-/reload", b"version: 1")
        assert (answer.status, answer.body.partition(b":")[0]) == (400, b"no body belongs here")
        strange = "Host: localhost\r\nOrigin: http://evil.example\r\n"
        assert app.ask("POST", "/-/reload", b"", headers=strange).status == 403


def test_hangup() -> None:
    """SIGHUP does the same, and the log tells."""
    with application() as app:
        app.text = MORE
        signal.raise_signal(signal.SIGHUP)
        app.tick()
        assert app.get("/nodes/c/metrics").status == 200
        app.text = "version: 2"
        signal.raise_signal(signal.SIGHUP)
        app.tick()
        assert own(app)["fakedev_config_last_reload_successful"] == "0.0"


def test_a_clock_that_stands() -> None:
    """The answer comes at once, and says in which tick it takes effect; until then there is no other reload."""
    with application(STANDING) as app:
        app.text = STANDING.replace("[a, b]", "[a, b, c]")
        answer = app.ask("POST", "/-/reload", b"")
        assert (answer.status, json.loads(answer.body)["tick"]) == (200, 1)
        again = app.ask("POST", "/-/reload", b"")
        assert (again.status, again.body) == (503, b"the reload before this one takes effect with the next tick\n")
        assert app.get("/nodes/c/metrics").status == 404
        assert app.connect().say("advance 1s") == ["ok tick 1 seconds 1"]
        assert app.get("/nodes/c/metrics").status == 200


def test_hangups_while_the_clock_stands() -> None:
    """One that comes before the tick of another reload is not lost: it is done after it."""
    with application(STANDING) as app:
        for names in ("[a, b, c]", "[a, b, d]", "[a, b, e]"):
            app.text = STANDING.replace("[a, b]", names)
            signal.raise_signal(signal.SIGHUP)
            app.reactor.advance(0)
        app.connect().say("advance 1s")
        assert [node["node"] for node in app.json("/api/v1/nodes")["nodes"]] == ["a", "b", "c"]
        app.connect().say("advance 1s")
        assert [node["node"] for node in app.json("/api/v1/nodes")["nodes"]] == ["a", "b", "e"]
        assert own(app)['fakedev_config_reloads_total{result="failed"}'] == "0.0"


class HeldThreads:
    """A pool whose work runs when the test says so.

    :ivar work: what was asked for and did not run yet.
    """

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[bool, Any], None], Callable[[], Any]]] = []
        self.asked = 0

    def callInThreadWithCallback(self, told: Callable[[bool, Any], None], work: Callable[[], Any]) -> None:
        """Keep the work."""
        self.work.append((told, work))
        self.asked += 1

    def run(self) -> None:
        """Do the first work that waits."""
        told, work = self.work.pop(0)
        NoThreads().callInThreadWithCallback(told, work)


def held_reload(app: MemoryApplication) -> Peer:
    """A client that asks for a reload."""
    peer = app.http()
    peer.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    return peer


def test_many_reloads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One runs; all others, by signal or by HTTP, are one that follows it, and get its answer."""
    threads = HeldThreads()
    monkeypatch.setattr(AppReactor, "getThreadPool", lambda _: threads)
    with application() as app:
        app.text = MORE
        first = held_reload(app)
        app.text = SMALL.replace("nodes: [a, b]", "nodes: [a, b, d]")
        others = [held_reload(app) for _ in range(40)]
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        assert threads.asked == 1
        threads.run()
        app.tick()
        assert [answer.status for answer in came(first)] == [200]
        assert [came(other) for other in others] == [[]] * 40
        threads.run()
        app.tick()
        (answer,) = {came(other)[0].body for other in others}
        assert json.loads(answer)["fleet"] == "6 devices on 3 nodes"
        assert (threads.asked, threads.work) == (2, [])
        assert own(app)['fakedev_config_reloads_total{result="good"}'] == "2.0"


def test_reloads_of_clients_that_left(monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors) -> None:
    """One that waits is dropped with its last client; one that runs takes effect."""
    threads = HeldThreads()
    monkeypatch.setattr(AppReactor, "getThreadPool", lambda _: threads)
    with application() as app:
        app.text = MORE
        for client in [held_reload(app) for _ in range(40)]:
            client.leave()
        threads.run()
        app.tick()
        assert (threads.asked, threads.work) == (1, [])
        assert app.get("/nodes/c/metrics").status == 200
        last = held_reload(app)
        threads.run()
        app.tick()
        assert [answer.status for answer in came(last)] == [200]


def test_queues() -> None:
    """Limits change, queues come; jobs live on; one that has jobs cannot go."""
    with application(QUEUES) as app:
        client, backend = app.client(), app.backend()
        assert client.say("put one a", "put one b", "put one c")[:2] == ["ok 1", "ok 2"]
        without = SMALL + "queues:\n  drain: 1s\n  names: {two: {}}\n"
        answer = reload(app, without)
        expected = b"queue 'one' cannot be removed: it has 2 waiting, running or buried jobs\n"
        assert (answer.status, answer.body) == (400, expected)
        assert reload(app, QUEUES.replace("max-waiting: 2}", "max-waiting: 3}, three: {}")).status == 200
        assert client.say("put one d", "put three e", "put one f") == [
            "ok 3", "ok 4", "error full Queue 'one' is full: 3 requests wait",
        ]  # fmt: skip
        assert backend.say("take one")[0].startswith("ok 1 ")
        assert reload(app, QUEUES.replace("two: {}", "three: {}")).status == 200
        assert client.say("put two x") == ["error unknown-name Unknown 'two' queue"]


def test_the_ready_file(tmp_path: Path) -> None:
    """Programs that wait find the new addresses there."""
    ready = tmp_path / "ready"
    with application(ready_file=str(ready)) as app:
        assert reload(app, SMALL.replace("9500", "9501")).status == 200
        assert json.loads(ready.read_text())["workloads"] == ["127.0.0.1:9501"]


@pytest.mark.slow
def test_a_record_with_a_reload(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """It is run again to the same pages, with the configuration that was read then."""
    from fakedev.commands.render import render  # noqa: PLC0415 - it reads the environment's files

    record = tmp_path / "run.jsonl"
    with application(record=str(record)) as app:
        app.connect().say("run one devices=a/1 profile=70:20:0 pod=train")
        app.tick(2)
        assert reload(app, MORE).status == 200
        app.tick(2)
        page = app.get("/metrics").body
    assert render(["--events", str(record), "--for", "5s", "--every", "5s", "--output", str(tmp_path / "pages")]) == 0
    assert (tmp_path / "pages" / "5.prom").read_bytes() == page
    assert b'Hostname="b"' in (tmp_path / "pages" / "0.prom").read_bytes()


def test_what_devices_showed_before() -> None:
    """The history of a device goes with it; one that has come has none from before."""
    with application() as app:
        app.connect().say("run one devices=a/1 profile=70:0:0")
        app.tick(3)
        before = app.json("/api/v1/devices/a/1/history")["quantities"]
        assert reload(app, MORE).status == 200
        after = app.json("/api/v1/devices/a/1/history")["quantities"]
        known = len(before["power_watts"])
        assert after["power_watts"][:known] == before["power_watts"]
        assert len(after["power_watts"]) == known + 1
        assert app.json("/api/v1/devices/c/1/history")["quantities"]["power_watts"][:known] == [None] * known


def test_viewers_of_the_live_page() -> None:
    """Viewers of the live page get the new list of nodes."""
    with application() as app:
        viewer = app.http()
        viewer.send(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        app.tick()
        viewer.read()
        assert reload(app, MORE).status == 200
        viewer.read()
        app.tick()
        viewer.read()
        outlines = [line for line in viewer.transport.value().split(b"\n") if line.startswith(b'data: {"version"')]
        assert [[name for name, _ in json.loads(line[6:])["nodes"]] for line in outlines] == [["a", "b"], ["c", "a"]]
