"""What concerns very many jobs is done in slices; nothing is lost or doubled in between."""

from __future__ import annotations

from itertools import pairwise

from fakedev.queues.slices import MAX_AT_ONCE, Slices, for_each
from tests.support.queues.broker_cases import BrokerCase, OneQueue, SomeClient, left_behind

MANY = 3 * MAX_AT_ONCE + 7


class TestBrokerSlices(BrokerCase):
    """With more jobs than one slice sees to."""

    def put_many(self) -> list[int]:
        return [self.queue.put(self.client) for _ in range(MANY)]

    def take_many(self) -> list[int | None]:
        return [self.queue.take(self.worker) for _ in range(MANY)]

    def slices(self) -> list[int]:
        """How many requests were over after each slice; no slice sees to too many."""
        over = [self.over()]
        while self.broker.next_deadline() == self.queue.now:
            self.broker.expire(self.queue.now)
            over.append(self.over())
        assert max(after - before for before, after in pairwise(over)) <= MAX_AT_ONCE
        assert self.broker.next_deadline() is None
        return over

    def over(self) -> int:
        return sum(self.queue.counted().values())

    def nothing_left(self) -> None:
        assert self.broker.is_idle
        assert left_behind(self.broker) == []

    def test_close(self) -> None:
        """Each waiting request is answered once; none is handed out while its turn comes."""
        jobs = self.put_many()
        self.queue.take(self.worker)
        self.broker.close("the end", self.queue.now)
        assert (self.over(), self.queue.take(self.worker)) == (MAX_AT_ONCE, None)
        assert self.slices()[-1] == MANY - 1
        assert sorted(self.client.answers) == jobs[1:]

    def test_abandon(self) -> None:
        """What waits and what runs, also when the running ones are given up before all that wait were answered."""
        self.put_many()
        self.take_many()
        jobs = self.put_many()
        self.broker.close("the end", self.queue.now)
        self.broker.abandon("the end", self.queue.now)
        assert self.slices()[-1] == 2 * MANY
        assert len(self.client.answers) == jobs[-1]
        assert len(self.worker.withdrawals) == MANY
        self.nothing_left()

    def test_what_ends_by_itself_meanwhile(self) -> None:
        jobs = self.put_many()
        self.take_many()
        self.broker.abandon("the end", self.queue.now)
        self.queue.finish(self.worker, jobs[-1])
        self.broker.client_left(self.client, self.queue.now)
        assert self.slices()[-1] == MANY
        assert self.queue.counted() == {"success": 1, "cancelled": MANY - 1}
        self.nothing_left()

    def test_client_leaves(self) -> None:
        """It gets no messages from then on, and each of its requests counts once."""
        jobs = self.put_many()
        self.broker.client_left(self.client, self.queue.now)
        assert self.broker.statistics("sleep").disconnects == MANY
        assert self.queue.take(self.worker) == jobs[MAX_AT_ONCE]
        self.queue.finish(self.worker, jobs[MAX_AT_ONCE])
        self.slices()
        assert self.queue.counted() == {"success": 1, "cancelled": MANY - 1}
        assert self.client.answers == {}
        self.nothing_left()

    def test_worker_leaves(self) -> None:
        self.queue = OneQueue(retries=1)
        self.broker = self.queue.broker
        jobs = self.put_many()
        self.take_many()
        self.broker.worker_left(self.worker, self.queue.now)
        self.slices()
        assert [self.queue.take(self.other) for _ in jobs] == jobs

    def test_resume(self) -> None:
        """Each worker that waits is offered one job, the oldest first, also when jobs are put in meanwhile."""
        self.broker.pause("sleep", None)
        for ticket in range(MANY + 1):
            self.queue.wait(self.worker, ticket)
        jobs = self.put_many()
        self.broker.resume("sleep", self.queue.now)
        assert len(self.worker.offers) == MAX_AT_ONCE
        jobs.append(self.queue.put(SomeClient()))
        self.slices()
        assert self.worker.offers == list(zip(jobs, range(MANY + 1), strict=True))

    def test_deadlines_are_seen_to_beside_it(self) -> None:
        job = self.queue.put(self.client, limit_seconds=1.0)
        self.queue.take(self.other)
        self.put_many()
        self.queue.now += 10
        self.broker.client_left(SomeClient(), self.queue.now)
        self.broker.close("the end", self.queue.now)
        self.broker.expire(self.queue.now)
        assert self.client.outcomes[job] == "timeout"


def test_a_piece_that_begins_another_work() -> None:
    """It comes after those that were begun before, and no slice is done within another."""
    done: list[str] = []
    slices = Slices()

    def note(name: str, now: float) -> None:
        done.append(name)
        if name == "a":
            slices.begin(for_each("xy", note), now)

    slices.begin(for_each("ab", note), 1.0)
    assert (done, slices.due_seconds) == (list("abxy"), None)
