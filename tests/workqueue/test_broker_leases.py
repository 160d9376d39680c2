"""The rules of the work queue by examples: lost workers, time limits, buried jobs, pauses, and the end."""

from __future__ import annotations

from fakedev.workqueue.admission import JOB_BYTES
from fakedev.workqueue.deadlines import Deadlines
from fakedev.workqueue.outcome import Answer, Outcome
from fakedev.workqueue.queue import MAX_BURIED, MAX_BURIED_BYTES
from fakedev.workqueue.slices import MAX_AT_ONCE
from tests.support.broker_cases import BrokerCase, OneQueue, SomeClient, left_behind


class TestLostWorker(BrokerCase):
    """Workers that leave while they hold a job."""

    def test_without_retries_the_client_is_told_at_once(self):
        """As the original does, with who lost it."""
        self.queue.put(self.client, limit_seconds=9.0)
        self.queue.take(self.worker)
        self.queue.now += 4
        self.broker.worker_left(self.worker, self.queue.now)
        error = "the backend disconnected before the run ended"
        assert self.client.answers[1] == Answer(Outcome.LOST, 1, error, 0.0, 4.0, 0.0, "pod-1", "node-1", "card0")
        assert self.queue.state() == (0, 0, 0)
        assert left_behind(self.broker) == []

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

    def test_release_is_no_loss(self):
        """However often."""
        for _ in range(5):
            if self.queue.state() == (0, 0, 0):
                self.queue.put(self.client)
            self.queue.take(self.worker)
            self.broker.release(self.worker, 1, self.queue.now)
        assert self.queue.state() == (1, 0, 0)
        assert self.broker.statistics("sleep").retries == 0

    def test_quitting_is_no_loss(self):
        """The jobs wait again, though the queue has no retries; the worker that quits is offered none of them."""
        for _ in range(2):
            self.queue.put(self.client)
            self.queue.take(self.worker)
        self.queue.wait(self.worker, "t", seconds=5)
        self.broker.worker_quits(self.worker, self.queue.now)
        assert (self.worker.offers, self.queue.state()) == ([], (2, 0, 0))
        assert self.broker.statistics("sleep").retries == 0

    def test_worker_that_waits_and_leaves_is_offered_nothing(self):
        """It is also not notified that its time has passed."""
        self.queue.wait(self.worker, "t", seconds=5)
        self.broker.worker_left(self.worker, self.queue.now)
        self.queue.put(self.client)
        self.queue.pass_time(10)
        assert (self.worker.offers, self.worker.nothings) == ([], [])
        assert self.queue.state() == (1, 0, 0)

    def test_all_jobs_of_a_worker(self):
        """And none of another one."""
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

    def test_silent_worker_delays_no_client(self):
        """After the limit and the grace period the client gets a result, and the job is withdrawn."""
        queue = OneQueue(grace_seconds=5.0)
        queue.put(self.client, limit_seconds=2.5)
        queue.pass_time(100)  # waiting counts for nothing
        queue.take(self.worker)
        queue.pass_time(7.4)
        assert self.client.answers == {}
        queue.pass_time(0.1)
        answer = self.client.answers[1]
        assert (answer.outcome, answer.timeout_seconds, answer.exit_code) == (Outcome.TIMEOUT, 2.5, 1)
        assert (answer.wait_seconds, answer.run_seconds, answer.node) == (100.0, 7.5, "node-1")
        assert "2.5 s and 5 s more" in answer.error
        assert self.worker.withdrawals == [(1, "timeout")]
        self.refused("unknown-name", "No job 1", queue.finish, self.worker, 1)
        assert left_behind(queue.broker) == []

    def test_which_limit_counts(self):
        """The request's, else the queue's, else none."""
        for limit, due in ((0.0, 11.0), (-1.0, 11.0), (3.0, 4.0), (20.0, 21.0)):
            queue = OneQueue(run_time_limit_seconds=10.0, grace_seconds=1.0)
            queue.put(self.client, limit_seconds=limit)
            queue.take(self.worker)
            assert queue.broker.next_deadline() == queue.now + due
        self.queue.put(self.client)
        self.queue.take(self.worker)
        assert self.broker.next_deadline() is None

    def test_touch(self):
        """The limit counts from now."""
        queue = OneQueue(grace_seconds=1.0)
        queue.put(self.client, limit_seconds=2.0)
        queue.take(self.worker)
        for _ in range(3):
            queue.pass_time(2.9)
            queue.broker.touch(self.worker, 1, queue.now)
        assert self.client.answers == {}
        queue.pass_time(3.0)
        assert self.client.outcomes == {1: "timeout"}

    def test_each_run_has_the_whole_limit(self):
        """That of a run before it is not over any more."""
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
        """It would time out again."""
        queue = OneQueue(retries=3)
        queue.put(self.client, limit_seconds=1.0)
        queue.take(self.worker)
        queue.pass_time(6.0)
        assert queue.counted() == {"timeout": 1}
        assert queue.state() == (0, 0, 0)

    def test_wait_that_is_over(self):
        """The worker is notified once; the next job is not for it."""
        self.queue.wait(self.worker, "a", seconds=5.0)
        self.queue.wait(self.worker, "b", seconds=2.0)
        self.queue.wait(self.worker, "c")
        self.queue.pass_time(5.0)
        assert self.worker.nothings == ["b", "a"]
        self.queue.put(self.client)
        assert self.worker.offers == [(1, "c")]
        assert self.broker.next_deadline() is None

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
        """The others stay buried."""
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


class TestPause(BrokerCase):
    """Queues that hand nothing out, or take nothing in."""

    def test_pause(self):
        """Requests are taken in, and wait; resume hands them to those that wait."""
        self.queue.wait(self.worker, "t")
        self.broker.control.pause("sleep", None)
        self.queue.put(self.client)
        assert self.queue.take(self.other) is None
        assert (self.queue.state(), self.worker.offers) == ((1, 0, 0), [])
        self.broker.control.resume("sleep", self.queue.now)
        assert self.worker.offers == [(1, "t")]

    def test_pause_for_a_time(self):
        """It ends after the time; the last pause counts."""
        self.broker.control.pause("sleep", self.queue.now + 5)
        self.broker.control.pause("sleep", self.queue.now + 10)
        self.queue.wait(self.worker, "t")
        self.queue.put(self.client)
        self.queue.pass_time(9.9)
        assert self.broker.snapshot("sleep", self.queue.now).state == "paused"
        self.queue.pass_time(0.1)
        assert self.worker.offers == [(1, "t")]
        self.broker.control.pause("sleep", self.queue.now + 5)
        self.broker.control.resume(None, self.queue.now)
        assert self.broker.next_deadline() is None

    def test_drain(self):
        """No requests are taken in, kicked ones neither; what waits is handed out."""
        self.queue.put(self.client)
        self.queue.put(self.client)
        self.queue.take(self.worker)
        self.broker.bury(self.worker, 1, "", self.queue.now)
        self.broker.control.drain("sleep")
        self.refused("busy", "Queue 'sleep' is draining", self.queue.put, self.client)
        self.refused("busy", "Queue 'sleep' is draining", self.broker.kick, "sleep", None, self.queue.now)
        self.broker.put(self.client, "other", (), 0.0, 0, self.queue.now)
        assert self.queue.take(self.worker) == 2
        self.broker.control.drain(None)
        self.broker.control.pause("sleep", None)
        assert self.broker.snapshot("sleep", self.queue.now).state == "paused,draining"
        self.broker.control.resume("sleep", self.queue.now)
        self.queue.put(self.client)
        assert self.broker.snapshot("other", self.queue.now).state == "draining"


class TestEnd(BrokerCase):
    """When the program ends."""

    def test_close(self):
        """Waiting requests end at once, running ones may finish; nothing is taken in again."""
        for _ in range(2):
            self.queue.put(self.client)
        self.queue.take(self.worker)
        self.broker.control.close("the frontend goes down", self.queue.now)
        assert self.client.outcomes == {2: "cancelled"}
        assert self.client.answers[2].error == "the frontend goes down"
        self.refused("busy", "the frontend goes down", self.queue.put, self.client)
        self.refused("busy", "the frontend goes down", self.broker.control.resume, None, self.queue.now)
        assert not self.broker.is_idle
        self.queue.finish(self.worker, 1)
        assert self.broker.is_idle

    def test_job_that_comes_back_after_close(self):
        """It does not wait again: the worker that returned it is not notified that it is withdrawn."""
        queue = OneQueue(retries=1)
        for _ in range(2):
            queue.put(self.client)
            queue.take(self.worker)
        queue.broker.control.close("the end", queue.now)
        queue.broker.release(self.worker, 1, queue.now)
        queue.broker.worker_left(self.worker, queue.now)
        assert self.client.outcomes == {1: "cancelled", 2: "cancelled"}
        assert self.worker.withdrawals == []
        assert queue.broker.is_idle

    def test_abandon(self):
        """Running jobs end too, and their workers are notified."""
        clients = [SomeClient() for _ in range(3)]
        for client in clients:
            self.queue.put(client)
        self.queue.take(self.worker)
        self.broker.control.abandon("the end", self.queue.now)
        assert [client.outcomes for client in clients] == [{n: "cancelled"} for n in (1, 2, 3)]
        assert self.worker.withdrawals == [(1, "cancelled")]
        assert left_behind(self.broker) == []
