"""The order in which jobs wait: first in, first out, and back to their old place when they return.

Everything costs O(1), whatever the depth; a return costs O(log n) of the jobs that have returned and wait.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from fakedev.workqueue.job import Job

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
