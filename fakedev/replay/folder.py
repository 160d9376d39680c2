"""The folder of a trace, and the summary before a replay begins.

Files on the disk are packed by gzip or not, and read as streams. The summary says what was read, what was left out,
and what the peak will be.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from zope.interface import implementer

from fakedev.base.errors import plain_reason
from fakedev.base.given_files import open_given
from fakedev.base.units import format_duration
from fakedev.replay.schedule import Oversized, Plan
from fakedev.replay.table_reader import PLAIN, Column, JsonRecords, Lenience, TableForm, TableRows, TraceProblems
from fakedev.replay.trace import IFolder, Window, most_devices

#: A longer line is no line of a table; it is not read to its end.
_LONGEST_LINE: Final = 100_000
#: Characters of a part in which a file without lines is read.
_PART: Final = 65_536
_PACKED: Final = ".gz"


@implementer(IFolder)
class TraceFolder:
    """A folder with files; each may be in the folder ``csv`` of it, and packed.

    :param lenience: of all files together.
    """

    def __init__(self, path: str, lenience: Lenience, window: Window) -> None:
        self._path = Path(path)
        self._lenience = lenience
        self.window = window

    def has(self, name: str) -> bool:
        return self._found(name) is not None

    def head(self, name: str) -> Sequence[str]:
        path = self._found(name)
        try:
            line = "" if path is None else next(_read(path, _lines), "")
        except UnicodeDecodeError:
            raise TraceProblems([f"{path}:1: is not UTF-8"]) from None
        return [part.strip() for part in line.removeprefix("\ufeff").split(",")] if line.strip() else []

    def table(self, name: str, columns: Sequence[Column], form: TableForm = PLAIN) -> TableRows:
        path = self._existing(name)
        return TableRows(_read(path, _lines), str(path), columns, self._lenience, form)

    def records(self, name: str) -> JsonRecords:
        path = self._existing(name)
        return JsonRecords(_read(path, _parts), str(path), self._lenience)

    def _existing(self, name: str) -> Path:
        path = self._found(name)
        if path is None:
            raise TraceProblems([f"{self._path / name}: there is no such file, and none with {_PACKED}"])
        return path

    def _found(self, name: str) -> Path | None:
        folders = (self._path, self._path / "csv")
        paths = (folder / file_name for folder in folders for file_name in (name, name + _PACKED))
        try:
            return next((path for path in paths if path.is_file()), None)
        except OSError as error:
            raise TraceProblems([f"{self._path / name}: {plain_reason(error)}"]) from None


def _read(path: Path, divided: Callable[[TextIO, Path], Iterator[str]]) -> Iterator[str]:
    """The text of a file in parts.

    :raises TraceProblems: when it cannot be read.
    """
    packed = path.suffix == _PACKED
    try:
        with (
            open_given(path) as file,
            TextIOWrapper(gzip.open(file) if packed else file, encoding="utf-8", newline="") as stream,
        ):
            yield from divided(stream, path)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TraceProblems([f"{path}: is not gzip, or is cut off: pack it again"]) from None
    except OSError as error:
        raise TraceProblems([f"{path}: {plain_reason(error)}"]) from None


def _lines(stream: TextIO, path: Path) -> Iterator[str]:
    number = 1
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise TraceProblems([f"{path}:{number}: the line is longer than {_LONGEST_LINE:,} characters"])
        yield line
        number += 1


def _parts(stream: TextIO, path: Path) -> Iterator[str]:
    while part := stream.read(_PART):
        yield part


#: Jobs and lines that are named; the rest is counted.
_SHOWN: Final = 10
#: Likewise of jobs that the replay ends: each of them, unless a whole trace does not fit.
_SHOWN_OF_MEMORY: Final = 1000


def head_lines(plan: Plan, devices: Mapping[str, str], lenience: Lenience, span_seconds: float) -> Iterator[str]:
    trace, placement = plan.trace, plan.placement
    counts: Counter[str] = Counter()
    for node in trace.nodes:
        counts[node.model] += node.devices
    total = sum(counts.values())
    kinds = ", ".join(f"{model or 'any'} {counts[model]:,} as {devices[model]}" for model in trace.models)
    yield f"nodes: {len(trace.nodes):,} with {total:,} devices: {kinds}"
    peak = most_devices(trace.jobs)
    yield (
        f"jobs: {len(trace.jobs):,} in {format_duration(span_seconds)}, at the peak on {peak:,.1f} devices "
        f"({100.0 * peak / total if total else 0.0:.0f} %)"
    )
    yield f"series: {len(trace.series):,}, of {sum(bool(job.series) for job in trace.jobs):,} jobs"
    if plan.made_up:
        yield f"usage made up: {plan.made_up}"
    failed = sum(job.has_failed for job in trace.jobs)
    if failed:
        yield f"failed in the trace, end well here: {failed:,} jobs"
    yield from (f"left out: {count:,} {what}" for what, count in sorted(trace.left_out.items()))
    yield from _named("left out: line that cannot be used", lenience.left_out)
    delayed = [f"{placed.job.name} by {format_duration(round(placed.delay_seconds))}" for placed in placement.delayed]
    yield from _named("had to wait for a place", delayed)
    yield from _named("no place: no such node or model, or too many devices", [job.name for job in placement.never])


def memory_lines(jobs: Sequence[Oversized]) -> Iterator[str]:
    """The lines of the head for jobs with more memory than their devices have."""
    names = [
        f"{job.job} ({job.asked_bytes / 2**30:.1f} GiB; {job.device} has {job.usable_bytes / 2**30:.1f})"
        for job in jobs
    ]
    yield from _named("end early, with more memory than their devices have", names, _SHOWN_OF_MEMORY)


def _named(what: str, names: Sequence[str], most: int = _SHOWN) -> Iterator[str]:
    if names:
        rest = f", and {len(names) - most:,} more" if len(names) > most else ""
        yield f"{what}: {len(names):,}: {', '.join(names[:most])}{rest}"
