"""The last things that happened: found by kind and by device, also after a reload, and never too many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.journal import JournalEntry, Recent
from fakedev.fleet.journal_files import JournalFile
from tests.fleet.faults.test_exporters import BUSY, inject_by_api
from tests.support.application import SMALL, MemoryApplication, application
from tests.support.fleet.fleets import pool_of
from tests.support.fleet.records import without_checksums


@dataclass(frozen=True)
class Entry:
    kind: str
    devices: frozenset[int]
    size: int = 0

    def brief(self) -> Entry:
        return replace(self, size=0)


ENTRIES = st.lists(st.builds(Entry, st.sampled_from("abc"), st.frozensets(st.integers(0, 9), max_size=4)), max_size=20)


def kept(entries: list[Entry], most: int = 100, max_devices: int = 1000, max_size: int = 1000) -> Recent:
    """What remembers these entries: the older ones came one by one, the others together."""
    recent: Recent = Recent(most, max_devices, max_size)
    half = len(entries) // 2
    for some in [[entry] for entry in entries[:half]] + [entries[half:]] * bool(entries):
        recent.add(some, [np.array(sorted(entry.devices), dtype=np.int64) for entry in some])
    return recent


def mask(devices: frozenset[int]) -> np.ndarray:
    return np.isin(np.arange(10), list(devices))


class TestRecent:
    @given(ENTRIES, st.sets(st.sampled_from("abc")), st.none() | st.frozensets(st.integers(0, 9)), st.integers(0, 9))
    def test_found(self, entries: list[Entry], kinds: set[str], on: frozenset[int] | None, count: int) -> None:
        found = [
            each for each in entries if (not kinds or each.kind in kinds) and (on is None or each.devices & on)
        ]
        assert kept(entries).last(count, kinds, None if on is None else mask(on)) == (found[-count:] if count else [])

    @given(ENTRIES, st.integers(1, 8), st.integers(1, 12))
    def test_bounds(self, entries: list[Entry], most: int, max_devices: int) -> None:
        """The newest are kept; where they concern too many devices, older ones are not found by these."""
        recent = kept(entries, most, max_devices)
        newest = entries[-most:]
        assert recent.last(100) == newest
        while sum(len(each.devices) for each in newest) > max_devices:
            newest = newest[1:]
        assert recent.last(100, on=mask(frozenset(range(10)))) == [each for each in newest if each.devices]

    @given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12), st.integers(1, 30))
    def test_what_is_large_is_forgotten(self, sizes: list[int], most: int, max_size: int) -> None:
        """All entries together have no more than they may; those that have forgotten are older than all others."""
        entries = [Entry("a", frozenset(), size) for size in sizes]
        recent = kept(entries, most, max_size=max_size)
        told = recent.last(100)
        assert sum(each.size for each in told) <= max_size
        newest = entries[-most:]
        begin = next((place for place, (one, other) in enumerate(zip(told, newest, strict=True)) if one.size), most)
        assert told[begin:] == newest[begin:]
        if sum(each.size for each in newest) * 2 <= max_size:
            assert len(sizes) > most or told == newest

    @given(ENTRIES, st.frozensets(st.integers(0, 8), max_size=4))
    def test_devices_that_move(self, entries: list[Entry], later: frozenset[int]) -> None:
        old = Roster((pool_of("x", nodes=5, devices_per_node=2),))
        new = Roster((pool_of("w", nodes=1, devices_per_node=3), pool_of("x", nodes=3, devices_per_node=2)))
        recent = kept(entries)
        recent.reindex(FleetReindex(old, new))
        newest = Entry("d", later)
        recent.add([newest], [np.array(sorted(later), dtype=np.int64)])
        for place in range(9):
            found = [each for each in entries if place - 3 in each.devices] + [newest] * (place in later)
            assert recent.last(100, on=np.arange(9) == place) == found
        assert recent.last(100) == [*entries, newest]


class TestJournalQuery:
    @pytest.fixture
    def app(self) -> Iterator[MemoryApplication]:
        with application(BUSY) as running:
            inject_by_api(running, kind="lost", devices=["a/0"])
            inject_by_api(running, kind="xid", code=13, devices=["b/1"])
            yield running

    @pytest.mark.parametrize(
        ("query", "kinds"),
        [
            ("kind=lost,xid", ["xid", "xid", "lost"]),
            ("kind=lost&kind=xid", ["xid", "xid", "lost"]),
            ("kind=reload", []),
            ("devices=b/1&kind=ended,xid", ["xid", "ended"]),
            ("devices=a/0,b/1&kind=began", ["began", "began"]),
            ("node=a", ["ended", "xid", "lost", "began", "fault"]),
            ("node=a&devices=card1", ["ended"]),
            ("kind=lost,xid&limit=1", ["xid"]),
        ],
    )
    def test_what_is_found(self, app: MemoryApplication, query: str, kinds: list[str]) -> None:
        """Newest first; the base workload was ended on all of its devices."""
        told = app.json(f"/api/v1/journal?{query}")
        assert [each["kind"] for each in told["journal"]] == kinds

    def test_what_is_refused(self, app: MemoryApplication) -> None:
        """With the place and the reason."""
        for query, where, text in (
            ("kind=xids", "kind", "nothing of the kind 'xids' happens; did you mean xid?"),
            ("node=c", "node", "no node 'c'"),
            ("devices=a/9", "devices", "no device '9'"),
        ):
            answer = app.ask("GET", f"/api/v1/journal?{query}")
            assert (answer.status, where in str(answer.body), text in answer.body.decode()) == (400, True, True)

    def test_words_and_json(self, app: MemoryApplication) -> None:
        peer = app.connect()
        assert [line.split()[2] for line in peer.say("journal 5 kind=began devices=a/*")[1:]] == ["began"]
        told = app.connect().ask(op="journal", kind=["xid"], devices=["b/1"])
        assert [each["scope"] for each in told["journal"]] == ["b/1"]
        (refused,) = app.connect().say("journal kind=soup")
        assert refused.startswith("error unknown-name nothing of the kind 'soup' happens")


def entry(tick: int) -> JournalEntry:
    """Something that happened; its line has 123 bytes for ticks of one digit."""
    return JournalEntry(tick, float(tick), "began", "dgx-0/0", "f1", "fan began")


def ticks(path: Path) -> list[int]:
    return [json.loads(line)["tick"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("most", "keep", "expected"),
    [(260, 3, {"journal.2": [4, 5], "journal.1": [6, 7], "journal": [8]}), (140, 1, {"journal": [8]}),
     (140, 2, {"journal.1": [7], "journal": [8]})],
)  # fmt: skip
def test_it_is_turned_over(tmp_path: Path, most: int, keep: int, expected: dict[str, list[int]]) -> None:
    """Files are never longer than they may be, nor more; the newest has no number."""
    journal = JournalFile(str(tmp_path / "journal"), most, keep, Clock())
    for tick in range(9):
        journal.write([entry(tick)])
    assert {each.name: ticks(each) for each in tmp_path.iterdir()} == expected
    assert all(each.stat().st_size <= most for each in tmp_path.iterdir())
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for tick in range(2):
        journal = JournalFile(str(path), 1000, 2, Clock())
        journal.write([entry(tick)])
        journal.stopService()
        journal.write([entry(9)])
    assert ticks(path) == [0, 1]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The entries of a file, without their checksums."""
    return [json.loads(line) for line in without_checksums(path.read_bytes()).splitlines()]


def without_time(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the API as files have it."""
    return {name: value for name, value in entry.items() if name != "at"}


def test_of_an_application(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    text = f"{SMALL}journal: {{file: {path}, max-size: 1MB}}\n"
    with application(text) as app:
        app.ask("POST", "/api/v1/faults", {"kind": "lost", "devices": ["a/0"], "duration": "2s"})
        app.tick(4)
        told = [without_time(each) for each in app.json("/api/v1/journal")["journal"][::-1]]
        assert lines_of(path) == told
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
        told = {each["kind"]: without_time(each) for each in app.json("/api/v1/journal")["journal"]}
        lines = lines_of(path)
        (on_port,) = app.connect().ask(op="journal", count=1, kind=["hung"])["journal"]
    assert told["hung"]["scope"].endswith("dgx-6/1, dgx-7/0 and 33 more")
    assert told["hung"]["devices"] == ["dgx-[0-6]/1", "dgx-[8-39]/1", "dgx-7/[0-1]"]
    assert told["began"]["devices"] == told["fault"]["devices"] == told["hung"]["devices"]
    assert told["start"]["devices"] == ["dgx-[0-8]/[0-1]"]
    assert told["clock"]["devices"] == []
    assert {line["kind"]: line for line in lines} == told
    assert without_time(on_port) == told["hung"]


def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    """It goes without its devices: the file is never longer than it may be."""
    journal = JournalFile(str(tmp_path / "journal"), 150, 2, Clock())
    journal.write([entry(1)._replace(devices="dgx-0/0")])
    journal.write([entry(2)._replace(devices=",".join(["dgx-0/0"] * 20))])
    told = [json.loads((tmp_path / name).read_text())["devices"] for name in ("journal.1", "journal")]
    assert told == [["dgx-0/0"], None]


def test_it_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{SMALL}journal: {{file: {tmp_path}/none/journal}}\n"
    with pytest.raises(SystemExit) as caught, application(text):
        pass
    assert caught.value.code == 1
    assert "the journal cannot be written" in capsys.readouterr().err
