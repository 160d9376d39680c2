"""How a job ends or returns to its queue, which requests are accepted, and which workers may get another job.

A job ends or returns when its client, its worker, its time limit or the program gives it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fakedev.base.errors import Refused
from fakedev.queues.job import IClient, IWorker, Job, JobState, Outcome
from fakedev.queues.ledger import Ledger
from fakedev.queues.queue import Queue

#: Bytes that a job counts for in addition to its arguments, and each argument in addition to its text.
JOB_BYTES: Final = 512
ARGUMENT_BYTES: Final = 64
#: Maximum open requests of a client, and jobs of a worker: all of them end when it disconnects.
MAX_PER_OWNER: Final = 4096


class QueueLimits:
    """Checks the limits of requests, clients and workers.

    :ivar max_bytes: of requests that wait or run, in all queues together.
    :ivar closed: why no request is accepted any more; None while requests are accepted.
    """

    def __init__(self, max_bytes: int, queues: Mapping[str, Queue], ledger: Ledger) -> None:
        self.max_bytes = max_bytes
        self._queues = queues
        self._ledger = ledger
        self.closed: str | None = None

    def queue(self, name: str) -> Queue:
        """The queue with this name.

        :raises Refused: ``unknown-name``.
        """
        found = self._queues.get(name)
        if found is None:
            raise Refused("unknown-name", f"Unknown '{name}' queue")
        return found

    def queues_named(self, name: str | None) -> Iterable[Queue]:
        """The queue with this name, or all queues for None.

        :raises Refused: ``unknown-name``.
        """
        return list(self._queues.values()) if name is None else [self.queue(name)]

    def check_open(self, queue: Queue) -> None:
        """Check that a queue accepts requests, apart from their number and size.

        :raises Refused: ``busy``; ``full``, if its log cannot be written.
        """
        if self.closed is not None:
            raise Refused("busy", self.closed)
        if queue.is_draining:
            raise Refused("busy", f"Queue '{queue.spec.name}' is draining")
        if queue.log is not None:
            self.check_log(queue)

    def check_log(self, queue: Queue) -> None:
        """Check that the log of a queue can be written, if it has one.

        :raises Refused: ``full``.
        """
        if problem := queue.problem:
            raise Refused("full", problem)

    def check_room(self, queue: Queue, client: IClient | None, size_bytes: int) -> None:
        """Check that a queue accepts one more request of this size.

        :param client: None for no client, which has no limit of requests.
        :raises Refused: ``busy`` or ``full``.
        """
        self.check_open(queue)
        if 0 < queue.spec.max_waiting <= queue.waiting.count:
            raise Refused("full", f"Queue '{queue.spec.name}' is full: {queue.waiting.count} requests wait")
        if self._ledger.bytes + size_bytes > self.max_bytes:
            raise Refused("full", f"The memory for requests is full: {self.max_bytes} bytes")
        if client is not None and self._ledger.requests.count(client) >= MAX_PER_OWNER:
            raise Refused("full", f"{MAX_PER_OWNER} requests of this connection are open")

    def room_of(self, worker: IWorker) -> int:
        """How many more jobs a worker may get, at least one.

        :raises Refused: ``full``.
        """
        room = MAX_PER_OWNER - self._ledger.held.count(worker) - self._ledger.waits.count(worker)
        if room <= 0:
            raise Refused("full", f"This connection holds {MAX_PER_OWNER} jobs")
        return room


def no_job(job_id: int) -> Refused:
    return Refused("unknown-name", f"No job {job_id} of this connection")


class JobEnds:
    """Decides for one job; the ledger executes it."""

    def __init__(self, queues: Mapping[str, Queue], ledger: Ledger, limits: QueueLimits) -> None:
        self._queues = queues
        self._ledger = ledger
        self._limits = limits

    def give_back(self, job: Job, now: float) -> None:
        """Return a running job to its queue, unless the program ends."""
        log = self._queues[job.queue].log
        if self._limits.closed is not None and job.is_durable and log is not None:
            log.returned(job)
            self._ledger.set_aside(job)
        elif self._limits.closed is not None:
            self._ledger.end(job, job.answer_without_report(Outcome.CANCELLED, self._limits.closed, now), now)
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
        grace_seconds = self._queues[job.queue].spec.grace_seconds
        limit = f"{job.limit_seconds:g} s and {grace_seconds:g} s more"
        self._ledger.withdraw(job, Outcome.TIMEOUT, f"the backend sent no result within the time limit of {limit}", now)

    # Durable queues

    def undo_accept(self, reason: str, job: Job, now: float) -> None:
        """End a request whose acceptance could not be written and was not confirmed."""
        if job.state is JobState.WAITING:
            self._ledger.remove_client(job)
            self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)

    def undo_take(self, job: Job, now: float) -> None:
        """Return a job whose take could not be written; its worker never received it."""
        if job.state is JobState.RUNNING:
            self.give_back(job, now)

    # Steps of long tasks: the job may have ended or moved since the task began

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

    def release_for_worker(self, worker: IWorker, job: Job, now: float) -> None:
        if job.worker is worker:
            self.give_back(job, now)

    def lose_for_worker(self, worker: IWorker, job: Job, now: float) -> None:
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
