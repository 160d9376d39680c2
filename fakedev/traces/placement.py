"""Where jobs run that the trace does not place, on whole devices and shares of them; nothing is drawn."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.traces.model import WHOLE_THOUSANDTHS, Trace, TraceJob, TraceNode

#: How a place is chosen among those that a job fits in.
BEST_FIT: Final = "best-fit"
SPREAD: Final = "spread"
FIRST: Final = "first"
RULES: Final = (BEST_FIT, SPREAD, FIRST)


class Placed(NamedTuple):
    """A job with its place.

    :ivar devices: their numbers on the node, from 0.
    :ivar start_seconds: that of the trace, or later when it had to wait.
    :ivar end_seconds: None: it runs to the end.
    """

    job: TraceJob
    node: str
    devices: tuple[int, ...]
    start_seconds: float
    end_seconds: float | None


class Placement(NamedTuple):
    """Where all jobs run.

    :ivar placed: by start.
    :ivar without_place: jobs that found none before the end.
    :ivar peak_devices: the most devices that were taken at once, in whole or in part.
    """

    placed: tuple[Placed, ...]
    without_place: tuple[TraceJob, ...]
    peak_devices: int

    @property
    def late(self) -> int:
        """How many jobs start later than in the trace, because they had to wait for a place."""
        return sum(each.start_seconds > each.job.start_seconds for each in self.placed)


def place(trace: Trace, span_seconds: float, rule: str) -> Placement:
    """Place the jobs of a trace in the order of their starts.

    A job without a place waits, and starts when others end; who waits longest is tried first. It then runs as long
    as in the trace.

    :param rule: one of RULES. best-fit: where least remains free; spread: where most does; first: in the order of the
        nodes.
    """
    free = _Free(trace.nodes, rule)
    ends: list[tuple[float, int]] = []
    placed: list[Placed] = []
    waiting: list[TraceJob] = []

    def try_to_start(job: TraceJob, seconds: float) -> bool:
        found = free.take(job)
        if found is None:
            return False
        node, devices = found
        end = None if job.end_seconds is None else seconds + job.end_seconds - job.start_seconds
        if end is not None and end < span_seconds:
            heapq.heappush(ends, (end, len(placed)))
        else:
            end = None
        placed.append(Placed(job, trace.nodes[node].name, devices, seconds, end))
        return True

    def release_until(seconds: float) -> None:
        while ends and ends[0][0] <= seconds:
            at = ends[0][0]
            while ends and ends[0][0] == at:
                free.give_back(placed[heapq.heappop(ends)[1]])
            waiting[:] = [job for job in waiting if not try_to_start(job, at)]

    for job in trace.jobs:
        release_until(job.start_seconds)
        if not try_to_start(job, job.start_seconds):
            waiting.append(job)
    release_until(span_seconds)
    placed.sort(key=lambda each: each.start_seconds)
    return Placement(tuple(placed), tuple(waiting), free.peak)


class _Free:
    """What is free of each device: thousandths, shape (nodes, most devices of a node); 0 where there is no device.

    :ivar peak: the most devices that were taken at once, in whole or in part.
    """

    def __init__(self, nodes: Sequence[TraceNode], rule: str) -> None:
        widest = max((node.devices for node in nodes), default=1)
        counts = np.array([node.devices for node in nodes], dtype=np.int64)
        self._free: NDArray[np.int64] = np.where(
            np.arange(widest)[None, :] < counts[:, None], np.int64(WHOLE_THOUSANDTHS), np.int64(0)
        )
        self._taken = self.peak = 0
        self._rule = rule
        self._numbers = {node.name: number for number, node in enumerate(nodes)}
        self._models = np.array([node.model for node in nodes])

    def take(self, job: TraceJob) -> tuple[int, tuple[int, ...]] | None:
        """Take a place for a job: the number of the node, and those of the devices; None without one."""
        allowed = self._allowed(job)
        every = self._free if allowed is None else self._free[allowed]
        if not len(every):
            return None
        if job.thousandths < WHOLE_THOUSANDTHS and job.devices == 1:
            index = self._chosen(np.where(every >= job.thousandths, every, -1).ravel())
            row, column = divmod(index, every.shape[1])
            devices: tuple[int, ...] = (column,) if index >= 0 else ()
        else:
            fits = every >= job.thousandths
            counts = fits.sum(axis=1)
            row = self._chosen(np.where(counts >= job.devices, counts, -1))
            devices = tuple(np.flatnonzero(fits[row])[: job.devices].tolist()) if row >= 0 else ()
        if not devices:
            return None
        node = row if allowed is None else int(allowed[row])
        places = node, list(devices)
        self._taken += int((self._free[places] == WHOLE_THOUSANDTHS).sum())
        self.peak = max(self.peak, self._taken)
        self._free[places] -= job.thousandths
        return node, devices

    def give_back(self, placed: Placed) -> None:
        """Free the place of a job."""
        places = self._numbers[placed.node], list(placed.devices)
        self._free[places] += placed.job.thousandths
        self._taken -= int((self._free[places] == WHOLE_THOUSANDTHS).sum())

    def _allowed(self, job: TraceJob) -> NDArray[np.int64] | None:
        """The numbers of the nodes that a job may run on; None: all."""
        if job.node:
            return np.array([self._numbers[job.node]])
        if job.models:
            return np.flatnonzero(np.isin(self._models, job.models))
        return None

    def _chosen(self, room: NDArray[np.int64]) -> int:
        """The place to take: the first of the best; -1 without one.

        :param room: what is free in each place, -1 where the job does not fit.
        """
        fits = room >= 0
        if not fits.any():
            return -1
        if self._rule == SPREAD:
            return int(room.argmax())
        if self._rule == FIRST:
            return int(fits.argmax())
        return int(np.where(fits, room, np.iinfo(np.int64).max).argmin())
