"""The folder of a fleet's state: what it has at any moment is enough to go on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

import fakedev
from fakedev.base.errors import CannotWrite
from fakedev.base.framed_lines import checked
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import Replay, read_events
from fakedev.fleet.snapshot import fleet_from_bytes
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.state_folder import EVERY_SECONDS, CannotGoOn, Saved, StateFolder, code_version
from fakedev.runtime.processes import Outcome
from tests.support.disks import file_size_limit
from tests.support.fleet.fleets import make_fleet, start, stop
from tests.support.fleet.histories import shown_of
from tests.support.fleet.records import without_checksums
from tests.support.paths import ROOT

HEAD = RecordHead("1", 0.0, "/etc/fakedev.yaml")


class Kept:
    """A fleet whose state is kept, by a clock of the test, and its copies of the process.

    :ivar outcomes: what copies are to answer, None while they work; they have succeeded when there is none left.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.outcomes: list[bool | None] = []
        self.state = StateFolder(str(folder), self.clock, self._copy)
        self.saved = self.state.read()
        if self.saved is None:
            self.fleet = make_fleet(record=self.state.record)
        else:
            self.fleet = gone_on(self.saved, self.state)
        self.state.begin(self.fleet, HEAD)

    def _copy(self, work: Callable[[], None]) -> Outcome:
        is_good = self.outcomes.pop(0) if self.outcomes else True
        if is_good:
            work()
        return lambda: is_good

    def tick(self, seconds: float = 1.0, *connected: str) -> None:
        self.clock.advance(seconds)
        self.fleet.advance()
        self.state.ticked(connected)

    def killed(self) -> None:
        self.state.stopService()


def gone_on(saved: Saved, state: StateFolder) -> Fleet:
    fleet = fleet_from_bytes(saved.content, state.record)
    replay = Replay(read_events(saved.lines, 1))
    while fleet.state.tick < saved.tick:
        replay.advance(fleet)
    replay.apply_due(fleet)
    return fleet


def same(one: Fleet, other: Fleet) -> bool:
    return (one.state.tick, list(one.workloads.by_id), shown_of(one, ["dgx-0"])) == (
        other.state.tick, list(other.workloads.by_id), shown_of(other, ["dgx-0"]),
    )  # fmt: skip


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    kept = Kept(folder)
    for seconds in (1, 30, 31, 1, 61, 1):
        work = start(kept.fleet, profile="80:5:3")
        before = kept.fleet
        kept.killed()
        kept = Kept(folder)
        assert same(kept.fleet, before)
        kept.tick(seconds)
        stop(kept.fleet, work)
        before = kept.fleet
        kept.killed()
        kept = Kept(folder)
        assert same(kept.fleet, before)
        kept.tick()
        assert work not in kept.fleet.workloads.by_id


@pytest.mark.slow
def test_snapshots(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """One a minute, or after many ticks of an advance; the older files go when it is complete."""
    kept = Kept(tmp_path)

    def names() -> list[str]:
        return sorted(each.name for each in tmp_path.iterdir())

    assert names() == ["since-1.jsonl", "snapshot-1", "tick"]
    kept.tick(EVERY_SECONDS - 1)
    assert names() == ["since-1.jsonl", "snapshot-1", "tick"]
    kept.tick(1)
    assert names() == ["since-2.jsonl", "snapshot-2", "tick"]
    for _ in range(2000):
        kept.tick(0.0)
    assert names() == ["since-3.jsonl", "snapshot-3", "tick"]
    assert kept.state.snapshots == {True: 2, False: 0}
    kept.outcomes = [False]
    start(kept.fleet)
    kept.tick(EVERY_SECONDS)
    start(kept.fleet, "card1")
    kept.tick()
    assert "no snapshot of the state could be written" in str(formatEvent(log_events[-1]))
    assert names() == ["since-3.jsonl", "since-4.jsonl", "snapshot-3", "tick"]
    before = kept.fleet
    kept.killed()
    assert same(Kept(tmp_path).fleet, before)


def test_a_snapshot_that_takes_long(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.outcomes = [None]
    for card in ("card0", "card1", "card2"):
        start(kept.fleet, card)
        kept.tick(EVERY_SECONDS)
    assert sorted(each.name for each in tmp_path.glob("since*")) == ["since-1.jsonl", "since-2.jsonl"]
    before = kept.fleet
    kept.killed()
    assert same(Kept(tmp_path).fleet, before)


def test_connected_workloads(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    first = start(kept.fleet)
    kept.state.note_connected(first)
    kept.tick(EVERY_SECONDS, first)
    second = start(kept.fleet, "card1")
    kept.state.note_connected(second)
    start(kept.fleet, "card2")
    kept.tick()
    kept.killed()
    saved = Kept(tmp_path).saved
    assert saved is not None
    assert saved.connected == {first, second}


def test_a_torn_line(tmp_path: Path) -> None:
    """The last line may be incomplete, when the process was killed while it wrote it: nobody was answered then."""
    kept = Kept(tmp_path)
    start(kept.fleet)
    kept.tick()
    kept.killed()
    with (tmp_path / "since-1.jsonl").open("ab") as file:
        file.write(b'{"tick":1,"seq":2,"event":"sta')
    assert list(Kept(tmp_path).fleet.workloads.by_id) == ["w1"]


def test_folders_of_others(tmp_path: Path) -> None:
    """A folder belongs to one service, and others may not write there: a snapshot decides what the program does."""
    kept = Kept(tmp_path / "one")
    shared, file = tmp_path / "shared", tmp_path / "file"
    shared.mkdir()
    shared.chmod(0o777)
    file.touch()
    for path, text in (
        (tmp_path / "one", "another service keeps its state there"),
        (shared, "others may write there"),
        (file, "it is no folder"),
        (tmp_path / "missing" / "state", "its folder does not exist: make that one first"),
    ):
        with pytest.raises(CannotWrite, match=text):
            StateFolder(str(path), Clock())
    kept.killed()
    StateFolder(str(tmp_path / "one"), Clock()).stopService()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda head, rest: without_checksums(head).replace(code_version().encode(), b"0" * 16) + rest,
         "another build of fakedev"),
        (lambda head, rest: head.replace(code_version().encode(), b"0" * 16) + rest, "it is damaged"),
        (lambda head, rest: checked(orjson.loads(without_checksums(head)) | {"version": "0.0.9", "code": "x"}) + rest,
         r"written by fakedev 0\.0\.9: start that one, or move its folder away"),
        (lambda head, rest: head.replace(b'"sha256":"', b'"sha256":"0') + rest, "it is damaged: move its folder away"),
        (lambda head, rest: head + rest[:-1], "it is damaged"),
        (lambda head, rest: b"{}\n" + rest, "it is no snapshot of a fleet"),
        (lambda head, rest: b"", "it is no snapshot of a fleet"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(tmp_path: Path, change: Callable[[bytes, bytes], bytes], text: str) -> None:
    """The files stay."""
    Kept(tmp_path).killed()
    path = tmp_path / "snapshot-1"
    first, end, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(change(first + end, rest))
    with pytest.raises(CannotGoOn, match=text):
        StateFolder(str(tmp_path), Clock()).read()
    assert path.exists()


def line_of(number: int, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        return b"".join([*lines[:number], change(lines[number]), *lines[number + 1 :]])

    return changed


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("tick", lambda content: b"", "tick is damaged: the ticks since the last snapshot or event are lost"),
        ("tick", lambda content: content.replace(b"3 ", b"4 ", 1), "tick is damaged"),
        ("tick", lambda content: b"%020d\n" % 3020, "tick is damaged"),
        ("since-1.jsonl", lambda content: b"", "since-1.jsonl is damaged: events in its last"),
        ("since-1.jsonl", line_of(1, lambda line: b""), "since-1.jsonl is damaged: events in its last"),
    ],
)
def test_damages_that_are_reported(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], text: str
) -> None:
    """What is lost is said; events that are there are not lost with the number of the tick."""
    kept = Kept(tmp_path)
    for number in range(2):
        start(kept.fleet, f"card{number}")
        kept.tick()
    kept.tick()
    kept.killed()
    path = tmp_path / name
    path.write_bytes(change(path.read_bytes()))
    saved = StateFolder(str(tmp_path), Clock()).read()
    assert saved is not None
    (damage,) = saved.damages
    assert text in damage
    assert saved.tick == (1 if name == "tick" else 3)


@pytest.mark.parametrize("change", [lambda line: line.replace(b"card0", b"card3"), lambda line: b"\0" * 8 + line[8:]])
def test_a_damaged_event(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    kept = Kept(tmp_path)
    start(kept.fleet, "card0")
    kept.tick()
    kept.killed()
    path = tmp_path / "since-1.jsonl"
    path.write_bytes(line_of(0, change)(path.read_bytes()))
    with pytest.raises(CannotGoOn, match=r"since-1\.jsonl:1: the line is damaged: restore .* truncate -s 0 "):
        StateFolder(str(tmp_path), Clock()).read()


@pytest.mark.parametrize("name", ["tick", "since-1.jsonl", "snapshot-1", "cluster-health"])
def test_pipes(tmp_path: Path, name: str) -> None:
    """They are refused at once: to read one waits for a writer."""
    Kept(tmp_path).killed()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises((CannotGoOn, CannotWrite), match="it is not a regular file"):
        state = StateFolder(str(tmp_path), Clock())
        state.kept(name)
        state.read()


def test_a_full_disk(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """Events wait, and the number of the tick stays at what is in the files; then all is there again."""
    kept = Kept(tmp_path)
    since = tmp_path / "since-1.jsonl"
    with file_size_limit(10):
        start(kept.fleet)
        kept.tick()
    assert since.stat().st_size == 0
    assert "the state waits" in str(formatEvent(log_events[-1]))
    assert kept.state.problem
    assert kept.fleet.state.tick == 1
    kept.tick()
    assert not kept.state.problem
    before = kept.fleet
    kept.killed()
    assert same(Kept(tmp_path).fleet, before)


@pytest.mark.parametrize("module", ["fleet/boards/tick.py", "fleet/spec/quantities.py", "base/units.py"])
def test_a_changed_byte_is_another_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Another simulator may continue a fleet in another way, so it does not continue it at all."""
    copy = tmp_path / "fakedev"
    for room in ("base", "fleet"):
        shutil.copytree(ROOT / "fakedev" / room, copy / room)
    monkeypatch.setattr(fakedev, "__file__", str(copy / "__init__.py"))
    uncached = code_version.__wrapped__
    assert uncached() == code_version()
    with (copy / module).open("a") as file:
        file.write("#")
    assert uncached() != code_version()
