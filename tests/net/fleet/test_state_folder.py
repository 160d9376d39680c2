"""The folder of a fleet's state: what it has at any moment is enough to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

from fakedev.net.fleet.state_files import CannotGoOn, Saved, code_version
from fakedev.net.fleet.state_folder import EVERY_SECONDS, StateFolder
from fakedev.net.system.process_copies import Outcome
from fakedev.sim.fleet import Fleet
from fakedev.sim.record import Replay, read_events
from fakedev.sim.snapshot import fleet_from_bytes
from fakedev.spec.os_errors import CannotWrite
from fakedev.spec.record_head import RecordHead
from tests.support.disks import file_size_limit
from tests.support.fleets import make_fleet, start, stop
from tests.support.histories import shown_of

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
        """A tick, after some seconds."""
        self.clock.advance(seconds)
        self.fleet.advance()
        self.state.ticked(connected)

    def killed(self) -> None:
        """The process is gone, and its locks."""
        self.state.stopService()


def gone_on(saved: Saved, state: StateFolder) -> Fleet:
    """The fleet of the last tick that a folder has."""
    fleet = fleet_from_bytes(saved.content, state.record)
    replay = Replay(read_events(saved.lines, 1))
    while fleet.state.tick < saved.tick:
        replay.advance(fleet)
    replay.apply_due(fleet)
    return fleet


def same(one: Fleet, other: Fleet) -> bool:
    """Whether two fleets show the same, and have the same workloads."""
    return (one.state.tick, list(one.workloads.by_id), shown_of(one, ["dgx-0"])) == (
        other.state.tick, list(other.workloads.by_id), shown_of(other, ["dgx-0"]),
    )  # fmt: skip


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Between ticks, after events, before and after snapshots: the fleet is that of the last moment."""
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


def test_snapshots(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """One a minute; the older files go when it is complete, and stay when it fails."""
    kept = Kept(tmp_path)
    names = lambda: sorted(each.name for each in tmp_path.iterdir())  # noqa: E731
    assert names() == ["since-1.jsonl", "snapshot-1", "tick"]
    kept.tick(EVERY_SECONDS - 1)
    assert names() == ["since-1.jsonl", "snapshot-1", "tick"]
    kept.tick(1)
    assert names() == ["since-2.jsonl", "snapshot-2", "tick"]
    kept.tick()
    assert kept.state.snapshots == {True: 1, False: 0}
    kept.outcomes = [False]
    start(kept.fleet)
    kept.tick(EVERY_SECONDS)
    start(kept.fleet, "card1")
    kept.tick()
    assert "no snapshot of the state could be written" in str(formatEvent(log_events[-1]))
    assert names() == ["since-2.jsonl", "since-3.jsonl", "snapshot-2", "tick"]
    before = kept.fleet
    kept.killed()
    assert same(Kept(tmp_path).fleet, before)


def test_a_snapshot_that_takes_long(tmp_path: Path) -> None:
    """There is one at a time; events of that time are kept."""
    kept = Kept(tmp_path)
    kept.outcomes = [None]
    for card in ("card0", "card1", "card2"):
        start(kept.fleet, card)
        kept.tick(EVERY_SECONDS)
    assert sorted(each.name for each in tmp_path.glob("since*")) == ["since-1.jsonl", "since-2.jsonl"]
    before = kept.fleet
    kept.killed()
    assert same(Kept(tmp_path).fleet, before)


def test_many_ticks(tmp_path: Path) -> None:
    """An advance of the clock takes no time of the wall clock: its ticks are counted."""
    kept = Kept(tmp_path)
    for _ in range(2000):
        kept.tick(0.0)
    assert (tmp_path / "snapshot-2").exists()


def test_connected_workloads(tmp_path: Path) -> None:
    """Those that end with their connections are known, whether they began before or after the snapshot."""
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


def test_two_services(tmp_path: Path) -> None:
    """A folder belongs to one service."""
    kept = Kept(tmp_path)
    with pytest.raises(CannotWrite, match="another service keeps its state there"):
        StateFolder(str(tmp_path), Clock())
    kept.killed()
    StateFolder(str(tmp_path), Clock()).stopService()


def test_folders_of_others(tmp_path: Path) -> None:
    """What others may write is not read: a snapshot decides what the program does."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CannotWrite, match="others may write there"):
        StateFolder(str(folder), Clock())
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="it is no folder"):
        StateFolder(str(tmp_path / "file"), Clock())
    with pytest.raises(CannotWrite, match="the folder that it is to be made in is not there: make that one first"):
        StateFolder(str(tmp_path / "missing" / "state"), Clock())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda head, rest: head.replace(code_version().encode(), b"0" * 16) + rest, "another build of fakedev"),
        (lambda head, rest: head.replace(b'"sha256":"', b'"sha256":"0') + rest, "it is damaged: move its folder away"),
        (lambda head, rest: head + rest[:-1], "it is damaged"),
        (lambda head, rest: b"{}\n" + rest, "it is no snapshot of a fleet"),
        (lambda head, rest: b"", "it is no snapshot of a fleet"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, change: Callable[[bytes, bytes], bytes], text: str) -> None:
    """The reason and the remedy; the files stay."""
    Kept(tmp_path).killed()
    path = tmp_path / "snapshot-1"
    first, end, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(change(first + end, rest))
    with pytest.raises(CannotGoOn, match=text):
        StateFolder(str(tmp_path), Clock()).read()
    assert path.exists()


def test_another_version(tmp_path: Path) -> None:
    """The version that wrote it is named."""
    Kept(tmp_path).killed()
    path = tmp_path / "snapshot-1"
    first, _, rest = path.read_bytes().partition(b"\n")
    fields = orjson.loads(first) | {"version": "0.0.9", "code": "x"}
    path.write_bytes(orjson.dumps(fields) + b"\n" + rest)
    with pytest.raises(CannotGoOn, match=r"written by fakedev 0\.0\.9: start that one, or move its folder away"):
        StateFolder(str(tmp_path), Clock()).read()


def test_a_full_disk(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """When an event cannot be written, the state ends with its reason, and the service goes on."""
    kept = Kept(tmp_path)
    since = tmp_path / "since-1.jsonl"
    with file_size_limit(10):
        start(kept.fleet)
    assert since.stat().st_size == 0
    assert "the state ends" in str(formatEvent(log_events[-1]))
    assert kept.state.problem
    kept.tick()
    assert kept.fleet.state.tick == 1
