"""The records of a durable queue: their text in the log, and what they leave of each job.

A record is one line: the length of its JSON text in bytes, the CRC-32 of that text in hexadecimal, and the text, with
one space between them. The first record of a log names its queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple
from zlib import crc32

import orjson

from fakedev.workqueue.job import Job, JobState

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
    """The line of a record."""
    # Half a surrogate pair, which JSON lines may contain, stays an escape.
    return _line(json.dumps(content, separators=(",", ":")))


def head_record(queue: str, last_job: int) -> bytes:
    """The first record of a log."""
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
    text = record.encode("ascii")
    return b"%d %08x %b\n" % (len(text), crc32(text), text)


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
        content = _content(line[:-1]) if line.endswith(b"\n") else None
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
    length, _, rest = line.partition(b" ")
    checksum, _, text = rest.partition(b" ")
    if length != b"%d" % len(text) or checksum != b"%08x" % crc32(text):
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
        arguments = tuple(str(each) for each in content["args"])
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
