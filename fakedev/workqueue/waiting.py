"""The order in which jobs wait for workers, and workers for jobs.

Jobs are first in, first out; a returned job has its old place. Every operation costs O(1) whatever the number of jobs,
except a return: O(log n) of the returned jobs that wait.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fakedev.workqueue.job import Job, Worker

_NONE: Final = sys.maxsize


class Lane:
    """Waiting jobs in the order of their ids, which is that of their arrival."""

    __slots__ = ("_heap", "_new", "_returned")

    def __init__(self) -> None:
        # In a plain dict, finding the first entry would pass all deleted ones.
        self._new: OrderedDict[int, Job] = OrderedDict()
        self._returned: dict[int, Job] = {}
        self._heap: list[int] = []  # ids of returned jobs; stale ones are skipped

    def append(self, job: Job) -> None:
        """Add a new job."""
        self._new[job.id] = job

    def put_back(self, job: Job) -> None:
        """Return a job to its old place."""
        self._returned[job.id] = job
        heapq.heappush(self._heap, job.id)

    def first_id(self) -> int:
        """The id of the first job; _NONE if there is none."""
        new = next(iter(self._new)) if self._new else _NONE
        return min(new, self._first_returned()) if self._heap else new

    def get(self, job_id: int) -> Job:
        """The job with this id."""
        return self._returned.get(job_id) or self._new[job_id]

    def pop(self, job_id: int) -> Job:
        """Remove and return the first job, whose id is that of first_id()."""
        if self._heap and self._heap[0] == job_id:
            heapq.heappop(self._heap)
            return self._returned.pop(job_id)
        return self._new.pop(job_id)

    def remove(self, job: Job) -> None:
        """Remove a job."""
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
        """Add a new job."""
        self.count += 1
        self.bytes += job.size_bytes
        (self._large if job.is_large else self._small).append(job)

    def put_back(self, job: Job) -> None:
        """Return a job to its old place."""
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
        """Remove a job."""
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
    worker: Worker
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
        """All waits."""
        return [*self._any.values(), *self._small.values()]

    def add(self, wait: Wait) -> None:
        """Add a wait."""
        self.count += 1
        (self._small if wait.small_only else self._any)[wait.number] = wait

    def remove(self, wait: Wait) -> None:
        """Remove a wait."""
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
