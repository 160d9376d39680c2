"""The composed application, in memory: from its options to the end of its record."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import globalLogPublisher

from fakedev.app.service import makeService
from fakedev.net.fleet.recorder import Recorder
from fakedev.net.fleet.workload_port import WorkloadPortFactory
from fakedev.net.http.site import GuardedSite
from fakedev.sim.events import DropWorkload, Stamped, StartWorkload
from fakedev.sim.record import RecordHead, read_record
from tests.support.application import GREEN_AND_BLUE, SMALL, AppReactor, application, parsed
from tests.support.http_wire import Peer

TWO_POOLS = GREEN_AND_BLUE + """\
web:
  - {listen: "127.0.0.1:9400", serve: metrics}
  - {listen: "127.0.0.1:9401", pool: blue}
  - {listen: %s/control.sock}
workloads:
  listen: ["127.0.0.1:9500", "%s/workload.sock"]
  base: [{name: background, devices: all, profile: "10:5:0"}]
"""


@pytest.fixture(autouse=True)
def _signals() -> Any:
    """SIGHUP as it was."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without any configuration: eight H100s with work on them, where the first lines say."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    reactor = AppReactor()
    ready = tmp_path / "ready"
    service = makeService(parsed("--ready-file", str(ready)), reactor)
    assert reactor.ports == []
    service.privilegedStartService()
    service.startService()
    where = [getattr(port.getHost(), "port", None) or port.getHost().name.decode() for port in reactor.ports]
    assert where == [9400, f"{tmp_path}/run/metrics.sock", f"{tmp_path}/run/workload.sock"]
    addresses = json.loads(ready.read_text())
    assert addresses["web"] == ["127.0.0.1:9400", f"{tmp_path}/run/metrics.sock"]
    assert addresses["workloads"] == [f"{tmp_path}/run/workload.sock"]
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    reactor.advance(1)
    page = Peer(reactor.ports[0].factory).ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    lines = [line for line in page.body.decode().splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
    assert [line.count('pod="llm-train-0"') for line in lines] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert [int(line.split()[-1]) > 80 for line in lines[:4]] == [True] * 4
    assert lines[7].endswith(" 0")
    done: list[object] = []
    service.stopService().addBoth(done.append)
    reactor.pump([0.1] * 3)
    assert (done, reactor.ports, ready.exists()) == ([None], [], False)


def test_two_pools_and_several_endpoints(tmp_path: Path) -> None:
    """Every endpoint serves what its configuration says, from one state."""
    with application(TWO_POOLS % (tmp_path, tmp_path)) as app:
        assert len(app.factories(GuardedSite)) == 3
        assert len(app.factories(WorkloadPortFactory)) == 2
        app.connect(0).say("run x devices=c/0 profile=50:0:0")
        peer = app.connect(1)
        assert peer.say("run y devices=a/0 profile=50:0:0")[0].startswith("ok w")
        app.tick(2)
        whole, blue = app.get("/metrics", place=0).body, app.get("/metrics", place=1).body
        assert set(blue.splitlines()) < set(whole.splitlines())
        assert app.get("/metrics", place=2).body == whole
        assert app.get("/api/v1/clock", place=0).status == 404
        listed = json.loads(app.get("/api/v1/workloads", place=2).body)["workloads"]
        assert [each["id"] for each in listed] == ["base-background", "w2", "w3"]
        app.stop()
        assert len(app.reactor.told) == 5


def test_stopping_loses_nothing(tmp_path: Path) -> None:
    """Ports close first, then the clock stops, then the record ends: it holds the drop of every connection."""
    record = tmp_path / "run.jsonl"
    with application(SMALL, record=str(record)) as app:
        web, port = app.reactor.ports
        wires = [port.connect() for _ in range(3)]
        for number, wire in enumerate(wires):
            wire.protocol.dataReceived(b"run job-%d devices=a/0 profile=10\n" % number)
            wire.flush()
        scraper = web.connect()
        app.tick(2)
        app.stop()
        assert [wire.value().decode().split()[0] for wire in wires] == ["ok"] * 3
        assert not any(wire.connected for wire in [*wires, scraper])
        assert app.reactor.getDelayedCalls() == []
    _, events = read_record(record.read_bytes())
    starts = [stamped for stamped in events if isinstance(stamped.event, StartWorkload)]
    drops = [stamped.event.workload_id for stamped in events if isinstance(stamped.event, DropWorkload)]
    assert [stamped.event.workload.name for stamped in starts] == ["job-0", "job-1", "job-2"]  # type: ignore[union-attr]
    assert sorted(drops) == [f"w{stamped.sequence}" for stamped in starts]


def test_the_clock_goes_on_while_connections_close(tmp_path: Path) -> None:
    """A peer that does not take its last answer holds up neither the others nor the tick; then its load is dropped."""
    record = tmp_path / "run.jsonl"
    with application(SMALL, record=str(record)) as app:
        wire = app.reactor.ports[1].connect()
        wire.protocol.dataReceived(b"run x devices=a/0 profile=10\n")
        app.tick(2)
        wire.loseConnection = lambda: None  # type: ignore[method-assign]
        ended: list[object] = []
        app.service.stopService().addBoth(ended.append)
        app.reactor.pump([0.02] * 75)
        assert (ended, wire.connected) == ([], True)
        app.reactor.pump([0.02] * 75)
        assert (ended, wire.connected) == ([None], False)
    _, events = read_record(record.read_bytes())
    assert isinstance(events[-1].event, DropWorkload)
    assert events[-1].tick > 2


def test_a_record_that_breaks_off(tmp_path: Path) -> None:
    """A failed write is logged once; after that nothing more is written."""
    path = tmp_path / "record"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    recorder = Recorder(str(path), RecordHead("0", 0.0))
    event = Stamped(0, 1, DropWorkload("w1"))
    recorder.record(event)
    assert os.read(reading, 10_000).count(b"\n") == 2
    os.close(reading)
    errors: list[object] = []
    globalLogPublisher.addObserver(errors.append)
    try:
        recorder.record(event)
        recorder.record(event)
    finally:
        globalLogPublisher.removeObserver(errors.append)
    assert (len(errors), recorder.failed) == (1, True)
    good = Recorder(str(tmp_path / "good"), RecordHead("0", 0.0))
    good.close()
    good.record(event)
    assert (tmp_path / "good").read_bytes().count(b"\n") == 1


def test_the_record_holds_all_that_decides(tmp_path: Path) -> None:
    """Seed, configuration, files and every event, each in the file as soon as it happened."""
    record = tmp_path / "run.jsonl"
    with application(SMALL, record=str(record)) as app:
        app.tick()
        peer = app.connect()
        peer.say("run x devices=a/0 profile=10", "advance 5s", "stop x")
        peer.send(b"run refused devices=a/0 profile=101\n")
        app.get("/metrics")
        head, events = read_record(record.read_bytes())
        assert head.text == SMALL
        assert any("h100" in name for name in head.files)
        kinds = [type(stamped.event).__name__ for stamped in events]
        assert kinds == ["ChangeClock", "StartWorkload", "ChangeClock", "ChangeClock", "StopWorkload"]
        assert [stamped.tick for stamped in events] == [0, 1, 1, 6, 6]


def test_a_record_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit 1, before anything listens."""
    reactor = AppReactor()
    options = parsed("--record", str(tmp_path / "nowhere" / "run.jsonl"))
    with pytest.raises(SystemExit) as ended:
        makeService(options, reactor)
    assert ended.value.code == 1
    assert reactor.ports == []
    said = capsys.readouterr().err
    assert said.startswith("fakedev: the record cannot be written: ")
    assert said.count("\n") == 1
    assert "nowhere" in said


def test_a_disk_that_is_full(capsys: pytest.CaptureFixture[str]) -> None:
    """The record ends with a line in the log; the service continues."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(SystemExit) as ended:
        makeService(parsed("--record", "/dev/full"), AppReactor())
    assert ended.value.code == 1
    assert "No space left" in capsys.readouterr().err
