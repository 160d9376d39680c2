"""One queue: what waits in it, runs, and lies buried.

The order in which jobs wait: first in, first out, and back to their old place when they return.

Everything costs O(1), whatever the depth; a return costs O(log n) of the jobs that have returned and wait.

Workers that wait for work, in the order in which they came.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from fakedev.workqueue.job import Job, Worker
from fakedev.workqueue.spec import QueueSpec
from fakedev.workqueue.statistics import QueueStatistics

_NONE: Final = sys.maxsize


class Lane:
    """Waiting jobs in the order of their ids."""

    __slots__ = ("_heap", "_new", "_returned")

    def __init__(self) -> None:
        # A plain dict would search its front for what was deleted there.
        self._new: OrderedDict[int, Job] = OrderedDict()
        self._returned: dict[int, Job] = {}
        self._heap: list[int] = []  # ids of the returned ones; those that have left since are skipped

    def append(self, job: Job) -> None:
        """A job that has arrived just now."""
        self._new[job.id] = job

    def put_back(self, job: Job) -> None:
        """A job that was taken before."""
        self._returned[job.id] = job
        heapq.heappush(self._heap, job.id)

    def first_id(self) -> int:
        """The id of the first job; larger than any id when there is none."""
        new = next(iter(self._new)) if self._new else _NONE
        return min(new, self._first_returned()) if self._heap else new

    def get(self, job_id: int) -> Job:
        """The job of this id."""
        return self._returned.get(job_id) or self._new[job_id]

    def pop(self, job_id: int) -> Job:
        """Take the first job out; its id is known from first_id()."""
        if self._heap and self._heap[0] == job_id:
            heapq.heappop(self._heap)
            return self._returned.pop(job_id)
        return self._new.pop(job_id)

    def remove(self, job: Job) -> None:
        """Take any job out."""
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
    """The waiting jobs of a queue. Large ones have a lane of their own: those whom they would harm look past it.

    :ivar bytes: of all of them.
    """

    __slots__ = ("_large", "_small", "bytes", "count")

    def __init__(self) -> None:
        self._small = Lane()
        self._large = Lane()
        self.count = 0
        self.bytes = 0

    def append(self, job: Job) -> None:
        """A job that has arrived just now."""
        self.count += 1
        self.bytes += job.size_bytes
        (self._large if job.is_large else self._small).append(job)

    def put_back(self, job: Job) -> None:
        """A job that was taken before: it has its old place."""
        self.count += 1
        self.bytes += job.size_bytes
        (self._large if job.is_large else self._small).put_back(job)

    def first(self) -> Job | None:
        """The first job, which stays."""
        first, large = self._small.first_id(), self._large.first_id()
        if first == large:
            return None
        return self._small.get(first) if first < large else self._large.get(large)

    def pop(self, small_only: bool) -> Job | None:
        """Take the first job out.

        :param small_only: the first that is not large.
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
        """Take any job out."""
        self.count -= 1
        self.bytes -= job.size_bytes
        (self._large if job.is_large else self._small).remove(job)

    def __iter__(self) -> Iterator[Job]:
        return heapq.merge(self._small, self._large, key=_id)


def _id(job: Job) -> int:
    return job.id


class Wait:
    """A worker that waits for a job of a queue.

    :ivar number: growing in the order of arrival.
    :ivar ticket: what the worker knows it by.
    """

    __slots__ = ("number", "queue", "small_only", "ticket", "worker")

    def __init__(self, number: int, worker: Worker, queue: str, ticket: object, small_only: bool) -> None:
        self.number = number
        self.worker = worker
        self.queue = queue
        self.ticket = ticket
        self.small_only = small_only


class Waits:
    """Those who wait in one queue; who takes small jobs only is looked past for a large one."""

    __slots__ = ("_any", "_small")

    def __init__(self) -> None:
        self._any: OrderedDict[int, Wait] = OrderedDict()
        self._small: OrderedDict[int, Wait] = OrderedDict()

    def __len__(self) -> int:
        return len(self._any) + len(self._small)

    def all(self) -> list[Wait]:
        """All of them."""
        return [*self._any.values(), *self._small.values()]

    def add(self, wait: Wait) -> None:
        """Another one waits."""
        (self._small if wait.small_only else self._any)[wait.number] = wait

    def remove(self, wait: Wait) -> None:
        """One waits no longer."""
        del (self._small if wait.small_only else self._any)[wait.number]

    def first_for(self, job: Job) -> Wait:
        """Who has waited longest among those that may have the job; there must be one."""
        if job.is_large or not self._small:
            return next(iter(self._any.values()))
        small = next(iter(self._small.values()))
        if not self._any:
            return small
        other = next(iter(self._any.values()))
        return small if small.number < other.number else other

    def takes_any(self) -> bool:
        """Whether somebody here takes large jobs too."""
        return bool(self._any)

#: Jobs that a queue keeps buried, and their bytes; the oldest are forgotten.
MAX_BURIED: Final = 1000
MAX_BURIED_BYTES: Final = 4 * 2**20


class QueueSnapshot(NamedTuple):
    """How a queue is.

    :param state: ``open``, ``paused``, ``draining`` or ``paused,draining``.
    :param oldest_seconds: how long the oldest of those that wait has done so; 0 when none does.
    :param workers_idle: how often work of this queue is waited for: a worker may wait for several jobs.
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
    """The state of one queue; the rules are the broker's.

    :ivar running: by id.
    :ivar buried: by id, those first that were buried first.
    """

    __slots__ = (
        "_buried_bytes", "buried", "is_draining", "is_paused", "running", "spec", "statistics", "waiting", "waits",
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

    @property
    def is_full(self) -> bool:
        """Whether no more requests may wait."""
        return 0 < self.spec.max_waiting <= self.waiting.count

    def bury(self, job: Job) -> None:
        """Keep a job for kick()."""
        self.buried[job.id] = job
        self._buried_bytes += job.size_bytes
        while len(self.buried) > MAX_BURIED or self._buried_bytes > MAX_BURIED_BYTES:
            self.dig_out(next(iter(self.buried.values())))

    def dig_out(self, job: Job) -> None:
        """Keep a job no longer."""
        del self.buried[job.id]
        self._buried_bytes -= job.size_bytes

    def jobs(self) -> Iterator[Job]:
        """Those that run, those that wait in their order, and those that are buried."""
        return chain(self.running.values(), self.waiting, self.buried.values())

    def snapshot(self, now: float) -> QueueSnapshot:
        """How the queue is."""
        words = [word for word, so in (("paused", self.is_paused), ("draining", self.is_draining)) if so]
        oldest = self.waiting.first()
        return QueueSnapshot(
            name=self.spec.name,
            state=",".join(words) or "open",
            waiting=self.waiting.count,
            running=len(self.running),
            buried=len(self.buried),
            waiting_bytes=self.waiting.bytes,
            oldest_seconds=0.0 if oldest is None else now - oldest.put_seconds,
            workers_idle=len(self.waits),
            workers_busy=len({id(job.worker) for job in self.running.values()}),
        )
