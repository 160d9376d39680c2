"""The rules of the work queue once more, as plainly as can be: one list of jobs, one of waits, searched each time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fakedev.queues.job import Report
from fakedev.queues.settings import QueueSpec

NEVER = float("inf")


@dataclass(eq=False)
class PlainJob:
    """A request."""

    id: int
    queue: str
    client: Any
    limit: float
    is_large: bool
    state: str = "waiting"
    worker: Any = None
    losses: int = 0


@dataclass(eq=False)
class PlainWait:
    """Somebody who waits."""

    worker: Any
    queue: str
    ticket: object
    small_only: bool


@dataclass
class PlainBroker:
    """A broker that is slow and easy to believe.

    :ivar told: what parties were told: (what, party, job or ticket, more).
    :ivar counted: (queue, what) to how often.
    """

    specs: dict[str, QueueSpec]
    max_jobs: int
    jobs: list[PlainJob] = field(default_factory=list)
    waits: list[PlainWait] = field(default_factory=list)
    due: dict[object, tuple[float, int]] = field(
        default_factory=dict
    )  # job, wait or queue name: when, and set how late
    paused: set[str] = field(default_factory=set)
    draining: set[str] = field(default_factory=set)
    buried: list[PlainJob] = field(default_factory=list)
    told: list[tuple[object, ...]] = field(default_factory=list)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    times_set: int = 0

    def some(self, state: str, queue: str = "") -> list[PlainJob]:
        """The jobs of a state, in the order of their arrival."""
        return [job for job in self.jobs if job.state == state and queue in ("", job.queue)]

    def held(self, worker: object, job_id: int) -> PlainJob | None:
        """A job of a worker."""
        return next((job for job in self.some("running") if job.worker is worker and job.id == job_id), None)

    # What parties do: each returns what the broker returns, or the code with which it refuses

    def put(self, client: object, queue: str, limit: float, is_large: bool, now: float) -> object:
        """A request."""
        code = self._why_not(queue)
        if code:
            self.counted[queue, "refused"] += 1
            return code
        limit = limit or self.specs[queue].run_time_limit_seconds
        job = PlainJob(len(self.jobs) + 1, queue, client, limit, is_large)
        self.jobs.append(job)
        self.counted[queue, "put"] += 1
        self._dispatch(queue, now)
        return job.id

    def take(self, worker: object, queue: str, small_only: bool, now: float) -> int | None:
        """The oldest job."""
        for job in self.some("waiting", queue):
            if queue not in self.paused and not (small_only and job.is_large):
                self._hand_out(job, worker, now)
                return job.id
        return None

    def wait(self, worker: object, queue: str, ticket: object, until: float | None, small_only: bool) -> None:
        """Wait for one."""
        self.waits.append(PlainWait(worker, queue, ticket, small_only))
        if until is not None:
            self._set(self.waits[-1], until)

    def finish(self, worker: object, job_id: int, report: Report, now: float) -> str:
        """A run is over."""
        job = self.held(worker, job_id)
        if job is None:
            return "unknown-name"
        failed = report.exit_code != 0 or report.error != ""
        outcome = "timeout" if report.timeout_seconds else "failure" if failed else "success"
        self._end(job, outcome)
        return outcome

    def touch(self, worker: object, job_id: int, now: float) -> str | None:
        """More time."""
        job = self.held(worker, job_id)
        if job is None:
            return "unknown-name"
        self._limit(job, now)
        return None

    def release(self, worker: object, job_id: int, now: float) -> str | None:
        """Given back."""
        job = self.held(worker, job_id)
        if job is None:
            return "unknown-name"
        self._give_back(job, now)
        return None

    def bury(self, worker: object, job_id: int, now: float) -> str | None:
        """Put aside."""
        job = self.held(worker, job_id)
        if job is None:
            return "unknown-name"
        self._bury(job)
        return None

    def cancel(self, client: object, job_id: int, now: float) -> str | None:
        """Not wanted any more."""
        for job in self.some("waiting") + self.some("running"):
            if client is job.client and job.id == job_id:
                self._withdraw(job, "cancelled")
                return None
        return "unknown-name"

    def client_left(self, client: object, now: float) -> None:
        """The client gets no more notifications."""
        for job in self.some("waiting") + self.some("running"):
            if job.client is client:
                self.counted[job.queue, "disconnect"] += 1
                job.client = None
                self._withdraw(job, "cancelled")

    def worker_quits(self, worker: object, now: float) -> None:
        """All is given back."""
        for wait in [wait for wait in self.waits if wait.worker is worker]:
            self._remove(wait)
        for job in [job for job in self.some("running") if job.worker is worker]:
            self._give_back(job, now)

    def worker_left(self, worker: object, now: float) -> None:
        """Retries, or losses."""
        for wait in [wait for wait in self.waits if wait.worker is worker]:
            self._remove(wait)
        for job in [job for job in self.some("running") if job.worker is worker]:
            job.losses += 1
            if job.losses <= self.specs[job.queue].retries:
                self.counted[job.queue, "offered again"] += 1
                self._give_back(job, now)
            elif self.specs[job.queue].retries:
                self._bury(job)
            else:
                self._end(job, "lost")

    def kick(self, queue: str, count: int | None, now: float) -> object:
        """Put in again."""
        if queue in self.draining:
            return "busy"
        kicked = []
        for job in [job for job in self.buried if job.queue == queue][:count]:
            if self._why_not(queue):
                break
            self.buried.remove(job)
            kicked.append(self.put(None, queue, job.limit, job.is_large, now))
        return kicked

    def pause(self, queue: str, until: float | None) -> None:
        """Hand nothing out."""
        self.paused.add(queue)
        self.due.pop(queue, None)
        if until is not None:
            self._set(queue, until)

    def drain(self, queue: str | None) -> None:
        """Take nothing in."""
        self.draining |= set(self.specs) if queue is None else {queue}

    def resume(self, queue: str | None, now: float) -> None:
        """All as before."""
        for name in self.specs if queue is None else (queue,):
            self.draining.discard(name)
            self._unpause(name, now)

    def abandon(self) -> None:
        """The end."""
        for job in self.some("waiting") + self.some("running"):
            self._withdraw(job, "cancelled")

    def next_deadline(self) -> float | None:
        """When something is due."""
        return min(self.due.values())[0] if self.due else None

    def expire(self, now: float) -> None:
        """What is due, in its order."""
        while self.due and min(self.due.values())[0] <= now:
            thing = min(self.due, key=lambda thing: self.due[thing])
            if isinstance(thing, PlainJob):
                self._withdraw(thing, "timeout")
            elif isinstance(thing, PlainWait):
                self._remove(thing)
                self.told.append(("wait_expired", thing.worker, thing.ticket, thing.queue))
            else:
                self._unpause(str(thing), now)

    # The rules

    def _why_not(self, queue: str) -> str:
        if queue in self.draining:
            return "busy"
        full = 0 < self.specs[queue].max_waiting <= len(self.some("waiting", queue))
        return "full" if full or len(self.some("waiting") + self.some("running")) >= self.max_jobs else ""

    def _dispatch(self, queue: str, now: float) -> None:
        if queue in self.paused:
            return
        for job in self.some("waiting", queue):
            for wait in self.waits:
                if wait.queue == queue and not (wait.small_only and job.is_large):
                    self._remove(wait)
                    self._hand_out(job, wait.worker, now)
                    self.told.append(("offered", wait.worker, job.id, wait.ticket))
                    break

    def _hand_out(self, job: PlainJob, worker: object, now: float) -> None:
        job.state, job.worker = "running", worker
        self._limit(job, now)

    def _limit(self, job: PlainJob, now: float) -> None:
        if job.limit:
            self._set(job, now + job.limit + self.specs[job.queue].grace_seconds)

    def _give_back(self, job: PlainJob, now: float) -> None:
        job.state, job.worker = "waiting", None
        self.due.pop(job, None)
        self._dispatch(job.queue, now)

    def _bury(self, job: PlainJob) -> None:
        self.buried.append(job)
        self.counted[job.queue, "buried"] += 1
        self._end(job, "lost")

    def _withdraw(self, job: PlainJob, outcome: str) -> None:
        if job.worker is not None:
            self.told.append(("withdrawn", job.worker, job.id, outcome))
        self._end(job, outcome)

    def _end(self, job: PlainJob, outcome: str) -> None:
        job.state, job.worker = outcome, None
        self.due.pop(job, None)
        self.counted[job.queue, outcome] += 1
        if job.client is not None:
            self.told.append(("answered", job.client, job.id, outcome))
            job.client = None

    def _set(self, thing: object, when: float) -> None:
        self.times_set += 1
        self.due[thing] = (when, self.times_set)

    def _remove(self, wait: PlainWait) -> None:
        self.waits.remove(wait)
        self.due.pop(wait, None)

    def _unpause(self, queue: str, now: float) -> None:
        self.paused.discard(queue)
        self.due.pop(queue, None)
        self._dispatch(queue, now)
