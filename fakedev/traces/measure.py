"""Replays a trace in virtual time, and notes what the simulated devices showed of it in each tick."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.scenario.entries import Occurrence
from fakedev.scenario.player import Played, Player
from fakedev.sim.fleet import Fleet
from fakedev.sim.levels import UNIT
from fakedev.sim.workloads.workload import Workload
from fakedev.spec.fleet import FleetSpec

_USAGE: Final = "usage_ratio"
_MEMORY: Final = "memory_used_bytes"


@dataclass
class Shown:
    """What a job showed.

    :ivar begin_seconds, end_seconds: when its devices got it, and the tick after which they had it no more; None: it
        went on at the end of the replay.
    :ivar devices: how many it had.
    :ivar code: with which it ended; 0 is good.
    """

    begin_seconds: float
    devices: int
    end_seconds: float | None = None
    code: int = 0


@dataclass
class Measured:
    """What a replay showed.

    :ivar jobs: by name.
    :ivar refused: jobs that the fleet did not accept, and why.
    :ivar running, taken: jobs that run, and devices with a job, after each tick, shape (ticks,).
    :ivar usage: percent, of each watched job, the mean of its devices in each tick that it had them, shape (ticks of
        the job,).
    :ivar memory_bytes: likewise, of one of its devices.
    """

    tick_seconds: float
    jobs: dict[str, Shown] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    running: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    taken: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    usage: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    memory_bytes: dict[str, NDArray[np.float32]] = field(default_factory=dict)


class _NoSetting:
    """A replay changes neither the configuration nor the clock."""

    def reconfigure(self, number: int) -> None:
        raise NotImplementedError

    def set_speed(self, speed: float) -> None:
        raise NotImplementedError


def measure(
    spec: FleetSpec, occurrences: Sequence[Occurrence], span_seconds: float, watched: Sequence[str],
    tell: Callable[[float], None] = lambda share: None,
) -> Measured:
    """Replay.

    :param watched: the jobs whose usage and memory are noted.
    :param tell: told after each tick how much is done, 0 to 1.
    """  # fmt: skip
    return _Measurement(spec, occurrences, watched).run(span_seconds, tell)


class _Measurement:
    def __init__(self, spec: FleetSpec, occurrences: Sequence[Occurrence], watched: Sequence[str]) -> None:
        self._fleet = Fleet(spec)
        self._player = Player(self._fleet, occurrences, _NoSetting(), self._note_played)
        self._numbers = {name: number for number, name in enumerate(watched)}
        self._result = Measured(spec.tick_seconds)
        #: What runs, by the id of its workload, and its name.
        self._running: dict[str, tuple[str, Workload]] = {}
        self._new: list[str] = []
        self._jobs_of_device = np.zeros(self._fleet.roster.parts.unit_count, dtype=np.int64)
        #: The numbers of watched jobs that run, their devices in turn, and where those of each begin; None: changed.
        self._rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None
        self._values: list[tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]] = []

    def run(self, span_seconds: float, tell: Callable[[float], None]) -> Measured:
        result = self._result
        ticks = math.ceil(round(span_seconds / result.tick_seconds, 9))
        result.running, result.taken = np.zeros(ticks, dtype=np.int64), np.zeros(ticks, dtype=np.int64)
        for tick in range(ticks):
            self._player.apply_due()
            verdicts = self._fleet.advance()
            self._note_starts()
            self._note_values()
            for verdict in verdicts:
                self._note_end(verdict.workload_id, verdict.code)
            result.running[tick] = len(self._fleet.workloads.by_id)
            result.taken[tick] = np.count_nonzero(self._jobs_of_device)
            tell((tick + 1) / ticks)
        self._split()
        return result

    def _note_played(self, played: Played) -> None:
        name = played.occurrence.entry.name
        if played.problem:
            self._result.refused[name] = played.problem
        for workload_id in played.ids:
            self._running[workload_id] = (name, self._fleet.workloads.by_id[workload_id])
            self._new.append(workload_id)

    def _note_starts(self) -> None:
        for workload_id in self._new:
            name, workload = self._running[workload_id]
            begin = self._fleet.state.seconds if workload.start_seconds is None else workload.start_seconds
            self._result.jobs[name] = Shown(begin, len(workload.devices))
            self._jobs_of_device[workload.devices] += 1
            self._rows = None if name in self._numbers else self._rows
        self._new.clear()

    def _note_end(self, workload_id: str, code: int) -> None:
        name, workload = self._running.pop(workload_id)
        shown = self._result.jobs[name]
        shown.end_seconds, shown.code = self._fleet.state.seconds, code
        self._jobs_of_device[workload.devices] -= 1
        self._rows = None if name in self._numbers else self._rows

    def _note_values(self) -> None:
        if not self._numbers:
            return
        if self._rows is None:
            watched = [each for each in self._running.values() if each[0] in self._numbers]
            found = [(self._numbers[name], workload.devices) for name, workload in watched]
            numbers = np.array([number for number, _ in found], dtype=np.int64)
            counts = [len(devices) for _, devices in found]
            flat = np.concatenate([devices for _, devices in found]) if found else numbers
            self._rows = numbers, flat, np.cumsum([0, *counts[:-1]], dtype=np.int64) if found else numbers
        numbers, flat, firsts = self._rows
        if len(numbers):
            arrays = self._fleet.state.levels[UNIT].arrays
            counted = np.diff([*firsts.tolist(), len(flat)])
            usage, memory = (
                (np.add.reduceat(arrays[name][flat], firsts) / counted).astype(np.float32) for name in (_USAGE, _MEMORY)
            )
            self._values.append((numbers, usage * np.float32(100.0), memory))

    def _split(self) -> None:
        """Give each watched job its values, in the order of the ticks."""
        if not self._values:
            return
        numbers, usage, memory = (np.concatenate(each) for each in zip(*self._values, strict=True))
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._numbers)))[:-1]
        self._result.usage = dict(zip(self._numbers, np.split(usage[order], ends), strict=True))
        self._result.memory_bytes = dict(zip(self._numbers, np.split(memory[order], ends), strict=True))
