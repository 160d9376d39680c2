"""What tables of nodes and jobs have in common: unique names, times in order, rows that are no jobs to be replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fakedev.traces.model import WHOLE_THOUSANDTHS, TraceJob
from fakedev.traces.table import Column, Problems, read_table


def node_rows(
    content: bytes, file: str, columns: Sequence[Column], problems: Problems
) -> Iterator[Mapping[str, Any]]:
    """The rows of a table of nodes; the first column is the name, and a second row of the same name is wrong.

    :raises BadTrace: for what is no table, or lacks a column.
    """
    first: dict[str, int] = {}
    key = columns[0].name
    for line, row in read_table(content, file, columns, problems):
        if row[key] in first:
            problems.add(file, line, key, f"{row[key]!r} is in line {first[row[key]]} already")
            continue
        first[row[key]] = line
        yield row


class JobRows:
    """The rows of a table of jobs, and the jobs made of them.

    :ivar left_out: how many rows are no jobs to be replayed, by the reason.
    """

    def __init__(self, content: bytes, file: str, columns: Sequence[Column], problems: Problems) -> None:
        self._rows = read_table(content, file, columns, problems)
        self._file = file
        self._problems = problems
        self._first: dict[str, int] = {}
        self._jobs: list[TraceJob] = []
        self.left_out: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for row in self._rows:
            yield row.line, row.values

    def leave_out(self, reason: str) -> None:
        """Count a row that is no job to be replayed."""
        self.left_out[reason] += 1

    def add(
        self, line: int, name: str, *, start: float, end: float | None, submit: float | None, devices: int,
        thousandths: int = WHOLE_THOUSANDTHS, models: tuple[str, ...] = (), node: str = "",
    ) -> None:  # fmt: skip
        """Make a job of a row, unless something is wrong with it; times are in seconds."""
        if name in self._first:
            self._problems.add(self._file, line, "name", f"{name!r} is in line {self._first[name]} already")
        elif end is not None and end < start:
            self._problems.add(self._file, line, "", f"{name!r} ends at {end:g}, before its start at {start:g}")
        elif submit is not None and submit > start:
            self._problems.add(self._file, line, "", f"{name!r} starts at {start:g}, before it was submitted")
        elif not thousandths:
            self._problems.add(self._file, line, "", f"{name!r} asks for no part of its device")
        elif end == start:
            self.leave_out("of no length")
        else:
            self._first[name] = line
            self._jobs.append(TraceJob(name, start, end, submit, devices, thousandths, models, node))

    def in_order(self) -> tuple[TraceJob, ...]:
        """The jobs, by start, then in the order of the file."""
        return tuple(sorted(self._jobs, key=lambda job: job.start_seconds))
