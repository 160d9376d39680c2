"""Durable queues without files: records, replay, what a restart leaves of each job, and writing that fails."""

from __future__ import annotations

import tracemalloc
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.lines.framing import MAX_BYTES
from fakedev.queues.job import JobState
from fakedev.queues.log import (
    MAX_RECORD_BYTES,
    MIN_REWRITE_BYTES,
    DamagedLog,
    LoggedJob,
    RequestLog,
    accepted_record,
    encode_record,
    head_record,
    replay,
    state_record,
)
from tests.support.queues.broker_cases import OneQueue, SomeClient, SomeWorker, left_behind, replay_bytes

UNIX_OFFSET_SECONDS = 1.7e9


class DurableQueue(OneQueue):
    """A broker whose queue ``sleep`` is durable.

    :ivar file: the records so far.
    """

    def __init__(self, file: bytes = b"", **queue: int) -> None:
        super().__init__(**queue)
        self.log = RequestLog("sleep", UNIX_OFFSET_SECONDS)
        self.broker.restore(self.log, replay_bytes(file), self.now)
        self.log.take_batch()
        self.file = b"".join(self.log.whole())

    def write(self) -> bytes:
        self.file += b"".join(self.log.take_batch().lines)
        return self.file

    def accept(self, client: SomeClient | None = None) -> int:
        return self.put(client or SomeClient(), "0.5", is_promised=True)

    def kept(self) -> dict[int, tuple[JobState, int]]:
        jobs = self.broker.jobs("sleep", 10_000)
        return {job.id: (job.state, job.losses) for job in jobs if job.is_durable}


def left_by(file: bytes) -> dict[int, tuple[JobState, int]]:
    return {job.id: (job.state, job.losses) for job in replay_bytes(file).jobs}


class TestRestart:
    """What a crash leaves of each job."""

    def test_waiting_job_waits_at_its_old_place(self):
        before = DurableQueue()
        first, second = before.accept(), before.accept()
        after = DurableQueue(before.write())
        worker = SomeWorker()
        after.now += 3
        job = after.broker.take(worker, "sleep", after.now)
        assert job is not None
        assert (job.id, job.arguments, job.wait_seconds) == (first, ("0.5",), 3)
        assert after.take(worker) == second
        assert after.accept() == second + 1

    def test_job_that_ran_is_not_run_again_without_retries(self):
        """It is lost, as with a backend that disconnects."""
        before = DurableQueue()
        before.accept()
        before.take(SomeWorker())
        after = DurableQueue(before.write())
        assert after.counted() == {"lost": 1}
        assert after.take(SomeWorker()) is None
        assert DurableQueue(after.write()).counted() == {}

    def test_job_that_ran_is_offered_again_as_often_as_the_queue_says(self):
        """Each restart is a loss; after the last one the job is buried, and stays so; kicked it is durable again."""
        file = b""
        queue = DurableQueue(file, retries=2)
        job = queue.accept()
        for losses in range(3):
            assert queue.kept() == {job: (JobState.WAITING, losses)}
            assert queue.take(SomeWorker()) == job
            queue = DurableQueue(queue.write(), retries=2)
        assert queue.kept() == {job: (JobState.BURIED, 3)}
        again = DurableQueue(queue.write(), retries=2)
        assert [job.reason for job in again.broker.jobs("sleep", 9)] == ["lost by 3 backends"]
        assert [each.id for each in again.broker.kick("sleep", None, again.now)] == [job + 1]
        assert left_by(again.write()) == {job + 1: (JobState.WAITING, 0)}

    def test_client_that_leaves_takes_only_what_was_not_promised(self):
        queue = DurableQueue()
        client = SomeClient()
        promised = queue.accept(client)
        queue.put(client)
        queue.broker.client_left(client, queue.now)
        assert list(queue.kept()) == [promised]
        assert queue.counted() == {"cancelled": 1}
        assert list(left_by(queue.write())) == [promised]

    @pytest.mark.parametrize("abandon", [False, True])
    def test_orderly_end_leaves_waiting_jobs_in_the_log(self, abandon: bool):
        """Their clients get no answer; a job that ran to the last is lost by its worker."""
        queue = DurableQueue()
        client, worker = SomeClient(), SomeWorker()
        first, second = queue.accept(client), queue.accept(client)
        queue.take(worker)
        queue.broker.close("the frontend goes down", queue.now)
        if abandon:
            queue.broker.abandon("the frontend goes down", queue.now)
            assert worker.withdrawals == [(first, "cancelled")]
            assert client.answers == {}
            assert left_by(queue.write()) == {first: (JobState.RUNNING, 0), second: (JobState.WAITING, 0)}
        else:
            queue.finish(worker, first)
            assert client.outcomes == {first: "success"}
            assert left_by(queue.write()) == {second: (JobState.WAITING, 0)}
        assert queue.broker.is_idle
        assert left_behind(queue.broker) == []


class TestFailure:
    """A log that cannot be written."""

    def test_nothing_of_the_failed_batch_stays(self):
        """The accepted request ends, the taken job waits again, and both verbs are refused with the reason."""
        queue = DurableQueue()
        old = queue.accept()
        queue.write()
        new = queue.accept()
        assert queue.take(SomeWorker()) == old
        queue.log.problem = "no space"
        queue.broker.undo(queue.log, queue.log.take_batch(), queue.now)
        assert queue.kept() == {old: (JobState.WAITING, 0)}
        for refused in (queue.accept, lambda: queue.take(SomeWorker())):
            with pytest.raises(Refused, match="no space"):
                refused()
        assert left_by(b"".join(queue.log.whole())) == {old: (JobState.WAITING, 0)}
        queue.log.problem = ""
        worker = SomeWorker()
        queue.wait(worker, "ticket")
        queue.broker.log_works(queue.log, queue.now)
        assert worker.offers == [(old, "ticket")]
        assert new not in queue.kept()


OPERATIONS = st.lists(
    st.sampled_from(["put", "take", "finish", "release", "bury", "lose", "kick", "cancel", "plain"]), max_size=40
)


def run(queue: DurableQueue, operations: list[str]) -> list[tuple[int, dict[int, tuple[JobState, int]]]]:
    """Do operations; the length of the file and the jobs after each."""
    client = SomeClient()
    workers: list[tuple[SomeWorker, int]] = []
    states = []
    for operation in operations:
        if operation == "put":
            queue.accept(client)
        elif operation == "plain":
            queue.put(client)
        elif operation == "kick":
            queue.broker.kick("sleep", 1, queue.now)
        elif operation == "cancel":
            for job in queue.broker.jobs("sleep", 1):
                if job.client is not None:
                    queue.broker.cancel(client, job.id, queue.now)
                    workers = [worker for worker in workers if worker[1] != job.id]
        elif operation == "take":
            worker = SomeWorker()
            taken = queue.take(worker)
            if taken is not None:
                workers.append((worker, taken))
        elif workers:
            give_up(queue, *workers.pop(), operation)
        states.append((len(queue.write()), queue.kept()))
    return states


def give_up(queue: DurableQueue, worker: SomeWorker, job_id: int, operation: str) -> None:
    match operation:
        case "finish":
            queue.finish(worker, job_id)
        case "release":
            queue.broker.release(worker, job_id, queue.now)
        case "bury":
            queue.broker.bury(worker, job_id, "broken", queue.now)
        case "lose":
            queue.broker.worker_left(worker, queue.now)


class TestReplay:
    """Any sequence of operations, and any end of the file."""

    @given(OPERATIONS, st.data())
    def test_every_prefix_has_all_that_was_written_before_it(self, operations: list[str], data: st.DataObject):
        """A file cut anywhere replays to the state after its last whole record."""
        queue = DurableQueue(retries=1)
        begin = len(queue.file)
        states = [(begin, {}), *run(queue, operations)]
        for length, state in states:
            assert left_by(queue.file[:length]) == state
        assert left_by(b"".join(queue.log.whole())) == states[-1][1]
        assert queue.log.live_bytes == sum(map(len, queue.log.whole()[1:]))
        cut = data.draw(st.integers(begin, len(queue.file)))
        found = replay_bytes(queue.file[:cut])
        assert found.good_bytes == queue.file.rindex(b"\n", 0, cut) + 1
        assert found == replay_bytes(queue.file[: found.good_bytes])

    @given(OPERATIONS, st.data())
    def test_changed_byte_is_never_believed(self, operations: list[str], data: st.DataObject):
        """It is refused with its offset, or was in the last record, which is cut."""
        queue = DurableQueue(retries=1)
        run(queue, operations)
        place = data.draw(st.integers(0, len(queue.file) - 1))
        damaged = bytearray(queue.file)
        damaged[place] ^= data.draw(st.integers(1, 255))
        try:
            found = replay_bytes(bytes(damaged))
        except DamagedLog as damage:
            assert damage.offset <= place
        else:
            assert found.good_bytes <= place
            assert b"\n" not in queue.file[place + 1 : -1]

    @pytest.mark.parametrize(
        "second",
        [
            state_record(JobState.RUNNING, 7),
            state_record(JobState.OVER, 7),
            head_record("sleep", 1),
            accepted_record(LoggedJob(1, (), 0.0, 1, False, 0.0), 0.0) * 2,
        ],
    )
    def test_record_that_does_not_fit_is_refused(self, second: bytes):
        with pytest.raises(DamagedLog, match="does not fit"):
            replay_bytes(head_record("sleep", 0) + second)

    def test_log_of_a_later_version_is_refused(self):
        assert replay_bytes(head_record("sleep", 0)).queue == "sleep"
        with pytest.raises(DamagedLog, match="form is 2"):
            replay_bytes(encode_record({"queue": "sleep", "form": 2, "last": 0}))


class TestRecords:
    """Their form and their bounds."""

    @given(
        st.lists(st.text(st.characters(exclude_categories=()))),
        st.floats(0, allow_infinity=False),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
    )
    def test_accepted_job_is_read_as_it_was(self, arguments: list[str], limit: float, put: float, is_large: bool):
        """All texts, also half a surrogate pair and line breaks, and all finite numbers."""
        job = LoggedJob(7, tuple(arguments), limit, 600, is_large, put)
        assert replay_bytes(head_record("sleep", 6) + accepted_record(job, put)).jobs == (job,)

    @given(st.sampled_from([JobState.WAITING, JobState.RUNNING, JobState.BURIED]), st.integers(0), st.text())
    def test_state_is_read_as_it_was(self, state: JobState, losses: int, reason: str):
        job = LoggedJob(7, (), 0.0, 600, False, 0.0)
        log = head_record("sleep", 6) + accepted_record(job, 0.0) + state_record(state, 7, losses, reason)
        assert replay_bytes(log).jobs == (job._replace(state=state, losses=losses, reason=reason),)

    def test_longest_message_fits_in_a_record(self):
        job = LoggedJob(2**63, ("\x00" * MAX_BYTES,), 1e-300, 2**63, False, 0.0)
        assert len(accepted_record(job, -1.7976931348623157e308)) <= MAX_RECORD_BYTES
        many = LoggedJob(2**63, ("",) * MAX_BYTES, 1e-300, 2**63, False, 0.0)
        assert len(accepted_record(many, -1.7976931348623157e308)) <= MAX_RECORD_BYTES

    @pytest.mark.parametrize("file", [b"\n", b"hello\n", b"\0" * 100, head_record("sleep", 1)[:-1], b"x" * 2**21])
    def test_file_that_is_no_log_is_refused(self, file: bytes):
        """It is not emptied: no crash leaves a log without its first record."""
        with pytest.raises(DamagedLog, match="no log of requests"):
            replay_bytes(file)

    @pytest.mark.parametrize("tail", [b"\0" * (3 * MAX_RECORD_BYTES), b"x" * MAX_RECORD_BYTES + b"\n"])
    def test_torn_end_of_any_length_is_left_out(self, tail: bytes):
        """A disk that lost its power may have zeros for all that was not promised."""
        log = head_record("sleep", 1)
        assert replay_bytes(log + tail) == replay_bytes(log)
        with pytest.raises(DamagedLog, match="a damaged record") as caught:
            replay_bytes(log + tail + b"\n" + log)
        assert caught.value.offset == len(log)

    @pytest.mark.slow
    def test_long_log_takes_the_memory_of_its_open_jobs(self):
        """A log of 5000 ended requests, over 1 MB, is read in less than 200 kB."""
        job = LoggedJob(7, ("x" * 150,), 0.0, 600, False, 0.0)
        ended = accepted_record(job, 0.0) + state_record(JobState.OVER, 7)
        log = BytesIO(head_record("sleep", 6) + ended * 5000)
        assert len(log.getvalue()) > 1_000_000
        tracemalloc.start()
        try:
            assert replay(log).jobs == ()
            assert tracemalloc.get_traced_memory()[1] < 200_000
        finally:
            tracemalloc.stop()


def test_log_is_written_again_when_most_of_it_is_over():
    queue = DurableQueue()
    assert not queue.log.is_mostly_over(MIN_REWRITE_BYTES - 1)
    assert queue.log.is_mostly_over(MIN_REWRITE_BYTES)
    queue.put(None, "x" * MIN_REWRITE_BYTES, is_promised=True)
    assert not queue.log.is_mostly_over(2 * MIN_REWRITE_BYTES)
    assert queue.log.is_mostly_over(2 * MIN_REWRITE_BYTES + 1000)


def test_half_a_surrogate_pair_survives():
    """Text that is no UTF-8, as JSON lines may have it."""
    queue = DurableQueue()
    queue.put(None, "a\ud800\n\x00", is_promised=True)
    assert replay_bytes(queue.write()).jobs[0].arguments == ("a\ud800\n\x00",)
