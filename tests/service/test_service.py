"""The composed application, in memory: from its options to the end of its record."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import CannotListenError
from twisted.logger import LogEvent, LogLevel, formatEvent

from fakedev.fleet.events import DropWorkloads, StartWorkload
from fakedev.fleet.port import WorkloadPortFactory
from fakedev.fleet.record import read_record
from fakedev.service.service import makeService
from fakedev.web.site import Site
from tests.support.application import GREEN_AND_BLUE, SMALL, AppReactor, MemoryPort, application, parsed
from tests.support.disks import file_size_limit
from tests.support.logged_errors import LoggedErrors
from tests.support.wire.http_wire import Peer

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
        assert len(app.factories(Site)) == 3
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
    drops = [stamped.event for stamped in events if isinstance(stamped.event, DropWorkloads)]
    assert [stamped.event.workload.name for stamped in starts] == ["job-0", "job-1", "job-2"]  # type: ignore[union-attr]
    assert sorted(drop.workload_ids for drop in drops) == [(f"w{stamped.sequence}",) for stamped in starts]


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
    assert isinstance(events[-1].event, DropWorkloads)
    assert events[-1].tick > 2


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
        assert kinds == ["ChangeClock", "StartWorkload", "ChangeClock", "ChangeClock", "StopWorkloads"]
        assert [stamped.tick for stamped in events] == [0, 1, 1, 6, 6]


@pytest.mark.parametrize("target", ["missing folder", "record", "link", "pipe", "folder", "locked"])
def test_a_record_that_cannot_be_written(tmp_path: Path, target: str, logged_errors: LoggedErrors) -> None:
    """Exit 1 with the reason and the remedy; what is there stays, and no socket is left."""
    path = tmp_path / "run.jsonl"
    reason, content = prepared(path, target)
    reactor = AppReactor()
    service = makeService(parsed("--record", str(path)), reactor)
    service.privilegedStartService()
    with pytest.raises(SystemExit) as ended:
        service.startService()
    assert ended.value.code == 1
    assert str(ended.value) == f"the record cannot be written: {path}: {reason}"
    assert logged_errors.take_critical() == [str(ended.value)]
    if content:
        assert path.read_text() == content


def prepared(path: Path, target: str) -> tuple[str, str]:
    """Make what a record cannot be written to; the reason, and what must stay in the file."""
    match target:
        case "missing folder":
            path.parent.rmdir()
            return "no such file or folder", ""
        case "record":
            path.write_text("precious")
            return "there is a record already: move it away, or give another name", "precious"
        case "link":
            (path.parent / "other").write_text("precious")
            path.symlink_to("other")
            return "it is a symbolic link: name the file itself", "precious"
        case "pipe":
            os.mkfifo(path)
            return "it is not a regular file", ""
        case "folder":
            path.mkdir()
            return "it is a folder, not a file", ""
    path.write_text("")
    holder = os.open(path, os.O_RDONLY)  # closed when the test process ends
    fcntl.flock(holder, fcntl.LOCK_EX)
    return "another process writes it: stop that one, or give another name", ""


def test_a_busy_port_leaves_the_record_as_it_is(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    """A second start with the same options neither empties nor makes a file."""
    for name, content in (("old.jsonl", b"precious\n"), ("new.jsonl", None)):
        record = tmp_path / name
        if content is not None:
            record.write_bytes(content)
        reactor = AppReactor()
        reactor.listenTCP = _busy  # type: ignore[method-assign]
        service = makeService(parsed("--record", str(record)), reactor)
        with pytest.raises(SystemExit):
            service.privilegedStartService()
        assert len(logged_errors.take_critical()) == 1
        assert (record.read_bytes() if record.exists() else None) == content


def _busy(port: int, *_: object, **__: object) -> MemoryPort:
    raise CannotListenError("127.0.0.1", port, OSError(errno.EADDRINUSE, "in use"))


@pytest.mark.parametrize("kind", ["record", "journal"])
def test_a_disk_that_becomes_full(tmp_path: Path, kind: str, log_events: list[LogEvent]) -> None:
    """Lines wait for room; log, health and metrics say so meanwhile, and the service continues. None is lost."""
    path = tmp_path / "file"
    text = SMALL + (f"journal: {{file: {path}}}\n" if kind == "journal" else "")
    with application(text, record=str(path) if kind == "record" else "") as app:
        app.tick()
        assert app.json("/health") == {"status": "healthy"}
        peer = app.connect()
        with file_size_limit(path.stat().st_size + 20):
            assert peer.say("run x devices=a/0 profile=10")[0].startswith("ok")
            app.tick()
            assert peer.say("run y devices=a/0 profile=10")[0].startswith("ok")
            app.tick()
            problem = f"the {kind} waits: {path}: the file would be too large"
            assert app.json("/readyz") == {"status": "healthy", "problems": [problem]}
            assert f'fakedev_file_failed{{file="{kind}"}} 1.0' in app.get("/-/metrics").body.decode()
        app.tick()
        assert app.json("/readyz") == {"status": "healthy"}
        peer.say("run z devices=a/0 profile=10")
        assert app.json("/api/v1/workloads")["total"] == 3
    assert errors(log_events) == [f"{problem}; all else continues"]
    lines = path.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") and json.loads(line) for line in lines)
    words = (b'"x"', b'"y"', b'"z"') if kind == "record" else (b"x on a/0", b"y on a/0", b"z on a/0")
    assert [any(word in line for line in lines) for word in words] == [True] * 3, lines


def errors(events: list[LogEvent]) -> list[str]:
    """The texts of logged errors."""
    return [formatEvent(event) for event in events if event["log_level"] is LogLevel.error]


def test_the_ready_file(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """Made in one step, without following a link; not removed when another program has replaced it."""
    ready, target = tmp_path / "ready", tmp_path / "target"
    ready.symlink_to(target)
    with application(ready_file=str(ready)) as app:
        assert json.loads(ready.read_text())["web"] == ["127.0.0.1:9400"]
        assert not ready.is_symlink()
        assert not target.exists()
        assert os.listdir(tmp_path) == ["ready"]
        ready.unlink()
        ready.write_text("of another program")
        app.stop()
    assert ready.read_text() == "of another program"
    with pytest.raises(SystemExit), application(ready_file=str(tmp_path / "none" / "ready")):
        pass
    reason = f"{tmp_path}/none/ready: no such file or folder"
    assert errors(log_events) == [f"the ready file cannot be written: {reason}"]


def test_a_ready_file_that_a_reload_cannot_write(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """It is logged, and the clock continues."""
    folder = tmp_path / "run"
    folder.mkdir()
    with application(ready_file=str(folder / "ready")) as app:
        (folder / "ready").unlink()
        folder.rmdir()
        signal.raise_signal(signal.SIGHUP)
        app.tick(3)
        assert app.json("/api/v1/clock")["tick"] == 3
        assert app.json("/health") == {"status": "healthy"}
    assert [text.partition(":")[0] for text in errors(log_events)] == ["the ready file cannot be written"]
