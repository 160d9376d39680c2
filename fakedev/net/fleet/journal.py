"""The journal for users: JSON Lines in files that are rotated, and the search by kind and device."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np
import orjson
from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.net.system.files import LineFile
from fakedev.sim.entities.selectors import resolve
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal import JOURNAL_KINDS, MAX_KEPT
from fakedev.sim.journal_entries import JournalEntry
from fakedev.spec.errors import Refused, did_you_mean
from fakedev.spec.os_errors import CannotWrite

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
        self._has_ended = False
        self._file = self._open()
        self._size = self._file.size

    @property
    def problem(self) -> str:
        """Why no more lines are written; empty while they are."""
        return self._file.problem

    def write(self, entries: Sequence[JournalEntry]) -> None:
        """Write a line for each entry: in the file when this returns, or soon if more than a thousand wait."""
        if self.problem or self._has_ended:
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
            line = self._line_of(self._next_entry())
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
        if self.problem:
            self._waiting.clear()
            self.waiting_count = 0

    def _next_entry(self) -> JournalEntry:
        while self._written_count == len(self._waiting[0]):
            self._waiting.popleft()
            self._written_count = 0
        entry = self._waiting[0][self._written_count]
        self._written_count += 1
        self.waiting_count -= 1
        return entry

    def _line_of(self, entry: JournalEntry) -> bytes:
        line = _line(entry.fields())
        return line if len(line) <= self._max_bytes else _line({**entry.fields(), "devices": None})

    def stopService(self) -> None:
        super().stopService()
        while self.waiting_count:
            self._write_some()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._has_ended = True
        self._file.close()

    def _open(self) -> LineFile:
        return LineFile("journal", self._path)

    def _rotate(self) -> None:
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


def find_entries(
    fleet: Fleet, kinds: Sequence[str] = (), devices: Sequence[str] = (), node: str = "", count: int = MAX_KEPT
) -> list[JournalEntry]:
    """The latest entries, oldest first.

    :param kinds: only these kinds; empty for all.
    :param devices: only what concerns one of these devices or a part of it; device words as in a workload.
    :param node: the node of device words that name none; without devices, only what concerns this node.
    :raises Refused: when there is no such kind, device or node.
    """
    for kind in kinds:
        if kind not in JOURNAL_KINDS:
            hint = did_you_mean(kind, JOURNAL_KINDS, f": give some of {', '.join(JOURNAL_KINDS)}")
            raise Refused("unknown-name", f"nothing of the kind {kind[:100]!r} happens{hint}", "kind")
    on = None
    if devices or node:
        parts = fleet.roster.parts
        on = np.zeros(parts.unit_count, dtype=np.bool_)
        on[parts.with_parts(resolve(devices or ["all"], fleet.roster, node))] = True
    return fleet.journal.last(count, frozenset(kinds), on)


def _line(fields: dict[str, object]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
