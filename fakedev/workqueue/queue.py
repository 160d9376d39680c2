"""One queue: what waits in it, runs, and lies buried."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from fakedev.workqueue.job import Job
from fakedev.workqueue.order import WaitingJobs
from fakedev.workqueue.spec import QueueSpec
from fakedev.workqueue.statistics import QueueStatistics
from fakedev.workqueue.waits import Waits

#: Jobs that a queue keeps buried, and their bytes; the oldest are forgotten.
MOST_BURIED: Final = 1000
MOST_BURIED_BYTES: Final = 4 * 2**20


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
        while len(self.buried) > MOST_BURIED or self._buried_bytes > MOST_BURIED_BYTES:
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
