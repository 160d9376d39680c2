"""The rules of the work queue by examples: order, messages, limits."""

from __future__ import annotations

from fakedev.queues.job_ends import JOB_BYTES, MAX_PER_OWNER
from tests.support.queues.broker_cases import BrokerCase, OneQueue, SomeClient, left_behind


class TestOrder(BrokerCase):
    """First in, first out."""

    def test_released_job_of_which_the_client_leaves(self):
        ids = [self.queue.put(client) for client in (self.client, SomeClient(), SomeClient())]
        assert [self.queue.take(self.worker) for _ in range(2)] == ids[:2]
        for job_id in ids[:2]:
            self.broker.release(self.worker, job_id, self.queue.now)
        self.broker.client_left(self.client, self.queue.now)
        assert [self.queue.take(self.worker) for _ in range(3)] == [*ids[1:], None]

    def test_large_jobs_are_for_those_that_can_read_them(self):
        """A worker of small jobs looks past them; they keep their place for the others."""
        large, small, last = (self.queue.put(self.client, is_large=is_large) for is_large in (True, False, False))
        assert self.queue.take(self.worker, small_only=True) == small
        self.broker.release(self.worker, small, self.queue.now)
        assert [self.queue.take(self.other) for _ in range(3)] == [large, small, last]
        self.broker.release(self.other, large, self.queue.now)
        assert self.queue.take(self.worker, small_only=True) is None

    def test_who_waits_longest_gets_the_next_job(self):
        for worker, ticket in ((self.worker, "a"), (self.other, "b"), (self.worker, "c")):
            self.queue.wait(worker, ticket)
        ids = [self.queue.put(self.client) for _ in range(4)]
        assert self.worker.offers == [(ids[0], "a"), (ids[2], "c")]
        assert self.other.offers == [(ids[1], "b")]
        assert self.queue.state() == (1, 3, 0)

    def test_who_waits_for_small_jobs_is_looked_past(self):
        """A large job goes to the next that can read it, a small one to whom has waited longest."""
        self.queue.wait(self.worker, "small", small_only=True)
        self.queue.put(self.client, is_large=True)
        self.queue.wait(self.other, "any")
        assert self.queue.take(self.other) == 1
        self.queue.put(self.client, is_large=True)
        assert self.other.offers == [(2, "any")]
        self.queue.wait(self.other, "any")
        self.queue.put(self.client)
        assert self.worker.offers == [(3, "small")]


class TestBound(BrokerCase):
    """What is not taken in, and why."""

    def test_full_queue(self):
        """Only waiting requests count; one that is refused is counted as such and gets no result later."""
        queue = OneQueue(max_waiting=2)
        for _ in range(2):
            queue.put(self.client)
        self.refused("full", "Queue 'sleep' is full: 2 requests wait", queue.put, self.client)
        queue.take(self.worker)
        queue.put(self.client)
        assert queue.state() == (2, 1, 0)
        assert queue.counted() == {"refused": 1}
        assert queue.broker.statistics("sleep").puts == 3

    def test_full_memory(self):
        """Bytes of all requests that wait or run are bounded, and free when they are over."""
        queue = OneQueue(max_bytes=2 * JOB_BYTES + 100)
        queue.put(self.client, size_bytes=100)
        self.refused("full", "The memory for requests is full", queue.put, self.client, size_bytes=1)
        queue.put(self.client, size_bytes=0)
        queue.take(self.worker)
        self.refused("full", "The memory", queue.put, self.client)
        queue.finish(self.worker, 1)
        queue.put(self.client, size_bytes=100)

    def test_bounds_of_one_party(self):
        for _ in range(MAX_PER_OWNER):
            self.queue.put(self.client)
        self.refused("full", "4096 requests of this connection are open", self.queue.put, self.client)
        self.queue.put(SomeClient())
        for _ in range(MAX_PER_OWNER - 1):
            self.queue.take(self.worker)
        self.broker.wait(self.worker, "other", None, None)
        self.refused("full", "This connection holds 4096 jobs", self.queue.take, self.worker)
        self.refused("full", "This connection holds 4096 jobs", self.queue.wait, self.worker)
        assert self.queue.take(self.other) is not None


class TestReentrancy(BrokerCase):
    """Clients and workers may call the broker from its notifications."""

    def test_worker_that_leaves_when_it_is_offered_a_job(self):
        """The job is lost, the client is notified, and put() still returns it."""
        self.other.offered = lambda job, ticket: self.broker.worker_left(self.other, self.queue.now)
        self.queue.wait(self.other)
        self.queue.wait(self.other)
        self.queue.wait(self.worker, "next")
        assert [self.queue.put(self.client) for _ in range(2)] == [1, 2]
        assert self.client.outcomes == {1: "lost"}
        assert self.worker.offers == [(2, "next")]

    def test_both_leave_while_one_leaves(self):
        for leave in (self.broker.client_left, self.broker.worker_left):
            for _ in range(3):
                self.queue.put(self.client)
                self.queue.take(self.worker)
            self.worker.withdrawn = lambda job, reason: self.broker.client_left(self.client, self.queue.now)
            self.client.answered = lambda job, answer: self.broker.worker_left(self.worker, self.queue.now)
            leave(self.client if leave == self.broker.client_left else self.worker, self.queue.now)
        assert self.queue.counted() == {"cancelled": 3, "lost": 3}
        assert left_behind(self.broker) == []

    def test_client_that_leaves_when_it_is_answered(self):
        self.client.answered = lambda job, answer: self.broker.client_left(self.client, self.queue.now)
        for _ in range(3):
            self.queue.put(self.client)
        self.queue.take(self.worker)
        self.broker.abandon("the end", self.queue.now)
        assert self.queue.counted() == {"cancelled": 3}
        assert left_behind(self.broker) == []
