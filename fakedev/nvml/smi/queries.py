"""``--query-gpu`` and ``--query-compute-apps`` as comma-separated values, and their lists of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fakedev.nvml.smi.boards import Board, Lines, bad_argument
from fakedev.nvml.smi.fields import BY_NAME, COLUMNS, Column, columns

_FORMATS: Final = ("csv", "noheader", "nounits")


def _formats(given: Mapping[str, str]) -> list[str]:
    """What ``--format`` says.

    :raises Failure: without ``csv``, or with another word.
    """
    words = [word.strip() for word in given.get("format", "").split(",")]
    wrong = [word for word in words if word not in _FORMATS]
    if "format" not in given or "csv" not in words or wrong:
        reason = f"unknown: {', '.join(wrong)}" if "format" in given and wrong else "csv is missing"
        text = f"ERROR: Fields need --format=csv[,noheader][,nounits]; {reason}. Please run 'nvidia-smi -h'.\n"
        raise bad_argument(text)
    return words


def _columns(name: str) -> Sequence[Column]:
    return COLUMNS if name == "query-gpu" else tuple(columns(name, BY_NAME))


def query(name: str, given: Mapping[str, str]) -> Lines:
    """What prints a query.

    :param name: of the option: ``query-gpu`` or ``query-compute-apps``.
    :raises Failure: for an unknown field, and a wrong ``--format``.
    """
    known = BY_NAME
    if name != "query-gpu":
        known = {alias: column for column in _columns(name) for alias in (column.name, *column.aliases)}
    words = [word.strip() for word in given[name].split(",")]
    formats = _formats(given)
    for word in words:
        if word not in known:
            raise bad_argument(f'Field "{word}" is not a valid field to query.\n')
    chosen, has_unit = [known[word] for word in words], "nounits" not in formats

    def rows(boards: Sequence[Board]) -> Iterator[str]:
        for row in boards if name == "query-gpu" else _compute(boards):
            yield ", ".join(column.cell(row, has_unit=has_unit) for column in chosen)

    titles = ", ".join(f"{each.name} [{each.unit}]" if each.unit and has_unit else each.name for each in chosen)
    return () if "noheader" in formats else (titles,), rows


def _compute(boards: Sequence[Board]) -> Iterator[Board]:
    """The boards for each of their processes that are not of graphics."""
    for row in (row for board in boards for row in board.of_processes()):
        if row.process and row.process.number("is_graphics") != 1:
            yield row


def fields_text(name: str) -> str:
    """What ``--help-query-gpu`` or ``--help-query-compute-apps`` prints.

    :param name: ``query-gpu`` or ``query-compute-apps``.
    """
    title = f'List of valid properties to query for the switch "--{name}" (all values are simulated by fakedev):'
    lines = [title, ""]
    for column in _columns(name):
        lines += [" or ".join(f'"{word}"' for word in (column.name, *column.aliases)), column.doc, ""]
    return "\n".join(lines)
