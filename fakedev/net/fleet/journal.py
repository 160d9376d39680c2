"""Writes the journal to a file that is turned over when it is large: JSON Lines, bounded in all.

Finding in the journal what somebody asks for: by kind, and by the devices that it concerns.
"""

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
from fakedev.sim.journal import HAPPENING_KINDS, MAX_KEPT, Happening
from fakedev.spec.errors import Refused


def _line(fields: dict[str, object]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


class JournalFile(Service):
    """The journal in files: ``PATH``, before it ``PATH.1``, before that ``PATH.2``, ...

    A line that would be longer than a file may be has null in place of its devices.

    :param max_bytes: a file that would get longer is turned over.
    :param keep: how many files there are at most, that which is written among them.
    :raises OSError: when the file cannot be written.
    :ivar failed: nothing more is written: writing failed, or the run is over.
    """

    log = Logger()

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self.setName("journal")
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self.failed = False
        self._file = self._opened()
        self._size = self._file.tell()

    def write(self, happening: Happening) -> None:
        """Write one line; it is in the file when this returns."""
        if self.failed:
            return
        line = _line(happening.fields())
        if len(line) > self._max_bytes:
            line = _line({**happening.fields(), "devices": None})
        try:
            if self._size and self._size + len(line) > self._max_bytes:
                self._turn_over()
            self._file.write(line)
            self._size += len(line)
        except OSError as error:
            self.failed = True
            self.log.error("the journal {path} ends here: {error}", path=self._path, error=str(error))

    def stopService(self) -> None:
        """The run is over."""
        super().stopService()
        self.failed = True
        self._file.close()

    def _opened(self) -> IO[bytes]:
        # For its owner alone: names of pods and workloads are in it. What is there already stays.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "ab", buffering=0)

    def _turn_over(self) -> None:
        self._file.close()
        for number in range(self._keep - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            if os.path.exists(newer):
                os.replace(newer, older)
        if self._keep == 1:
            os.truncate(self._path, 0)
        self._file = self._opened()
        self._size = self._file.tell()


def find_happenings(
    fleet: Fleet, kinds: Sequence[str] = (), devices: Sequence[str] = (), node: str = "", count: int = MAX_KEPT
) -> list[Happening]:
    """The last things that happened, oldest first.

    :param kinds: of these kinds; of all, when there are none.
    :param devices: that concern one of these devices, or a part of one, as a workload names them.
    :param node: that concern this node, where no devices are given; else what device words without a node speak of.
    :raises Refused: when there is no such kind, device or node.
    """
    for kind in kinds:
        if kind not in HAPPENING_KINDS:
            near = difflib.get_close_matches(kind[:100], HAPPENING_KINDS, 1)
            hint = f"; did you mean {near[0]}?" if near else f": give some of {', '.join(HAPPENING_KINDS)}"
            raise Refused("unknown-name", f"nothing of the kind {kind[:100]!r} happens{hint}", "kind")
    on = None
    if devices or node:
        parts = fleet.roster.parts
        on = np.zeros(parts.unit_count, dtype=np.bool_)
        on[parts.with_parts(resolve(devices or ["all"], fleet.roster, node))] = True
    return fleet.happenings.last(count, frozenset(kinds), on)
