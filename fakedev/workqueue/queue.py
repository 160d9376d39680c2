"""One queue: its waiting, running and buried jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from fakedev.workqueue.job import Job
from fakedev.workqueue.request_log import RequestLog
from fakedev.workqueue.spec import QueueSpec
from fakedev.workqueue.statistics import QueueStatistics
from fakedev.workqueue.waiting import WaitingJobs, Waits

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
        """The present state."""
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
