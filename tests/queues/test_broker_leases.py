"""The rules of the work queue by examples: lost workers, time limits, buried jobs, pauses, and the end."""

from __future__ import annotations

from fakedev.queues.job import Outcome
from fakedev.queues.job_ends import JOB_BYTES
from fakedev.queues.ledger import Deadlines
from fakedev.queues.queue import MAX_BURIED, MAX_BURIED_BYTES
from fakedev.queues.slices import MAX_AT_ONCE
from tests.support.queues.broker_cases import BrokerCase, OneQueue, left_behind


class TestLostWorker(BrokerCase):
    """Workers that leave while they hold a job."""

    def test_with_retries_the_job_is_offered_again_first(self):
        """At its old place; after the last retry it is lost, and buried."""
        queue = OneQueue(retries=2)
        queue.put(self.client)
        queue.put(self.client)
        for attempt in range(3):
            assert self.client.answers == {}
            assert queue.take(self.worker) == 1
            assert queue.broker.jobs("sleep", 1)[0].attempts == attempt + 1
            queue.broker.worker_left(self.worker, queue.now)
        assert self.client.outcomes == {1: "lost"}
        assert self.client.answers[1].error == "lost by 3 backends"
        assert queue.state() == (1, 0, 1)
        assert queue.broker.statistics("sleep").retries == 2

    def test_retry_succeeds(self):
        """The client gets only the success; its wait ends with the last offer."""
        queue = OneQueue(retries=1)
        queue.put(self.client)
        queue.take(self.worker)
        queue.now += 5
        queue.broker.worker_left(self.worker, queue.now)
        queue.take(self.other)
        queue.now += 1
        answer = queue.finish(self.other, 1)
        assert (answer.outcome, answer.wait_seconds, answer.run_seconds) == (Outcome.SUCCESS, 5.0, 1.0)
        assert queue.counted() == {"success": 1}

    def test_all_jobs_of_a_worker(self):
        for _ in range(3):
            self.queue.put(self.client)
        self.queue.take(self.worker)
        self.queue.take(self.other)
        self.queue.take(self.worker)
        self.broker.worker_left(self.worker, self.queue.now)
        assert self.client.outcomes == {1: "lost", 3: "lost"}
        self.queue.finish(self.other, 2)


class TestTime(BrokerCase):
    """Limits of runs, and of waits."""

    def test_which_limit_counts(self):
        for limit, due in ((0.0, 11.0), (-1.0, 11.0), (3.0, 4.0), (20.0, 21.0)):
            queue = OneQueue(run_time_limit_seconds=10.0, grace_seconds=1.0)
            queue.put(self.client, limit_seconds=limit)
            queue.take(self.worker)
            assert queue.broker.next_deadline() == queue.now + due
        self.queue.put(self.client)
        self.queue.take(self.worker)
        assert self.broker.next_deadline() is None

    def test_each_run_has_the_whole_limit(self):
        queue = OneQueue(grace_seconds=1.0)
        queue.put(self.client, limit_seconds=2.0)
        queue.take(self.worker)
        queue.pass_time(2.0)
        queue.broker.release(self.worker, 1, queue.now)
        queue.pass_time(2.0)
        queue.take(self.worker)
        queue.pass_time(2.9)
        assert self.client.answers == {}
        queue.finish(self.worker, 1)
        assert queue.broker.next_deadline() is None

    def test_time_out_is_not_tried_again(self):
        queue = OneQueue(retries=3)
        queue.put(self.client, limit_seconds=1.0)
        queue.take(self.worker)
        queue.pass_time(6.0)
        assert queue.counted() == {"timeout": 1}
        assert queue.state() == (0, 0, 0)

    def test_many_deadlines_are_seen_to_in_parts(self):
        """One call does a bounded part, and next_deadline() says that there is more."""
        for _ in range(250):
            self.queue.put(self.client, limit_seconds=1.0)
            self.queue.take(self.worker)
        self.broker.expire(self.queue.now + 100)
        assert self.queue.counted() == {"timeout": MAX_AT_ONCE}
        assert self.broker.next_deadline() < self.queue.now + 100
        self.queue.pass_time(100)
        assert self.queue.counted() == {"timeout": 250}


    def test_deadlines_that_are_cleared_take_no_memory(self):
        """Jobs that end long before their limits leave nothing, however many they are."""
        deadlines = Deadlines()
        for number in range(10_000):
            deadlines.set(number, 1e6)
            deadlines.set(number, 2e6)
            if number % 100:
                deadlines.clear(number)
        assert len(deadlines) == 100
        assert len(deadlines._heap) < 300
        for number in range(0, 10_000, 100):
            deadlines.clear(number)
        assert deadlines.next() is None


class TestBuried(BrokerCase):
    """Jobs that are put aside."""

    def test_bury_and_kick(self):
        """The client gets a loss, once; kick makes new requests without a client."""
        for argument in ("a", "b", "c"):
            self.queue.put(self.client, argument, limit_seconds=3.0, is_large=True)
        for _ in range(3):
            self.queue.take(self.worker)
        for job_id, reason in ((2, "crashes"), (1, ""), (3, "")):
            self.broker.bury(self.worker, job_id, reason, self.queue.now)
        assert self.client.outcomes == dict.fromkeys((1, 2, 3), "lost")
        assert (self.client.answers[2].error, self.client.answers[1].error) == ("crashes", "buried")
        assert self.queue.state() == (0, 0, 3)
        kicked = self.broker.kick("sleep", 2, self.queue.now)
        assert [(job.id, job.arguments, job.limit_seconds, job.is_large) for job in kicked] == [
            (4, ("b",), 3.0, True), (5, ("a",), 3.0, True)
        ]  # fmt: skip
        assert self.queue.state() == (2, 0, 1)
        self.queue.take(self.worker)
        self.queue.finish(self.worker, 4)
        assert self.queue.counted() == {"lost": 3, "success": 1}
        assert self.broker.statistics("sleep").puts == 5

    def test_kick_stops_where_the_queue_is_full(self):
        queue = OneQueue(max_waiting=2)
        for job_id in (1, 2, 3):
            queue.put(self.client)
            queue.take(self.worker)
            queue.broker.bury(self.worker, job_id, "", queue.now)
        assert len(queue.broker.kick("sleep", None, queue.now)) == 2
        assert queue.state() == (2, 0, 1)
        assert queue.counted() == {"lost": 3}

    def test_buried_jobs_are_bounded(self):
        """The oldest are forgotten, and none of them counts against the memory."""
        for _ in range(MAX_BURIED + 5):
            self.queue.put(self.client)
            self.broker.bury(self.worker, self.queue.take(self.worker), "", self.queue.now)
        assert self.queue.state() == (0, 0, MAX_BURIED)
        assert self.broker.jobs("sleep", 1)[0].id == 6
        assert left_behind(self.broker) == []

    def test_bytes_of_buried_jobs_are_bounded(self):
        """The oldest are forgotten; what is kicked makes room for others."""
        def bury(count):
            for _ in range(count):
                self.queue.put(self.client, size_bytes=MAX_BURIED_BYTES // 4 - JOB_BYTES)
                self.broker.bury(self.worker, self.queue.take(self.worker), "", self.queue.now)

        bury(6)
        assert [job.id for job in self.broker.jobs("sleep", 10)] == [3, 4, 5, 6]
        self.broker.kick("sleep", 2, self.queue.now)
        bury(2)
        assert [job.id for job in self.broker.jobs("sleep", 10)] == [9, 10, 5, 6, 7, 8]


class TestEnd(BrokerCase):
    """When the program ends."""

    def test_job_that_comes_back_after_close(self):
        """It does not wait again: the worker that returned it is not notified that it is withdrawn."""
        queue = OneQueue(retries=1)
        for _ in range(2):
            queue.put(self.client)
            queue.take(self.worker)
        queue.broker.close("the end", queue.now)
        queue.broker.release(self.worker, 1, queue.now)
        queue.broker.worker_left(self.worker, queue.now)
        assert self.client.outcomes == {1: "cancelled", 2: "cancelled"}
        assert self.worker.withdrawals == []
        assert queue.broker.is_idle
