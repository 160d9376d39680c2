"""The files of the journal and of the record of a run, also of a record that goes on after a restart.

The journal for users is JSON Lines in files that are rotated; it can be searched by kind and device. The record is
written event by event.

After a restart the record gets what its state has, and then the events that follow. The state has each event before
the record has it, so after a killed service the record misses the last events at most. After a loss of power either
of the two may miss some.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.base.errors import CannotWrite, Refused
from fakedev.base.framed_lines import is_checked
from fakedev.fleet.events import Stamped
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.record import event_line, head_line, read_record
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.state_folder import Saved, StateFolder, sha256_of
from fakedev.runtime.disk import LineFile

#: Entries and bytes that are written in one turn of the reactor: some milliseconds.
MAX_ENTRIES_AT_ONCE: Final = 1000
_MAX_BYTES_AT_ONCE: Final = 2**20
#: Entries that may wait for later turns: twice as many as workloads can end in a tick. More are written at once.
_MAX_WAITING: Final = 200_000


class JournalFile(Service):
    """The journal in files: ``PATH`` is the newest, ``PATH.1`` the one before, and so on.

    A line that would be longer than a whole file has null in place of its devices.

    :param max_bytes: the size of a file above which the next one is started.
    :param keep: the highest number of files.
    :param clock: when thousands of entries come together, they are written in several turns of the reactor.
    :ivar waiting_count: entries that the file does not have yet.
    :raises CannotWrite: when the file cannot be written.
    """

    def __init__(self, path: str, max_bytes: int, keep: int, clock: IReactorTime) -> None:
        self.setName("journal")
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._clock = clock
        #: Entries of several ticks, each sequence with how many of it are written: the entries of ends are worded late.
        self._waiting: deque[Sequence[JournalEntry]] = deque()
        self._written_count = 0
        self.waiting_count = 0
        self._call: IDelayedCall | None = None
        self._file = self._open()
        self._size = self._file.size

    @property
    def problem(self) -> str:
        """Why lines wait, or none are written any more; empty while they are."""
        return self._file.problem

    def write(self, entries: Sequence[JournalEntry]) -> None:
        """Write a line for each entry: in the file when this returns, or soon if more than a thousand wait."""
        if self._file.has_ended:
            return
        self._waiting.append(entries)
        self.waiting_count += len(entries)
        if self._call is None and self.waiting_count > MAX_ENTRIES_AT_ONCE:
            # Not now: a tick in which thousands of workloads end has no time for it.
            self._call = self._clock.callLater(0, self._write_slice)
        elif self._call is None:
            self._write_slice()
        while self.waiting_count > _MAX_WAITING:
            self._write_some()

    def _write_slice(self) -> None:
        self._write_some()
        self._call = self._clock.callLater(0, self._write_slice) if self.waiting_count else None

    def _write_some(self) -> None:
        """Write the first of the waiting entries, with one write for each file."""
        begin, lines = self._size, list[bytes]()
        for _ in range(min(self.waiting_count, MAX_ENTRIES_AT_ONCE)):
            line = self._next_entry().line(self._max_bytes)
            if self._size and self._size + len(line) > self._max_bytes:
                self._file.write(b"".join(lines))
                lines.clear()
                self._rotate()
                begin = self._size
            lines.append(line)
            self._size += len(line)
            if self._size - begin > _MAX_BYTES_AT_ONCE:
                break
        self._file.write(b"".join(lines))

    def _next_entry(self) -> JournalEntry:
        while self._written_count == len(self._waiting[0]):
            self._waiting.popleft()
            self._written_count = 0
        entry = self._waiting[0][self._written_count]
        self._written_count += 1
        self.waiting_count -= 1
        return entry

    def write_waiting(self) -> None:
        """Try again to write what the disk had no room for."""
        self._file.write()

    def stopService(self) -> None:
        super().stopService()
        while self.waiting_count:
            self._write_some()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._file.close()

    def _open(self) -> LineFile:
        return LineFile("journal", self._path)

    def _rotate(self) -> None:
        if self._file.waits:
            return  # its lines belong to this file
        try:
            self._begin_file()
        except (OSError, CannotWrite) as reason:
            self._file.fail(reason if isinstance(reason, CannotWrite) else CannotWrite(self._path, reason))
        self._size = self._file.size

    def _begin_file(self) -> None:
        if self._keep == 1:
            self._file.clear()
            return
        for number in range(self._keep - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            if os.path.exists(newer):
                os.replace(newer, older)
        # Until the new file is locked, the lock of the old one keeps other processes away.
        new = self._open()
        self._file.close()
        self._file = new


class Recorder:
    """A file with everything that is needed to run the same history again.

    :meth:`open` must come before the first event: a program that cannot start leaves no file behind.
    """

    def __init__(self, path: str, head: RecordHead) -> None:
        self.path = path
        self._head = head
        self._file: LineFile | None = None

    @property
    def problem(self) -> str:
        """Why events wait, or none are written any more; empty while they are."""
        return self._file.problem if self._file else ""

    def write_waiting(self) -> None:
        """Try again to write what the disk had no room for."""
        if self._file is not None:
            self._file.write()

    def open(self) -> None:
        """Make the file and write its head, unless it goes on.

        :raises CannotWrite: when it cannot be written, or there is a record already.
        """
        if self._file is None:
            self._file = LineFile("record", self.path, head_line(self._head))

    def go_on(self, file: LineFile) -> None:
        """Write into the record of the service before, from now on; it is open already."""
        self._file = file

    def record(self, stamped: Stamped) -> None:
        """Write one event; it is in the file when this returns."""
        assert self._file is not None
        self._file.write(event_line(stamped))

    def close(self) -> None:
        """End the record."""
        if self._file is not None:
            self._file.close()


_REMEDY: Final = "start without a record, or move the folder of the state away to begin anew, with a new record"
_OTHER: Final = "it is the record of another run"
_log = Logger()


class CannotContinue(Exception):
    """A file is not the record of the fleet that goes on; the text names it, with the reason and the remedy."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}: {_REMEDY}")


class HistoryKeeper:
    """Keeps the events of a fleet: in its state, and then in its record.

    :ivar recorder: None: there is no record, or not yet.
    """

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self.recorder: Recorder | None = None

    def record(self, stamped: Stamped) -> None:
        """Keep an event; it is in the files when this returns."""
        self._state.record(stamped)
        if self.recorder is not None:
            self.recorder.record(stamped)


def continued_record(path: str, saved: Saved, epoch_seconds: float) -> LineFile:
    """The record of the whole history that a state has: the next event follows.

    Without a file one is made, if the state has all events.

    :param epoch_seconds: of the fleet.
    :raises CannotContinue: for a file that has another history, or lacks events that the state does not have.
    :raises CannotWrite: when the file cannot be written.
    """
    size = 0
    with suppress(OSError):  # whatever is wrong is told when it is opened
        size = os.stat(path).st_size
    if not size:
        if saved.last_event.sequence:
            raise CannotContinue(path, f"it has no events, and its fleet has had {saved.last_event.sequence}")
        file = LineFile("record", path, head_line(saved.head))
        file.write(b"".join(saved.lines))
        return file
    file = LineFile("record", path)
    try:
        _catch_up(file, path, saved, epoch_seconds)
    except BaseException:
        file.close()
        raise
    return file


def _catch_up(file: LineFile, path: str, saved: Saved, epoch_seconds: float) -> None:
    """Let a record have the events of the state, no more and no less."""
    before = saved.last_event.sequence
    last = before + len(saved.lines)
    count, end = _compared(path, saved, epoch_seconds)
    if count < before:
        raise CannotContinue(path, f"it ends with event {count}, and its fleet has had {last}")
    if count > last:
        if not last:
            raise CannotContinue(path, f"{_OTHER}: its fleet has had no event")
        _log.warn(
            "the state has lost events of the record {path}, which are removed from it: {count}",
            path=path, count=count - last,
        )  # fmt: skip
        try:
            file.cut(end)
        except OSError as reason:
            raise CannotWrite(path, reason) from None
    file.write(b"".join(saved.lines[count - before :]))


def _compared(path: str, saved: Saved, epoch_seconds: float) -> tuple[int, int]:
    """How many events a record has, and where the last one of the state ends in it, in bytes.

    :raises CannotContinue: when a line is damaged, or an event differs from that of the state.
    """
    before = saved.last_event.sequence
    last = before + len(saved.lines)
    number, at, end = 0, 0, 0
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(lines):  # the head is line 0
                at += len(line)
                if number == 0:
                    is_ours = read_record(line)[0].epoch_seconds == epoch_seconds
                elif not is_checked(line):
                    raise CannotContinue(path, f"line {number + 1} is damaged")
                elif number == before:
                    is_ours = sha256_of(line) == saved.last_event.sha256
                else:
                    is_ours = not before < number <= last or line == saved.lines[number - before - 1]
                if not is_ours:
                    raise CannotContinue(path, _OTHER)
                if number == last:
                    end = at
    except OSError as reason:
        raise CannotWrite(path, reason) from None
    except Refused as refusal:
        raise CannotContinue(path, f"it is no record ({refusal.text})") from None
    return number, end
