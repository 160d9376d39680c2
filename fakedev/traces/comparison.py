"""A replay beside its trace: what the simulator showed and the trace's own times, with a bound and a verdict each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fakedev.traces.model import HOUR_SECONDS, TraceJob


class ShownWorkload(Protocol):
    """What is asked of a running workload of the simulator."""

    @property
    def devices(self) -> NDArray[np.int64]:
        """The positions of its devices, shape (devices,)."""


class Finding(NamedTuple):
    """One comparison.

    :ivar bound: in words.
    """

    what: str
    trace: str
    replay: str
    bound: str
    is_met: bool


class Seen(NamedTuple):
    """A workload as the simulator showed it; both times are of ticks.

    :ivar end_seconds: of the first tick without it; None: it ran at the end.
    """

    devices: int
    begin_seconds: float
    end_seconds: float | None = None


class Watcher:
    """Notes in each tick which workloads a simulated fleet shows.

    :ivar seen: by their ids, in the order in which they were first seen.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self._running: dict[str, None] = {}
        self.ticks: list[tuple[float, int, int]] = []
        self._devices = 0

    def note(self, seconds: float, workloads: Mapping[str, ShownWorkload]) -> None:
        """Note the workloads of a tick.

        :param seconds: since the start.
        :param workloads: those that run, by their ids.
        """
        for each in [each for each in self._running if each not in workloads]:
            del self._running[each]
            self._devices -= self.seen[each].devices
            self.seen[each] = self.seen[each]._replace(end_seconds=seconds)
        for each, workload in workloads.items():
            if each not in self._running:
                self._running[each] = None
                self.seen[each] = Seen(len(workload.devices), seconds)
                self._devices += len(workload.devices)
        self.ticks.append((seconds, len(self._running), self._devices))


def compare(
    jobs: Sequence[TraceJob], watcher: Watcher, names: Mapping[str, str], tick_seconds: float, without_place: int,
    late: int,
) -> list[Finding]:
    """The comparisons of a replay with its trace.

    The simulator shows a change in the tick after it. So a tick shows the jobs that ran just before it.

    :param jobs: of the trace, with the trace's times since the start.
    :param names: of the jobs, by the ids of workloads.
    :param without_place: jobs that were never started.
    :param late: jobs that had to wait for a place.
    """
    times = np.array([seconds for seconds, _, _ in watcher.ticks])
    starts = np.array([job.start_seconds for job in jobs])
    ends = np.array([np.inf if job.end_seconds is None else job.end_seconds for job in jobs])
    # The instants of ticks at which a job is to be seen; none for one between two ticks.
    first, last = np.searchsorted(times, starts, "right"), np.searchsorted(times, ends, "right")
    is_seen = last > first
    expected = np.zeros((2, len(times) + 1), dtype=np.int64)
    amounts = np.array([[1, job.devices] for job in jobs], dtype=np.int64).T
    for row in range(2):
        np.add.at(expected[row], first, amounts[row])
        np.add.at(expected[row], last, -amounts[row])
    expected = expected.cumsum(axis=1)[:, :-1]
    shown = np.array([counts for _, *counts in watcher.ticks], dtype=np.int64).T
    by_name = {names[each]: seen for each, seen in watcher.seen.items() if each in names}
    gaps = _gaps(jobs, is_seen, by_name)
    hours = [sum(_hours(job.devices, job.start_seconds, job.end_seconds, times[-1]) for job in jobs),
             sum(_hours(seen.devices, *seen[1:], times[-1]) for seen in watcher.seen.values())]  # fmt: skip
    slack = sum(job.devices for job in jobs) * tick_seconds / HOUR_SECONDS
    return [
        Finding("jobs that a tick can show", str(int(is_seen.sum())), str(len(by_name)), "equal",
                int(is_seen.sum()) == len(by_name)),
        _at_each_tick("running jobs", expected[0], shown[0]),
        _at_each_tick("devices that jobs have", expected[1], shown[1]),
        Finding("device hours, a share as a whole", f"{hours[0]:.2f}", f"{hours[1]:.2f}",
                "a tick for each device of a job", abs(hours[0] - hours[1]) <= slack),
        Finding("latest start or end", "0 s", f"{gaps:g} s", "one tick", gaps <= tick_seconds + 1e-6),
        Finding("jobs without a place", "0", str(without_place), "0", not without_place),
        Finding("jobs that waited for a place", "0", str(late), "0", not late),
    ]  # fmt: skip


def _at_each_tick(what: str, expected: NDArray[np.int64], shown: NDArray[np.int64]) -> Finding:
    wrong = int((expected != shown).sum())
    trace, replay = (f"mean {each.mean():.2f}, peak {each.max()}" for each in (expected, shown))
    return Finding(what, trace, f"{replay}; other in {wrong} ticks", "equal in each tick", not wrong)


def _gaps(jobs: Sequence[TraceJob], is_seen: NDArray[np.bool_], by_name: Mapping[str, Seen]) -> float:
    """The largest difference between a time of the trace and that of the simulator, in seconds."""
    gaps = [0.0]
    for job, expects in zip(jobs, is_seen, strict=True):
        seen = by_name.get(job.name)
        if seen is None or not expects:
            continue
        gaps.append(abs(seen.begin_seconds - job.start_seconds))
        if seen.end_seconds is not None and job.end_seconds is not None:
            gaps.append(abs(seen.end_seconds - job.end_seconds))
    return max(gaps)


def _hours(devices: int, begin: float, end: float | None, last: float) -> float:
    return devices * max(0.0, (last if end is None else min(end, last)) - begin) / HOUR_SECONDS
