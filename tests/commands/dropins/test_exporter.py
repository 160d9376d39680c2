"""fakedev-exporter in memory: the original's program, over its files or ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakedev.commands.dropins.exporter import ExporterOptions
from fakedev.commands.dropins.exporter import main as exporter_main
from fakedev.schema.files import Files
from tests.support.application import MemoryApplication, application
from tests.support.paths import DATA, ORIGINALS
from tests.support.wire.http_wire import answers


@contextmanager
def exporter(folder: Path, *arguments: str) -> Iterator[MemoryApplication]:
    """The original's program, over its JSON files of a folder."""
    names = {"devtype": "dg1-4905.json", "devlist": "devlist.json", "identity": "xpu-manager.json"}
    if folder == DATA:
        names = {option: f"original-{name}.json" for option, name in
                 (("devtype", "device"), ("devlist", "devices"), ("identity", "identity"))}  # fmt: skip
    files = [part for option, name in names.items() for part in (f"-{option}", str(folder / name))]
    options = ExporterOptions()
    values = options.flags.parse(["-socket", "/nowhere/x.sock", *files, *arguments])
    text = options.configuration_text(values).replace('"listen": "/nowhere/x.sock"', '"listen": "127.0.0.1:9500"')
    text = text.replace('"mode": "600", ', "").replace('"mode": "600",\n', "")
    with application(text, drop_in=True, files=Files(environ={})) as running:
        yield running


@pytest.mark.parametrize("folder", [DATA, ORIGINALS], ids=["own", "original"])
def test_sixteen_pages_while_workloads_join(folder: Path) -> None:
    """Sixteen pages fetched while 0 % workloads join and leave are byte for byte one page."""
    if not folder.is_dir():
        pytest.skip("the original's files are not at hand")
    with exporter(folder, "-count", "2") as app:
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


@pytest.fixture
def drop_in() -> Iterator[MemoryApplication]:
    """The exporter over files of our own."""
    with exporter(DATA, "-count", "2") as app:
        yield app


def test_the_exporter_serves_metrics_alone(drop_in: MemoryApplication) -> None:
    """GET /metrics; unknown and longer paths 404, other methods 405, HEAD among them, a body 400."""
    assert drop_in.get("/metrics").status == 200
    of_the_service = ("/health", "/sd", "/api/v1/clock", "/-/metrics", "/nodes/exporter")
    for path in ("/", "//metrics", "/./metrics", "/metrics/", "/metrics/x", *of_the_service):
        assert drop_in.get(path).status == 404, path
    for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        answer = drop_in.ask(method, "/metrics")
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert drop_in.ask("GET", "/metrics", b"body").status == 400
    peer = drop_in.http()
    # In all 4 KiB; the native service takes 16 KiB of headers.
    said = peer.send(b"GET /metrics HTTP/1.1\r\n" + b"X: %b\r\n" % (b"x" * 2000) * 3)
    assert answers(said)[0].status == 431
    peer.leave()


def test_the_exporter_is_impatient(drop_in: MemoryApplication) -> None:
    """Nothing, or a message that is begun, then 150 ms of silence: told 1. Bytes that keep coming are waited for."""
    silent = drop_in.connect()
    drop_in.reactor.advance(0.149)
    assert (silent.heard(), silent.closed) == (b"", False)
    drop_in.reactor.advance(0.002)
    assert (silent.heard(), silent.closed) == (b"1", True)
    peer = drop_in.connect()
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


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.9])
def test_a_workload_of_a_second_runs_for_a_second(drop_in: MemoryApplication, offset: float) -> None:
    """Also when it begins between two ticks: its peer is not told earlier."""
    drop_in.tick(2)
    drop_in.reactor.advance(offset)
    peer = drop_in.connect()
    peer.send(b'{"Name": "x", "Profile": [{"Load": 5, "Seconds": 1}], "Repeat": 1, "Devices": ["card4"]}')
    if offset:
        drop_in.reactor.advance(1 - offset)  # the tick
    drop_in.reactor.advance((offset or 1) - 0.001)
    assert (peer.heard(), peer.closed) == (b"", False)
    drop_in.reactor.advance(0.002)
    assert (peer.heard(), peer.closed) == (b"0", True)


def test_an_advance_needs_no_time() -> None:
    """The events of its ticks come before its answer, also for workloads that began between two ticks."""
    with application() as app:
        app.reactor.advance(1.5)
        peer = app.connect()
        assert peer.say("run x devices=a/0 profile=5:0:1")[0].startswith("ok w")
        assert peer.say("advance 2s")[0] == "ended x 0 OK"


def test_a_peer_that_leaves_before_it_is_told(drop_in: MemoryApplication) -> None:
    """Nothing is left to tell."""
    drop_in.reactor.advance(0.5)
    peer = drop_in.connect()
    peer.send(b'{"Name": "x", "Profile": [{"Load": 5, "Seconds": 1}], "Repeat": 1, "Devices": ["card4"]}')
    drop_in.reactor.advance(0.6)
    peer.leave()
    drop_in.tick(2)
    assert not drop_in.fleet.workloads.by_id


def test_the_service_waits_for_silent_peers() -> None:
    """fakedev serve does not answer what has sent nothing."""
    with application() as app:
        silent = app.connect()
        app.reactor.advance(60)
        assert (silent.heard(), silent.closed) == (b"", False)


def test_a_peer_of_words_may_be_silent_after_its_first_message(drop_in: MemoryApplication) -> None:
    """The original's patience is for the first message alone."""
    peer = drop_in.connect()
    assert peer.say("list") == ["ok 0 lines"]
    drop_in.reactor.advance(60)
    assert not peer.closed


def test_usage_of_the_exporter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], misuse: Callable[..., str]
) -> None:
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
        assert "fakedev-exporter" in misuse(exporter_main, *arguments)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-address", "x"], "fakedev-exporter: -address: 'x' is no address: "),
        (["-socket", "/" + "x" * 200], "fakedev-exporter: -socket: "),
        (["-adress", "x"], "fakedev-exporter: there is no option -adress; did you mean -address?"),
    ],
)
def test_the_option_is_named(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the key of a configuration that the user does not see."""
    try:
        assert exporter_main(arguments) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert any(each.startswith(line) for each in capsys.readouterr().err.splitlines())


def base_of(folder: Path, *devices: str) -> str:
    """The path of a base workload's file that names devices."""
    path = folder / f"{'-'.join(devices) or 'any'}.json"
    path.write_text(json.dumps({"Name": "base", "Profile": [{"Load": 40, "Seconds": 0}], "Devices": devices}))
    return str(path)


def test_devices_of_a_base_workload(tmp_path: Path) -> None:
    """Devices in its file go before the group; a file without them is for the group."""
    one, group = base_of(tmp_path, "card4"), base_of(tmp_path)
    for arguments, busy in ((["-wl-all", one], [1, 0]), (["-wl-odd", group], [0, 1]), (["-wl-all", group], [1, 1])):
        with exporter(DATA, "-count", "2", *arguments) as app:
            app.tick(2)
            assert (app.fleet.usage_ratio > 0.2).tolist() == [bool(each) for each in busy], arguments


def test_a_base_workload_of_unknown_devices_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a warning that names the file and the device; the program runs with the others."""
    names = {"devtype": "device", "devlist": "devices", "identity": "identity"}
    files = [part for flag, name in names.items() for part in (f"-{flag}", str(DATA / f"original-{name}.json"))]
    started = []
    monkeypatch.setattr("fakedev.service.exporter_program.run_exporter", lambda *arguments: started.append(arguments))
    unknown, known = base_of(tmp_path, "card4", "card9"), base_of(tmp_path, "card6")
    assert exporter_main([*files, "-count", "2", "-wl-all", unknown, "-wl-odd", known]) == 0
    ((configuration, head, *_),) = started
    assert [workload.devices for workload in configuration.fleet.base] == [("card6",)]
    said = capsys.readouterr().err
    assert f"{unknown}:1: devices: " in said
    assert "card9" in said
    assert f"without the base workload of {unknown}" in said
    assert unknown not in head.text  # a replay does the same


def test_the_socket_needs_no_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a read-only root: what is not used is not looked for."""

    def no_folder() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", no_folder)
    with exporter(DATA) as app:
        assert app.get("/metrics").status == 200


def test_a_device_without_a_mapped_label_has_none(tmp_path: Path) -> None:
    """No value is made for it when other devices of the list have one."""
    listed = json.loads((DATA / "original-devices.json").read_bytes())
    del listed["DeviceLabels"][1]["addr"]
    (tmp_path / "devlist.json").write_text(json.dumps(listed))
    with exporter(DATA, "-devlist", str(tmp_path / "devlist.json"), "-count", "2") as app:
        page = app.get("/metrics").body.decode()
    assert 'acme_power_watts{bdf="0000:5a:00.0",dev_file="card4",pciid="0x56c0"}' in page
    assert 'acme_power_watts{dev_file="card6",pciid="0x56c0"}' in page
