"""fakedev render: pages of simulated time, the same bytes as the service's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import pytest_twisted

from fakedev.commands.main import main
from fakedev.fleet.record import read_record
from tests.support.application import SMALL, STANDING, MemoryApplication, application
from tests.support.fleet.records import without_checksums
from tests.support.programs.processes import StartAsync, console

COLLECTD = SMALL.replace("h100", "flex-170").replace("dcgm", "collectd")


def rendered(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What `fakedev render` prints; its errors must be none."""
    assert main(["render", *arguments]) == code
    said = capfd.readouterr()
    assert (said.err == "") == (code == 0), said.err
    return said.out if code == 0 else said.err


def pages(text: str) -> dict[int, str]:
    parts = re.split(r"^# page tick=(\d+) time=\S+\n", text, flags=re.MULTILINE)
    assert parts[0] == ""
    return {int(tick): page for tick, page in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A file with four devices and a workload that moves them."""
    path = tmp_path / "small.yaml"
    base = "base: [{name: x, devices: all, profile: '40:20:7,80:5:9'}], listen"
    text = SMALL.replace("seed: 7", "seed: 7\n  epoch: 1800000000")
    path.write_text(text.replace("{listen: [{", "{" + base + ": [{"))
    return str(path)


@pytest.mark.slow
def test_span_and_interval(small: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A page every so often, the first and the last instant among them, each with its time."""
    text = rendered(capfd, "--config", small, "--for", "1m", "--every", "15s")
    assert list(pages(text)) == [0, 15, 30, 45, 60]
    times = re.findall(r"^# page tick=\d+ time=(\S+)$", text, flags=re.MULTILINE)
    assert times[:2] == ["2027-01-15T08:00:00.000+00:00", "2027-01-15T08:00:15.000+00:00"]
    assert len(set(pages(text).values())) == 5
    assert list(pages(rendered(capfd, "-c", small))) == [0, 15, 30, 45, 60]
    assert list(pages(rendered(capfd, "-c", small, "--for", "50s", "--every", "20s"))) == [0, 20, 40]
    assert list(pages(rendered(capfd, "-c", small, "--for", "2s", "--every", "250ms"))) == [0, 1, 2]
    assert list(pages(rendered(capfd, "-c", small, "--for", "0"))) == [0]
    tick = ("--set", "fleet.tick=500ms")
    assert list(pages(rendered(capfd, "-c", small, *tick, "--for", "2s", "--every", "1s"))) == [0, 2, 4]


def test_the_journal(small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What happened in the span, beside the pages."""
    journal = tmp_path / "journal.jsonl"
    fault = ("--set", "faults=[{kind: fan, devices: all, start: 10s, duration: 20s}]")
    text = rendered(capfd, "-c", small, *fault, "--journal", str(journal))
    assert list(pages(text)) == [0, 15, 30, 45, 60]
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(entry["kind"], entry["tick"]) for entry in entries if entry["kind"] in ("began", "over")] == [
        ("began", 11), ("over", 31),
    ]  # fmt: skip
    assert rendered(capfd, "-c", small, "--journal", str(tmp_path), code=1).endswith("is a folder, not a file\n")


@pytest.mark.slow
def test_the_same_again(small: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The same command prints the same bytes; another seed others."""
    first = rendered(capfd, "--config", small)
    assert rendered(capfd, "--config", small) == first
    assert rendered(capfd, "--config", small, "--set", "fleet.seed=8") != first


@pytest.mark.slow
def test_without_a_configuration(capfd: pytest.CaptureFixture[str]) -> None:
    """The demo: an hour in four steps."""
    shown = pages(rendered(capfd, "--for", "1h", "--every", "15m"))
    assert list(shown) == [0, 900, 1800, 2700, 3600]
    assert shown[900].count("\nDCGM_FI_DEV_GPU_UTIL{") == 8


def test_one_node(small: str, capfd: pytest.CaptureFixture[str]) -> None:
    whole = pages(rendered(capfd, "--config", small, "--for", "5s", "--every", "5s"))
    node = pages(rendered(capfd, "--config", small, "--for", "5s", "--every", "5s", "--node", "b"))
    assert list(node) == [0, 5]
    assert set(node[5].splitlines()) < set(whole[5].splitlines())
    assert 'Hostname="a"' not in node[5]
    assert rendered(capfd, "--config", small, "--node", "c", code=2) == "fakedev render: no node 'c'; there are a, b\n"


def test_files(small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made" / "here"
    assert rendered(capfd, "-c", small, "--for", "10s", "--every", "5s", "--output", str(folder)) == ""
    printed = pages(rendered(capfd, "-c", small, "--for", "10s", "--every", "5s"))
    assert sorted(path.name for path in folder.iterdir()) == ["0.prom", "10.prom", "5.prom"]
    for tick, page in printed.items():
        assert (folder / f"{tick}.prom").read_text() == page
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert rendered(capfd, "-c", small, "--output", str(blocked), code=1).startswith("fakedev render: ")


def test_what_cannot_be(small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """2, and one line that says why."""
    said = rendered(capfd, "-c", small, "--node", "nobody", code=2)
    assert said.startswith("fakedev render: ")
    assert said.count("\n") == 1
    assert "no such file" in rendered(capfd, "-c", str(tmp_path / "none.yaml"), code=2)
    broken = tmp_path / "broken.yaml"
    broken.write_text("flet: {}\nwep: []\n")
    assert rendered(capfd, "-c", str(broken), code=2).count("\n") >= 2
    for arguments in (["--colour"], ["operand"], ["--for", "soon"], ["--every", "x"], ["--for=-5s"]):
        with pytest.raises(SystemExit) as ended:
            main(["render", *arguments])
        assert ended.value.code == 2
        assert arguments[0].partition("=")[0] in capfd.readouterr().err


@pytest.mark.slow
def test_a_record_of_a_killed_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Cut anywhere in its last line, it is the record without that line, and a note says so."""
    record = tmp_path / "run.jsonl"
    recorded(SMALL, record)
    whole = record.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    record.write_bytes(whole[:last])
    expected = rendered(capfd, "--events", str(record))
    for cut in (last + 1, last + 20, len(whole) - 2):
        record.write_bytes(whole[:cut])
        assert main(["render", "--events", str(record)]) == 0
        said = capfd.readouterr()
        assert said.out == expected
        assert said.err == f"fakedev render: note: {record}: the last line is incomplete, and left out\n"
    record.write_bytes(whole[:-1])  # only the end of the line is missing
    rendered(capfd, "--events", str(record))


@pytest.mark.slow
def test_a_record_of_another_version(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is replayed, and a note says that the bytes may differ."""
    record = tmp_path / "run.jsonl"
    recorded(SMALL, record)
    expected = rendered(capfd, "--events", str(record))
    record.write_bytes(without_checksums(record.read_bytes()).replace(b'"version":"', b'"version":"0.0.', 1))
    assert main(["render", "--events", str(record)]) == 0
    said = capfd.readouterr()
    assert said.out == expected
    assert said.err.startswith(f"fakedev render: note: {record}: of version 0.0.")
    assert said.err.endswith("simulated values and bytes may differ\n")


@pytest.mark.parametrize("option", ["--for", "--every"])
@pytest.mark.parametrize("value", ["-1s", "soon"])
def test_wrong_durations(option: str, value: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The option is named: there are two."""
    with pytest.raises(SystemExit, match="2"):
        main(["render", option, value])
    assert f"{option}: '{value}' is" in capfd.readouterr().err


@pytest.mark.slow
def test_wrong_records(small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """2, with the line at fault; a record of another fleet is reported as such."""
    record = tmp_path / "run.jsonl"
    for text, fault in (
        (b"", "line 1: the record is empty"),
        (b"hello\n", "a record is what --record has written"),
        (b"{}\n", "line 1: not a record of format 2"),
        (b"[]\n", "line 1: not a JSON object"),
        (b"\xff\xfe\n", "line 1: not JSON"),
    ):
        record.write_bytes(text)
        assert fault in rendered(capfd, "--events", str(record), code=2)
    assert rendered(capfd, "--events", str(tmp_path / "none"), code=2).endswith("no such file or folder\n")
    record.unlink()
    good = recorded(SMALL, record)
    lines = without_checksums(record.read_bytes()).splitlines(keepends=True)
    for change, fault in (
        ([*lines, b'{"tick":0}\n'], "an event without"),
        ([lines[0], *lines[2:]], "does not fit"),
        ([*lines[:2], *lines[3:]], "out of order"),
        ([*lines[:-1], lines[-1][:10] + b"\n"], f"line {len(lines)}: not JSON"),
    ):
        record.write_bytes(b"".join(change))
        assert fault in rendered(capfd, "--events", str(record), "--for", "1m", code=2), change[1:]
    record.write_bytes(b"".join(lines))
    assert "no device" in rendered(capfd, "--events", str(record), "--set", "fleet.pools.0.devices-per-node=1", code=2)
    assert good


# -- record and replay -------------------------------------------------------------------------------------------


def work(app: MemoryApplication) -> dict[int, bytes]:
    """A run in which everything happens; the pages that were seen, by the tick that they say they show."""
    seen: dict[int, bytes] = {}

    def look() -> None:
        for _ in range(2):
            answer = app.get("/metrics")
            assert seen.setdefault(int(answer.headers["x-fakedev-tick"]), answer.body) == answer.body

    look()
    words, bare, json_peer = app.connect(), app.connect(), app.connect()
    words.say("run x devices=a/0,b/1 profile=60:30:2,20:5:3 repeat=3 pod=my-pod")
    words.say("run y devices=a/* profile=30:10 detach")
    app.tick(1)
    look()
    bare.send(b'{"Name":"original","Profile":[{"Load":40,"Fluctuation":20,"Seconds":4}],"Devices":["b/0"],"Repeat":1}')
    look()
    app.tick(2)
    look()
    json_peer.ask(op="run", name="z", devices=["b/*"], profile=[[10, 10, 0]], limits={"power": 250})
    app.ask("POST", "/api/v1/workloads", {"name": "api", "devices": ["a/1"], "profile": "50:20:0", "ttl": "20s"})
    json_peer.send(b'{"op":"advance","duration":"7s"}\n')
    look()
    app.tick(1)
    look()
    words.leave()
    look()
    app.reactor.rightNow += 4.7  # a stall
    for _ in range(5):
        app.reactor.turn()
        look()
    app.reactor.rightNow += 30  # so long that ticks are dropped
    app.tick(2)
    look()
    app.ask("DELETE", "/api/v1/workloads/y")
    app.ask("POST", "/api/v1/clock", {"advance": "1m"})
    look()
    json_peer.leave()
    app.tick(3)
    look()
    return seen


def recorded(text: str, record: Path) -> dict[int, bytes]:
    with application(text, record=str(record)) as app:
        return work(app)


@pytest.mark.slow
@pytest.mark.parametrize("text", [SMALL, STANDING, COLLECTD], ids=["dcgm", "standing", "collectd"])
def test_a_record_replays_to_the_same_bytes(text: str, tmp_path: Path) -> None:
    """Every page that was fetched is rendered again only from the record, with its timestamps."""
    record, folder = tmp_path / "run.jsonl", tmp_path / "pages"
    seen = recorded(text, record)
    assert len(seen) >= (3 if text == STANDING else 12)
    assert len(set(seen.values())) > 2
    span = ["--for", f"{max(seen)}s", "--every", "1s"]
    assert main(["render", "--events", str(record), *span, "--output", str(folder)]) == 0
    for tick, page in seen.items():
        assert (folder / f"{tick}.prom").read_bytes() == page, tick


@pytest.mark.slow
def test_a_record_needs_its_files_no_more(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All that was read is in it: what it was made from may change or go."""
    record = tmp_path / "run.jsonl"
    recorded(SMALL, record)
    head, _ = read_record(record.read_bytes())
    assert any(name.startswith("catalog:devices/") for name in head.files)
    changed = without_checksums(record.read_bytes()).replace(b"H100 80GB HBM3", b"Q100 80GB HBM9")
    record.write_bytes(changed)
    assert "Q100 80GB HBM9" in rendered(capfd, "--events", str(record), "--for", "1s")


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_a_reader_that_stops(start_async: StartAsync, small: str) -> None:
    """A closed pipe ends it with 0 and no error message."""
    program = start_async([*console("fakedev"), "render", "--config", small, "--for", "1h", "--every", "1s"])
    await program.wait_for_text("# page tick=0 ")
    program.transport.closeStdout()
    assert (await program.wait(), program.stderr) == (0, "")
    assert program.stdout.count("# page tick=") < 3600


@pytest.mark.slow
def test_openmetrics(small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All nodes as a server would store them, in one text or in files of two hours; the end is exclusive."""
    given = ("--config", small, "--openmetrics", "--for", "1m")
    text = rendered(capfd, *given)
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    ups = re.findall(r'^up\{instance="(\S+):9400",job="fakedev"\} 1 (\S+)$', text, flags=re.MULTILINE)
    nodes = sorted({name for name, _ in ups})
    assert [at for name, at in ups if name == nodes[0]] == [f"18000000{at:02}.000" for at in (0, 15, 30, 45)]
    (other, *_) = nodes
    one = rendered(capfd, *given, "--node", other)
    assert set(re.findall(r'instance="(\S+?):9400"', one)) == {other}
    assert rendered(capfd, *given, "--output", str(tmp_path / "out")) == ""
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["2027-01-15T08Z.om"]
    assert (tmp_path / "out" / "2027-01-15T08Z.om").read_text() == text
