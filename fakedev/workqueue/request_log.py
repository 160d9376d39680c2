"""The log of a durable queue: what must be written next, and when to write it again without what is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fakedev.workqueue.job import Job, JobState
from fakedev.workqueue.log_records import LoggedJob, accepted_record, head_record, state_record

#: A log is written again when it is at least this long, and more than half of it is about ended requests.
MIN_REWRITE_BYTES: Final = 2**20


@dataclass
class Batch:
    """Records that are written together.

    :ivar accepted: the jobs that they accept.
    :ivar taken: the jobs that they hand out.
    """

    lines: list[bytes] = field(default_factory=list)
    accepted: list[Job] = field(default_factory=list)
    taken: list[Job] = field(default_factory=list)


class RequestLog:
    """Collects the records of one queue.

    The broker calls the methods named after changes. Whoever writes takes batches; after a failure he writes
    :meth:`whole`, which has all that the failed batches had.

    :param unix_offset_seconds: the time of day minus the broker's time.
    :ivar problem: why the log cannot be written; empty while it can. Nothing is accepted or handed out meanwhile.
    :ivar live_bytes: of the records that a whole new log would have.
    :ivar records: number of records so far.
    :ivar changed: whether there were records since it was last set to False.
    """

    def __init__(self, queue: str, unix_offset_seconds: float) -> None:
        self.queue = queue
        self._unix_offset_seconds = unix_offset_seconds
        self._accepted: dict[int, bytes] = {}
        self._latest: dict[int, bytes] = {}  # the last record of a job's state, if it is not just waiting
        self._batch = Batch()
        self._last_job = 0
        self.problem = ""
        self.live_bytes = 0
        self.records = 0
        self.changed = False

    @property
    def pending(self) -> int:
        """Records that are in no batch yet."""
        return len(self._batch.lines)

    def put_seconds(self, job: LoggedJob, now: float) -> float:
        """When a job was put, in the broker's time: not after now, even if the time of day went back."""
        return min(now, job.put_unix_seconds - self._unix_offset_seconds)

    def reserve(self, last_job: int) -> None:
        """Note that ids up to this one are used."""
        self._last_job = max(self._last_job, last_job)

    # Changes

    def accepted(self, job: Job) -> None:
        """A request was accepted."""
        self._last_job = max(self._last_job, job.id)
        line = self._accepted[job.id] = accepted_record(job, job.put_seconds + self._unix_offset_seconds)
        self.live_bytes += len(line)
        self._batch.accepted.append(job)
        self._add(line)

    def taken(self, job: Job) -> None:
        """A worker gets a job."""
        self._batch.taken.append(job)
        self._set(JobState.RUNNING, job)

    def returned(self, job: Job) -> None:
        """A job waits again."""
        self._set(JobState.WAITING, job)

    def buried(self, job: Job) -> None:
        """A job was buried."""
        self._set(JobState.BURIED, job, job.reason)

    def over(self, job: Job) -> None:
        """A job ended, or a buried one was dropped."""
        self.live_bytes -= len(self._accepted.pop(job.id)) + len(self._latest.pop(job.id, b""))
        self._add(state_record(JobState.OVER, job.id))

    def _set(self, state: JobState, job: Job, reason: str = "") -> None:
        line = state_record(state, job.id, job.losses, reason)
        self.live_bytes += len(line) - len(self._latest.get(job.id, b""))
        self._latest[job.id] = line
        self._add(line)

    def _add(self, line: bytes) -> None:
        self.changed = True
        self.records += 1
        self._batch.lines.append(line)

    # Writing

    def take_batch(self) -> Batch:
        """All records since the last batch."""
        batch, self._batch = self._batch, Batch()
        return batch

    def whole(self) -> list[bytes]:
        """The lines of a new log, without what is over. They include the records of all batches."""
        return [head_record(self.queue, self._last_job), *self._accepted.values(), *self._latest.values()]

    def is_mostly_over(self, log_bytes: int) -> bool:
        """Whether a log of this length should be written again."""
        return log_bytes >= max(MIN_REWRITE_BYTES, 2 * self.live_bytes)
