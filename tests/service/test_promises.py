"""The table of promises in doc/security.md: what is kept when a process is killed, the power is lost, a disk is full.

Each history is run again and again, and ends at each of its changes of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.base.errors import CannotWrite
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.state_folder import CLUSTER_HEALTH, EVERY_SECONDS, StateFolder, read_saved
from fakedev.queues.job import JobState
from fakedev.queues.log import LoggedJob, accepted_record, head_record, state_record
from fakedev.queues.log_file import QueueLogFile
from fakedev.runtime.disk import LineFile
from fakedev.runtime.processes import Outcome
from tests.support.disks import Crash, CrashingDisk
from tests.support.fleet.fleets import make_fleet, start

HEAD = RecordHead("1", 0.0, "/etc/fakedev.yaml")


@dataclass
class State:
    """A fleet with its folder.

    :ivar events, tick, health: what was answered.
    :ivar saved: events of the last complete snapshot.
    :ivar has_begun: whether the first one is complete.
    """

    folder: Path
    clock: Clock = field(default_factory=Clock)
    events: int = 0
    tick: int = 0
    saved: int = 0
    health: str = ""
    next_health: str = ""
    has_begun: bool = False
    state: StateFolder | None = None

    def history(self) -> Iterator[None]:
        """Events, ticks, snapshots and the file of the health, in steps."""
        self.state = state = StateFolder(str(self.folder), self.clock, self._copy)
        self.fleet = make_fleet(record=state.record)
        state.begin(self.fleet, HEAD)
        self.has_begun = True
        for number in range(2):
            start(self.fleet, f"card{number}")
            self.events += 1
            yield
            self.next_health = f"health {number}"
            state.keep(CLUSTER_HEALTH, self.next_health)
            self.health = self.next_health
            yield
            self.clock.advance(EVERY_SECONDS * (number % 2))
            self.advance()
            yield

    def advance(self) -> None:
        assert self.state is not None
        self.fleet.advance()
        self.state.ticked(())
        self.tick = self.fleet.state.tick

    def _copy(self, work: Callable[[], None]) -> Outcome:
        work()
        self.saved = self.events
        return lambda: True

    def kept(self) -> tuple[int, int]:
        """Events and ticks that a next service finds."""
        saved, _ = read_saved(str(self.folder))
        if saved is None:
            return 0, 0
        assert all(damage.endswith("an incomplete line, which is left out") for damage in saved.damages)
        return saved.last_event.followed_by(saved.lines).sequence, saved.tick

    def kept_health(self) -> str | None:
        """What a next service finds beside the fleet."""
        state = StateFolder(str(self.folder), self.clock)
        try:
            return state.kept(CLUSTER_HEALTH)
        finally:
            state.stopService()


def crashes(history: Callable[[CrashingDisk], None], folder: Path) -> Iterator[CrashingDisk]:
    """The disk after a crash at each change of a history, which begins anew in an empty folder each time."""
    for number in range(10_000):
        own = folder / str(number)
        own.mkdir(0o700)
        with pytest.MonkeyPatch.context() as patch:
            disk = CrashingDisk(own, patch, crash_at=number)
            try:
                history(disk)
                break
            except Crash:
                pass
        yield disk
    assert number > 10


@pytest.mark.slow
def test_a_state(tmp_path: Path) -> None:
    """When the process is killed, each event and tick that was answered is there, and the health, the old or the new.

    Without power the last complete snapshot is there; what is missing after it is said.
    """
    runs: list[State] = []

    def history(disk: CrashingDisk) -> None:
        runs.append(State(disk.folder))
        for _ in runs[-1].history():
            pass

    for disk in crashes(history, tmp_path):
        state = runs[-1]
        state.folder = disk.copy("killed")
        events, tick = state.kept()
        assert events in (state.events, state.events + 1)
        assert tick >= state.tick
        if state.health:
            assert state.kept_health() in (state.health, state.next_health)
        for keeps_names in (True, False):
            saved, _ = read_saved(str(disk.copy_without_power(keeps_names=keeps_names)))
            assert saved is not None or not state.has_begun
            if saved is not None:
                events = saved.last_event.followed_by(saved.lines).sequence
                assert events >= state.saved
                assert events >= state.events or saved.damages
        if state.state is not None:
            state.state.stopService()


@pytest.mark.slow
def test_a_state_on_a_full_disk(tmp_path: Path) -> None:
    """Nothing is lost that was answered while it was full; it recovers with the next tick."""
    changes = full_at = 0
    while full_at <= changes:
        folder = tmp_path / str(full_at)
        folder.mkdir(0o700)
        state = State(folder)
        with pytest.MonkeyPatch.context() as patch:
            disk = CrashingDisk(folder, patch, full_at=full_at)
            with suppress(CannotWrite):
                for _ in state.history():
                    pass
            changes, disk.is_full = disk.changes, False
            if state.has_begun and state.state is not None:
                if full_at < changes:
                    state.advance()
                assert not state.state.problem
                assert state.kept() == (state.events, state.tick)
        if state.state is not None:
            state.state.stopService()
        full_at += 1
    assert changes > 10


def jobs_of(log: QueueLogFile) -> dict[int, JobState]:
    return {job.id: job.state for job in log.read("media").jobs}


def accepted(number: int) -> bytes:
    return accepted_record(LoggedJob(number, ("x" * 50,), 0.0, 50, False, 0.0), 0.0)


@dataclass
class Requests:
    """The log of a durable queue.

    :ivar promised, possible: jobs that a client was told of; and those that were written, perhaps.
    """

    promised: dict[int, JobState] = field(default_factory=dict)
    possible: list[dict[int, JobState]] = field(default_factory=list)

    def history(self, folder: Path) -> None:
        log = QueueLogFile(str(folder))
        try:
            jobs: dict[int, JobState] = {}
            for number in range(1, 7):
                lines = [accepted(number)]
                jobs[number] = JobState.WAITING
                if number == 4:
                    lines.append(state_record(JobState.OVER, 2))
                    del jobs[2]
                self.possible = [self.promised, dict(jobs)]
                if number in (1, 5):  # the whole log, without what is over
                    log.rewrite([head_record("media", number), *map(accepted, jobs)])
                else:
                    log.append(lines)
                self.promised = dict(jobs)
        finally:
            log.close()


@pytest.mark.parametrize("power", ["stays", "is lost", "is lost but for names"])
def test_a_durable_queue(tmp_path: Path, power: str) -> None:
    """What was promised is there, killed or without power; the request under way is there as a whole or not at all."""
    runs: list[Requests] = []

    def history(disk: CrashingDisk) -> None:
        runs.append(Requests())
        runs[-1].history(disk.folder)

    for disk in crashes(history, tmp_path):
        stays = power == "stays"
        folder = disk.copy("killed") if stays else disk.copy_without_power(keeps_names=power == "is lost but for names")
        log = QueueLogFile(str(folder))
        assert jobs_of(log) in runs[-1].possible
        log.close()


def test_a_record(tmp_path: Path) -> None:
    """Of a journal or a record each line that was written is there, and no half of one."""
    written: list[bytes] = []

    def history(disk: CrashingDisk) -> None:
        written.clear()
        file = LineFile("record", str(disk.folder / "record"), b"head\n")
        written.append(b"head\n")
        try:
            for number in range(12):
                line = b"line %d\n" % number
                file.write(line)
                written.append(line)
        finally:
            with suppress(Crash):
                file.close()

    for disk in crashes(history, tmp_path):
        path = disk.copy("killed") / "record"
        LineFile("record", str(path)).close()
        assert path.read_bytes().startswith(b"".join(written))
        assert path.read_bytes().endswith((b"", b"\n")[bool(written)])
