"""A trace of a cluster in one form, whatever its file format: nodes, jobs and series as frozen values.

Formats share the folder that tables come from, checks of times, and nodes for jobs of traces without any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from zope.interface import Attribute, Interface

from fakedev.base.groups import grouped
from fakedev.replay.table_reader import PLAIN, Column, JsonRecords, TableForm, TableRows

#: The share of a whole device, in thousandths: shares add up without rounding.
WHOLE: Final = 1000


class Window(NamedTuple):
    """The part of a trace that is asked for, in seconds since its beginning."""

    begin_seconds: float = 0.0
    end_seconds: float = math.inf


#: All of a trace.
WHOLE_TRACE: Final = Window()


@dataclass(frozen=True)
class TraceNode:
    """A node with devices.

    :ivar model: of its devices, as the trace names it.
    """

    name: str
    model: str
    devices: int


@dataclass(frozen=True)
class TraceJob:
    """A job that has run on devices.

    :ivar submit_seconds, start_seconds, end_seconds: since the beginning of the trace.
    :ivar devices: how many it has, all of one node.
    :ivar share: of its device, in thousandths; less than WHOLE only for a job with one device.
    :ivar node: where it ran; empty: the trace does not say.
    :ivar indices: its devices on that node, as many as it has; none: the trace does not say.
    :ivar models: the models that it accepts; none: any.
    :ivar series: the name of its series, of which it has the part of its own time; empty: it has none.
    :ivar pod: that it belongs to, which may have several jobs; empty: one of its own name.
    :ivar has_failed: whether it ended badly in the trace. A replay only tells how many did.
    """

    name: str
    submit_seconds: float
    start_seconds: float
    end_seconds: float
    devices: int = 1
    share: int = WHOLE
    node: str = ""
    models: tuple[str, ...] = ()
    series: str = ""
    indices: tuple[int, ...] = ()
    pod: str = ""
    has_failed: bool = False

    @property
    def seconds(self) -> float:
        """How long it runs."""
        return self.end_seconds - self.start_seconds

    @property
    def whole_devices(self) -> float:
        """The devices that it takes, shares as parts of one."""
        return self.devices * self.share / WHOLE


@dataclass(frozen=True, eq=False)
class UseSeries:
    """What the devices of a job did: each value holds until the next one.

    :ivar seconds: when each value begins, since the beginning of the trace, ascending, shape (values,).
    :ivar end_seconds: until when the last value holds.
    :ivar usage: percent, shape (values,).
    :ivar memory_bytes: shape (values,); None: the trace does not say.
    """

    seconds: NDArray[np.float64]
    end_seconds: float
    usage: NDArray[np.float32]
    memory_bytes: NDArray[np.float64] | None = None

    def later(self, seconds: float) -> UseSeries:
        """The same values later."""
        return replace(self, seconds=self.seconds + seconds, end_seconds=self.end_seconds + seconds)


@dataclass(frozen=True)
class Trace:
    """A trace.

    :ivar series: by name.
    :ivar left_out: what was read and is no part of a replay, by the reason, with numbers.
    """

    nodes: Sequence[TraceNode]
    jobs: Sequence[TraceJob]
    series: dict[str, UseSeries] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """The models of its nodes, in order of their names."""
        return sorted({node.model for node in self.nodes})

    @property
    def end_seconds(self) -> float:
        """The end of the last job."""
        return max((job.end_seconds for job in self.jobs), default=0.0)


def taken_over_time(
    jobs: Sequence[TraceJob], instants: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The jobs that run, and the devices that they take, at each of some instants; a job does not run at its end.

    :param instants: ascending, shape (instants,).
    :returns: both of shape (instants,).
    """
    starts = np.array([job.start_seconds for job in jobs], dtype=np.float64)
    ends = np.array([job.end_seconds for job in jobs], dtype=np.float64)
    wanted = np.array([job.devices * job.share for job in jobs], dtype=np.int64)
    by_start, by_end = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    began = np.searchsorted(starts[by_start], instants, "right")
    ended = np.searchsorted(ends[by_end], instants, "right")
    taken = _sums(wanted[by_start])[began] - _sums(wanted[by_end])[ended]
    return began - ended, taken / WHOLE


def _sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values)])


def most_devices(jobs: Sequence[TraceJob]) -> float:
    """The devices that the jobs take at the peak."""
    if not jobs:
        return 0.0
    starts = np.unique([job.start_seconds for job in jobs])
    return float(taken_over_time(jobs, starts)[1].max())


def within(trace: Trace, window: Window) -> Trace:
    """The part of a trace in a window: what runs at its begin starts at 0; what begins after its end is left out."""
    jobs = list(_jobs_within(trace.jobs, *window))
    outside = len(trace.jobs) - len(jobs)
    left_out = trace.left_out | ({"jobs outside of the time": outside} if outside else {})
    series = {name: _part_of(uses, *window) for name, uses in trace.series.items()}
    return Trace(trace.nodes, jobs, series, left_out)


def _jobs_within(jobs: Sequence[TraceJob], begin: float, end: float) -> Iterator[TraceJob]:
    for job in jobs:
        if job.end_seconds > begin and job.start_seconds < end:
            later = moved(job, -begin)
            start = later.start_seconds
            if start < 0:
                # It has waited as long as in the trace.
                later = replace(later, submit_seconds=later.submit_seconds - start, start_seconds=0.0)
            yield later


def moved(job: TraceJob, seconds: float, name: str = "") -> TraceJob:
    """The same job later, with another name if one is given."""
    return replace(
        job,
        name=name or job.name,
        submit_seconds=job.submit_seconds + seconds,
        start_seconds=job.start_seconds + seconds,
        end_seconds=job.end_seconds + seconds,
    )


def _part_of(series: UseSeries, begin: float, end: float) -> UseSeries:
    """The values before an end, at least one, which then holds on."""
    count = max(1, int(np.searchsorted(series.seconds, end, "left")))
    memory = None if series.memory_bytes is None else series.memory_bytes[:count]
    return replace(series, seconds=series.seconds[:count], usage=series.usage[:count], memory_bytes=memory).later(
        -begin
    )


#: The devices of a node that is made for jobs of which the trace names no node.
DEVICES_PER_NODE: Final = 8


class IFolder(Interface):
    """Where the files of a trace are."""

    window: Window = Attribute("What will be replayed: of large tables formats keep no more than that.")

    def has(name: str) -> bool:
        """Whether there is a file, packed or not."""

    def head(name: str) -> Sequence[str]:
        """The names in the first line of a file; none where there is no such file.

        :raises TraceProblems: when it cannot be read.
        """

    def table(name: str, columns: Sequence[Column], form: TableForm = PLAIN) -> TableRows:
        """The rows of a table.

        :raises TraceProblems: when there is none.
        """

    def records(name: str) -> JsonRecords:
        """The records of a file with a JSON array of objects.

        :raises TraceProblems: when there is none.
        """


class Ids:
    """Names that must be unique in a file, and times that must be in order; others are refused with their line."""

    def __init__(self, rows: TableRows | JsonRecords) -> None:
        self._rows = rows
        self._known: set[str] = set()

    def is_new(self, column: str, name: str) -> bool:
        """Whether a name is there for the first time; else its row is refused."""
        if name in self._known:
            self._rows.refuse(column, f"{name[:60]!r} is there twice: names are unique")
            return False
        self._known.add(name)
        return True

    def are_ordered(self, **times: float | None) -> bool:
        """Whether each time is not before the one that precedes it; else its row is refused.

        :param times: by column; None: there is no such time.
        """
        what, before = "", -math.inf
        for column, at in times.items():
            if at is not None and at < before:
                self._rows.refuse(column, f"{at:.15g} is before its {what}, {before:.15g}")
                return False
            what, before = (what, before) if at is None else (column, at)
        return True


def nodes_of_table(
    rows: TableRows, name: str, model: str, devices: str, left_out: Counter[str] | None = None, what: str = "nodes"
) -> list[TraceNode]:
    """The nodes with devices of a table of nodes.

    :param name, model, devices: its columns.
    :param left_out: counts nodes without devices, whose names need not be unique then.
    :param what: nodes are called there.
    """
    nodes, ids = [], Ids(rows)
    for row in rows:
        if left_out is not None and not row[devices]:
            left_out[f"{what} without GPUs"] += 1
        elif ids.is_new(name, row[name]) and row[devices]:
            nodes.append(TraceNode(row[name], row[model], row[devices]))
    return nodes


def nodes_of_jobs(jobs: Sequence[TraceJob]) -> list[TraceNode]:
    """Nodes for jobs: those that jobs name, each as large as its peak; without any, nodes of eight for the peak."""
    by_node = grouped((job.node, job) for job in jobs)
    unnamed = by_node.pop("", [])
    nodes = [TraceNode(name, _model(own), _devices(own)) for name, own in sorted(by_node.items())]
    count = math.ceil(most_devices(unnamed) / DEVICES_PER_NODE)
    nodes += [TraceNode(f"node-{number}", _model(unnamed), DEVICES_PER_NODE) for number in range(count)]
    return nodes


def _devices(jobs: Sequence[TraceJob]) -> int:
    """The devices that the jobs of a node need, among them those that they name."""
    return max(math.ceil(most_devices(jobs)), *(index + 1 for job in jobs for index in job.indices), 0)


def _model(jobs: Sequence[TraceJob]) -> str:
    """The model that most jobs ask for; empty for none."""
    wanted = Counter(model for job in jobs for model in job.models)
    return wanted.most_common(1)[0][0] if wanted else ""
