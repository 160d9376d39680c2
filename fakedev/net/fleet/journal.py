"""The journal for users: JSON Lines in files that are rotated, and the search by kind and device."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import IO

import numpy as np
import orjson
from twisted.application.service import Service
from twisted.logger import Logger

from fakedev.sim.entities.selectors import resolve
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal import JOURNAL_KINDS, MAX_KEPT, JournalEntry
from fakedev.spec.errors import Refused


class JournalFile(Service):
    """The journal in files: ``PATH`` is the newest, ``PATH.1`` the one before, and so on.

    A line that would be longer than a whole file has null in place of its devices.

    :param max_bytes: the size of a file above which the next one is started.
    :param keep: the highest number of files.
    :raises OSError: when the file cannot be written.
    :ivar failed: whether nothing more is written, because a write failed or the run has ended.
    """

    log = Logger()

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self.setName("journal")
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self.failed = False
        self._file = self._open()
        self._size = self._file.tell()

    def write(self, entry: JournalEntry) -> None:
        """Write one line; it is in the file when this returns."""
        if self.failed:
            return
        line = _line(entry.fields())
        if len(line) > self._max_bytes:
            line = _line({**entry.fields(), "devices": None})
        try:
            if self._size and self._size + len(line) > self._max_bytes:
                self._rotate()
            self._file.write(line)
            self._size += len(line)
        except OSError as error:
            self.failed = True
            self.log.error("the journal {path} ends here: {error}", path=self._path, error=str(error))

    def stopService(self) -> None:
        super().stopService()
        self.failed = True
        self._file.close()

    def _open(self) -> IO[bytes]:
        # Readable by its owner only: it contains names of pods and workloads. An existing file is continued.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "ab", buffering=0)

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._keep - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            if os.path.exists(newer):
                os.replace(newer, older)
        if self._keep == 1:
            os.truncate(self._path, 0)
        self._file = self._open()
        self._size = self._file.tell()


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
