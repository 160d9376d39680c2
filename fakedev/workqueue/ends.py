"""What becomes of a job when its client, its worker, its time or the program leaves it.

Whole queues are held, closed to requests, opened again, and ended with the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fakedev.workqueue.admission import Admission
from fakedev.workqueue.job import Job, JobState, Outcome, Worker, answer_without_report
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.slices import Slices, for_each
from fakedev.workqueue.spec import Refused


class JobEnds:
    """Says what is right for one job; the ledger does it. Those that concern many jobs at once are done in slices."""

    def __init__(self, queues: Mapping[str, Queue], ledger: Ledger, admission: Admission) -> None:
        self._queues = queues
        self._ledger = ledger
        self._admission = admission

    def give_back(self, job: Job, now: float) -> None:
        """A running job is not wanted by its worker: it waits again, unless the program ends."""
        if self._admission.closed is not None:
            self._ledger.end(job, answer_without_report(job, Outcome.CANCELLED, self._admission.closed, now), now)
        else:
            self._ledger.give_back(job, now)

    def bury(self, job: Job, reason: str, now: float) -> None:
        """A running job is put aside; its client is told that it is lost."""
        queue = self._queues[job.queue]
        job.reason = reason
        queue.statistics.buried()
        queue.bury(job)
        self._ledger.end(job, answer_without_report(job, Outcome.LOST, reason, now), now, JobState.BURIED)

    def time_out(self, job: Job, now: float) -> None:
        """The limit of a running job and the grace are over."""
        grace_seconds = self._queues[job.queue].spec.grace_seconds
        limit = f"{job.limit_seconds:g} s and {grace_seconds:g} s more"
        self._ledger.withdraw(job, Outcome.TIMEOUT, f"the backend said nothing within the time limit of {limit}", now)

    # One of many: what was begun may have been overtaken since

    def forget(self, job: Job, now: float) -> None:
        """The client of a job left."""
        if job.state in (JobState.WAITING, JobState.RUNNING):
            self._ledger.withdraw(job, Outcome.CANCELLED, "the client left", now)

    def let_go(self, worker: Worker, job: Job, now: float) -> None:
        """The worker of a job is about to leave in good order."""
        if job.worker is worker:
            self.give_back(job, now)

    def lose(self, worker: Worker, job: Job, now: float) -> None:
        """The worker of a job left."""
        if job.worker is not worker:
            return
        queue = self._queues[job.queue]
        job.losses += 1
        if job.losses <= queue.spec.retries:
            queue.statistics.offered_again()
            self.give_back(job, now)
        elif queue.spec.retries:
            self.bury(job, f"lost by {job.losses} backends", now)
        else:
            text = "the backend left before the run was over"
            self._ledger.end(job, answer_without_report(job, Outcome.LOST, text, now), now)

    def cut_short(self, reason: str, job: Job, now: float) -> None:
        """The program ends while a job runs."""
        if job.state is JobState.RUNNING:
            self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)

    def end_first(self, queue: Queue, reason: str, now: float) -> bool:
        """The program ends: so does what waits, the first of it first; whether there was one."""
        job = queue.waiting.first()
        if job is not None:
            self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)
        return job is not None


class QueueControl:
    """Pauses, drains and ends queues; a name that is None means all of them."""

    def __init__(self, ledger: Ledger, admission: Admission, job_ends: JobEnds, slices: Slices) -> None:
        self._ledger = ledger
        self._admission = admission
        self._job_ends = job_ends
        self._slices = slices

    def pause(self, queue: str, until_seconds: float | None) -> None:
        """Hand nothing out, until then or until resume().

        :raises Refused: ``unknown-name``.
        """
        found = self._admission.queue(queue)
        found.is_paused = True
        self._ledger.deadlines.clear(found)
        if until_seconds is not None:
            self._ledger.deadlines.set(found, until_seconds)

    def drain(self, queue: str | None) -> None:
        """Take no requests in.

        :raises Refused: ``unknown-name``.
        """
        for found in self._admission.some(queue):
            found.is_draining = True

    def resume(self, queue: str | None, now: float) -> None:
        """End pause and drain.

        :raises Refused: ``unknown-name``; ``busy``, after close().
        """
        some = self._admission.some(queue)
        if self._admission.closed is not None:
            raise Refused("busy", self._admission.closed)
        for found in some:
            found.is_draining = False
            self._ledger.deadlines.clear(found)
            self.end_pause(found, now)

    def end_pause(self, queue: Queue, now: float) -> None:
        """Hand jobs out again, those first that wait."""
        queue.is_paused = False
        self._slices.begin(partial(self._ledger.dispatch, queue), now)

    def close(self, reason: str, now: float) -> None:
        """Take no requests in for good, hand nothing out, and end those that wait."""
        self._admission.closed = reason
        for queue in self._admission.some(None):
            queue.is_paused = True
            self._ledger.deadlines.clear(queue)
            self._slices.begin(partial(self._job_ends.end_first, queue, reason), now)

    def abandon(self, reason: str, now: float) -> None:
        """End what waits and what runs; nothing is taken in any more."""
        self.close(reason, now)
        for queue in self._admission.some(None):
            self._slices.begin(for_each(list(queue.running.values()), partial(self._job_ends.cut_short, reason)), now)
