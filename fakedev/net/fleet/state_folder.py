"""Keeps the state of a fleet in a folder, so that a service goes on after a restart, also after it was killed.

Each event is in a file before anybody is answered, and the number of each tick. From time to time a copy of the process
writes a snapshot, so that few ticks must run again at the next start.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.fleet.state_files import (
    TICK_DIGITS,
    CannotGoOn,
    LastEvent,
    Saved,
    connected_line,
    read_saved,
    sha256_of,
    since_path,
    write_snapshot,
)
from fakedev.net.system.files import PRIVATE, LineFile, replace_file, sync_file
from fakedev.net.system.process_copies import Outcome, run_in_copy
from fakedev.sim.events import Stamped
from fakedev.sim.fleet import Fleet
from fakedev.sim.record import event_line
from fakedev.spec.os_errors import CannotWrite, plain_reason
from fakedev.spec.record_head import RecordHead

#: The file with what a cluster knows of the health of devices (fakedev/net/kube/health_file.py).
CLUSTER_HEALTH: Final = "cluster-health"
#: Seconds from one snapshot to the next.
EVERY_SECONDS: Final = 60.0
_NO_EVENT: Final = LastEvent()
#: Ticks of devices after which a snapshot is due, too: to run them again takes about a second.
_MOST_DEVICE_TICKS: Final = 2_000_000
#: A tick takes as long as that of so many devices more.
_DEVICES_OF_A_TICK: Final = 1000


class StateFolder(Service):
    """The folder of the state of a service, which is its own while it runs.

    :param path: is made if it is not there; its parent must exist.
    :param copy: see run_in_copy.
    :raises CannotWrite: when the folder cannot be used.
    :ivar path: of the folder.
    :ivar snapshots: how many were written, by whether that was possible.
    :ivar saved_at: when the last snapshot was begun, in seconds since 1970.
    """

    log = Logger()

    def __init__(
        self, path: str, clock: IReactorTime, copy: Callable[[Callable[[], None]], Outcome] = run_in_copy
    ) -> None:
        self.setName("state")
        self.path = path
        self._clock = clock
        self._copy = copy
        self._generation = 0
        self._since: LineFile | None = None
        self._outcome: Outcome | None = None
        self._first_tick = 0
        self.snapshots = {True: 0, False: 0}
        self.saved_at = 0.0
        self._tick_file = -1
        try:
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
            self._check_owner()
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._tick_file = os.open(f"{path}/tick", flags, PRIVATE)
            fcntl.flock(self._tick_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._close()
            raise CannotWrite(path, "another service keeps its state there: give each a folder of its own") from None
        except FileNotFoundError:
            self._close()
            raise CannotWrite(path, "the folder that it is to be made in is not there: make that one first") from None
        except OSError as reason:
            self._close()
            raise CannotWrite(path, reason) from None

    @property
    def problem(self) -> str:
        """Why the state is not kept any more; empty while it is."""
        return self._since.problem if self._since is not None else ""

    def read(self) -> Saved | None:
        """What the service before this one has left; None: nothing.

        :raises CannotGoOn: when it cannot be used.
        """
        saved, self._generation = read_saved(self.path)
        return saved

    def begin(
        self, fleet: Fleet, head: RecordHead, connected: Iterable[str] = (), last_event: LastEvent = _NO_EVENT,
        record: str = "",
    ) -> None:  # fmt: skip
        """Keep the state of a fleet from now on. Its first snapshot is complete when this returns.

        :param head: its configuration.
        :param connected: ids of workloads whose connections are gone; they are to end.
        :param last_event: that the fleet had so far.
        :param record: the file of its record, which is forced to the disk before each snapshot; empty: there is none.
        :raises CannotWrite: when that is not possible.
        """
        self._fleet, self._head = fleet, head
        self._last_event, self._record = last_event, record
        self._next_generation()
        write_snapshot(self.path, self._generation, fleet, fleet.source or head, sorted(connected), last_event)
        self._write_tick()

    def record(self, stamped: Stamped) -> None:
        """Keep an event; it is in the file when this returns."""
        if self._since is not None:
            line = event_line(stamped)
            self._since.write(line)
            self._last_event = LastEvent(stamped.sequence, sha256_of(line))

    def note_connected(self, workload_id: str) -> None:
        """Keep that a workload ends with its connection."""
        if self._since is not None:
            self._since.write(connected_line(workload_id))

    def path_of(self, name: str) -> str:
        """The path of a file that is kept beside the fleet."""
        return f"{self.path}/{name}"

    def kept(self, name: str) -> str | None:
        """What the service before this one has kept in a file; None: nothing.

        :raises CannotGoOn: when it cannot be read.
        """
        try:
            return Path(self.path_of(name)).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as reason:
            raise CannotGoOn(f"{self.path_of(name)}: {plain_reason(reason)}") from None

    def keep(self, name: str, text: str) -> None:
        """Keep something that is not of the fleet in a file of its own, in place of what is there."""
        if self._since is not None and not self.problem:
            try:
                replace_file(self.path_of(name), text)
            except CannotWrite as reason:
                self._since.fail(reason)

    def forget(self, name: str) -> None:
        """Remove such a file."""
        with suppress(FileNotFoundError):
            os.unlink(self.path_of(name))

    def ticked(self, connected: Iterable[str]) -> None:
        """A tick has ended, and no event has come since: keep its number, and begin a snapshot if one is due.

        :param connected: ids of the workloads that end with their connections.
        """
        if self._since is None or self.problem:
            return
        self._write_tick()
        self._look_after_copy()
        ticks, age_seconds = self._fleet.state.tick - self._first_tick, self._clock.seconds() - self.saved_at
        most = _MOST_DEVICE_TICKS // (_DEVICES_OF_A_TICK + self._fleet.roster.device_count)
        if self._outcome is None and (ticks >= most or not 0 <= age_seconds < EVERY_SECONDS):
            self._begin_snapshot(sorted(connected))

    def stopService(self) -> None:
        """End. The next service goes on from here."""
        super().stopService()
        self._close()

    def _begin_snapshot(self, connected: list[str]) -> None:
        try:
            self._next_generation()
            self._outcome = self._copy(partial(self._write_snapshot, connected))
        except (OSError, CannotWrite) as reason:
            self._note_failure(str(reason))

    def _write_snapshot(self, connected: list[str]) -> None:
        """In a copy of the process."""
        if self._record:
            with suppress(OSError):  # the record may have been moved away
                sync_file(self._record)
        head = self._fleet.source or self._head
        write_snapshot(self.path, self._generation, self._fleet, head, connected, self._last_event)

    def _look_after_copy(self) -> None:
        outcome = None if self._outcome is None else self._outcome()
        if outcome is None:
            return
        self._outcome = None
        self.snapshots[outcome] += 1
        if not outcome:
            self._note_failure("the process that writes it has failed")

    def _note_failure(self, reason: str) -> None:
        self.log.error(
            "no snapshot of the state could be written: {reason}; the one before stays, and events are kept: "
            "the next start takes longer", reason=reason,
        )  # fmt: skip

    def _next_generation(self) -> None:
        """Write events into the next file from now on.

        :raises CannotWrite: when there can be none; the file before stays in use.
        """
        before = self._since
        self._since = LineFile("state", since_path(self.path, self._generation + 1))
        self._generation += 1
        self.saved_at, self._first_tick = self._clock.seconds(), self._fleet.state.tick
        if before is not None:
            before.close()

    def _write_tick(self) -> None:
        try:
            os.pwrite(self._tick_file, b"%0*d\n" % (TICK_DIGITS, self._fleet.state.tick), 0)
        except OSError as reason:
            if self._since is not None:
                self._since.fail(CannotWrite(f"{self.path}/tick", reason))

    def _check_owner(self) -> None:
        """A snapshot decides what the program does: nobody else may have written it.

        :raises CannotWrite: when others may.
        """
        status = os.stat(self.path)
        if not stat.S_ISDIR(status.st_mode):
            raise CannotWrite(self.path, "it is no folder")
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            reason = "others may write there: make it a folder of the user of the service, with mode 0700"
            raise CannotWrite(self.path, reason)

    def _close(self) -> None:
        if self._tick_file >= 0:
            os.close(self._tick_file)
            self._tick_file = -1
        if self._since is not None:
            self._since.close()
            self._since = None
