"""How a job ends or returns when its client, its worker, its time limit or the program gives it up."""

from __future__ import annotations

from collections.abc import Mapping

from fakedev.workqueue.admission import Admission
from fakedev.workqueue.job import Job, JobState, Worker
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.outcome import Outcome
from fakedev.workqueue.queue import Queue


class JobEnds:
    """Decides for one job; the ledger executes it."""

    def __init__(self, queues: Mapping[str, Queue], ledger: Ledger, admission: Admission) -> None:
        self._queues = queues
        self._ledger = ledger
        self._admission = admission

    def give_back(self, job: Job, now: float) -> None:
        """Return a running job to its queue, unless the program ends."""
        log = self._queues[job.queue].log
        if self._admission.closed is not None and job.is_durable and log is not None:
            log.returned(job)
            self._ledger.set_aside(job)
        elif self._admission.closed is not None:
            self._ledger.end(job, job.answer_without_report(Outcome.CANCELLED, self._admission.closed, now), now)
        else:
            self._ledger.give_back(job, now)

    def bury(self, job: Job, reason: str, now: float) -> None:
        """Bury a running job; its client receives ``lost``."""
        queue = self._queues[job.queue]
        job.reason = reason
        queue.statistics.burials += 1
        queue.bury(job)
        self._ledger.end(job, job.answer_without_report(Outcome.LOST, reason, now), now, JobState.BURIED)

    def time_out(self, job: Job, now: float) -> None:
        """End a running job whose time limit and grace period are over."""
        grace_seconds = self._queues[job.queue].spec.grace_seconds
        limit = f"{job.limit_seconds:g} s and {grace_seconds:g} s more"
        self._ledger.withdraw(job, Outcome.TIMEOUT, f"the backend sent no result within the time limit of {limit}", now)

    # Durable queues

    def undo_accept(self, reason: str, job: Job, now: float) -> None:
        """End a request whose acceptance could not be written: nobody was told of it."""
        if job.state is JobState.WAITING:
            self._ledger.remove_client(job)
            self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)

    def undo_take(self, job: Job, now: float) -> None:
        """Return a job whose take could not be written: its worker was not told of it."""
        if job.state is JobState.RUNNING:
            self.give_back(job, now)

    # Slices of long works: the job may have ended or moved since the work began

    def cancel(self, reason: str, job: Job, now: float) -> None:
        """End a job because its client disconnected or the program stops; a durable one stays in its log."""
        if job.state not in (JobState.WAITING, JobState.RUNNING):
            return
        if job.is_durable:
            worker = job.worker
            self._ledger.set_aside(job)
            if worker is not None:
                worker.withdrawn(job, Outcome.CANCELLED.value)
        else:
            self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)

    def release_for_worker(self, worker: Worker, job: Job, now: float) -> None:
        """Return a job whose worker quits."""
        if job.worker is worker:
            self.give_back(job, now)

    def lose_for_worker(self, worker: Worker, job: Job, now: float) -> None:
        """Return, bury or end a job whose worker disconnected."""
        if job.worker is not worker:
            return
        queue = self._queues[job.queue]
        job.losses += 1
        if job.losses <= queue.spec.retries:
            queue.statistics.retries += 1
            self.give_back(job, now)
        elif queue.spec.retries:
            self.bury(job, f"lost by {job.losses} backends", now)
        else:
            text = "the backend disconnected before the run ended"
            self._ledger.end(job, job.answer_without_report(Outcome.LOST, text, now), now)

    def cancel_first_waiting(self, queue: Queue, reason: str, now: float) -> bool:
        """End the first waiting job because the program stops; whether there was one."""
        job = queue.waiting.first()
        if job is not None:
            self.cancel(reason, job, now)
        return job is not None
