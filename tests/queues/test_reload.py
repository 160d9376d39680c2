"""Reload: queues come, go and get other limits while jobs are in them; logs stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fakedev.queues.settings import QueueSpec
from tests.support.application import SMALL, application
from tests.support.queues.broker_cases import BrokerCase, left_behind
from tests.support.reloads import reload


class TestBrokerReload(BrokerCase):
    """From the queues ``sleep`` and ``other`` to others."""

    def apply_reload(self, *queues: QueueSpec, **more: object) -> None:
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
        self.queue.wait(self.worker, "ticket", seconds=60)
        self.queue.wait(self.other, "small", small_only=True)
        self.broker.pause("sleep", self.queue.now + 5)
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
        self.broker.prepare(replace(self.broker.spec, queues=(QueueSpec("other"),)))
        self.refused("busy", "Queue 'sleep' is draining", self.queue.put, self.client)
        # Another part of the program cannot be reloaded: the queue stays.
        self.broker.undo_prepare()
        self.queue.put(self.client)

    def test_what_cannot_change(self) -> None:
        spec = replace(self.broker.spec, window_seconds=5.0)
        self.refused("bad-argument", "window cannot change", self.broker.prepare, spec)

    def test_memory(self) -> None:
        self.apply_reload(*self.broker.spec.queues, max_bytes=100)
        self.refused("full", "The memory for requests is full: 100 bytes", self.queue.put, self.client)


def queues(names: str, folder: Path) -> str:
    """A configuration with these queues; FOLDER in them is a folder."""
    return SMALL + "queues:\n  drain: 1s\n  names: " + names.replace("FOLDER", str(folder)) + "\n"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("{a: {}}", "{a: {durable: FOLDER/a}}", ["a"]),
        ("{a: {durable: FOLDER/a}}", "{a: {}}", ["a"]),
        ("{a: {durable: FOLDER/a}}", "{a: {durable: FOLDER/b}}", ["a"]),
        ("{a: {}}", "{a: {}, b: {durable: FOLDER/b}}", ["b"]),
        ("{a: {}, b: {durable: FOLDER/b}}", "{a: {}}", ["b"]),
        ("{a: {durable: FOLDER/x}, b: {}}", "{a: {}, b: {durable: FOLDER/x}}", ["a", "b"]),
    ],
    ids=["added", "removed", "moved", "with a new queue", "with its queue", "given to another queue"],
)
def test_reload_that_changes_durable_is_refused(tmp_path: Path, before: str, after: str, changed: list[str]) -> None:
    """The key of each queue is named; the queues go on as they were, and the next reload may be applied."""
    with application(queues(before, tmp_path)) as app:
        client = app.client()
        assert client.say("put a 1") == ["ok 1"]
        answer = reload(app, queues(after, tmp_path))
        reasons = [f"queues.names.{name}.durable: has changed, which needs a restart" for name in changed]
        assert (answer.status, answer.body.decode().splitlines()[: len(changed)]) == (400, reasons)
        assert client.say("put a 2") == ["ok 2"]
        assert reload(app, queues(before, tmp_path)).status == 200


def test_reload_of_other_settings_keeps_the_log(tmp_path: Path) -> None:
    """Limits change, a queue without a log is added, and what was promised is there after a restart."""
    with application(queues("{a: {durable: FOLDER/a}}", tmp_path)) as app:
        client = app.client()
        client.say("put a 1")
        assert reload(app, queues("{a: {durable: FOLDER/a, retries: 3}, b: {}}", tmp_path)).status == 200
        assert client.say("put a 2", "put b 3") == ["ok 2", "ok 3"]
    with application(queues("{a: {durable: FOLDER/a}}", tmp_path)) as app:
        assert app.client().say("list a")[0] == "ok 2 lines"
