"""One queue: its waiting, running and buried jobs, and the order in which jobs and workers wait.

Jobs are first in, first out; a returned job has its old place. Every operation costs O(1) whatever the number of
jobs, except a return: O(log n) of the returned jobs that wait.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from fakedev.queues.job import IWorker, Job
from fakedev.queues.log import RequestLog
from fakedev.queues.settings import QueueSpec
from fakedev.queues.statistics import QueueStatistics

_NONE: Final = sys.maxsize


class Lane:
    """Waiting jobs in the order of their ids, which is the order of arrival."""

    __slots__ = ("_heap", "_new", "_returned")

    def __init__(self) -> None:
        # In a plain dict, finding the first entry would pass all deleted ones.
        self._new: OrderedDict[int, Job] = OrderedDict()
        self._returned: dict[int, Job] = {}
        self._heap: list[int] = []  # ids of returned jobs; stale ones are skipped

    def append(self, job: Job) -> None:
        self._new[job.id] = job

    def put_back(self, job: Job) -> None:
        self._returned[job.id] = job
        heapq.heappush(self._heap, job.id)

    def first_id(self) -> int:
        """The id of the first job; _NONE if there is none."""
        new = next(iter(self._new)) if self._new else _NONE
        return min(new, self._first_returned()) if self._heap else new

    def get(self, job_id: int) -> Job:
        return self._returned.get(job_id) or self._new[job_id]

    def pop(self, job_id: int) -> Job:
        """Remove and return the first job, the one that first_id() names."""
        if self._heap and self._heap[0] == job_id:
            heapq.heappop(self._heap)
            return self._returned.pop(job_id)
        return self._new.pop(job_id)

    def remove(self, job: Job) -> None:
        if self._new.pop(job.id, None) is None:
            del self._returned[job.id]

    def __iter__(self) -> Iterator[Job]:
        returned = (self._returned[job_id] for job_id in sorted(self._returned))
        return heapq.merge(returned, self._new.values(), key=_id)

    def _first_returned(self) -> int:
        heap = self._heap
        while heap and heap[0] not in self._returned:
            heapq.heappop(heap)
        return heap[0] if heap else _NONE


class WaitingJobs:
    """The waiting jobs of a queue. Large ones have a separate lane: backends of the original programs skip them.

    :ivar bytes: of all waiting jobs.
    """

    __slots__ = ("_large", "_small", "bytes", "count")

    def __init__(self) -> None:
        self._small = Lane()
        self._large = Lane()
        self.count = 0
        self.bytes = 0

    def append(self, job: Job) -> None:
        self.count += 1
        self.bytes += job.size_bytes
        (self._large if job.is_large else self._small).append(job)

    def put_back(self, job: Job) -> None:
        self.count += 1
        self.bytes += job.size_bytes
        (self._large if job.is_large else self._small).put_back(job)

    def first(self) -> Job | None:
        """The first job, which stays; None if there is none."""
        first, large = self._small.first_id(), self._large.first_id()
        if first == large:
            return None
        return self._small.get(first) if first < large else self._large.get(large)

    def pop(self, small_only: bool) -> Job | None:
        """Remove and return the first job; None if there is none.

        :param small_only: skip large jobs.
        """
        lane, first = self._small, self._small.first_id()
        if not small_only and (large := self._large.first_id()) < first:
            lane, first = self._large, large
        if first == _NONE:
            return None
        job = lane.pop(first)
        self.count -= 1
        self.bytes -= job.size_bytes
        return job

    def remove(self, job: Job) -> None:
        self.count -= 1
        self.bytes -= job.size_bytes
        (self._large if job.is_large else self._small).remove(job)

    def __iter__(self) -> Iterator[Job]:
        return heapq.merge(self._small, self._large, key=_id)


def _id(job: Job) -> int:
    return job.id


@dataclass(slots=True, eq=False)
class Wait:
    """A worker that waits for a job of a queue.

    :param number: increases in the order of arrival.
    :param ticket: an object of the worker's choice.
    """

    number: int
    worker: IWorker
    queue: str
    ticket: object
    small_only: bool


class Waits:
    """The waits for jobs of one queue. Waits for small jobs only are skipped for a large one.

    :ivar count: number of waits.
    """

    __slots__ = ("_any", "_small", "count")

    def __init__(self) -> None:
        self._any: OrderedDict[int, Wait] = OrderedDict()
        self._small: OrderedDict[int, Wait] = OrderedDict()
        self.count = 0

    def all(self) -> list[Wait]:
        return [*self._any.values(), *self._small.values()]

    def add(self, wait: Wait) -> None:
        self.count += 1
        (self._small if wait.small_only else self._any)[wait.number] = wait

    def remove(self, wait: Wait) -> None:
        self.count -= 1
        del (self._small if wait.small_only else self._any)[wait.number]

    def first_for(self, job: Job) -> Wait:
        """The oldest wait that accepts the job; there must be one."""
        if job.is_large or not self._small:
            return next(iter(self._any.values()))
        small = next(iter(self._small.values()))
        if not self._any:
            return small
        other = next(iter(self._any.values()))
        return small if small.number < other.number else other

    def takes_any(self) -> bool:
        """Whether a wait accepts large jobs."""
        return bool(self._any)


#: Maximum number and bytes of the buried jobs of a queue; the oldest are dropped.
MAX_BURIED: Final = 1000
MAX_BURIED_BYTES: Final = 4 * 2**20


class QueueSnapshot(NamedTuple):
    """The state of a queue at one time.

    :param state: ``open``, ``paused``, ``draining`` or ``paused,draining``.
    :param oldest_seconds: how long the oldest waiting job has waited; 0 if none waits.
    :param workers_idle: waits for jobs of this queue; a worker may have several.
    :param workers_busy: workers that hold jobs of this queue.
    """

    name: str
    state: str
    waiting: int
    running: int
    buried: int
    waiting_bytes: int
    oldest_seconds: float
    workers_idle: int
    workers_busy: int


class Queue:
    """The state of one queue; the broker has the rules.

    :ivar running: by id.
    :ivar buried: by id, in the order of burial.
    :ivar log: the log of a durable queue; None for another one.
    """

    __slots__ = (
        "_buried_bytes", "buried", "is_draining", "is_paused", "log", "running", "spec", "statistics",
        "waiting", "waits",
    )  # fmt: skip

    def __init__(self, spec: QueueSpec, statistics: QueueStatistics) -> None:
        self.spec = spec
        self.statistics = statistics
        self.waiting = WaitingJobs()
        self.running: dict[int, Job] = {}
        self.buried: OrderedDict[int, Job] = OrderedDict()
        self._buried_bytes = 0
        self.waits = Waits()
        self.is_paused = False
        self.is_draining = False
        self.log: RequestLog | None = None

    @property
    def problem(self) -> str:
        """Why no request is accepted and no job handed out: the log cannot be written. Else empty."""
        return "" if self.log is None else self.log.problem

    def bury(self, job: Job) -> None:
        """Keep a job for kick(); drop the oldest ones beyond the limits."""
        if self.log is not None and job.is_durable:
            self.log.buried(job)
        self.buried[job.id] = job
        self._buried_bytes += job.size_bytes
        while len(self.buried) > MAX_BURIED or self._buried_bytes > MAX_BURIED_BYTES:
            self.unbury(next(iter(self.buried.values())))

    def unbury(self, job: Job) -> None:
        """Drop a buried job."""
        if self.log is not None and job.is_durable:
            self.log.over(job)
        del self.buried[job.id]
        self._buried_bytes -= job.size_bytes

    def jobs(self) -> Iterator[Job]:
        """The running jobs, the waiting ones in their order, and the buried ones."""
        return chain(self.running.values(), self.waiting, self.buried.values())

    def snapshot(self, now: float) -> QueueSnapshot:
        words = [word for word, is_set in (("paused", self.is_paused), ("draining", self.is_draining)) if is_set]
        oldest = self.waiting.first()
        return QueueSnapshot(
            name=self.spec.name,
            state=",".join(words) or "open",
            waiting=self.waiting.count,
            running=len(self.running),
            buried=len(self.buried),
            waiting_bytes=self.waiting.bytes,
            oldest_seconds=0.0 if oldest is None else now - oldest.put_seconds,
            workers_idle=self.waits.count,
            workers_busy=len({id(job.worker) for job in self.running.values()}),
        )
