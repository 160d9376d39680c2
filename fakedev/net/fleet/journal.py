"""The journal for users: JSON Lines in files that are rotated, and the search by kind and device."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

import numpy as np
import orjson
from twisted.application.service import Service

from fakedev.net.system.files import CannotWrite, LineFile
from fakedev.sim.entities.selectors import resolve
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal import JOURNAL_KINDS, MAX_KEPT, JournalEntry
from fakedev.spec.errors import Refused


class JournalFile(Service):
    """The journal in files: ``PATH`` is the newest, ``PATH.1`` the one before, and so on.

    A line that would be longer than a whole file has null in place of its devices.

    :param max_bytes: the size of a file above which the next one is started.
    :param keep: the highest number of files.
    :raises CannotWrite: when the file cannot be written.
    """

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self.setName("journal")
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._file = self._open()

    @property
    def problem(self) -> str:
        """Why no more lines are written; empty while they are."""
        return self._file.problem

    def write(self, entry: JournalEntry) -> None:
        """Write one line; it is in the file when this returns."""
        if self.problem:
            return
        line = _line(entry.fields())
        if len(line) > self._max_bytes:
            line = _line({**entry.fields(), "devices": None})
        if self._file.size and self._file.size + len(line) > self._max_bytes:
            try:
                self._rotate()
            except OSError as reason:
                self._file.fail(CannotWrite(self._path, reason))
            except CannotWrite as reason:
                self._file.fail(reason)
        self._file.write(line)

    def stopService(self) -> None:
        super().stopService()
        self._file.close()

    def _open(self) -> LineFile:
        return LineFile("journal", self._path)

    def _rotate(self) -> None:
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
    :param devices: only what concerns one of these devices or a part of it, in the words of a workload.
    :param node: the node of device words that name none; without devices, only what concerns this node.
    :raises Refused: when there is no such kind, device or node.
    """
    for kind in kinds:
        if kind not in JOURNAL_KINDS:
            near = difflib.get_close_matches(kind[:100], JOURNAL_KINDS, 1)
            hint = f"; did you mean {near[0]}?" if near else f": give some of {', '.join(JOURNAL_KINDS)}"
            raise Refused("unknown-name", f"nothing of the kind {kind[:100]!r} happens{hint}", "kind")
    on = None
    if devices or node:
        parts = fleet.roster.parts
        on = np.zeros(parts.unit_count, dtype=np.bool_)
        on[parts.with_parts(resolve(devices or ["all"], fleet.roster, node))] = True
    return fleet.journal.last(count, frozenset(kinds), on)


def _line(fields: dict[str, object]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
