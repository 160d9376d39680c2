"""The log of the jobs of Microsoft's Philly trace: the attempts of each job, with their machines and GPUs.

Keys: https://github.com/msr-fiddle/philly-traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fakedev.traces.json_records import JsonRecords
from fakedev.traces.rules import Ids
from fakedev.traces.table import NO_VALUE, word

#: How the name of a GPU begins; its place on the machine follows.
GPU: Final = "gpu"
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
        if ids.is_new("jobid", record["jobid"]) and all(_is_ordered(ids, each) for each in attempts):
            yield from attempts


def _is_ordered(ids: Ids, attempt: Attempt) -> bool:
    end = attempt.start if attempt.end is None else attempt.end
    return ids.is_ordered("start_time", attempt.submit, attempt.start, "submitted_time") and ids.is_ordered(
        "end_time", attempt.start, end, "start_time"
    )


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
    for number, each in enumerate(attempts):
        if not isinstance(each, Mapping):
            raise ValueError("attempts: has what is no object")
        start, end = _moment(each, "start_time"), _moment(each, "end_time")
        devices = _devices(each)
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
    for each in _of(attempt, "detail", list):
        if not isinstance(each, Mapping):
            raise ValueError("detail: has what is no object")
        gpus = _of(each, "gpus", list)
        if gpus:
            found[word(_of(each, "ip", str))] = tuple(sorted({_gpu(gpu) for gpu in gpus}))
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
