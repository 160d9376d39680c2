"""Runs as CSV: as nvidia-smi prints it, or with columns that are named here."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fakedev.calibration.runs import (
    CLOCK,
    HEAT,
    KINDS,
    LIMIT,
    MEMORY_HEAT,
    OPTIONAL,
    POWER,
    REQUIRED,
    USAGE,
    Run,
    RunError,
    Sample,
    run_of,
)  # fmt: skip
from fakedev.spec.errors import printable

TIME: Final = "time"
WORK: Final = "work"
#: Columns that say which board a row is of.
_BOARD: Final = ("index", "uuid", "gpu_uuid", "serial", "pci.bus_id")
#: Units, and the factor to that of the quantity.
_PERCENT: Final = {"%": 0.01, "percent": 0.01, "ratio": 1.0}
_WATTS: Final = {"w": 1.0, "mw": 1e-3, "kw": 1e3}
_MEGAHERTZ: Final = {"mhz": 1.0, "hz": 1e-6, "khz": 1e-3, "ghz": 1e3}
_CELSIUS: Final = {"c": 1.0, "celsius": 1.0}
#: What nvidia-smi prints for what a board does not show.
_ABSENT: Final = ("", "[n/a]", "n/a", "[not supported]", "[unknown error]")
#: Characters of a wrong text that an error shows.
_SHOWN: Final = 40


@dataclass(frozen=True)
class Column:
    """A column that a run may have.

    :param quantity: what it is, in fakedev's words.
    :param names: what the head of the file may call it, in lower case; the first is ours, the others nvidia-smi's.
    :param units: by name in lower case, the factor to the quantity's unit; the first one holds where none is given.
    """

    quantity: str
    names: tuple[str, ...]
    units: dict[str, float]


COLUMNS: Final = (
    Column(USAGE, ("usage", "utilization.gpu"), _PERCENT),
    Column(POWER, ("power", "power.draw", "power.draw.instant", "power.draw.average"), _WATTS),
    Column(CLOCK, ("clock", "clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics"), _MEGAHERTZ),
    Column(HEAT, ("temperature", "temperature.gpu"), _CELSIUS),
    Column(MEMORY_HEAT, ("memory-temperature", "temperature.memory"), _CELSIUS),
    Column(LIMIT, ("power-limit", "power.limit", "enforced.power.limit"), _WATTS),
)
_TIMES: Final = (TIME, "timestamp", "seconds")


def read_csv(text: str, file: str) -> tuple[Run, tuple[str, ...]]:
    """A run, and the names of columns that were not used.

    :param file: its name, for errors.
    :raises RunError: when the text is no such CSV; with line, column and reason.
    """
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    head: _Head | None = None
    samples: list[Sample] = []
    try:
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            place = f"{file}:{rows.line_num}"
            if head is None:
                head = _Head(cells, place)
            else:
                samples.append(head.sample(cells, place))
    except csv.Error as error:
        raise RunError(f"{file}:{rows.line_num}: this is no CSV: {error}") from None
    if head is None:
        raise RunError(f"{file}: the file is empty: its first line names the columns, as {_example()}")
    return run_of(samples, file), head.unused


class _Head:
    """The first line: which column is what, and in which unit."""

    def __init__(self, cells: Sequence[str], place: str) -> None:
        self._titles = [printable(cell.strip())[:_SHOWN] for cell in cells]
        self._columns: dict[int, tuple[Column, float]] = {}
        self._places: dict[str, int] = {}
        self._boards: dict[int, str] = {}
        self.unused: tuple[str, ...] = ()
        for number, cell in enumerate(cells):
            self._add(number, cell.strip().lower(), f"{place}:{number + 1}")
        missing = [name for name in (TIME, *REQUIRED) if name not in self._places]
        if missing:
            names = {TIME: _TIMES, **{column.quantity: column.names for column in COLUMNS}}
            wanted = "; ".join(f"{name}: {' or '.join(names[name])}" for name in missing)
            raise RunError(f"{place}: columns are missing ({wanted}); the first line names them, as {_example()}")

    def _add(self, number: int, title: str, place: str) -> None:
        name, _, rest = title.partition("[")
        name, unit = name.strip(), rest.strip().removesuffix("]").strip()
        column = next((each for each in COLUMNS if name in each.names or name == each.quantity), None)
        what = TIME if name in _TIMES else WORK if name == WORK else column.quantity if column else ""
        if not what:
            if name in _BOARD:
                self._boards[number] = ""
            else:
                self.unused = (*self.unused, self._titles[number])
            return
        if what in self._places:
            if column and what in OPTIONAL:
                return
            first = self._titles[self._places[what]]
            raise RunError(f"{place}: {self._titles[number]!r} is {what} as {first!r} is: leave one out")
        self._places[what] = number
        if column:
            factor = 1.0 if name == column.quantity and not unit else _factor(unit, column, place)
            self._columns[number] = column, factor

    def sample(self, cells: Sequence[str], place: str) -> Sample:
        """The sample of a line."""
        if len(cells) != len(self._titles):
            raise RunError(f"{place}: {len(cells)} cells, and the first line has {len(self._titles)}")
        for number, before in self._boards.items():
            cell = cells[number].strip()
            if before and cell != before:
                raise RunError(
                    f"{place}:{number + 1}: another board, {printable(cell)[:_SHOWN]!r}: give the rows of one, "
                    "as nvidia-smi -i 0 prints them"
                )
            self._boards[number] = cell
        numbers = {}
        for number, (column, factor) in self._columns.items():
            cell = cells[number].strip()
            if cell.lower() in _ABSENT and column.quantity in OPTIONAL:
                continue
            numbers[column.quantity] = _number(cell, column, factor, f"{place}:{number + 1}: {self._titles[number]}")
        at = self._places[TIME]
        kind = cells[self._places[WORK]].strip() if WORK in self._places else KINDS[0]
        if kind not in KINDS:
            where = f"{place}:{self._places[WORK] + 1}"
            raise RunError(f"{where}: no work {printable(kind)[:_SHOWN]!r}: there is {', '.join(KINDS)}")
        return Sample(place, _seconds(cells[at].strip(), f"{place}:{at + 1}"), numbers, kind)


def _factor(unit: str, column: Column, place: str) -> float:
    found = next(iter(column.units.values())) if not unit else column.units.get(unit.lower())
    if found is None:
        units = ", ".join(column.units)
        raise RunError(f"{place}: no unit {printable(unit)[:_SHOWN]!r} of {column.quantity}: there is {units}")
    return found


def _number(cell: str, column: Column, factor: float, place: str) -> float:
    """The number of a cell; a unit after it replaces that of the head."""
    text, _, unit = cell.partition(" ")
    try:
        number = float(text)
    except ValueError:
        raise RunError(f"{place}: {printable(cell)[:_SHOWN]!r} is no number") from None
    if not math.isfinite(number):
        raise RunError(f"{place}: {printable(cell)[:_SHOWN]!r} is no number that a board shows")
    # Division by a whole number keeps 69850 mW and 69.85 W the same to the last digit.
    used = _factor(unit.strip(), column, place) if unit else factor
    return number / round(1.0 / used) if used < 1.0 else number * used


def _seconds(cell: str, place: str) -> float:
    """The time of a cell: seconds from any origin, or date and time."""
    try:
        seconds = float(cell)
    except ValueError:
        try:
            when = datetime.fromisoformat(cell.replace("/", "-"))
            seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            shown = printable(cell)[:_SHOWN]
            raise RunError(f"{place}: {shown!r} is no time: give seconds, or 2026/01/31 13:59:00.250") from None
    if not math.isfinite(seconds) or abs(seconds) > 1e12:
        raise RunError(f"{place}: {printable(cell)[:_SHOWN]!r} is no time")
    return seconds


def _example() -> str:
    return "time [s], usage [%], power [W], clock [MHz], temperature [C]"
