"""Clients and workers in any order: each request ends once, is answered once, and leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fakedev.base.errors import Refused
from fakedev.queues.broker import Broker
from fakedev.queues.job import Answer, Job, Report
from fakedev.queues.job_ends import JOB_BYTES
from fakedev.queues.settings import BrokerSpec, QueueSpec
from tests.support.examples import examples
from tests.support.queues.broker_cases import left_behind
from tests.support.queues.plain_broker import PlainBroker

QUEUES = ("a", "b")
PARTIES = st.integers(0, 2)
NAMES = st.sampled_from(QUEUES)
#: Which of the jobs; counted from the newest.
CHOICE = st.integers(0, 5)
SPECS = st.fixed_dictionaries(
    {
        "max_waiting": st.sampled_from([0, 0, 3]),
        "retries": st.integers(0, 2),
        "run_time_limit_seconds": st.sampled_from([0.0, 0.0, 4.0]),
        "grace_seconds": st.sampled_from([0.0, 2.0]),
    }
)
REPORTS = st.sampled_from([Report(0), Report(3), Report(0, "no file"), Report(1, timeout_seconds=2.0)])


@dataclass(eq=False)
class Owner:
    """A client and a worker in one; records its notifications."""

    name: int
    told: list[tuple[object, ...]]
    pod: str = ""
    node: str = ""
    device: str = ""

    def answered(self, job: Job, answer: Answer) -> None:
        self.told.append(("answered", self, job.id, answer.outcome.value))

    def offered(self, job: Job, ticket: object) -> None:
        self.told.append(("offered", self, job.id, ticket))

    def wait_expired(self, queue: str, ticket: object) -> None:
        self.told.append(("wait_expired", self, ticket, queue))

    def withdrawn(self, job: Job, reason: str) -> None:
        self.told.append(("withdrawn", self, job.id, reason))


class AnyHistory(RuleBasedStateMachine):
    """Random clients and workers at two queues; the broker does what the plain one does."""

    @initialize(specs=st.tuples(SPECS, SPECS), max_jobs=st.sampled_from([4, 1000]))
    def begin(self, specs: tuple[dict[str, float], ...], max_jobs: int) -> None:
        by_name = {name: QueueSpec(name, **spec) for name, spec in zip(QUEUES, specs, strict=True)}  # type: ignore[arg-type]
        self.now = 0.0
        self.broker = Broker(BrokerSpec(tuple(by_name.values()), max_bytes=max_jobs * JOB_BYTES), self.now)
        self.plain = PlainBroker(by_name, max_jobs)
        self.told: list[tuple[object, ...]] = []
        self.parties = [Owner(name, self.told) for name in range(3)]
        self.had_client: set[int] = set()
        self.tickets = 0

    @rule(client=st.none() | PARTIES, name=NAMES, limit=st.sampled_from([0.0, 0.0, 1.0, 3.0]), is_large=st.booleans())
    def put(self, client: int | None, name: str, limit: float, is_large: bool) -> None:
        party = None if client is None else self.parties[client]
        result = self.same(
            lambda: self.broker.put(party, name, ("x",), limit, 0, self.now, is_large=is_large).id,
            self.plain.put(party, name, limit, is_large, self.now),
        )
        if client is not None and isinstance(result, int):
            self.had_client.add(result)

    @rule(worker=PARTIES, name=NAMES, small_only=st.booleans(), seconds=st.sampled_from([None, 0.0, 1.0, 5.0, 1e9]))
    def take(self, worker: int, name: str, small_only: bool, seconds: float | None) -> None:
        party = self.parties[worker]
        result = self.same(
            lambda: getattr(self.broker.take(party, name, self.now, small_only=small_only), "id", None),
            self.plain.take(party, name, small_only, self.now),
        )
        if result is None and seconds is not None:
            self.tickets += 1
            until = None if seconds == 1e9 else self.now + seconds
            self.broker.wait(party, name, self.tickets, until, small_only=small_only)
            self.plain.wait(party, name, self.tickets, until, small_only)

    @rule(choice=CHOICE, other=st.none() | PARTIES, report=REPORTS)
    def finish(self, choice: int, other: int | None, report: Report) -> None:
        worker, job = self.some_job(choice, other)
        self.same(
            lambda: self.broker.finish(worker, job, report, self.now).outcome.value,
            self.plain.finish(worker, job, report, self.now),
        )

    @rule(choice=CHOICE, other=st.none() | PARTIES, what=st.sampled_from(["touch", "release", "release"]))
    def touch_or_release(self, choice: int, other: int | None, what: str) -> None:
        worker, job = self.some_job(choice, other)
        self.same(
            lambda: getattr(self.broker, what)(worker, job, self.now), getattr(self.plain, what)(worker, job, self.now)
        )

    @rule(choice=CHOICE, other=st.none() | PARTIES)
    def bury(self, choice: int, other: int | None) -> None:
        worker, job = self.some_job(choice, other)
        self.same(lambda: self.broker.bury(worker, job, "", self.now), self.plain.bury(worker, job, self.now))

    @rule(choice=CHOICE, client=PARTIES)
    def cancel(self, choice: int, client: int) -> None:
        _, job = self.some_job(choice, None)
        party = self.parties[client]
        self.same(lambda: self.broker.cancel(party, job, self.now), self.plain.cancel(party, job, self.now))

    @rule(party=PARTIES, what=st.sampled_from(["client_left", "worker_left", "worker_quits"]))
    def leave(self, party: int, what: str) -> None:
        mine = [job.id for job in self.plain.jobs if job.client is self.parties[party]]
        if what == "client_left":
            self.had_client -= set(mine)
        getattr(self.plain, what)(self.parties[party], self.now)
        getattr(self.broker, what)(self.parties[party], self.now)

    @rule(name=NAMES, count=st.none() | st.integers(1, 2))
    def kick(self, name: str, count: int | None) -> None:
        self.same(
            lambda: [job.id for job in self.broker.kick(name, count, self.now)], self.plain.kick(name, count, self.now)
        )

    @rule(name=NAMES, seconds=st.none() | st.sampled_from([1.0, 3.0]))
    def pause(self, name: str, seconds: float | None) -> None:
        until = None if seconds is None else self.now + seconds
        self.broker.pause(name, until)
        self.plain.pause(name, until)

    @rule(name=st.none() | NAMES)
    def drain(self, name: str | None) -> None:
        self.broker.drain(name)
        self.plain.drain(name)

    @rule(name=st.none() | NAMES)
    def resume(self, name: str | None) -> None:
        self.broker.resume(name, self.now)
        self.plain.resume(name, self.now)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.broker.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.plain.expire(self.now)
            self.broker.expire(self.now)
            self.both_are_the_same()
        self.now = until

    @invariant()
    def both_are_the_same(self) -> None:
        """All notifications, visible state, counters, and the time of the next deadline."""
        assert Counter(self.told) == Counter(self.plain.told)
        assert self.broker.next_deadline() == self.plain.next_deadline()
        for name in QUEUES:
            running, waiting = self.plain.some("running", name), self.plain.some("waiting", name)
            buried = [job.id for job in self.plain.buried if job.queue == name]
            shown = [job.id for job in self.broker.jobs(name, 10**6)]
            assert sorted(shown[: len(running)]) == [job.id for job in running]
            assert shown[len(running) :] == [*(job.id for job in waiting), *buried]
            snapshot = self.broker.snapshot(name, self.now)
            assert (snapshot.waiting, snapshot.running, snapshot.buried) == (len(waiting), len(running), len(buried))
            assert snapshot.waiting_bytes == len(waiting) * JOB_BYTES
            assert snapshot.workers_idle == sum(wait.queue == name for wait in self.plain.waits)
            assert snapshot.workers_busy == len({job.worker for job in running})
            self.counters_add_up(name, len(waiting) + len(running))

    def teardown(self) -> None:
        """At the end all clients that stayed have one answer for each request, and nothing is left behind."""
        if not hasattr(self, "broker"):
            return
        self.resume(None)
        self.plain.abandon()
        self.broker.abandon("the end", self.now)
        for party in self.parties:
            self.plain.worker_left(party, self.now)
            self.broker.worker_left(party, self.now)
        self.both_are_the_same()
        answers = Counter(job for what, _, job, _ in self.told if what == "answered")
        assert set(answers.values()) <= {1}
        assert self.had_client <= set(answers)
        assert self.broker.is_idle
        assert left_behind(self.broker) == []

    def same(self, act: Callable[[], object], expected: object) -> object:
        """What the broker answers, or the code with which it refuses: as expected."""
        try:
            result = act()
        except Refused as refused:
            result = refused.code
        assert result == expected
        return result

    def some_job(self, choice: int, other: int | None) -> tuple[Owner, int]:
        """A running job, or else any; its worker, or another one who may not."""
        running = self.plain.some("running")
        jobs = running or self.plain.jobs[-6:]
        job = jobs[-1 - choice % len(jobs)] if jobs else None
        worker = job.worker if job and job.worker and other is None else self.parties[other or 0]
        return worker, job.id if job else 1

    def counters_add_up(self, name: str, still_open: int) -> None:
        """Every accepted request is open, or has ended with one outcome."""
        statistics = self.broker.statistics(name)
        counted = {outcome.value: count for outcome, count in statistics.outcomes.items()}
        counted |= {"put": statistics.puts, "disconnect": statistics.disconnects, "buried": statistics.burials}
        counted["offered again"] = statistics.retries
        assert counted == {what: self.plain.counted[name, what] for what in counted}
        ends = sum(counted[outcome] for outcome in ("success", "failure", "timeout", "cancelled", "lost"))
        assert statistics.puts == ends + still_open


@pytest.mark.slow
@pytest.mark.hypothesis
def test_any_history() -> None:
    run_state_machine_as_test(AnyHistory, settings=settings(max_examples=examples(150), stateful_step_count=50))
