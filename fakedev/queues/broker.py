"""The rules of the work queue: which worker gets which job when, how requests end; pausing, reload, recovery.

Queues can be paused, drained, resumed and closed. Reload: which changes of the queues' configuration are allowed, and
how they are made. Recovery: the jobs of a durable queue after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice

from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.queues.job import Answer, IClient, IWorker, Job, JobState, Outcome, Report
from fakedev.queues.job_ends import JOB_BYTES, JobEnds, QueueLimits, no_job
from fakedev.queues.ledger import Ledger
from fakedev.queues.log import Batch, LoggedJob, Replayed, RequestLog
from fakedev.queues.queue import Queue, QueueSnapshot, Wait
from fakedev.queues.settings import BrokerSpec
from fakedev.queues.slices import MAX_AT_ONCE, Slices, for_each
from fakedev.queues.statistics import QueueStatistics


def check_change(queues: Mapping[str, Queue], before: BrokerSpec, after: BrokerSpec) -> list[Queue]:
    """Check that the queues can be reloaded with another specification.

    :returns: the queues to remove.
    :raises Refused: ``busy``, if a queue to remove has jobs; ``bad-argument``, if the kind of maxima or the time that
        maxima and rates cover would change.
    """
    for name in ("window_seconds", "maxima", "interval_seconds"):
        if getattr(after, name) != getattr(before, name):
            raise Refused("bad-argument", f"{name.removesuffix('_seconds')} cannot change while the queues are in use")
    removed = _removed(queues, after)
    for queue in removed:
        jobs = queue.waiting.count + len(queue.running) + len(queue.buried)
        if jobs:
            raise Refused(
                "busy", f"queue '{queue.spec.name}' cannot be removed: it has {jobs} waiting, running or buried jobs"
            )
    return removed


def change_queues(queues: dict[str, Queue], ledger: Ledger, after: BrokerSpec, now: float) -> None:
    """Replace the queues by the queues of another specification. Remaining queues keep their jobs and statistics.

    Waits for jobs of a removed queue expire.
    """
    for queue in _removed(queues, after):
        for wait in queue.waits.all():
            ledger.remove_wait(wait)
            wait.worker.wait_expired(wait.queue, wait.ticket)
        ledger.deadlines.clear(queue)
    before = dict(queues)
    # The ledger and others share this mapping.
    queues.clear()
    for queue_spec in after.queues:
        queue = before.get(queue_spec.name) or Queue(queue_spec, QueueStatistics(after, now))
        queue.spec = queue_spec
        queues[queue_spec.name] = queue


def _removed(queues: Mapping[str, Queue], after: BrokerSpec) -> list[Queue]:
    names = {queue.name for queue in after.queues}
    return [queue for name, queue in queues.items() if name not in names]


@implementer(IWorker)
class _FormerWorker:
    """Stands for the workers that held jobs when the service ended; they get no message."""

    pod = node = device = ""

    def offered(self, job: Job, ticket: object) -> None:
        """Nothing."""

    def wait_expired(self, queue: str, ticket: object) -> None:
        """Nothing."""

    def withdrawn(self, job: Job, reason: str) -> None:
        """Nothing."""


def restore_jobs(queue: Queue, ledger: Ledger, job_ends: JobEnds, jobs: Iterable[LoggedJob], now: float) -> None:
    """Put the jobs of a log in a queue, which must be empty and have a log.

    :param jobs: in the order of their ids. One that runs is lost by its worker.
    """
    log = queue.log
    assert log is not None
    worker = _FormerWorker()
    for logged in jobs:
        job = Job(
            logged.id, queue.spec.name, logged.arguments, logged.limit_seconds, logged.size_bytes, logged.is_large,
            None, None, log.put_seconds(logged, now), attempts=logged.losses, losses=logged.losses,
            reason=logged.reason, is_durable=True,
        )  # fmt: skip
        if logged.state is JobState.BURIED:
            job.state = JobState.BURIED
            log.accepted(job)
            queue.bury(job)
            continue
        ledger.accept(queue, job, now)
        if logged.state is JobState.RUNNING:
            queue.waiting.remove(job)
            ledger.hand_out(queue, job, worker, now)
            job_ends.lose_for_worker(worker, job, now)
        elif job.losses:
            log.returned(job)


class Broker:
    """All queues, and the jobs in them.

    ``now`` is in monotonic seconds. Clients and workers are notified after each complete change. Changes of many jobs
    are made in slices: the first at once, the others by expire().

    :ivar queue_names: in the order of the configuration.
    """

    def __init__(self, spec: BrokerSpec, now: float) -> None:
        self._going: list[Queue] = []
        self.spec = spec
        self.queue_names = tuple(queue.name for queue in spec.queues)
        self._queues = {queue.name: Queue(queue, QueueStatistics(spec, now)) for queue in spec.queues}
        self._ledger = Ledger(self._queues)
        self._limits = QueueLimits(spec.max_bytes, self._queues, self._ledger)
        self._job_ends = JobEnds(self._queues, self._ledger, self._limits)
        self._slices = Slices()
        self._last_job = 0
        self._last_wait = 0

    # Clients

    def put(
        self,
        client: IClient | None,
        queue: str,
        arguments: tuple[str, ...],
        limit_seconds: float,
        size_bytes: int,
        now: float,
        *,
        is_large: bool = False,
        ticket: object = None,
        is_promised: bool = False,
    ) -> Job:
        """Accept a request. A waiting worker gets it at once.

        :param limit_seconds: run-time limit; 0 or less: the queue's limit.
        :param size_bytes: of the arguments, in memory.
        :param is_large: whether backends of the original programs cannot read it, so that they do not get it.
        :param ticket: an object of the client's choice, kept in the job.
        :param is_promised: whether the acceptance is confirmed to the client: a durable queue then logs the request.
        :raises Refused: ``unknown-name``, ``full`` or ``busy`` (draining).
        """
        found = self._limits.queue(queue)
        size_bytes += JOB_BYTES
        try:
            self._limits.check_room(found, client, size_bytes)
        except Refused:
            found.statistics.refused()
            raise
        self._last_job += 1
        if limit_seconds <= 0:
            limit_seconds = found.spec.run_time_limit_seconds
        job = Job(self._last_job, queue, arguments, limit_seconds, size_bytes, is_large, client, ticket, now)
        job.is_durable = is_promised and found.log is not None
        self._ledger.accept(found, job, now)
        return job

    def cancel(self, client: IClient, job_id: int, now: float) -> None:
        """End a request of this client, which is notified of the end first.

        :raises Refused: ``unknown-name``, if the client has no such open request.
        """
        job = self._ledger.requests.get(client, job_id)
        if job is None:
            raise no_job(job_id)
        self._ledger.withdraw(job, Outcome.CANCELLED, "cancelled by the client", now)

    def client_left(self, client: IClient, now: float) -> None:
        """End all requests of a client that disconnected, but the durable ones. Only the workers are notified."""
        jobs = []
        for job in self._ledger.requests.all_of(client):
            self._ledger.remove_client(job)
            if not job.is_durable:
                jobs.append(job)
                self._queues[job.queue].statistics.disconnects += 1
        self._slices.begin(for_each(jobs, partial(self._job_ends.cancel, "the client disconnected")), now)

    # Workers

    def take(self, worker: IWorker, queue: str, now: float, *, small_only: bool = False) -> Job | None:
        """Give the oldest waiting job to the worker; None if no job waits or the queue is paused.

        :param small_only: skip jobs that backends of the original programs cannot read.
        :raises Refused: ``unknown-name``; ``full``, if the worker holds too many jobs.
        """
        jobs = self.take_some(worker, queue, now, most=1, small_only=small_only)
        return jobs[0] if jobs else None

    def take_some(
        self, worker: IWorker, queue: str, now: float, *, most: int, most_bytes: int = 0, small_only: bool = False
    ) -> list[Job]:
        """Give the oldest waiting jobs to the worker; fewer, or none, as for take().

        :param most: number of jobs; fewer if the worker would hold too many.
        :param most_bytes: of all jobs; the last one may exceed it. 0 for no limit.
        :raises Refused: as for take().
        """
        found = self._limits.queue(queue)
        most = min(most, self._limits.room_of(worker))
        self._limits.check_log(found)
        jobs: list[Job] = []
        if found.is_paused:
            return jobs
        given_bytes = 0
        while len(jobs) < most and (job := found.waiting.pop(small_only)) is not None:
            self._ledger.hand_out(found, job, worker, now)
            jobs.append(job)
            given_bytes += job.size_bytes
            if 0 < most_bytes <= given_bytes:
                break
        return jobs

    def wait(
        self, worker: IWorker, queue: str, ticket: object, until_seconds: float | None, *, small_only: bool = False
    ) -> None:
        """Wait for the next job that take() would give, after earlier waits. Call take() first.

        :param ticket: an object of the worker's choice, passed to offered() or wait_expired().
        :param until_seconds: when to call wait_expired(); None for never.
        :raises Refused: ``unknown-name``; ``full``, if the worker holds and waits for too many jobs.
        """
        self._limits.queue(queue)
        self._limits.room_of(worker)
        self._last_wait += 1
        self._ledger.add_wait(Wait(self._last_wait, worker, queue, ticket, small_only), until_seconds)

    def finish(self, worker: IWorker, job_id: int, report: Report, now: float) -> Answer:
        """End a job with the report of its run; the client is notified.

        :raises Refused: ``unknown-name``, if the worker does not hold the job, or not any more.
        """
        job = self._held_by(worker, job_id)
        answer = job.answer_to(report, now)
        self._ledger.end(job, answer, now)
        return answer

    def touch(self, worker: IWorker, job_id: int, now: float) -> None:
        """Restart the time limit of a job.

        :raises Refused: as for finish().
        """
        job = self._held_by(worker, job_id)
        self._ledger.set_limit(self._queues[job.queue], job, now)

    def release(self, worker: IWorker, job_id: int, now: float) -> None:
        """Return a job to its old place in the queue.

        :raises Refused: as for finish().
        """
        self._job_ends.give_back(self._held_by(worker, job_id), now)

    def bury(self, worker: IWorker, job_id: int, reason: str, now: float) -> None:
        """End a request with ``lost``, and keep the job for kick().

        :raises Refused: as for finish().
        """
        self._job_ends.bury(self._held_by(worker, job_id), reason or "buried", now)

    def worker_quits(self, worker: IWorker, now: float) -> None:
        """A worker quits: its waits end, and its jobs return to their queues."""
        self._remove_worker(worker, self._job_ends.release_for_worker, now)

    def worker_left(self, worker: IWorker, now: float) -> None:
        """A worker disconnected: its jobs return to their queues if a retry remains; else they are lost."""
        self._remove_worker(worker, self._job_ends.lose_for_worker, now)

    # Buried jobs

    def kick(self, queue: str, count: int | None, now: float) -> list[Job]:
        """Put buried jobs in again, in the order of burial, as new requests without a client.

        :param count: maximum number; None for all. Fewer if the queue gets full.
        :raises Refused: ``unknown-name`` or ``busy`` (draining).
        """
        found = self._limits.queue(queue)
        self._limits.check_open(found)
        kicked: list[Job] = []
        for job in list(islice(found.buried.values(), count)):
            try:
                self._limits.check_room(found, None, job.size_bytes)
            except Refused:
                break  # full: the kick itself is not refused
            found.unbury(job)
            size, is_promised = job.size_bytes - JOB_BYTES, job.is_durable
            again = self.put(
                None, queue, job.arguments, job.limit_seconds, size, now, is_large=job.is_large, is_promised=is_promised
            )
            kicked.append(again)
        return kicked

    # Whole queues; None means all of them

    def pause(self, queue: str, until_seconds: float | None) -> None:
        """Hand out no jobs until this time, or until resume().

        :raises Refused: ``unknown-name``.
        """
        found = self._limits.queue(queue)
        found.is_paused = True
        self._ledger.deadlines.clear(found)
        if until_seconds is not None:
            self._ledger.deadlines.set(found, until_seconds)

    def drain(self, queue: str | None) -> None:
        """Accept no requests.

        :raises Refused: ``unknown-name``.
        """
        for found in self._limits.queues_named(queue):
            found.is_draining = True

    def resume(self, queue: str | None, now: float) -> None:
        """End pause and drain.

        :raises Refused: ``unknown-name``; ``busy``, after close().
        """
        resumed = self._limits.queues_named(queue)
        if self._limits.closed is not None:
            raise Refused("busy", self._limits.closed)
        for found in resumed:
            found.is_draining = False
            self._ledger.deadlines.clear(found)
            self._end_pause(found, now)

    def _end_pause(self, queue: Queue, now: float) -> None:
        """Hand out jobs again, first to waiting workers."""
        queue.is_paused = False
        self._slices.begin(partial(self._ledger.dispatch, queue), now)

    def close(self, reason: str, now: float) -> None:
        """Accept no requests any more, hand out no jobs, and end the waiting ones."""
        self._limits.closed = reason
        for queue in self._limits.queues_named(None):
            queue.is_paused = True
            self._ledger.deadlines.clear(queue)
            self._slices.begin(partial(self._job_ends.cancel_first_waiting, queue, reason), now)

    def abandon(self, reason: str, now: float) -> None:
        """Close the queues, and end the running jobs too."""
        self.close(reason, now)
        for queue in self._limits.queues_named(None):
            self._slices.begin(for_each(list(queue.running.values()), partial(self._job_ends.cancel, reason)), now)

    # Time

    def next_deadline(self) -> float | None:
        """When to call expire() next; None for never."""
        due = self._slices.due_seconds
        return self._ledger.deadlines.next() if due is None else due

    def expire(self, now: float) -> None:
        """Do what is due: slices of long tasks, jobs beyond their limit and grace period, ends of waits and pauses.

        Each call does a bounded amount of work; next_deadline() is due at once if there is more.
        """
        self._slices.go_on(now)
        for _ in range(MAX_AT_ONCE):
            due = self._ledger.deadlines.pop_due(now)
            match due:
                case Job():
                    self._job_ends.time_out(due, now)
                case Wait():
                    self._ledger.remove_wait(due)
                    due.worker.wait_expired(due.queue, due.ticket)
                case Queue():
                    self._end_pause(due, now)
                case None:
                    return

    # Durable queues

    def restore(self, log: RequestLog, replayed: Replayed, now: float) -> None:
        """Make a queue durable, with the jobs that its log leaves; called once, before anything else.

        Jobs that workers held are handled as if the worker had disconnected.
        """
        queue = self._queues[log.queue]
        queue.log = log
        self._last_job = max(self._last_job, replayed.last_job)
        log.reserve(replayed.last_job)
        restore_jobs(queue, self._ledger, self._job_ends, replayed.jobs, now)

    def undo(self, log: RequestLog, batch: Batch, now: float) -> None:
        """Undo changes that could not be written and were not confirmed to anybody; the log has a problem."""
        self._slices.begin(for_each(batch.taken, self._job_ends.undo_take), now)
        self._slices.begin(for_each(batch.accepted, partial(self._job_ends.undo_accept, log.problem)), now)

    def log_works(self, log: RequestLog, now: float) -> None:
        """The log can be written again: hand out jobs to waiting workers."""
        self._slices.begin(partial(self._ledger.dispatch, self._queues[log.queue]), now)

    # Reload

    def prepare(self, spec: BrokerSpec) -> None:
        """Before :meth:`reconfigure`: drain the queues that will be removed.

        :raises Refused: as for :func:`check_change`, without any change.
        """
        self._going = [queue for queue in check_change(self._queues, self.spec, spec) if not queue.is_draining]
        for queue in self._going:
            queue.is_draining = True

    def undo_prepare(self) -> None:
        """Drain none of the queues that :meth:`prepare` has drained: all stay."""
        for queue in self._going:
            queue.is_draining = False
        self._going = []

    def reconfigure(self, spec: BrokerSpec, now: float) -> None:
        """Use prepared other queues and limits. Remaining queues keep their jobs, waits and statistics."""
        change_queues(self._queues, self._ledger, spec, now)
        self._going = []
        self.spec = spec
        self.queue_names = tuple(queue.name for queue in spec.queues)
        self._limits.max_bytes = spec.max_bytes

    # Inspection

    def is_owner(self, peer: object) -> bool:
        """Whether a client has open requests, or a worker holds jobs."""
        return peer in self._ledger.requests or peer in self._ledger.held

    def run_time_limit_seconds(self, queue: str) -> float:
        """The run-time limit of requests without one; 0 for none, and for an unknown queue."""
        return self._queues[queue].spec.run_time_limit_seconds if queue in self._queues else 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no job waits or runs."""
        return not self._ledger.open

    def snapshot(self, queue: str, now: float) -> QueueSnapshot:
        """The present state of a queue.

        :raises Refused: ``unknown-name``.
        """
        return self._limits.queue(queue).snapshot(now)

    def running(self, queue: str) -> Collection[Job]:
        """The running jobs of a queue, those that were taken first first.

        :raises Refused: ``unknown-name``.
        """
        return self._limits.queue(queue).running.values()

    def statistics(self, queue: str) -> QueueStatistics:
        """The statistics of a queue.

        :raises Refused: ``unknown-name``.
        """
        return self._limits.queue(queue).statistics

    def jobs(self, queue: str, max_jobs: int) -> list[Job]:
        """The running jobs of a queue, the waiting ones in their order, and the buried ones.

        :raises Refused: ``unknown-name``.
        """
        return list(islice(self._limits.queue(queue).jobs(), max_jobs))

    def _held_by(self, worker: IWorker, job_id: int) -> Job:
        job = self._ledger.held.get(worker, job_id)
        if job is None:
            raise no_job(job_id)
        return job

    def _remove_worker(self, worker: IWorker, end: Callable[[IWorker, Job, float], None], now: float) -> None:
        """End the waits of a worker, then each of its jobs."""
        for wait in self._ledger.waits.all_of(worker):
            self._ledger.remove_wait(wait)
        if held := self._ledger.held.all_of(worker):
            self._slices.begin(for_each(held, partial(end, worker)), now)
