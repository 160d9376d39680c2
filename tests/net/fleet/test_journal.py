"""The journal's file: one line for each thing that happens, turned over when it is large."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.net.fleet.journal import JournalFile
from fakedev.sim.journal_entries import JournalEntry
from tests.support.application import SMALL, application


def entry(tick: int) -> JournalEntry:
    """Something that happened; its line has 103 bytes for ticks of one digit."""
    return JournalEntry(tick, float(tick), "began", "dgx-0/0", "f1", "fan began")


def ticks(path: Path) -> list[int]:
    """The ticks of a file's lines."""
    return [json.loads(line)["tick"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_it_is_turned_over(tmp_path: Path) -> None:
    """Files are never longer than they may be, nor more; the newest has no number."""
    path = tmp_path / "journal"
    journal = JournalFile(str(path), 220, 3, Clock())
    for tick in range(9):
        journal.write([entry(tick)])
    assert [ticks(tmp_path / name) for name in ("journal.2", "journal.1", "journal")] == [[4, 5], [6, 7], [8]]
    assert sorted(os.listdir(tmp_path)) == ["journal", "journal.1", "journal.2"]
    assert all(each.stat().st_size <= 220 for each in tmp_path.iterdir())
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("keep", [1, 2])
def test_few_files(tmp_path: Path, keep: int) -> None:
    """One file is emptied."""
    journal = JournalFile(str(tmp_path / "journal"), 120, keep, Clock())
    for tick in range(4):
        journal.write([entry(tick)])
    assert len(os.listdir(tmp_path)) == keep
    assert ticks(tmp_path / "journal") == [3]


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    """What is there stays; after the end nothing is written."""
    path = tmp_path / "journal"
    for tick in range(2):
        journal = JournalFile(str(path), 1000, 2, Clock())
        journal.write([entry(tick)])
        journal.stopService()
        journal.write([entry(9)])
    assert ticks(path) == [0, 1]


def test_of_an_application(tmp_path: Path) -> None:
    """The file has what the API tells, and more than the API keeps."""
    path = tmp_path / "journal"
    text = f"{SMALL}journal: {{file: {path}, max-size: 1MB}}\n"
    with application(text) as app:
        app.ask("POST", "/api/v1/faults", {"kind": "lost", "devices": ["a/0"], "duration": "2s"})
        app.tick(4)
        told = app.json("/api/v1/journal")["journal"][::-1]
        assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == told
        assert [each["kind"] for each in told if each["kind"] != "clock"] == [
            "fault", "began", "lost", "xid", "over", "lost", "xid",
        ]  # fmt: skip


def test_devices_of_a_large_fleet(tmp_path: Path) -> None:
    """A line tells all devices in few words, also where the words for people name eight."""
    path = tmp_path / "journal"
    text = SMALL.replace("nodes: [a, b]", 'nodes: 40, node-name: "dgx-{}"') + f"journal: {{file: {path}}}\n"
    with application(text) as app:
        app.ask("POST", "/api/v1/workloads", {"name": "x", "devices": ["dgx-[0-8]/*"], "profile": "50:0:0"})
        app.ask("POST", "/api/v1/faults", {"kind": "hang", "devices": ["*/1", "dgx-7/0"]})
        app.tick()
        told = {each["kind"]: each for each in app.json("/api/v1/journal")["journal"]}
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        (on_port,) = app.connect().ask(op="journal", count=1, kind=["hung"])["journal"]
    assert told["hung"]["scope"].endswith("dgx-6/1, dgx-7/0 and 33 more")
    assert told["hung"]["devices"] == ["dgx-[0-6]/1", "dgx-[8-39]/1", "dgx-7/[0-1]"]
    assert told["began"]["devices"] == told["fault"]["devices"] == told["hung"]["devices"]
    assert told["start"]["devices"] == ["dgx-[0-8]/[0-1]"]
    assert told["clock"]["devices"] == []
    assert {each["kind"]: each for each in lines} == told
    assert on_port == told["hung"]


def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    """It goes without its devices: the file is never longer than it may be."""
    journal = JournalFile(str(tmp_path / "journal"), 150, 2, Clock())
    journal.write([entry(1)._replace(devices="dgx-0/0")])
    journal.write([entry(2)._replace(devices=",".join(["dgx-0/0"] * 20))])
    told = [json.loads((tmp_path / name).read_text())["devices"] for name in ("journal.1", "journal")]
    assert told == [["dgx-0/0"], None]


def test_it_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program ends with 1 and says why."""
    text = f"{SMALL}journal: {{file: {tmp_path}/none/journal}}\n"
    with pytest.raises(SystemExit) as caught, application(text):
        pass
    assert caught.value.code == 1
    assert "the journal cannot be written" in capsys.readouterr().err
