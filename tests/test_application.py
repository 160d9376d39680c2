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

from fakedev.commands.exporter import ExporterOptions
from fakedev.commands.exporter import main as exporter_main
from fakedev.commands.main import main
from fakedev.config.files import Files
from fakedev.net.http_site import GuardedSite
from fakedev.net.recorder import Recorder
from fakedev.net.workload_port import WorkloadPortFactory
from fakedev.sim.events import DropWorkload, Stamped, StartWorkload
from fakedev.sim.journal import RecordHead, read_record
from fakedev.tap import Options, makeService
from tests.application import SMALL, AppReactor, MemoryApplication, application
from tests.config_help import DATA, ORIGINALS
from tests.http_wire import Peer, answers

TWO_POOLS = """
version: 1
fleet:
  seed: 7
  pools:
    - {name: green, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}
    - {name: blue, nodes: [c], device: flex-170, devices-per-node: 2, identity: xpumanager}
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


def parsed(*arguments: str) -> Options:
    """The options of a command line."""
    options = Options()
    options.parseOptions(list(arguments))
    return options


# -- from start to stop --------------------------------------------------------------------------------------


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
    """Every endpoint serves what it is said to serve, of one state."""
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
    """When nothing more can be written that is said once; after its end nothing more is written."""
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
    """The record ends with a line in the log; the service goes on."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(SystemExit) as ended:
        makeService(parsed("--record", "/dev/full"), AppReactor())
    assert ended.value.code == 1
    assert "No space left" in capsys.readouterr().err


# -- options -------------------------------------------------------------------------------------------------


def exit_of(*arguments: str) -> object:
    """The code with which `fakedev serve` ends at once."""
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    return ended.value.code


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 and a line for a good file; notes on standard error."""
    good = tmp_path / "good.yaml"
    good.write_text(SMALL)
    assert exit_of("--config", str(good), "--check") == 0
    assert capsys.readouterr().out == f"{good}: good\n"
    assert exit_of("--check") == 0
    assert capsys.readouterr().out == "the built-in demo: good\n"


def test_a_broken_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 and all problems at once, each with its line, with --check and without."""
    broken = tmp_path / "broken.yaml"
    broken.write_text(SMALL.replace("h100", "h1000").replace("web:", "wep:").replace("seed: 7", "seed: seven"))
    said = []
    for arguments in (["--check"], [], ["--print-config"]):
        assert exit_of("--config", str(broken), *arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        said.append(captured.err)
    assert len(set(said)) == 1
    problems = said[0].splitlines()
    assert [problem.split(": ")[0] for problem in problems] == [f"{broken}:{line}" for line in (4, 5, 6)]
    assert "h100" in problems[1]
    assert "web" in problems[2]
    assert exit_of("--config", str(tmp_path / "none.yaml")) == 2
    assert "no such file" in capsys.readouterr().err


def test_print_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The effective configuration with origins; it can be used as a configuration, and is the same again."""
    good = tmp_path / "good.yaml"
    good.write_text(SMALL)
    assert exit_of("-c", str(good), "--set", "fleet.seed=99", "--print-config") == 0
    printed = capsys.readouterr().out
    assert "seed: 99" in printed
    assert f"{good}:" in printed
    again = tmp_path / "again.yaml"
    again.write_text(printed)
    expected = parsed("-c", str(good), "--set", "fleet.seed=99").configuration
    assert parsed("-c", str(again)).configuration.fleet == expected.fleet


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--confg", "x"], "fakedev: option --confg not recognized; --help tells what there is\n"),
        (["file.yaml"], "fakedev: unexpected 'file.yaml'; --help tells what there is\n"),
        (["--config"], "fakedev: option --config requires argument; --help tells what there is\n"),
        (["--check=yes"], "fakedev: option --check must not have an argument; --help tells what there is\n"),
    ],
)
def test_wrong_options(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and 2."""
    assert exit_of(*arguments) == 2
    assert capsys.readouterr() == ("", text)


def test_wrong_set(capsys: pytest.CaptureFixture[str]) -> None:
    """A value that cannot be is told as such, with 2."""
    assert exit_of("--set", "fleet.sead=7") == 2
    assert "--set" in capsys.readouterr().err
    assert exit_of("--set", "fleet.seed") == 2
    assert "--set" in capsys.readouterr().err


def test_the_main_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Help, version, unknown subcommands."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fakedev 0.")
    assert main(["--help"]) == 0
    assert "render" in capsys.readouterr().out
    assert main([]) == 2
    capsys.readouterr()
    assert main(["sevre"]) == 2
    known = "serve, render, conform, diff, scale-test"
    assert capsys.readouterr().err == f"fakedev: no subcommand 'sevre'; there are: {known}\n"
    assert exit_of("--version") == 0
    assert exit_of("--help") == 0
    assert "--ready-file" in capsys.readouterr().out


# -- fakedev-exporter ----------------------------------------------------------------------------------------


def exporter(folder: Path, *arguments: str) -> MemoryApplication:
    """The original's program, over its JSON files of a folder."""
    names = {"devtype": "dg1-4905.json", "devlist": "devlist.json", "identity": "xpu-manager.json"}
    if folder == DATA:
        names = {option: f"original-{name}.json" for option, name in
                 (("devtype", "device"), ("devlist", "devices"), ("identity", "identity"))}  # fmt: skip
    files = [part for option, name in names.items() for part in (f"-{option}", str(folder / name))]
    options = ExporterOptions()
    values = options.flags.parse_or_exit(["-socket", "/nowhere/x.sock", *files, *arguments])
    text = options.configuration_text(values).replace('"listen": "/nowhere/x.sock"', '"listen": "127.0.0.1:9500"')
    text = text.replace('"mode": "600", ', "").replace('"mode": "600",\n', "")
    return MemoryApplication(text, drop_in=True, files=Files(environ={}))


@pytest.mark.parametrize("folder", [DATA, ORIGINALS], ids=["own", "original"])
def test_sixteen_pages_while_workloads_join(folder: Path) -> None:
    """Sixteen pages fetched while 0 % workloads join and leave are byte for byte one page."""
    if not folder.is_dir():
        pytest.skip("the original's files are not at hand")
    app = exporter(folder, "-count", "2")
    try:
        device = "card4" if folder == DATA else "card0"
        workload = {"Name": "idle", "Repeat": 0, "Profile": [{"Load": 0}], "Devices": [device]}
        app.tick(2)
        pages, peers = [], []
        for number in range(16):
            peers.append(app.connect())
            peers[-1].send(json.dumps(workload, indent="\t").encode())
            if number % 3 == 2:
                peers[number - 1].leave()
            pages.append(app.get("/metrics").body)
            app.reactor.advance(0.05)
        assert len(set(pages)) == 1
        assert pages[0].count(f'dev_file="{device}"'.encode()) >= 3
        app.tick()
        assert app.get("/metrics").body == pages[0]  # an idle device is at rest
        busy = {**workload, "Profile": [{"Load": 50}]}
        app.connect().send(json.dumps(busy).encode())
        app.tick()
        assert app.get("/metrics").body != pages[0]
    finally:
        app.stop()


@pytest.fixture
def drop_in() -> Any:
    """The exporter over files of our own."""
    app = exporter(DATA, "-count", "2")
    yield app
    app.stop()


def test_the_exporter_serves_metrics_alone(drop_in: MemoryApplication) -> None:
    """GET /metrics; unknown and longer paths 404, other methods 405, HEAD among them, a body 400."""
    assert drop_in.get("/metrics").status == 200
    for path in ("/", "/metrics/", "/metrics/x", "/health", "/sd", "/api/v1/clock", "/-/metrics", "/nodes/exporter"):
        assert drop_in.get(path).status == 404, path
    for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        answer = drop_in.ask(method, "/metrics")
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert drop_in.ask("GET", "/metrics", b"body").status == 400
    peer = drop_in.http()
    # In all 4 KiB, as the original; the native service takes 16 KiB of headers.
    said = peer.send(b"GET /metrics HTTP/1.1\r\n" + b"X: %b\r\n" % (b"x" * 2000) * 3)
    assert answers(said)[0].status == 431
    peer.leave()


def test_the_exporter_is_impatient(drop_in: MemoryApplication) -> None:
    """A message that is begun, then 150 ms of silence: told 1. Bytes that keep coming are waited for."""
    peer = drop_in.connect()
    drop_in.reactor.advance(60)
    peer.send(b'{"Name": ')
    drop_in.reactor.advance(0.149)
    assert not peer.closed
    peer.send(b'"x", ')
    drop_in.reactor.advance(0.149)
    assert not peer.closed
    drop_in.reactor.advance(0.002)
    assert (peer.heard(), peer.closed) == (b"1", True)
    peer = drop_in.connect()
    peer.send(b'{"Name": "x", "Profile": [{"Load": 5, "Seconds": 2}], "Repeat": 1, "Devices": ["card4"]}')
    drop_in.tick(1)
    assert not peer.closed
    drop_in.tick(2)
    assert (peer.heard(), peer.closed) == (b"0", True)


def test_usage_of_the_exporter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing files and bad options: all of it on standard error, exit 2, nothing listens."""
    missing = (tmp_path / "a.json", tmp_path / "b.json", DATA / "x.json")
    named = zip(("-devtype", "-devlist", "-identity"), map(str, missing), strict=True)
    options = [part for pair in named for part in pair]
    assert exporter_main(options) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for name in ("a.json", "b.json", "x.json"):
        assert f"{name}" in said.err
    for arguments in (["-nope"], ["-count", "x"], ["-devtype", ""], ["operand"]):
        with pytest.raises(SystemExit) as ended:
            exporter_main(arguments)
        assert ended.value.code == 2
        assert "fakedev-exporter" in capsys.readouterr().err
