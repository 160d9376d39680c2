"""A recorded run of one board: samples over time, checked and in fakedev's units, from CSV or from Prometheus.

- CSV: as nvidia-smi prints it, or with columns that are named here.
- Series of a Prometheus: an OpenMetrics text with times, or the answer to a query for raw samples.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from fakedev.base.errors import printable
from fakedev.exporters.samples import Labels, Row, WrongLine, is_openmetrics, read_lines
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.spec.fleet_spec import MetricName

USAGE: Final = "usage_ratio"
POWER: Final = "power_watts"
CLOCK: Final = "core_frequency_mhz"
HEAT: Final = "temperature_celsius"
MEMORY_HEAT: Final = "memory_temperature_celsius"
LIMIT: Final = "power_limit_watts"
#: What every sample must have, and what it may have.
REQUIRED: Final = (USAGE, POWER, CLOCK, HEAT)
OPTIONAL: Final = (MEMORY_HEAT, LIMIT)
#: Kinds of work that a run may consist of: those whose power the coefficients tell.
KINDS: Final = ("compute", "tensor", "memory")
#: Fewer samples tell too little; the fit of more takes minutes.
MIN_SAMPLES, MAX_SAMPLES = 60, 20_000
#: No board shows a larger number, in any of the units.
_LARGEST: Final = 1e6


class RunError(ValueError):
    """A run that cannot be used; ``str`` of it has the place, the reason and the remedy."""


@dataclass(frozen=True)
class Sample:
    """One sample.

    :param place: where it was read, for errors: ``run.csv:7``.
    :param seconds: its time, from any origin.
    :param numbers: by quantity; an optional one that was not shown is absent.
    :param kind: the kind of work, one of :data:`KINDS`.
    """

    place: str
    seconds: float
    numbers: Mapping[str, float]
    kind: str = KINDS[0]


@dataclass(frozen=True)
class Run:
    """A run of T samples.

    :param seconds: since the first sample, increasing: shape (T,).
    :param numbers: of each quantity, shape (T,).
    :param kinds: the kind of work of each sample.
    """

    seconds: Floats
    numbers: Mapping[str, Floats] = field(repr=False)
    kinds: tuple[str, ...] = field(repr=False)

    @property
    def steps_seconds(self) -> Floats:
        """The time from each sample to the next one: shape (T - 1,)."""
        return np.diff(self.seconds)

    def of_kind(self, kind: str) -> Mask:
        """The samples with a kind of work."""
        return np.array([sample_kind == kind for sample_kind in self.kinds], dtype=np.bool_)

    def with_work(self, begins: Sequence[tuple[float, str]]) -> Run:
        """The same run with other kinds of work.

        :param begins: (seconds since the first sample, the kind of work from there on).
        """
        kinds = np.array(self.kinds, dtype=object)
        for seconds, kind in sorted(begins):
            kinds[self.seconds >= seconds] = kind
        return replace(self, kinds=tuple(kinds.tolist()))


def run_of(samples: Sequence[Sample], where: str) -> Run:
    """The run of some samples. Samples of the same time count as one, with their mean.

    :param where: the name of what was read, for errors.
    :raises RunError: for times that go back, numbers that no board shows, and too few or too many samples.
    """
    for before, after in pairwise(samples):
        if after.seconds < before.seconds:
            back = before.seconds - after.seconds
            raise RunError(f"{after.place}: the time goes back by {back:g} s: sort the samples by time")
    for sample in samples:
        _check(sample)
    merged = [_mean(list(group)) for _, group in groupby(samples, key=lambda each: each.seconds)]
    if not MIN_SAMPLES <= len(merged) <= MAX_SAMPLES:
        remedy = "record longer" if len(merged) < MIN_SAMPLES else "record fewer a second, or a part of the run"
        raise RunError(f"{where}: {len(merged)} samples, not {MIN_SAMPLES} to {MAX_SAMPLES}: {remedy}")
    if not any(sample.numbers[POWER] > 0 and sample.numbers[CLOCK] > 0 for sample in merged):
        raise RunError(f"{where}: no sample has both a power and a clock over 0: record a board that works")
    shown = [name for name in OPTIONAL if all(name in sample.numbers for sample in merged)]
    seconds = np.array([sample.seconds - merged[0].seconds for sample in merged])
    numbers = {name: np.array([sample.numbers[name] for sample in merged]) for name in (*REQUIRED, *shown)}
    return Run(seconds, numbers, tuple(sample.kind for sample in merged))


def _check(sample: Sample) -> None:
    for name, number in sample.numbers.items():
        least = -_LARGEST if name.endswith("_celsius") else 0.0
        most = 1.0 if name == USAGE else _LARGEST
        if not least <= number <= most:
            raise RunError(
                f"{sample.place}: {name} is {number:g}, which is not within {least:g} to {most:g}: check its unit"
            )


def _mean(samples: Sequence[Sample]) -> Sample:
    """Samples of the same time as one; their order makes no difference, not even in the last digit."""
    first = samples[0]
    if len(samples) == 1:
        return first
    names = [name for name in (*REQUIRED, *OPTIONAL) if all(name in sample.numbers for sample in samples)]
    means = {name: math.fsum(sample.numbers[name] for sample in samples) / len(samples) for name in names}
    return replace(first, numbers=means, kind=min(sample.kind for sample in samples))


TIME: Final = "time"
WORK: Final = "work"
#: Columns that say which board a row is of.
_BOARD: Final = ("index", "uuid", "gpu_uuid", "serial", "pci.bus_id")
#: Units, and the factor to the quantity's unit.
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
_EXAMPLE: Final = "time [s], usage [%], power [W], clock [MHz], temperature [C]"


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
        raise RunError(f"{file}: the file is empty: its first line names the columns, as {_EXAMPLE}")
    return run_of(samples, file), tuple(head.unused)


class _Head:
    """The first line: which column is what, and in which unit."""

    def __init__(self, cells: Sequence[str], place: str) -> None:
        self._titles = [printable(cell.strip())[:_SHOWN] for cell in cells]
        self._columns: dict[int, tuple[Column, float]] = {}
        self._places: dict[str, int] = {}
        self._boards: dict[int, str] = {}
        self.unused: list[str] = []
        for number, cell in enumerate(cells):
            self._add(number, cell.strip().lower(), f"{place}:{number + 1}")
        missing = [name for name in (TIME, *REQUIRED) if name not in self._places]
        if missing:
            names = {TIME: _TIMES, **{column.quantity: column.names for column in COLUMNS}}
            wanted = "; ".join(f"{name}: {' or '.join(names[name])}" for name in missing)
            raise RunError(f"{place}: columns are missing ({wanted}); the first line names them, as {_EXAMPLE}")

    def _add(self, number: int, title: str, place: str) -> None:
        name, _, rest = title.partition("[")
        name, unit = name.strip(), rest.strip().removesuffix("]").strip()
        column = next((column for column in COLUMNS if name in column.names or name == column.quantity), None)
        what = TIME if name in _TIMES else WORK if name == WORK else column.quantity if column else ""
        if not what:
            if name in _BOARD:
                self._boards[number] = ""
            else:
                self.unused.append(self._titles[number])
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
    """The number of a cell; a unit after it replaces the unit of the head."""
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


_SHOWN_OF_SERIES: Final = 60
#: Text format 0.0.4 has milliseconds, OpenMetrics has seconds.
_MILLISECONDS: Final = 1000.0


class Point(NamedTuple):
    """A sample of a series: where it was read, its time in seconds, its number."""

    place: str
    seconds: float
    number: float


class Series(NamedTuple):
    """The samples of a family with one set of labels."""

    family: str
    labels: Mapping[str, str]
    points: Sequence[Point]


def read_openmetrics(text: str, file: str) -> list[Series]:
    """The series of a text.

    :param file: its name, for errors.
    :raises RunError: for a line that is no sample, or one without a time.
    """
    page = text.encode()
    per_second = 1.0 if is_openmetrics(page) else _MILLISECONDS
    found: dict[tuple[str, Labels], list[Point]] = {}
    try:
        for number, row in read_lines(page):
            if not isinstance(row, Row):
                continue
            place = f"{file}:{number}"
            if row.time is None:
                raise RunError(f"{place}: the sample has no time: fakedev render --openmetrics and promtool write it")
            seconds, value = _sample_number(row.time, place) / per_second, _sample_number(row.number, place)
            found.setdefault((row.name, row.labels), []).append(Point(place, seconds, value))
    except WrongLine as error:
        raise RunError(f"{file}:{error.number}: this is no sample: {printable(error.shown)}") from None
    return [Series(family, dict(labels), points) for (family, labels), points in found.items()]


def read_answer(data: Any, where: str) -> list[Series]:
    """The series in the data of a Prometheus's answer to an instant query with a range, as ``up[30m]``.

    :param where: what was asked, for errors.
    :raises RunError: for data of another form.
    """
    try:
        return [_series(row, where) for row in data["result"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{where}: the answer does not come from a Prometheus") from None


def _series(result: Any, where: str) -> Series:
    labels = {str(name): str(value) for name, value in result["metric"].items()}
    points = [
        Point(where, _sample_number(str(time), where), _sample_number(str(value), where))
        for time, value in result["values"]
    ]
    return Series(labels.pop("__name__", ""), labels, points)


def run_of_series(
    series: Sequence[Series], names: Mapping[str, MetricName], only: Mapping[str, str], where: str
) -> Run:
    """The run of one board. Samples count at the times at which all that is required has one.

    :param names: quantity and unit of each family.
    :param only: labels that a series must have.
    :param where: what was read, for errors.
    :raises RunError: when a quantity is missing, when there are several boards, and as :func:`run_of`.
    """
    of_quantity: dict[str, tuple[Series, float]] = {}
    for row in series:
        name = names.get(row.family)
        if name is None or name.quantity not in (*REQUIRED, *OPTIONAL):
            continue
        if any(row.labels.get(label) != value for label, value in only.items()):
            continue
        other = of_quantity.setdefault(name.quantity, (row, name.factor))[0]
        if other is not row and other.family == row.family:
            raise RunError(f"{where}: several boards have {row.family}: {_choice(other.labels, row.labels)}")
    missing = [name for name in REQUIRED if name not in of_quantity]
    if missing:
        wanted = "; ".join(f"{quantity}: {_families(quantity, names)}" for quantity in missing)
        raise RunError(f"{where}: no series shows {', '.join(missing)}; families of the identity: {wanted}")
    at: dict[float, dict[str, float]] = {}
    places: dict[float, str] = {}
    for quantity, (found, factor) in of_quantity.items():
        for point in found.points:
            at.setdefault(point.seconds, {})[quantity] = point.number / factor
            places.setdefault(point.seconds, point.place)
    whole = [moment for moment in sorted(at) if all(name in at[moment] for name in REQUIRED)]
    return run_of([Sample(places[moment], moment, at[moment]) for moment in whole], where)


def _sample_number(text: str, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RunError(f"{place}: {printable(text)[:_SHOWN_OF_SERIES]!r} is no number that a board shows")
    return number


def _choice(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """How to choose between series of two boards."""
    label = next((label for label in sorted(one) if one[label] != other.get(label)), "")
    if not label:
        return "their labels do not distinguish them"
    return f"choose one, as --only {label}={printable(one[label])[:_SHOWN_OF_SERIES]}"


def _families(quantity: str, names: Mapping[str, MetricName]) -> str:
    found = [family for family, name in names.items() if name.quantity == quantity]
    return " or ".join(found[:3]) or "none"
