"""The rules of the work queue: who gets which job when, and how each request ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from fakedev.workqueue.answers import answer_to, answer_without_report
from fakedev.workqueue.errors import Refused
from fakedev.workqueue.job import Job, JobState
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.outcome import Answer, Outcome, Report
from fakedev.workqueue.parties import Client, Worker
from fakedev.workqueue.queue import Queue, QueueSnapshot
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import QueueStatistics
from fakedev.workqueue.waits import Wait

#: What a job takes beside the bytes of its request.
JOB_BYTES: Final = 512
#: Requests that one client may have open, and jobs that one worker may hold: what is done at once when it leaves.
MOST_A_PARTY: Final = 4096
#: Deadlines that one call of expire() sees to.
_MOST_AT_ONCE: Final = 1000


class Broker:
    """All queues, and the jobs in them.

    Each method that takes ``now``, in seconds, must be given one that never goes back. What is told to a party is
    told when the change is complete.

    :ivar queue_names: in the order of the configuration.
    """

    def __init__(self, spec: BrokerSpec, now: float) -> None:
        self.spec = spec
        self.queue_names = tuple(queue.name for queue in spec.queues)
        self._queues = {queue.name: Queue(queue, QueueStatistics(spec, now)) for queue in spec.queues}
        self._ledger = Ledger(self._queues)
        self._last_job = 0
        self._last_wait = 0
        self._closed: str | None = None  # why no request is taken in any more

    # Clients

    def put(
        self,
        client: Client | None,
        queue: str,
        arguments: tuple[str, ...],
        limit_seconds: float,
        size_bytes: int,
        now: float,
        *,
        is_large: bool = False,
        ticket: object = None,
    ) -> Job:
        """Take a request in; a worker that waits for one is offered it at once.

        :param limit_seconds: of a run; 0 or less for the queue's.
        :param size_bytes: of the request as it came.
        :param is_large: whether the original's backend could not read it, so that it is kept from those.
        :param ticket: for the client's own use, kept in the job.
        :raises Refused: ``unknown-name``, ``full`` or ``busy`` (draining).
        """
        found = self._queue(queue)
        size_bytes += JOB_BYTES
        if refusal := self._no_room(found, client, size_bytes):
            found.statistics.refused()
            raise refusal
        self._last_job += 1
        job = Job(
            self._last_job,
            queue,
            arguments,
            limit_seconds=limit_seconds if limit_seconds > 0 else found.spec.run_time_limit_seconds,
            size_bytes=size_bytes,
            is_large=is_large,
            client=client,
            ticket=ticket,
            put_seconds=now,
        )
        self._ledger.accept(found, job, now)
        return job

    def cancel(self, client: Client, job_id: int, now: float) -> None:
        """End a request of this client; it is told so first.

        :raises Refused: ``unknown-name``, when it is none of its open ones.
        """
        job = self._ledger.requests.get(client, job_id)
        if job is None:
            raise _no_job(job_id)
        self._ledger.withdraw(job, Outcome.CANCELLED, "cancelled by the client", now)

    def client_left(self, client: Client, now: float) -> None:
        """End all requests of a client; nobody is told but the workers."""
        ledger = self._ledger
        for job in ledger.requests.all_of(client):
            if job.client is client:
                ledger.disown(job)
                self._queues[job.queue].statistics.client_left()
                ledger.withdraw(job, Outcome.CANCELLED, "the client left", now)

    # Workers

    def take(self, worker: Worker, queue: str, now: float, *, small_only: bool = False) -> Job | None:
        """The oldest waiting job, which is the worker's now; None when none waits or the queue is paused.

        :param small_only: only one that the original's backend can read.
        :raises Refused: ``unknown-name``; ``full``, when the worker holds too many.
        """
        found = self._queue(queue)
        self._check_hands(worker)
        job = None if found.is_paused else found.waiting.pop(small_only)
        if job is not None:
            self._ledger.hand_out(found, job, worker, now)
        return job

    def wait(
        self, worker: Worker, queue: str, ticket: object, until_seconds: float | None, *, small_only: bool = False
    ) -> None:
        """Offer the worker the next job that take() would give, after those that wait longer. Ask take() first.

        :param ticket: for the worker's own use, given back in offered() or nothing().
        :param until_seconds: then it is told nothing(); None for never.
        :raises Refused: ``unknown-name``; ``full``, when the worker holds too many jobs, those it waits for counted.
        """
        self._queue(queue)
        self._check_hands(worker)
        self._last_wait += 1
        self._ledger.add_wait(Wait(self._last_wait, worker, queue, ticket, small_only), until_seconds)

    def finish(self, worker: Worker, job_id: int, report: Report, now: float) -> Answer:
        """A run is over; the client is told.

        :raises Refused: ``unknown-name``, when the job is not this worker's, or not any more.
        """
        job = self._held_by(worker, job_id)
        answer = answer_to(job, report, now)
        self._ledger.end(job, answer, now)
        return answer

    def touch(self, worker: Worker, job_id: int, now: float) -> None:
        """The limit of the job counts from now.

        :raises Refused: as for finish().
        """
        job = self._held_by(worker, job_id)
        self._ledger.set_limit(self._queues[job.queue], job, now)

    def release(self, worker: Worker, job_id: int, now: float) -> None:
        """The job waits again, at its old place.

        :raises Refused: as for finish().
        """
        self._give_back(self._held_by(worker, job_id), now)

    def bury(self, worker: Worker, job_id: int, reason: str, now: float) -> None:
        """The request is lost; the job is kept for kick().

        :raises Refused: as for finish().
        """
        self._bury(self._held_by(worker, job_id), reason or "buried", now)

    def worker_left(self, worker: Worker, now: float) -> None:
        """A worker is gone: its jobs wait again where a retry is left, and are lost else."""
        ledger = self._ledger
        for wait in ledger.waits.all_of(worker):
            ledger.remove_wait(wait)
        for job in ledger.held.all_of(worker):
            if job.worker is worker:
                self._lose(job, now)

    # Whole queues; None means all of them

    def kick(self, queue: str, count: int | None, now: float) -> list[Job]:
        """Put buried jobs in again, those first that were buried first, as new requests of nobody.

        :param count: at most so many; None for all. Fewer when the queue gets full.
        :raises Refused: ``unknown-name`` or ``busy`` (draining).
        """
        found = self._queue(queue)
        if refusal := self._not_taken_in(found):
            raise refusal
        kicked: list[Job] = []
        for job in list(islice(found.buried.values(), count)):
            if self._no_room(found, None, job.size_bytes):
                break
            del found.buried[job.id]
            size = job.size_bytes - JOB_BYTES
            kicked.append(self.put(None, queue, job.arguments, job.limit_seconds, size, now, is_large=job.is_large))
        return kicked

    def pause(self, queue: str, until_seconds: float | None) -> None:
        """Hand nothing out, until then or until resume().

        :raises Refused: ``unknown-name``.
        """
        found = self._queue(queue)
        found.is_paused = True
        self._ledger.deadlines.clear(found)
        if until_seconds is not None:
            self._ledger.deadlines.set(found, until_seconds)

    def drain(self, queue: str | None) -> None:
        """Take no requests in.

        :raises Refused: ``unknown-name``.
        """
        for found in self._some(queue):
            found.is_draining = True

    def resume(self, queue: str | None, now: float) -> None:
        """End pause and drain.

        :raises Refused: ``unknown-name``; ``busy``, after close().
        """
        some = self._some(queue)
        if self._closed is not None:
            raise Refused("busy", self._closed)
        for found in some:
            found.is_draining = False
            self._ledger.deadlines.clear(found)
            self._unpause(found, now)

    # The end of the program

    def close(self, reason: str, now: float) -> None:
        """Take no requests in for good, and end those that wait."""
        self._closed = reason
        for queue in self._queues.values():
            for job in list(queue.waiting):
                if job.state is JobState.WAITING:
                    self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)

    def abandon(self, reason: str, now: float) -> None:
        """End what waits and what runs; nothing is taken in any more."""
        self.close(reason, now)
        for queue in self._queues.values():
            for job in list(queue.running.values()):
                if job.state is JobState.RUNNING:
                    self._ledger.withdraw(job, Outcome.CANCELLED, reason, now)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._ledger.open

    # Time

    def next_deadline(self) -> float | None:
        """When expire() has something to do next; None for never."""
        return self._ledger.deadlines.next()

    def expire(self, now: float) -> None:
        """Do what is due: jobs over their limit and grace, waits and pauses that are over.

        So much at a time: next_deadline() says when there is more.
        """
        for _ in range(_MOST_AT_ONCE):
            due = self._ledger.deadlines.pop_due(now)
            match due:
                case Job():
                    self._time_out(due, now)
                case Wait():
                    self._ledger.remove_wait(due)
                    due.worker.nothing(due.queue, due.ticket)
                case Queue():
                    self._unpause(due, now)
                case None:
                    return

    # What can be seen

    def snapshot(self, queue: str, now: float) -> QueueSnapshot:
        """How a queue is.

        :raises Refused: ``unknown-name``.
        """
        return self._queue(queue).snapshot(now)

    def statistics(self, queue: str) -> QueueStatistics:
        """What was counted of a queue.

        :raises Refused: ``unknown-name``.
        """
        return self._queue(queue).statistics

    def jobs(self, queue: str, most: int) -> list[Job]:
        """Jobs of a queue: those that run, those that wait in their order, those that are buried.

        :raises Refused: ``unknown-name``.
        """
        return list(islice(self._queue(queue).jobs(), most))

    # Who may what

    def _queue(self, name: str) -> Queue:
        found = self._queues.get(name)
        if found is None:
            raise Refused("unknown-name", f"Unknown '{name}' queue")
        return found

    def _some(self, name: str | None) -> Iterable[Queue]:
        return list(self._queues.values()) if name is None else [self._queue(name)]

    def _not_taken_in(self, queue: Queue) -> Refused | None:
        """Why requests are not taken in, however many there are."""
        if self._closed is not None:
            return Refused("busy", self._closed)
        if queue.is_draining:
            return Refused("busy", f"Queue '{queue.spec.name}' is draining")
        return None

    def _no_room(self, queue: Queue, client: Client | None, size_bytes: int) -> Refused | None:
        """Why a request is not taken in."""
        if refusal := self._not_taken_in(queue):
            return refusal
        if queue.is_full:
            return Refused("full", f"Queue '{queue.spec.name}' is full: {queue.waiting.count} requests wait")
        if self._ledger.bytes + size_bytes > self.spec.max_bytes:
            return Refused("full", f"The memory for requests is full: {self.spec.max_bytes} bytes")
        if client is not None and self._ledger.requests.count(client) >= MOST_A_PARTY:
            return Refused("full", f"{MOST_A_PARTY} requests of this connection are open")
        return None

    def _check_hands(self, worker: Worker) -> None:
        if self._ledger.held.count(worker) + self._ledger.waits.count(worker) >= MOST_A_PARTY:
            raise Refused("full", f"This connection holds {MOST_A_PARTY} jobs")

    def _held_by(self, worker: Worker, job_id: int) -> Job:
        job = self._ledger.held.get(worker, job_id)
        if job is None:
            raise _no_job(job_id)
        return job

    # What becomes of jobs

    def _give_back(self, job: Job, now: float) -> None:
        if self._closed is not None:
            self._ledger.end(job, answer_without_report(job, Outcome.CANCELLED, self._closed, now), now)
        else:
            self._ledger.give_back(job, now)

    def _lose(self, job: Job, now: float) -> None:
        """The worker of a job left."""
        queue = self._queues[job.queue]
        job.losses += 1
        if job.losses <= queue.spec.retries:
            queue.statistics.offered_again()
            self._give_back(job, now)
        elif queue.spec.retries:
            self._bury(job, f"lost by {job.losses} backends", now)
        else:
            text = "the backend left before the run was over"
            self._ledger.end(job, answer_without_report(job, Outcome.LOST, text, now), now)

    def _bury(self, job: Job, reason: str, now: float) -> None:
        queue = self._queues[job.queue]
        job.reason = reason
        queue.statistics.buried()
        queue.bury(job)
        self._ledger.end(job, answer_without_report(job, Outcome.LOST, reason, now), now, JobState.BURIED)

    def _time_out(self, job: Job, now: float) -> None:
        grace_seconds = self._queues[job.queue].spec.grace_seconds
        limit = f"{job.limit_seconds:g} s and {grace_seconds:g} s more"
        self._ledger.withdraw(job, Outcome.TIMEOUT, f"the backend said nothing within the time limit of {limit}", now)

    def _unpause(self, queue: Queue, now: float) -> None:
        queue.is_paused = False
        self._ledger.dispatch(queue, now)


def _no_job(job_id: int) -> Refused:
    return Refused("unknown-name", f"No job {job_id} of this connection")
