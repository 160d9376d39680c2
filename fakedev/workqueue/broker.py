"""The rules of the work queue: who gets which job when, and how each request ends."""

from __future__ import annotations

from functools import partial
from itertools import islice

from fakedev.workqueue.admission import JOB_BYTES, Admission, no_job
from fakedev.workqueue.ends import JobEnds, QueueControl
from fakedev.workqueue.job import Answer, Client, Job, Outcome, Report, Worker, answer_to
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue, QueueSnapshot, Wait
from fakedev.workqueue.reload import change_queues, check_change
from fakedev.workqueue.slices import MAX_AT_ONCE, Slices, for_each
from fakedev.workqueue.spec import BrokerSpec, Refused
from fakedev.workqueue.statistics import QueueStatistics


class Broker:
    """All queues, and the jobs in them.

    Each method that takes ``now``, in seconds, must be given one that never goes back. What is told to a party is
    told when the change is complete. What concerns many jobs is done in slices: the first at once, the others by
    expire().

    :ivar queue_names: in the order of the configuration.
    :ivar control: pauses, drains and ends whole queues.
    """

    def __init__(self, spec: BrokerSpec, now: float) -> None:
        self.spec = spec
        self.queue_names = tuple(queue.name for queue in spec.queues)
        self._queues = {queue.name: Queue(queue, QueueStatistics(spec, now)) for queue in spec.queues}
        self._ledger = Ledger(self._queues)
        self._admission = Admission(spec.max_bytes, self._queues, self._ledger)
        self._job_ends = JobEnds(self._queues, self._ledger, self._admission)
        self._slices = Slices()
        self.control = QueueControl(self._ledger, self._admission, self._job_ends, self._slices)
        self._last_job = 0
        self._last_wait = 0

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
        :param size_bytes: of the arguments, in memory.
        :param is_large: whether the original's backend could not read it, so that it is kept from those.
        :param ticket: for the client's own use, kept in the job.
        :raises Refused: ``unknown-name``, ``full`` or ``busy`` (draining).
        """
        found = self._admission.queue(queue)
        size_bytes += JOB_BYTES
        try:
            self._admission.check_room(found, client, size_bytes)
        except Refused:
            found.statistics.refused()
            raise
        self._last_job += 1
        if limit_seconds <= 0:
            limit_seconds = found.spec.run_time_limit_seconds
        job = Job(self._last_job, queue, arguments, limit_seconds, size_bytes, is_large, client, ticket, now)
        self._ledger.accept(found, job, now)
        return job

    def cancel(self, client: Client, job_id: int, now: float) -> None:
        """End a request of this client; it is told so first.

        :raises Refused: ``unknown-name``, when it is none of its open ones.
        """
        job = self._ledger.requests.get(client, job_id)
        if job is None:
            raise no_job(job_id)
        self._ledger.withdraw(job, Outcome.CANCELLED, "cancelled by the client", now)

    def client_left(self, client: Client, now: float) -> None:
        """End all requests of a client; nobody is told but the workers."""
        jobs = self._ledger.requests.all_of(client)
        for job in jobs:
            self._ledger.disown(job)
            self._queues[job.queue].statistics.client_left()
        self._slices.begin(for_each(jobs, self._job_ends.forget), now)

    # Workers

    def take(self, worker: Worker, queue: str, now: float, *, small_only: bool = False) -> Job | None:
        """The oldest waiting job, which is the worker's now; None when none waits or the queue is paused.

        :param small_only: only one that the original's backend can read.
        :raises Refused: ``unknown-name``; ``full``, when the worker holds too many.
        """
        found = self._admission.queue(queue)
        self._admission.check_hands(worker)
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
        self._admission.queue(queue)
        self._admission.check_hands(worker)
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
        self._job_ends.give_back(self._held_by(worker, job_id), now)

    def bury(self, worker: Worker, job_id: int, reason: str, now: float) -> None:
        """The request is lost; the job is kept for kick().

        :raises Refused: as for finish().
        """
        self._job_ends.bury(self._held_by(worker, job_id), reason or "buried", now)

    def worker_quits(self, worker: Worker, now: float) -> None:
        """A worker is about to leave in good order: it waits for nothing, and its jobs wait again."""
        self._stop_waits(worker)
        self._slices.begin(for_each(self._ledger.held.all_of(worker), partial(self._job_ends.let_go, worker)), now)

    def worker_left(self, worker: Worker, now: float) -> None:
        """A worker is gone: its jobs wait again where a retry is left, and are lost else."""
        self._stop_waits(worker)
        self._slices.begin(for_each(self._ledger.held.all_of(worker), partial(self._job_ends.lose, worker)), now)

    # Buried jobs

    def kick(self, queue: str, count: int | None, now: float) -> list[Job]:
        """Put buried jobs in again, those first that were buried first, as new requests of nobody.

        :param count: at most so many; None for all. Fewer when the queue gets full.
        :raises Refused: ``unknown-name`` or ``busy`` (draining).
        """
        found = self._admission.queue(queue)
        self._admission.check_open(found)
        kicked: list[Job] = []
        for job in list(islice(found.buried.values(), count)):
            try:
                self._admission.check_room(found, None, job.size_bytes)
            except Refused:
                break  # full, which is not a refusal of the kick
            found.dig_out(job)
            size = job.size_bytes - JOB_BYTES
            kicked.append(self.put(None, queue, job.arguments, job.limit_seconds, size, now, is_large=job.is_large))
        return kicked

    # Time

    def next_deadline(self) -> float | None:
        """When expire() has something to do next; None for never."""
        due = self._slices.due_seconds
        return self._ledger.deadlines.next() if due is None else due

    def expire(self, now: float) -> None:
        """Do what is due: slices of what was begun, jobs over their limit and grace, waits and pauses that are over.

        So much at a time: next_deadline() says when there is more.
        """
        self._slices.go_on(now)
        for _ in range(MAX_AT_ONCE):
            due = self._ledger.deadlines.pop_due(now)
            match due:
                case Job():
                    self._job_ends.time_out(due, now)
                case Wait():
                    self._ledger.remove_wait(due)
                    due.worker.nothing(due.queue, due.ticket)
                case Queue():
                    self.control.end_pause(due, now)
                case None:
                    return

    # Another configuration

    def prepare(self, spec: BrokerSpec) -> None:
        """Before :meth:`reconfigure`: queues that will go take no requests in from here on.

        :raises Refused: as for :func:`check_change`; nothing is changed then.
        """
        for queue in check_change(self._queues, self.spec, spec):
            queue.is_draining = True

    def reconfigure(self, spec: BrokerSpec, now: float) -> None:
        """Go over to other queues and limits, which were prepared; jobs, waits and statistics of the others live on."""
        change_queues(self._queues, self._ledger, spec, now)
        self.spec = spec
        self.queue_names = tuple(queue.name for queue in spec.queues)
        self._admission.max_bytes = spec.max_bytes

    # What can be seen

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._ledger.open

    def snapshot(self, queue: str, now: float) -> QueueSnapshot:
        """How a queue is.

        :raises Refused: ``unknown-name``.
        """
        return self._admission.queue(queue).snapshot(now)

    def statistics(self, queue: str) -> QueueStatistics:
        """What was counted of a queue.

        :raises Refused: ``unknown-name``.
        """
        return self._admission.queue(queue).statistics

    def jobs(self, queue: str, most: int) -> list[Job]:
        """Jobs of a queue: those that run, those that wait in their order, those that are buried.

        :raises Refused: ``unknown-name``.
        """
        return list(islice(self._admission.queue(queue).jobs(), most))

    # What several of these need

    def _held_by(self, worker: Worker, job_id: int) -> Job:
        job = self._ledger.held.get(worker, job_id)
        if job is None:
            raise no_job(job_id)
        return job

    def _stop_waits(self, worker: Worker) -> None:
        for wait in self._ledger.waits.all_of(worker):
            self._ledger.remove_wait(wait)
