"""Queues of another configuration: what lives on, what goes, what cannot."""

from __future__ import annotations

from dataclasses import replace

from fakedev.workqueue.spec import QueueSpec
from tests.support.broker_cases import BrokerCase, left_behind


class TestBrokerReload(BrokerCase):
    """From the queues ``sleep`` and ``other`` to others."""

    def apply_reload(self, *queues: QueueSpec, **more: object) -> None:
        """To these queues."""
        spec = replace(self.broker.spec, queues=queues, **more)
        self.broker.prepare(spec)
        self.broker.reconfigure(spec, self.queue.now)

    def test_jobs_live_on(self) -> None:
        """Waiting and running, under the new limits, which concern those that come or are taken from now on."""
        first, second = self.queue.put(self.client), self.queue.put(self.client)
        assert self.queue.take(self.worker) == first
        self.apply_reload(QueueSpec("new"), QueueSpec("sleep", max_waiting=1, retries=1))
        assert self.broker.queue_names == ("new", "sleep")
        assert self.queue.state() == (1, 1, 0)
        self.refused("full", "Queue 'sleep' is full", self.queue.put, self.client)
        self.broker.worker_left(self.worker, self.queue.now)
        assert [self.queue.take(self.other) for _ in range(2)] == [first, second]
        for job_id in (first, second):
            self.queue.finish(self.other, job_id)
        assert self.client.outcomes == {first: "success", second: "success"}
        assert (self.queue.counted(), left_behind(self.broker)) == ({"success": 2, "refused": 1}, [])

    def test_workers_that_wait_on_a_removed_queue(self) -> None:
        """They get an empty answer, and may wait elsewhere."""
        self.queue.wait(self.worker, "ticket", seconds=60)
        self.queue.wait(self.other, "small", small_only=True)
        self.broker.control.pause("sleep", self.queue.now + 5)
        self.apply_reload(QueueSpec("other"))
        assert (self.worker.nothings, self.other.nothings) == (["ticket"], ["small"])
        assert left_behind(self.broker) == []
        self.refused("unknown-name", "Unknown 'sleep' queue", self.queue.put, self.client)
        self.queue.pass_time(100)

    def test_a_queue_with_jobs_cannot_go(self) -> None:
        """Whether they wait, run or are buried; nothing is changed then."""
        without = replace(self.broker.spec, queues=(QueueSpec("other"),))
        told = "queue 'sleep' cannot be removed: it has 1 waiting, running or buried jobs"
        job_id = self.queue.put(self.client)
        self.refused("busy", told, self.broker.prepare, without)
        self.queue.take(self.worker)
        self.refused("busy", told, self.broker.prepare, without)
        self.broker.bury(self.worker, job_id, "bad", self.queue.now)
        self.refused("busy", told, self.broker.prepare, without)
        self.queue.put(self.client)
        assert self.queue.state() == (1, 0, 1)

    def test_a_queue_that_will_go_takes_nothing_in(self) -> None:
        """From when that was decided."""
        self.broker.prepare(replace(self.broker.spec, queues=(QueueSpec("other"),)))
        self.refused("busy", "Queue 'sleep' is draining", self.queue.put, self.client)

    def test_what_cannot_change(self) -> None:
        """What maxima and rates cover."""
        spec = replace(self.broker.spec, window_seconds=5.0)
        self.refused("bad-argument", "window cannot change", self.broker.prepare, spec)

    def test_memory(self) -> None:
        """The most bytes of all requests."""
        self.apply_reload(*self.broker.spec.queues, max_bytes=100)
        self.refused("full", "The memory for requests is full: 100 bytes", self.queue.put, self.client)
