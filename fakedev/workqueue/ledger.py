"""All indexes of open jobs, and the changes of a job's state, each of which updates all indexes."""

from __future__ import annotations

from typing import Generic, TypeVar

from fakedev.workqueue.deadlines import Deadlines
from fakedev.workqueue.job import Client, Job, JobState, Worker
from fakedev.workqueue.outcome import Answer, Outcome
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.waiting import Wait

Owner = TypeVar("Owner")
Thing = TypeVar("Thing")


class ByOwner(Generic[Owner, Thing]):
    """The things of each owner by number. An owner without things takes no memory."""

    __slots__ = ("_things",)

    def __init__(self) -> None:
        self._things: dict[Owner, dict[int, Thing]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def add(self, owner: Owner, number: int, thing: Thing) -> None:
        """Add a thing of an owner."""
        things = self._things.get(owner)
        if things is None:
            self._things[owner] = {number: thing}
        else:
            things[number] = thing

    def get(self, owner: Owner, number: int) -> Thing | None:
        """The thing with this number; None if the owner does not have it."""
        things = self._things.get(owner)
        return None if things is None else things.get(number)

    def count(self, owner: Owner) -> int:
        """How many things an owner has."""
        things = self._things.get(owner)
        return 0 if things is None else len(things)

    def remove(self, owner: Owner, number: int) -> None:
        """Remove a thing of an owner."""
        things = self._things[owner]
        del things[number]
        if not things:
            del self._things[owner]

    def all_of(self, owner: Owner) -> list[Thing]:
        """A new list of an owner's things, in the order in which they were added."""
        return list(self._things.get(owner, {}).values())


class Ledger:
    """Where each job is.

    :ivar requests: the waiting and running jobs of each client.
    :ivar held: the jobs of each worker.
    :ivar waits: the waits of each worker.
    :ivar deadlines: of jobs, waits and pauses.
    :ivar open: number of jobs that wait or run.
    :ivar bytes: of these.
    """

    def __init__(self, queues: dict[str, Queue]) -> None:
        self.queues = queues
        self.requests: ByOwner[Client, Job] = ByOwner()
        self.held: ByOwner[Worker, Job] = ByOwner()
        self.waits: ByOwner[Worker, Wait] = ByOwner()
        self.deadlines: Deadlines[Job | Wait | Queue] = Deadlines()
        self.open = 0
        self.bytes = 0

    def accept(self, queue: Queue, job: Job, now: float) -> None:
        """Add a new job to its queue."""
        self.open += 1
        self.bytes += job.size_bytes
        if job.client is not None:
            self.requests.add(job.client, job.id, job)
        if job.is_durable and queue.log is not None:
            queue.log.accepted(job)
        queue.statistics.put(now)
        queue.waiting.append(job)
        if queue.waits.count:
            self.dispatch(queue, now)

    def dispatch(self, queue: Queue, now: float) -> bool:
        """Hand out a waiting job to a waiting worker; whether there was one of each."""
        if queue.is_paused or not queue.waits.count or queue.problem:
            return False
        job = queue.waiting.pop(small_only=not queue.waits.takes_any())
        if job is None:
            return False
        wait = queue.waits.first_for(job)
        self.remove_wait(wait)
        self.hand_out(queue, job, wait.worker, now)
        wait.worker.offered(job, wait.ticket)
        return True

    def hand_out(self, queue: Queue, job: Job, worker: Worker, now: float) -> None:
        """Give a job, already removed from the waiting ones, to a worker."""
        job.move_to(JobState.RUNNING)
        job.worker = worker
        job.taken_seconds = now
        job.attempts += 1
        if job.is_durable and queue.log is not None:
            queue.log.taken(job)
        queue.running[job.id] = job
        self.held.add(worker, job.id, job)
        if job.limit_seconds > 0:
            self.set_limit(queue, job, now)
        queue.statistics.taken(now, now - job.put_seconds)

    def set_limit(self, queue: Queue, job: Job, now: float) -> None:
        """Start the time limit of a job now."""
        if job.limit_seconds > 0:
            self.deadlines.set(job, now + job.limit_seconds + queue.spec.grace_seconds)

    def give_back(self, job: Job, now: float) -> None:
        """Return a running job to its old place in the queue."""
        queue = self.queues[job.queue]
        self._detach(queue, job)
        job.move_to(JobState.WAITING)
        if job.is_durable and queue.log is not None:
            queue.log.returned(job)
        queue.waiting.put_back(job)
        self.dispatch(queue, now)

    def end(self, job: Job, answer: Answer, now: float, state: JobState = JobState.OVER) -> None:
        """End a request: every end is counted and notified here."""
        queue = self.queues[job.queue]
        has_run = job.worker is not None
        self._remove(queue, job, state)
        if job.is_durable and queue.log is not None and state is JobState.OVER:
            queue.log.over(job)
        queue.statistics.ended(now, answer, has_run=has_run)
        client = job.client
        if client is not None:
            self.remove_client(job)
            client.answered(job, answer)

    def withdraw(self, job: Job, outcome: Outcome, error: str, now: float) -> None:
        """End a request without a report, and notify its worker, if it has one."""
        worker = job.worker
        self.end(job, job.answer_without_report(outcome, error, now), now)
        if worker is not None:
            worker.withdrawn(job, outcome.value)

    def set_aside(self, job: Job) -> None:
        """Remove a durable job at the end of the program without an end of its request: its log keeps it."""
        self._remove(self.queues[job.queue], job, JobState.OVER)
        self.remove_client(job)

    def remove_client(self, job: Job) -> None:
        """Remove the client of a job: it receives no answer."""
        if job.client is not None:
            self.requests.remove(job.client, job.id)
            job.client = None

    def add_wait(self, wait: Wait, until_seconds: float | None) -> None:
        """Add a wait of a worker."""
        self.queues[wait.queue].waits.add(wait)
        self.waits.add(wait.worker, wait.number, wait)
        if until_seconds is not None:
            self.deadlines.set(wait, until_seconds)

    def remove_wait(self, wait: Wait) -> None:
        """Remove a wait of a worker."""
        self.queues[wait.queue].waits.remove(wait)
        self.waits.remove(wait.worker, wait.number)
        self.deadlines.clear(wait)

    def _remove(self, queue: Queue, job: Job, state: JobState) -> None:
        """Remove a waiting or running job."""
        if job.worker is not None:
            self._detach(queue, job)
        else:
            queue.waiting.remove(job)
        job.move_to(state)
        self.open -= 1
        self.bytes -= job.size_bytes

    def _detach(self, queue: Queue, job: Job) -> None:
        """Take a running job from its worker."""
        if job.worker is not None:
            self.held.remove(job.worker, job.id)
            job.worker = None
        del queue.running[job.id]
        if job.limit_seconds > 0:
            self.deadlines.clear(job)
