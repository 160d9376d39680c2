"""fakedev-exporter in memory: the original's program, over its files or ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakedev.commands.dropins.exporter import ExporterOptions
from fakedev.commands.dropins.exporter import main as exporter_main
from fakedev.config.schema.files import Files
from tests.support.application import MemoryApplication, application
from tests.support.http_wire import answers
from tests.support.paths import DATA, ORIGINALS


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
