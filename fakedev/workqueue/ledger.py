"""The jobs on their way: every index that knows them, and each of their moves, complete or not at all.

What belongs to whom: the requests of a client, the jobs and the waits of a worker.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from fakedev.workqueue.deadlines import Deadlines
from fakedev.workqueue.job import Answer, Client, Job, JobState, Outcome, Worker, answer_without_report
from fakedev.workqueue.queue import Queue, Wait

Owner = TypeVar("Owner")
Thing = TypeVar("Thing")


class ByOwner(Generic[Owner, Thing]):
    """Things by number for each party; a party without any is not known here."""

    __slots__ = ("_by_party",)

    def __init__(self) -> None:
        self._by_party: dict[Owner, dict[int, Thing]] = {}

    def __len__(self) -> int:
        return len(self._by_party)

    def add(self, party: Owner, number: int, thing: Thing) -> None:
        """A party has one more."""
        things = self._by_party.get(party)
        if things is None:
            self._by_party[party] = {number: thing}
        else:
            things[number] = thing

    def get(self, party: Owner, number: int) -> Thing | None:
        """The thing of this number, when the party has it."""
        things = self._by_party.get(party)
        return None if things is None else things.get(number)

    def count(self, party: Owner) -> int:
        """How many a party has."""
        things = self._by_party.get(party)
        return 0 if things is None else len(things)

    def remove(self, party: Owner, number: int) -> None:
        """A party has one less."""
        things = self._by_party[party]
        del things[number]
        if not things:
            del self._by_party[party]

    def all_of(self, party: Owner) -> list[Thing]:
        """What a party has, in the order in which it got it; a list of its own."""
        return list(self._by_party.get(party, {}).values())


class Ledger:
    """Where each job is.

    :ivar requests: the jobs of each client, whether they wait or run.
    :ivar held: the jobs of each worker.
    :ivar waits: for what each worker waits.
    :ivar deadlines: when jobs, waits and pauses are over.
    :ivar open: jobs that wait or run.
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
        """A new job waits."""
        self.open += 1
        self.bytes += job.size_bytes
        if job.client is not None:
            self.requests.add(job.client, job.id, job)
        queue.statistics.put(now)
        queue.waiting.append(job)
        if queue.waits:
            self.dispatch(queue, now)

    def dispatch(self, queue: Queue, now: float) -> bool:
        """Give a waiting job to a worker that waits; whether there was one of each."""
        if queue.is_paused or not queue.waits:
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
        """A job, out of the waiting ones, is a worker's now."""
        job.move_to(JobState.RUNNING)
        job.worker = worker
        job.taken_seconds = now
        job.attempts += 1
        queue.running[job.id] = job
        self.held.add(worker, job.id, job)
        self.set_limit(queue, job, now)
        queue.statistics.taken(now, job.wait_seconds)

    def set_limit(self, queue: Queue, job: Job, now: float) -> None:
        """The limit of a job counts from now."""
        if job.limit_seconds > 0:
            self.deadlines.set(job, now + job.limit_seconds + queue.spec.grace_seconds)

    def give_back(self, job: Job, now: float) -> None:
        """A job that was handed out waits again, at its old place."""
        queue = self.queues[job.queue]
        self._let_go(queue, job)
        job.move_to(JobState.WAITING)
        queue.waiting.put_back(job)
        self.dispatch(queue, now)

    def end(self, job: Job, answer: Answer, now: float, state: JobState = JobState.OVER) -> None:
        """A request ends: the one place where that is counted and told."""
        queue = self.queues[job.queue]
        ran = job.worker is not None
        if ran:
            self._let_go(queue, job)
        else:
            queue.waiting.remove(job)
        job.move_to(state)
        self.open -= 1
        self.bytes -= job.size_bytes
        queue.statistics.over(
            now, answer.outcome, answer.wait_seconds, answer.run_seconds if ran else None, answer.node, answer.pod
        )
        client = job.client
        if client is not None:
            self.disown(job)
            client.answered(job, answer)

    def withdraw(self, job: Job, outcome: Outcome, error: str, now: float) -> None:
        """A request ends without its worker, which is told so when there is one."""
        worker = job.worker
        self.end(job, answer_without_report(job, outcome, error, now), now)
        if worker is not None:
            worker.withdrawn(job, outcome.value)

    def disown(self, job: Job) -> None:
        """Nobody is to be told how a request ends."""
        if job.client is not None:
            self.requests.remove(job.client, job.id)
            job.client = None

    def add_wait(self, wait: Wait, until_seconds: float | None) -> None:
        """A worker waits."""
        self.queues[wait.queue].waits.add(wait)
        self.waits.add(wait.worker, wait.number, wait)
        if until_seconds is not None:
            self.deadlines.set(wait, until_seconds)

    def remove_wait(self, wait: Wait) -> None:
        """A worker waits no longer."""
        self.queues[wait.queue].waits.remove(wait)
        self.waits.remove(wait.worker, wait.number)
        self.deadlines.clear(wait)

    def _let_go(self, queue: Queue, job: Job) -> None:
        """A job that was handed out is nobody's any more."""
        if job.worker is not None:
            self.held.remove(job.worker, job.id)
            job.worker = None
        del queue.running[job.id]
        if job.limit_seconds > 0:
            self.deadlines.clear(job)
