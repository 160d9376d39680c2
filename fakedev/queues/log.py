"""The log of a durable queue: its records, what they leave of each job, and when the log is written anew.

A record is one framed line (fakedev.base.framed_lines) of JSON. The first record of a log names its queue. A log that
is written again leaves out what is over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from fakedev.base.framed_lines import framed, unframed
from fakedev.queues.job import Job, JobState

#: The version of the form of the log.
FORM: Final = 1
_STATES: Final = {state.value: state for state in JobState}
#: No record is longer: the longest message has 64 KiB, and JSON needs at most six bytes for one of them.
MAX_RECORD_BYTES: Final = 2**20


class DamagedLog(Exception):
    """A log that cannot be replayed.

    :param offset: of the damaged record, in bytes.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


class LoggedJob(NamedTuple):
    """What the log says of an open or buried job.

    :param put_unix_seconds: when it was put, by the time of day.
    :param losses: how often a backend lost it.
    :param state: RUNNING if a backend holds it.
    :param reason: why it was buried.
    """

    id: int
    arguments: tuple[str, ...]
    limit_seconds: float
    size_bytes: int
    is_large: bool
    put_unix_seconds: float
    losses: int = 0
    state: JobState = JobState.WAITING
    reason: str = ""


@dataclass(frozen=True)
class Replayed:
    """The content of a log.

    :param queue: the name of its queue; empty for an empty log.
    :param last_job: the highest id that was used.
    :param jobs: in the order of their ids.
    :param good_bytes: the length of the log without a torn last record.
    """

    queue: str
    last_job: int
    jobs: tuple[LoggedJob, ...]
    good_bytes: int


def encode_record(content: dict[str, Any]) -> bytes:
    # Half a surrogate pair, which JSON lines may contain, stays an escape.
    return _line(json.dumps(content, separators=(",", ":")))


def head_record(queue: str, last_job: int) -> bytes:
    return encode_record({"queue": queue, "form": FORM, "last": last_job})


def accepted_record(job: Job | LoggedJob, put_unix_seconds: float) -> bytes:
    """A request was accepted. Its numbers are finite.

    :param put_unix_seconds: when it was put, by the time of day.
    """
    # Composed by hand, as the state records: a dictionary and an encoder for each take three times as long.
    arguments = ",".join([json.dumps(argument) for argument in job.arguments])
    is_large = "true" if job.is_large else "false"
    return _line(
        f'{{"accepted":{job.id},"args":[{arguments}],"limit":{job.limit_seconds!r},"bytes":{job.size_bytes},'
        f'"large":{is_large},"time":{put_unix_seconds!r}}}'
    )


def state_record(state: JobState, job_id: int, losses: int = 0, reason: str = "") -> bytes:
    """A job waits again, runs, is buried, or is over.

    :param reason: of a burial.
    """
    more = f',"losses":{losses}' if losses else ""
    if reason:
        more += f',"reason":{json.dumps(reason)}'
    return _line(f'{{"{state.value}":{job_id}{more}}}')


def _line(record: str) -> bytes:
    return framed(record.encode("ascii"))


def replay(log: BinaryIO) -> Replayed:
    """The jobs that a log leaves. A last record that is incomplete or damaged is left out.

    It takes the memory of the open jobs and of one record, whatever the length of the log.

    :raises DamagedLog: for a damaged record before the last one, for a log of another form, and for another file.
    :raises OSError: if it cannot be read.
    """
    queue, last_job, good_bytes = "", 0, 0
    jobs: dict[int, LoggedJob] = {}
    for offset, length, content in _records(log):
        try:
            if not offset:
                queue, last_job = str(content["queue"]), int(content["last"])
                if content["form"] != FORM:
                    raise DamagedLog(0, f"its form is {content['form']}, and this version reads {FORM}")
            else:
                last_job = max(last_job, _apply(content, jobs))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DamagedLog(offset, "a record that does not fit those before it") from None
        good_bytes = offset + length
    return Replayed(queue, last_job, tuple(jobs[job_id] for job_id in sorted(jobs)), good_bytes)


def _records(log: BinaryIO) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The offset, the length with its line break, and the content of each record."""
    offset = 0
    while line := log.readline(MAX_RECORD_BYTES):
        content = _content(line)
        if content is None:
            # The first record is on the disk before the file has its name: a crash cannot leave a part of it.
            if not offset:
                raise DamagedLog(0, "this is no log of requests")
            while line and not line.endswith(b"\n"):
                line = log.readline(MAX_RECORD_BYTES)
            if log.read(1):
                raise DamagedLog(offset, "a damaged record")
            return
        yield offset, len(line), content
        offset += len(line)


def _content(line: bytes) -> dict[str, Any] | None:
    """The content of a record; None if it is damaged."""
    text = unframed(line)
    if text is None:
        return None
    try:
        content = orjson.loads(text)
    except ValueError:
        # It refuses half a surrogate pair, which encode_record may write; json takes three times as long.
        try:
            content = json.loads(text.decode("ascii"))
        except (ValueError, RecursionError):
            return None
    return content if isinstance(content, dict) else None


def _apply(content: dict[str, Any], jobs: dict[int, LoggedJob]) -> int:
    """Change the jobs as a record says; returns the id of its job."""
    if "accepted" in content:
        job_id = int(content["accepted"])
        if job_id in jobs:
            raise ValueError("the job is there already")
        arguments = tuple(str(argument) for argument in content["args"])
        numbers = float(content["limit"]), int(content["bytes"]), bool(content["large"]), float(content["time"])
        jobs[job_id] = LoggedJob(job_id, arguments, *numbers)
        return job_id
    (word, number), *_ = content.items()
    state, job_id = _STATES[word], int(number)
    if state is JobState.OVER:
        del jobs[job_id]
    else:
        losses, reason = int(content.get("losses", 0)), str(content.get("reason", ""))
        jobs[job_id] = LoggedJob(*jobs[job_id][:6], losses, state, reason)
    return job_id


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

    The broker calls the methods that are named after changes. The writer takes batches; after a failure it writes
    :meth:`whole`, which includes the failed batches.

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
        return len(self._batch.lines)

    def put_seconds(self, job: LoggedJob, now: float) -> float:
        """When a job was put, in the broker's time: not after now, even if the time of day went back."""
        return min(now, job.put_unix_seconds - self._unix_offset_seconds)

    def reserve(self, last_job: int) -> None:
        """Note that ids up to this one are used."""
        self._last_job = max(self._last_job, last_job)

    # Changes

    def accepted(self, job: Job) -> None:
        self._last_job = max(self._last_job, job.id)
        line = self._accepted[job.id] = accepted_record(job, job.put_seconds + self._unix_offset_seconds)
        self.live_bytes += len(line)
        self._batch.accepted.append(job)
        self._add(line)

    def taken(self, job: Job) -> None:
        self._batch.taken.append(job)
        self._set(JobState.RUNNING, job)

    def returned(self, job: Job) -> None:
        self._set(JobState.WAITING, job)

    def buried(self, job: Job) -> None:
        self._set(JobState.BURIED, job, job.reason)

    def over(self, job: Job) -> None:
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
