"""``--query-gpu`` and ``--query-compute-apps``: fields as comma-separated values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.nvml.smi.columns import ABSENT_CELL, Column, chosen
from fakedev.nvml.smi.columns_of_errors import BY_NAME
from fakedev.nvml.smi.failures import bad_argument
from fakedev.nvml.smi.snapshot import Board, View
from fakedev.nvml.smi.values import mib_of

_FORMATS: Final = ("csv", "noheader", "nounits")


class Format(NamedTuple):
    """How fields are printed."""

    has_titles: bool
    has_units: bool


def format_of(given: Mapping[str, str]) -> Format:
    """What ``--format`` says.

    :raises Failure: without ``csv``, or with another word.
    """
    words = [word.strip() for word in given.get("format", "").split(",")]
    wrong = [word for word in words if word not in _FORMATS]
    if "format" not in given or "csv" not in words or wrong:
        reason = f"unknown: {', '.join(wrong)}" if "format" in given and wrong else "csv is missing"
        text = f"ERROR: Fields need --format=csv[,noheader][,nounits]; {reason}. Please run 'nvidia-smi -h'.\n"
        raise bad_argument(text)
    return Format("noheader" not in words, "nounits" not in words)


class AppColumn(NamedTuple):
    """A field of a process.

    :ivar unit: after the values, and in brackets in the head of a column; empty: none.
    """

    name: str
    read: Callable[[Board, View], str | None]
    doc: str
    unit: str = ""
    aliases: tuple[str, ...] = ()


def _of_board(column: Column) -> Callable[[Board, View], str | None]:
    return lambda board, process: column.read(board)


APP_COLUMNS: Final = (
    *(
        AppColumn(name, _of_board(BY_NAME[name]), BY_NAME[name].doc)
        for name in ("timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid")
    ),
    AppColumn("pid", lambda board, process: str(process.count("pid")),
              "Process; over 4194303 for a workload that has none."),
    AppColumn("process_name", lambda board, process: process.text("name"), "Name of the workload.", "", ("name",)),
    AppColumn("used_gpu_memory", lambda board, process: mib_of(process, "memory_used"), "Memory that it holds.", "MiB",
              ("used_memory",)),
)  # fmt: skip
_APPS_BY_NAME: Final = {name: column for column in APP_COLUMNS for name in (column.name, *column.aliases)}


def gpu_query(fields: str, form: Format) -> Callable[[Sequence[Board], bool], Iterator[str]]:
    """What prints the lines of a query of boards, with the titles or without.

    :raises Failure: for an unknown field.
    """
    columns = chosen(fields, BY_NAME)

    def lines(boards: Sequence[Board], is_first: bool) -> Iterator[str]:
        if is_first and form.has_titles:
            yield _titles([(column.name, column.unit) for column in columns], form)
        for board in boards:
            yield ", ".join(column.cell(board, has_unit=form.has_units) for column in columns)

    return lines


def app_query(fields: str, form: Format) -> Callable[[Sequence[Board], bool], Iterator[str]]:
    """What prints the lines of a query of processes, with the titles or without.

    :raises Failure: for an unknown field.
    """
    columns = chosen(fields, _APPS_BY_NAME)

    def cell(column: AppColumn, board: Board, process: View) -> str:
        found = column.read(board, process)
        unit = f" {column.unit}" if column.unit and form.has_units else ""
        return ABSENT_CELL if found is None else found + unit

    def lines(boards: Sequence[Board], is_first: bool) -> Iterator[str]:
        if is_first and form.has_titles:
            yield _titles([(column.name, column.unit) for column in columns], form)
        for board in boards:
            for process in board.processes:
                if process.number("is_graphics") != 1:
                    yield ", ".join(cell(column, board, process) for column in columns)

    return lines


def _titles(columns: Sequence[tuple[str, str]], form: Format) -> str:
    return ", ".join(f"{name} [{unit}]" if unit and form.has_units else name for name, unit in columns)
