"""Microsoft's Philly trace: jobs with the machine and the GPUs of each attempt, and usage of each GPU, each minute.

Files and keys: https://github.com/msr-fiddle/philly-traces. Times are those of a wall clock; only the usage names its
zone, which is not needed: both are of one place. The time of the trace begins with its first submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fakedev.replay.table_reader import NO_VALUE, Column, JsonRecords, TableForm, device_count, percent, word
from fakedev.replay.trace import Ids, IFolder, Trace, TraceJob, UseSeries, moved, nodes_of_jobs, nodes_of_table
from fakedev.replay.usage import Times, Values

JOBS: Final = "cluster_job_log"
MACHINES: Final = "cluster_machine_list"
USAGE: Final = "cluster_gpu_util"
#: How the name of a GPU begins; its place on the machine follows.
GPU: Final = "gpu"
#: As many as a row of the usage has.
_GPUS: Final = 8
_MACHINE_COLUMNS: Final = (
    Column("machineId", word, is_required=True),
    Column("number of GPUs", device_count, is_required=True),
    Column("single GPU mem", word, default=""),
)


def read_philly(folder: IFolder) -> Trace:
    """The trace of a folder; each GPU of each attempt is a job, and those of one attempt and machine are a pod.

    An attempt that has no end, and is the last of its job, runs to the last time in the file of the jobs.

    :raises TraceProblems: when it cannot be used.
    """
    left_out: Counter[str] = Counter()
    attempts = list(attempts_of(folder.records(JOBS), left_out))
    first = min((attempt.submit for attempt in attempts), default=0.0)
    last = max((attempt.start if attempt.end is None else attempt.end for attempt in attempts), default=0.0)
    jobs = [moved(job, -first) for attempt in attempts for job in _jobs(attempt, last)]
    series = _series(folder, first, left_out) if folder.has(USAGE) else {}
    jobs = [replace(job, series=gpu) if (gpu := f"{job.node}/{job.indices[0]}") in series else job for job in jobs]
    if folder.has(MACHINES):
        rows = folder.table(MACHINES, _MACHINE_COLUMNS, TableForm(is_padded=True))
        nodes = nodes_of_table(rows, "machineId", "single GPU mem", "number of GPUs")
    else:
        nodes = nodes_of_jobs(jobs)
    return Trace(nodes, jobs, series, dict(left_out))


def _jobs(attempt: Attempt, last: float) -> Iterator[TraceJob]:
    """A job for each of its GPUs."""
    end = last if attempt.end is None else attempt.end
    for machine, indices in attempt.devices.items():
        pod = f"{attempt.name}-{machine}"
        yield from (
            TraceJob(
                f"{pod}-{GPU}{index}", attempt.submit, attempt.start, end, node=machine, indices=(index,), pod=pod,
                has_failed=attempt.has_failed,
            )
            for index in indices
        )  # fmt: skip


def _series(folder: IFolder, first: float, left_out: Counter[str]) -> dict[str, UseSeries]:
    """The usage of each GPU in the window, and in the minute before it; where there is no value the last one holds."""
    times = Times(clock_seconds, folder.window, first)
    columns = (
        Column("time", times.seconds, is_required=True),
        Column("machineId", word, is_required=True),
        *(Column(f"{GPU}{index}_util", percent) for index in range(_GPUS)),
    )
    values = Values()
    lacking: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    keys = [column.name for column in columns[2:]]
    for row in folder.table(USAGE, columns, TableForm(is_padded=True, only=("time", times.is_inside))):
        machine, seconds = row["machineId"], row["time"]
        gpus = names.get(machine) or names.setdefault(machine, [f"{machine}/{index}" for index in range(_GPUS)])
        for gpu, key in zip(gpus, keys, strict=True):
            if row[key] is None:
                lacking[gpu] += 1
            else:
                values.add(gpu, seconds, row[key])
    series = values.series()
    unknown = sum(count for gpu, count in lacking.items() if gpu in series)
    if unknown:
        left_out["minutes of a GPU without a value: the value before it holds"] = unknown
    return series


#: The characters of a date and time; what follows is the zone.
_TIME_LENGTH: Final = len("2017-10-03 00:08:00")
#: Of names and times.
_LONGEST_TEXT: Final = 100


class Attempt(NamedTuple):
    """An attempt of a job; times are those of the wall clock."""

    name: str
    submit: float
    start: float
    end: float | None
    devices: Mapping[str, tuple[int, ...]]
    has_failed: bool


def attempts_of(records: JsonRecords, left_out: Counter[str]) -> Iterator[Attempt]:
    """The attempts that ran on GPUs; a job is refused as a whole."""
    ids = Ids(records)
    for record in records:
        try:
            attempts = list(_of_job(record, left_out))
        except ValueError as error:
            records.refuse("job", str(error))
            continue
        if ids.is_new("jobid", record["jobid"]) and all(
            ids.are_ordered(submitted_time=each.submit, start_time=each.start, end_time=each.end) for each in attempts
        ):
            yield from attempts


def _of_job(record: Mapping[str, Any], left_out: Counter[str]) -> Iterator[Attempt]:
    """The attempts of a job.

    :raises ValueError: when a value is not what it must be.
    """
    name = word(_of(record, "jobid", str))
    submit = _moment(record, "submitted_time")
    if not name or submit is None:
        raise ValueError("jobid and submitted_time are needed")
    attempts = _of(record, "attempts", list)
    if not attempts:
        left_out["jobs that never ran"] += 1
    for number, attempt in enumerate(attempts):
        if not isinstance(attempt, Mapping):
            raise ValueError("attempts: has what is no object")
        start, end = _moment(attempt, "start_time"), _moment(attempt, "end_time")
        devices = _devices(attempt)
        if start is None or (end is None and number < len(attempts) - 1):
            left_out["attempts without a time"] += 1
        elif not devices:
            left_out["attempts without GPUs"] += 1
        else:
            # The status is that of the job at its end; nothing says why an attempt had to be repeated.
            has_failed = number == len(attempts) - 1 and record.get("status") == "Failed"
            yield Attempt(f"{name}-{number}", submit, start, end, devices, has_failed)


def _devices(attempt: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The places of its GPUs, by machine."""
    found: dict[str, tuple[int, ...]] = {}
    for detail in _of(attempt, "detail", list):
        if not isinstance(detail, Mapping):
            raise ValueError("detail: has what is no object")
        gpus = _of(detail, "gpus", list)
        machine = word(_of(detail, "ip", str)) if gpus else ""
        if machine:
            found[machine] = tuple(sorted({_gpu(gpu) for gpu in gpus}))
        elif gpus:
            raise ValueError("detail: ip, the machine of its gpus, is empty")
    return found


def _gpu(text: object) -> int:
    number = text.removeprefix(GPU) if isinstance(text, str) else ""
    if not (number.isascii() and number.isdigit() and len(number) <= 2):
        raise ValueError(f"gpus: {str(text)[:40]!r} is no GPU, as {GPU}0")
    return int(number)


def _of(record: Mapping[str, Any], key: str, kind: type) -> Any:
    value = record.get(key)
    if not isinstance(value, kind):
        raise ValueError(f"{key}: {str(value)[:40]!r} is not a {'text' if kind is str else 'list'}")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise ValueError(f"{key}: is longer than {_LONGEST_TEXT} characters")
    return value


def _moment(record: Mapping[str, Any], key: str) -> float | None:
    """A time of the wall clock; None where there is no value."""
    value = record.get(key)
    if value is None or value in NO_VALUE:
        return None
    try:
        return clock_seconds(_of(record, key, str))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def clock_seconds(text: str) -> float:
    """Seconds since 1970 on the wall clock; the zone is not read."""
    try:
        return datetime.fromisoformat(text[:_TIME_LENGTH]).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is no time, as 2017-10-03 00:08:00 PDT") from None
