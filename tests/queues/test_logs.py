"""The logs of durable queues: files that cannot be used, a disk without room, and answers that wait for the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from fakedev.base.errors import CannotWrite, Refused
from fakedev.lines.grammar import ProtocolError
from fakedev.queues.broker import Broker
from fakedev.queues.job import JobState
from fakedev.queues.log import LoggedJob, accepted_record, head_record, state_record
from fakedev.queues.log_file import LOG_NAME, RETRY_SECONDS, LogWriters, QueueLogFile
from fakedev.queues.metrics import queue_log_metrics
from fakedev.queues.settings import BrokerSpec, QueueSpec
from tests.support.disks import file_size_limit
from tests.support.queues.broker_cases import DONE, SomeWorker, replay_bytes

ACCEPTED = accepted_record(LoggedJob(1, ("x",), 0.0, 600, False, 0.0), 0.0)
WHOLE = head_record("sleep", 0) + ACCEPTED + state_record(JobState.RUNNING, 1)


class SomePeer:
    """A peer that records what becomes of its answers."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def hold(self) -> SomePeer:
        self.events.append("held")
        return self

    def seal(self) -> None:
        """Nothing."""

    def release(self) -> None:
        self.events.append("sent")

    def fail(self, error: ProtocolError) -> None:
        self.events.append(error.code)


class Logs:
    """A broker with a durable queue on a real file; ``threads`` are run by hand.

    :ivar threads: functions to call in a thread, each with what fires then.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.threads: list[tuple[Callable[[], None], Deferred[None]]] = []
        self.broker = Broker(BrokerSpec((QueueSpec("sleep", durable=str(folder)),)), 0.0)
        self.writers = LogWriters()
        self.writers.open(self.broker, self.clock, 1.7e9, self._in_thread, self._flush)
        self.writer = self.writers.by_queue["sleep"]

    def _in_thread(self, work: Callable[[], None]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.threads.append((work, done))
        return done

    def _flush(self) -> None:
        self.writers.flush()

    def put(self) -> SomePeer:
        peer = SomePeer()
        self.broker.put(None, "sleep", ("x" * 100,), 0.0, 100, self.clock.seconds(), is_promised=True)
        self.writers.hold_changed(peer)  # type: ignore[arg-type]
        self.writers.flush()
        return peer

    def run_thread(self) -> None:
        work, done = self.threads.pop(0)
        maybeDeferred(work).addBoth(done.callback)


def test_answers_wait_for_their_write_and_share_it(tmp_path: Path):
    logs = Logs(tmp_path)
    first = logs.put()
    second, third = logs.put(), logs.put()
    assert len(logs.threads) == 1
    logs.run_thread()
    assert (first.events, second.events) == (["held", "sent"], ["held"])
    logs.run_thread()
    assert second.events == third.events == ["held", "sent"]
    assert logs.threads == []
    assert len(replay_bytes((tmp_path / LOG_NAME).read_bytes()).jobs) == 3
    logs.writers.close()


def test_disk_without_room_refuses_and_recovers(tmp_path: Path):
    """Nothing that was promised is lost, nothing that was refused stays; the queue works again when there is room."""
    logs = Logs(tmp_path)
    logs.put()
    logs.run_thread()
    with file_size_limit(logs.writer.file.size + 10):
        refused = logs.put()
        logs.run_thread()
        assert refused.events == ["held", "full"]
        assert "the file would be too large" in logs.writers.problem
        assert len(replay_bytes((tmp_path / LOG_NAME).read_bytes()).jobs) == 1
        with pytest.raises(Refused, match="the file would be too large"):
            logs.put()
    logs.clock.advance(RETRY_SECONDS)
    logs.run_thread()
    assert logs.writers.problem == ""
    again = logs.put()
    logs.run_thread()
    assert again.events == ["held", "sent"]
    assert [job.id for job in replay_bytes((tmp_path / LOG_NAME).read_bytes()).jobs] == [1, 3]
    logs.writers.close()


@pytest.mark.slow
def test_log_is_written_again_without_what_is_over(tmp_path: Path):
    logs = Logs(tmp_path)
    worker = SomeWorker()
    for _ in range(8):
        for _ in range(1000):
            job = logs.broker.put(None, "sleep", ("x" * 100,), 0.0, 100, 0.0, is_promised=True)
            logs.broker.take(worker, "sleep", 0.0)
            logs.broker.finish(worker, job.id, DONE, 0.0)
        logs.writers.flush()
        logs.run_thread()
    assert logs.writer.file.size < 2 * 2**20
    logs.writers.close()


def test_metrics(tmp_path: Path):
    """What is not on the disk yet, the size of the log, how long its writes take, and whether it can be written."""
    logs = Logs(tmp_path)
    figures: Any = SimpleNamespace(logs=logs.writers.by_queue)

    def values() -> dict[str, float]:
        return {sample.name: sample.value for family in queue_log_metrics(figures) for sample in family.samples}

    logs.put()
    assert values()["fakedev_queue_log_pending_records"] == 1
    logs.clock.advance(0.25)
    logs.run_thread()
    shown = values()
    assert shown["fakedev_queue_log_pending_records"] == shown["fakedev_queue_log_failed"] == 0
    assert shown["fakedev_queue_log_bytes"] == (tmp_path / LOG_NAME).stat().st_size
    assert (shown["fakedev_queue_log_write_seconds_count"], shown["fakedev_queue_log_write_seconds_sum"]) == (1, 0.25)
    with file_size_limit(logs.writer.file.size):
        logs.put()
        logs.run_thread()
    assert values()["fakedev_queue_log_failed"] == 1
    logs.writers.close()
    assert values() == {}


class TestUnusable:
    """Files that stop the start, with the reason and the remedy."""

    def test_folder_in_use(self, tmp_path: Path):
        first = QueueLogFile(str(tmp_path))
        with pytest.raises(CannotWrite, match="another process writes it: stop that one"):
            QueueLogFile(str(tmp_path))
        first.close()
        QueueLogFile(str(tmp_path)).close()

    def test_torn_last_record_is_left_out(self, tmp_path: Path):
        file = QueueLogFile(str(tmp_path))
        for cut in range(len(WHOLE) - len(ACCEPTED), len(WHOLE)):
            (tmp_path / LOG_NAME).write_bytes(WHOLE[:cut])
            assert file.read("sleep") == replay_bytes(WHOLE[: WHOLE.rfind(b"\n", 0, cut) + 1])
        file.close()

    def test_damaged_record_before_the_last(self, tmp_path: Path):
        (tmp_path / LOG_NAME).write_bytes(WHOLE.replace(b'"x"', b'"y"'))
        file = QueueLogFile(str(tmp_path))
        offset = len(head_record("sleep", 0))
        with pytest.raises(CannotWrite, match=f"offset {offset}: a damaged record: .* truncate -s {offset} "):
            file.read("sleep")
        file.close()

    def test_file_of_another_kind_is_left_alone(self, tmp_path: Path):
        (tmp_path / LOG_NAME).write_bytes(b"something else\n")
        file = QueueLogFile(str(tmp_path))
        with pytest.raises(CannotWrite, match=r"offset 0: this is no log of requests: restore the file, or .* move it"):
            file.read("sleep")
        assert (tmp_path / LOG_NAME).read_bytes() == b"something else\n"
        file.close()

    def test_log_of_another_queue(self, tmp_path: Path):
        (tmp_path / LOG_NAME).write_bytes(WHOLE)
        file = QueueLogFile(str(tmp_path))
        with pytest.raises(CannotWrite, match="the log of the queue 'sleep', not of 'media'"):
            file.read("media")
        file.close()
