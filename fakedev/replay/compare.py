"""Compares what a replay showed with its trace: each comparison has a bound and a verdict.

The bounds are in doc/replay.md. A replay moves the start of a job to the tick that it is in, so that all times may
differ by a tick. The trace is replayed in virtual time; what the simulated devices showed is noted in each tick.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.base.groups import grouped
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import DEVICE, UNIT
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.workloads.workload import Verdict, Workload
from fakedev.replay.placement import Placed
from fakedev.replay.schedule import Plan
from fakedev.replay.trace import TraceJob, UseSeries
from fakedev.scenario.entries import Occurrence
from fakedev.scenario.timeline import IRunControl, Played, Player

_USAGE: Final = "usage_ratio"
_MEMORY: Final = "memory_used_bytes"
_THROTTLED: Final = ("throttled_power_seconds", "throttled_thermal_seconds", "throttled_hardware_seconds")


@dataclass
class Shown:
    """What a job showed.

    :ivar begin_seconds, end_seconds: when its devices got it, and the tick after which they had it no more; None: it
        went on at the end of the replay.
    :ivar devices: how many it had.
    :ivar code: with which it ended; 0 is good.
    :ivar text: why it ended.
    """

    begin_seconds: float
    devices: int
    end_seconds: float | None = None
    code: int = 0
    text: str = ""


@dataclass
class Measured:
    """What a replay showed.

    :ivar jobs: by name.
    :ivar refused: jobs that the fleet did not accept, and why.
    :ivar running, taken: jobs that run, and devices with a job, after each tick, shape (ticks,).
    :ivar usage: percent, of each watched job, the mean of its devices in each tick that it had them, shape (ticks of
        the job,).
    :ivar memory_bytes: likewise, of one of its devices.
    :ivar energy_joules: of all boards.
    :ivar throttled_seconds: for which the power cap, heat or the hardware took clock away, added up over all boards.
    """

    tick_seconds: float
    jobs: dict[str, Shown] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    running: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    taken: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    usage: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    memory_bytes: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    energy_joules: float = 0.0
    throttled_seconds: float = 0.0


@implementer(IRunControl)
class _NoControl:
    """A replay has one configuration and no clock."""

    def reconfigure(self, number: int) -> None:
        raise Refused("bad-argument", "a replay has one configuration")

    def set_speed(self, speed: float) -> None:
        raise Refused("bad-argument", "a replay has no clock")


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
        self._player = Player(self._fleet, occurrences, _NoControl(), self._note_played)
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
                self._note_end(verdict)
            result.running[tick] = len(self._fleet.workloads.by_id)
            result.taken[tick] = np.count_nonzero(self._jobs_of_device)
            # The counters of boards begin with what they used before the fleet was there.
            result.energy_joules += float(self._fleet.power_watts.sum()) * result.tick_seconds
            tell((tick + 1) / ticks)
        self._split()
        arrays = self._fleet.state.levels[DEVICE].arrays
        result.throttled_seconds = float(sum(arrays[name].sum() for name in _THROTTLED))
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

    def _note_end(self, verdict: Verdict) -> None:
        name, workload = self._running.pop(verdict.workload_id)
        shown = self._result.jobs[name]
        shown.end_seconds, shown.code, shown.text = self._fleet.state.seconds, verdict.code, verdict.text
        self._jobs_of_device[workload.devices] -= 1
        self._rows = None if name in self._numbers else self._rows

    def _note_values(self) -> None:
        if not self._numbers:
            return
        if self._rows is None:
            watched = [watched_run for watched_run in self._running.values() if watched_run[0] in self._numbers]
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
        numbers, usage, memory = (np.concatenate(columns) for columns in zip(*self._values, strict=True))
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._numbers)))[:-1]
        self._result.usage = dict(zip(self._numbers, np.split(usage[order], ends), strict=True))
        self._result.memory_bytes = dict(zip(self._numbers, np.split(memory[order], ends), strict=True))


#: Quantiles of distributions, and of waits.
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
#: The most that the mean usage of a job may differ, in percent points; whole percents cost as much.
_MEAN_POINTS: Final = 0.5
#: The most that a quantile of usage may differ, in percent points; of memory, relative to the trace's largest.
_QUANTILE_POINTS: Final = 1.0
_MEMORY_RATIO: Final = 0.01
_CORRELATION: Final = 0.02


class Comparison(NamedTuple):
    """One line of a report.

    :ivar trace, replay, bound: for people.
    :ivar is_met: None: nothing is required, it is only told.
    """

    what: str
    trace: str
    replay: str
    bound: str
    is_met: bool | None


def compare(plan: Plan, measured: Measured, span_seconds: float) -> list[Comparison]:
    """All comparisons that a trace allows.

    :param span_seconds: of the replay.
    """
    jobs = [job for job in plan.trace.jobs if job.start_seconds < span_seconds]
    bad = sum(shown.code != 0 for shown in measured.jobs.values())
    shown = f"{len(measured.jobs):,}" + (f", of which {bad:,} did not end by themselves" if bad else "")
    is_met = len(jobs) == len(measured.jobs) and not bad
    found = [Comparison("jobs", f"{len(jobs):,}", shown, "equal", is_met)]
    found += _hours(jobs, plan, measured, span_seconds)
    found += _starts_and_ends(plan, measured, span_seconds)
    found.append(_running(jobs, measured))
    found.append(_waits(jobs, plan))
    watched = [placed for placed in plan.placement.placed if placed.job.name in measured.usage]
    if watched:
        found += _series(watched, plan, measured)
    return found


def _hours(jobs: Sequence[TraceJob], plan: Plan, measured: Measured, span: float) -> Iterator[Comparison]:
    """GPU hours, of all jobs and of those on each model; a tick for each job is what moved starts and ends may cost."""
    models = {placed.job.name: plan.trace.nodes[placed.node].model for placed in plan.placement.placed}
    own = {job.name: job for job in jobs}
    asked = {name: _hours_of(job, min(job.end_seconds, span) - job.start_seconds) for name, job in own.items()}
    shown = {
        name: _hours_of(own[name], (span if each.end_seconds is None else each.end_seconds) - each.begin_seconds)
        for name, each in measured.jobs.items()
    }
    ticks = {name: _hours_of(own[name], measured.tick_seconds) for name in asked}
    groups: dict[str, set[str]] = {"GPU hours": set(asked)}
    for name in sorted(asked, key=lambda each: models.get(each, "")):
        groups.setdefault(f"GPU hours on {models.get(name) or 'any'}", set()).add(name)
    if len(groups) == 2:
        groups.popitem()
    for what, names in groups.items():
        trace, replay, bound = (sum(each.get(name, 0.0) for name in sorted(names)) for each in (asked, shown, ticks))
        met = abs(trace - replay) <= bound + 1e-6
        yield Comparison(what, f"{trace:,.1f}", f"{replay:,.1f}", f"a tick for each job: {bound:,.1f}", met)


def _hours_of(job: TraceJob, seconds: float) -> float:
    return job.whole_devices * seconds / 3600.0


def _starts_and_ends(plan: Plan, measured: Measured, span: float) -> Iterator[Comparison]:
    """How far the start and the end of each job are from the trace's, at most."""
    by_name = {job.name: job for job in plan.trace.jobs}
    starts = [abs(job.begin_seconds - by_name[name].start_seconds) for name, job in measured.jobs.items()]
    ends = [
        abs(measured_job.end_seconds - by_name[name].end_seconds)
        for name, measured_job in measured.jobs.items()
        if measured_job.end_seconds is not None and by_name[name].end_seconds < span
    ]
    tick = measured.tick_seconds
    for what, differences in (("start of each job", starts), ("end of each job", ends)):
        most = max(differences, default=0.0)
        late = sum(difference > tick + 1e-6 for difference in differences)
        text = f"at most {most:,.1f} s away" + (f"; {late:,} more than a tick" if late else "")
        yield Comparison(what, f"{len(differences):,}", text, f"a tick: {tick:g} s", not late)


def _running(jobs: Sequence[TraceJob], measured: Measured) -> Comparison:
    """The jobs that run after each tick: between the least and the most of the trace within a tick before and after."""
    low, high = running_bounds(jobs, measured)
    wrong = int(np.count_nonzero((measured.running < low) | (measured.running > high)))
    peak = int(high.max()) if len(high) else 0
    shown = int(measured.running.max()) if len(measured.running) else 0
    text = f"peak {shown:,}; {wrong:,} of {len(low):,} ticks differ"
    return Comparison("jobs that run, over time", f"peak {peak:,}", text, "equal within a tick", not wrong)


def running_bounds(jobs: Sequence[TraceJob], measured: Measured) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the most jobs that may run after each tick, if starts and ends are within a tick of the trace's.

    :returns: both of shape (ticks,).
    """
    tick = measured.tick_seconds
    instants = (np.arange(len(measured.running)) + 1) * tick
    starts = np.sort([job.start_seconds for job in jobs])
    ends = np.sort([job.end_seconds for job in jobs])

    def count(times: NDArray[np.float64], offset: float, side: Literal["left", "right"]) -> NDArray[np.int64]:
        return np.searchsorted(times, instants + offset, side)

    low = count(starts, -tick, "left") - count(ends, tick, "right")
    return np.maximum(low, 0), count(starts, tick, "right") - count(ends, -tick, "left")


def _waits(jobs: Sequence[TraceJob], plan: Plan) -> Comparison:
    """The waits from submit to start; what a placement adds to them is told beside the trace's."""
    delays = {placed.job.name: placed.delay_seconds for placed in plan.placement.placed}
    own = [job.start_seconds - job.submit_seconds for job in jobs]
    with_delay = [job.start_seconds - job.submit_seconds + delays.get(job.name, 0.0) for job in jobs]
    return Comparison("waits (5, 25, 50, 75, 95 %)", _quantile_text(own), _quantile_text(with_delay), "told", None)


def _quantile_text(values: Sequence[float]) -> str:
    return ", ".join(f"{seconds:,.0f} s" for seconds in np.quantile(values, QUANTILES)) if values else "none"


def _series(watched: Sequence[Placed], plan: Plan, measured: Measured) -> Iterator[Comparison]:
    """Means, distribution and correlation of usage, and the distribution of memory."""
    tick = measured.tick_seconds
    asked, asked_memory, shown, shown_memory, lags = [], [], [], [], []
    for placed in watched:
        series = plan.trace.series[placed.job.series]
        usage = measured.usage[placed.job.name].astype(np.float64)
        asked.append(_by_tick(series, series.usage.astype(np.float64), placed.job, tick, len(usage)))
        shown.append(usage)
        lags.append(max(1, round(float(np.median(np.diff(series.seconds))) / tick)) if len(series.seconds) > 1 else 1)
        if series.memory_bytes is not None:
            asked_memory.append(_by_tick(series, series.memory_bytes, placed.job, tick, len(usage)))
            shown_memory.append(measured.memory_bytes[placed.job.name].astype(np.float64))
    yield _means(asked, shown, _ticks_with_others(plan, watched, tick))
    yield _distribution("usage", asked, shown, _QUANTILE_POINTS, lambda value: f"{value:.1f} %")
    if asked_memory:
        largest = max((float(numbers.max()) for numbers in asked_memory if len(numbers)), default=0.0)
        bound = _MEMORY_RATIO * largest
        yield _distribution("memory", asked_memory, shown_memory, bound, lambda value: f"{value / 2**30:.2f} GiB")
    both = [(_correlation(a, lag), _correlation(b, lag)) for a, b, lag in zip(asked, shown, lags, strict=True)]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    if known:
        before, after = (float(np.median(numbers)) for numbers in zip(*known, strict=True))
        yield Comparison(
            "correlation from value to value", f"{before:.3f}", f"{after:.3f}", f"{_CORRELATION:g}",
            abs(before - after) <= _CORRELATION,
        )  # fmt: skip


def _means(
    asked: Sequence[NDArray[np.float64]], shown: Sequence[NDArray[np.float64]], with_others: Sequence[int]
) -> Comparison:
    """The mean usage of each job; in a tick with another job on its devices it shows that one's usage, too."""
    triples = [triple for triple in zip(asked, shown, with_others, strict=True) if len(triple[0])]
    differences = [abs(float(before.mean() - after.mean())) for before, after, _ in triples]
    allowed = [_MEAN_POINTS + 100.0 * ticks / len(before) for before, _, ticks in triples]
    sharing = sum(ticks > 0 for _, _, ticks in triples)
    alone = max((each for each, (_, _, ticks) in zip(differences, triples, strict=True) if not ticks), default=0.0)
    text = f"at most {alone:.2f} points away"
    if sharing:
        text += f"; {sharing:,} share a tick with another: at most {max(differences):.2f}"
    met = all(difference <= bound for difference, bound in zip(differences, allowed, strict=True))
    return Comparison("mean usage of each job", f"{len(triples):,} series", text, f"{_MEAN_POINTS:g} points alone", met)


def _ticks_with_others(plan: Plan, watched: Sequence[Placed], tick: float) -> list[int]:
    """The ticks, at most, in which a watched job has a device that another has, too: one begins as the other ends."""
    by_device = grouped(((placed.node, index), placed) for placed in plan.placement.placed for index in placed.indices)
    shared: Counter[str] = Counter()
    for jobs in by_device.values():
        for before, after in pairwise(sorted(jobs, key=lambda each: each.start_seconds)):
            if after.start_seconds - before.end_seconds < tick:
                shared[before.job.name] += 1
                shared[after.job.name] += 1
    return [shared[placed.job.name] for placed in watched]


def _by_tick(
    series: UseSeries, values: NDArray[np.float64], job: TraceJob, tick: float, ticks: int
) -> NDArray[np.float64]:
    """The means of a series in ticks that begin with its job; it is 0 after the job's end.

    :returns: shape (ticks,).
    """
    edges = np.concatenate([[-np.inf], series.seconds[1:], [np.inf]])
    times = job.start_seconds + np.arange(ticks + 1) * tick
    ended = np.minimum(times, job.end_seconds)
    # The integral of a function that is constant between edges, at each time.
    lengths = np.diff(np.clip(edges, job.start_seconds, job.end_seconds))
    sums = np.concatenate([[0.0], np.cumsum(lengths * values)])
    place = np.clip(np.searchsorted(edges, ended, "right") - 1, 0, len(values) - 1)
    begun = np.clip(edges[place], job.start_seconds, job.end_seconds)
    means: NDArray[np.float64] = np.diff(sums[place] + (ended - begun) * values[place]) / tick
    return means


def _distribution(
    what: str, asked: Sequence[NDArray[np.float64]], shown: Sequence[NDArray[np.float64]], bound: float,
    text: Callable[[float], str],
) -> Comparison:  # fmt: skip
    """The quantiles of all values of all jobs."""
    before, after = (np.quantile(np.concatenate(numbers), QUANTILES) for numbers in (asked, shown))
    most = float(np.abs(before - after).max())
    trace, replay = (", ".join(map(text, numbers.tolist())) for numbers in (before, after))
    return Comparison(f"{what} (5, 25, 50, 75, 95 %)", trace, replay, text(bound), most <= bound)


def _correlation(values: NDArray[np.float64], lag: int) -> float | None:
    """The correlation of a series with itself one value later; None where it is not defined."""
    before, after = values[:-lag], values[lag:]
    if len(before) < 3 or not before.std() or not after.std():
        return None
    return float(np.corrcoef(before, after)[0, 1])
