"""The ledger: all indexes of open jobs, the changes of a job's state, and the heap of deadlines.

Each change of a state updates all indexes.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from fakedev.queues.job import Answer, IClient, IWorker, Job, JobState, Outcome
from fakedev.queues.queue import Queue, Wait

Key = TypeVar("Key", bound=Hashable)

#: Stale entries stay in the heap until there are more of them than of current ones by this number.
_SLACK: Final = 64


class Deadlines(Generic[Key]):
    """At most one deadline for each key. Setting, clearing and finding the next one cost O(log n)."""

    __slots__ = ("_entries", "_heap", "_set")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._entries: dict[Key, int] = {}  # the number of the current heap entry
        self._set = 0

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: Key, seconds: float) -> None:
        """Set or replace the deadline of a key."""
        self._set += 1
        self._entries[key] = self._set
        heapq.heappush(self._heap, (seconds, self._set, key))
        self._tidy()

    def clear(self, key: Key) -> None:
        """Remove the deadline of a key, if it has one."""
        if self._entries.pop(key, None) is not None:
            self._tidy()

    def next(self) -> float | None:
        """The earliest deadline; None if there is none."""
        self._skip()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Key | None:
        """Remove and return the key with the earliest deadline, if that is over; else None."""
        self._skip()
        if not self._heap or self._heap[0][0] > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._entries[key]
        return key

    def _skip(self) -> None:
        heap, entries = self._heap, self._entries
        while heap and entries.get(heap[0][2]) != heap[0][1]:
            heapq.heappop(heap)

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)


Owner = TypeVar("Owner")
Thing = TypeVar("Thing")


class ByOwner(Generic[Owner, Thing]):
    """The jobs or waits of each owner, by number. An owner that has none takes no memory."""

    __slots__ = ("_things",)

    def __init__(self) -> None:
        self._things: dict[Owner, dict[int, Thing]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def __contains__(self, owner: object) -> bool:
        return owner in self._things

    def add(self, owner: Owner, number: int, thing: Thing) -> None:
        things = self._things.get(owner)
        if things is None:
            self._things[owner] = {number: thing}
        else:
            things[number] = thing

    def get(self, owner: Owner, number: int) -> Thing | None:
        things = self._things.get(owner)
        return None if things is None else things.get(number)

    def count(self, owner: Owner) -> int:
        things = self._things.get(owner)
        return 0 if things is None else len(things)

    def remove(self, owner: Owner, number: int) -> None:
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
        self.requests: ByOwner[IClient, Job] = ByOwner()
        self.held: ByOwner[IWorker, Job] = ByOwner()
        self.waits: ByOwner[IWorker, Wait] = ByOwner()
        self.deadlines: Deadlines[Job | Wait | Queue] = Deadlines()
        self.open = 0
        self.bytes = 0

    def accept(self, queue: Queue, job: Job, now: float) -> None:
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

    def hand_out(self, queue: Queue, job: Job, worker: IWorker, now: float) -> None:
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
        self.queues[wait.queue].waits.add(wait)
        self.waits.add(wait.worker, wait.number, wait)
        if until_seconds is not None:
            self.deadlines.set(wait, until_seconds)

    def remove_wait(self, wait: Wait) -> None:
        self.queues[wait.queue].waits.remove(wait)
        self.waits.remove(wait.worker, wait.number)
        self.deadlines.clear(wait)

    def _remove(self, queue: Queue, job: Job, state: JobState) -> None:
        if job.worker is not None:
            self._detach(queue, job)
        else:
            queue.waiting.remove(job)
        job.move_to(state)
        self.open -= 1
        self.bytes -= job.size_bytes

    def _detach(self, queue: Queue, job: Job) -> None:
        if job.worker is not None:
            self.held.remove(job.worker, job.id)
            job.worker = None
        del queue.running[job.id]
        if job.limit_seconds > 0:
            self.deadlines.clear(job)
