"""The rules of the work queue by examples: order, messages, limits."""

from __future__ import annotations

from fakedev.workqueue.admission import JOB_BYTES, MAX_PER_OWNER
from fakedev.workqueue.outcome import Answer, Outcome, Report
from tests.support.broker_cases import BrokerCase, OneQueue, SomeClient, left_behind


class TestOrder(BrokerCase):
    """First in, first out."""

    def test_oldest_first(self):
        """Jobs are taken in the order in which they came; then there is none."""
        ids = [self.queue.put(self.client) for _ in range(3)]
        assert [self.queue.take(self.worker) for _ in range(4)] == [*ids, None]

    def test_released_jobs_have_their_old_places(self):
        """In any order of the results."""
        ids = [self.queue.put(self.client) for _ in range(4)]
        for _ in range(3):
            self.queue.take(self.worker)
        for job_id in (ids[1], ids[2], ids[0]):
            self.broker.release(self.worker, job_id, self.queue.now)
        assert [job.id for job in self.broker.jobs("sleep", 9)] == ids
        assert [self.queue.take(self.other) for _ in range(4)] == ids

    def test_released_job_of_which_the_client_leaves(self):
        """It is gone from the queue, and those behind it are not."""
        ids = [self.queue.put(client) for client in (self.client, SomeClient(), SomeClient())]
        assert [self.queue.take(self.worker) for _ in range(2)] == ids[:2]
        for job_id in ids[:2]:
            self.broker.release(self.worker, job_id, self.queue.now)
        self.broker.client_left(self.client, self.queue.now)
        assert [self.queue.take(self.worker) for _ in range(3)] == [*ids[1:], None]

    def test_queues_are_apart(self):
        """A job of one queue is not given out of another."""
        self.queue.put(self.client)
        assert self.broker.take(self.worker, "other", self.queue.now) is None

    def test_large_jobs_are_for_those_that_can_read_them(self):
        """A worker of small jobs looks past them; they keep their place for the others."""
        large, small, last = (self.queue.put(self.client, is_large=is_large) for is_large in (True, False, False))
        assert self.queue.take(self.worker, small_only=True) == small
        self.broker.release(self.worker, small, self.queue.now)
        assert [self.queue.take(self.other) for _ in range(3)] == [large, small, last]
        self.broker.release(self.other, large, self.queue.now)
        assert self.queue.take(self.worker, small_only=True) is None

    def test_who_waits_longest_gets_the_next_job(self):
        """Workers are served in turn, each with its ticket."""
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

    def test_released_job_goes_to_a_worker_that_waits(self):
        """No job waits while a worker waits for it."""
        job_id = self.queue.put(self.client)
        self.queue.take(self.worker)
        self.queue.wait(self.other, "t")
        self.broker.release(self.worker, job_id, self.queue.now)
        assert self.other.offers == [(job_id, "t")]


class TestResult(BrokerCase):
    """The result that a client receives."""

    def test_answer_has_everything(self):
        """The worker that ran it, how long it waited and ran, and how it ended."""
        self.queue.put(self.client)
        self.queue.now += 2
        self.queue.take(self.worker)
        self.queue.now += 3
        self.queue.finish(self.worker, 1)
        assert self.client.answers[1] == Answer(Outcome.SUCCESS, 0, "", 0.0, 3.0, 2.0, "pod-1", "node-1", "card0")
        assert left_behind(self.broker) == []

    def test_what_reports_mean(self):
        """Outcome, exit code and error of each kind; only success has the exit code 0."""
        for report, outcome, exit_code, error in (
            (Report(0), "success", 0, ""),
            (Report(3), "failure", 3, "exit code 3"),
            (Report(-1, "killed"), "failure", -1, "killed"),
            (Report(0, "no file name"), "failure", 1, "no file name"),
            (Report(0, timeout_seconds=2.5), "timeout", 1, "the time limit of 2.5 s is over"),
            (Report(143, "Sleep timeout", 2.5), "timeout", 143, "Sleep timeout"),
        ):
            job_id = self.queue.put(self.client)
            self.queue.take(self.worker)
            told = self.queue.finish(self.worker, job_id, report)
            assert told == self.client.answers[job_id]
            assert (told.outcome.value, told.exit_code, told.error) == (outcome, exit_code, error)
            assert told.timeout_seconds == report.timeout_seconds
        assert self.queue.counted() == {"success": 1, "failure": 3, "timeout": 2}

    def test_what_the_report_says_of_its_run_counts(self):
        """Before what the worker said of itself, and before our clock."""
        self.queue.put(self.client)
        self.queue.take(self.worker)
        told = self.queue.finish(self.worker, 1, Report(run_seconds=0.25, pod="p", device="d"))
        assert (told.run_seconds, told.pod, told.node, told.device) == (0.25, "p", "node-1", "d")

    def test_finished_once(self):
        """The second result belongs to no job any more, and neither does that of another worker."""
        self.queue.put(self.client)
        self.refused("unknown-name", "No job 1", self.queue.finish, self.worker, 1)
        self.queue.take(self.worker)
        self.refused("unknown-name", "No job 1", self.queue.finish, self.other, 1)
        self.queue.finish(self.worker, 1)
        self.refused("unknown-name", "No job 1", self.queue.finish, self.worker, 1)
        assert self.queue.counted() == {"success": 1}


class TestCancel(BrokerCase):
    """Clients that do not want their results any more."""

    def test_client_that_left_is_waited_for_no_longer(self):
        """Its waiting request is removed at once, and counted."""
        self.queue.put(self.client)
        self.broker.client_left(self.client, self.queue.now)
        assert self.queue.state() == (0, 0, 0)
        assert self.queue.counted() == {"cancelled": 1}
        assert self.broker.statistics("sleep").disconnects == 1
        assert self.client.answers == {}
        assert left_behind(self.broker) == []

    def test_running_job_of_a_client_that_left_is_withdrawn(self):
        """Its worker is notified, and its result belongs to no job."""
        self.queue.put(self.client)
        self.queue.take(self.worker)
        self.broker.client_left(self.client, self.queue.now)
        assert self.worker.withdrawals == [(1, "cancelled")]
        self.refused("unknown-name", "No job 1", self.queue.finish, self.worker, 1)
        assert left_behind(self.broker) == []

    def test_cancel(self):
        """A request, waiting or running, is ended for the client that it belongs to, and the client is notified."""
        ids = [self.queue.put(self.client) for _ in range(2)]
        self.queue.take(self.worker)
        self.refused("unknown-name", "No job 1", self.broker.cancel, SomeClient(), ids[0], self.queue.now)
        for job_id in ids:
            self.broker.cancel(self.client, job_id, self.queue.now)
        assert self.client.outcomes == dict.fromkeys(ids, "cancelled")
        assert self.worker.withdrawals == [(ids[0], "cancelled")]
        assert self.broker.statistics("sleep").disconnects == 0
        self.refused("unknown-name", "No job 1", self.broker.cancel, self.client, ids[0], self.queue.now)


class TestBound(BrokerCase):
    """What is not taken in, and why."""

    def test_unknown_queue(self):
        """In the original's words."""
        for call in (
            lambda: self.broker.put(self.client, "nope", (), 0.0, 0, 0.0),
            lambda: self.broker.take(self.worker, "nope", 0.0),
            lambda: self.broker.wait(self.worker, "nope", None, None),
            lambda: self.broker.kick("nope", None, 0.0),
            lambda: self.broker.control.pause("nope", None),
            lambda: self.broker.control.drain("nope"),
            lambda: self.broker.control.resume("nope", 0.0),
            lambda: self.broker.snapshot("nope", 0.0),
            lambda: self.broker.statistics("nope"),
            lambda: self.broker.jobs("nope", 1),
        ):
            self.refused("unknown-name", "Unknown 'nope' queue", call)
        assert left_behind(self.broker) == []

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

    def test_jobs_that_come_back_are_not_refused(self):
        """They were accepted."""
        queue = OneQueue(max_waiting=1)
        queue.put(self.client)
        queue.take(self.worker)
        queue.put(self.client)
        queue.broker.release(self.worker, 1, queue.now)
        assert queue.state() == (2, 0, 0)

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
        """The work to be done at once when a peer leaves is bounded."""
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
        """What is done for one is not done again for the other."""
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
        """Its other requests go with it, once."""
        self.client.answered = lambda job, answer: self.broker.client_left(self.client, self.queue.now)
        for _ in range(3):
            self.queue.put(self.client)
        self.queue.take(self.worker)
        self.broker.control.abandon("the end", self.queue.now)
        assert self.queue.counted() == {"cancelled": 3}
        assert left_behind(self.broker) == []
