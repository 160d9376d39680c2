"""Profiles of workloads and of metrics, and schedules: their keys; recorded series from CSV files."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from fakedev.config.catalog import Catalog
from fakedev.config.schema.documents import is_clean
from fakedev.config.schema.nodes import Place, Report
from fakedev.config.schema.schema import Key, Section, Type, Values
from fakedev.config.schema.types import Boolean, Choice, Integer, ListOf, MapOf, Number, OneOf, Text
from fakedev.spec.profiles import MAX_ACTIVITIES, MAX_SPREAD
from fakedev.spec.units import parse_duration

_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d*)?([eE][+-]?\d{1,2})?")
_FUNCTION = MapOf(ListOf(OneOf((Number(), Text()))), words="mapping of a value function to its values")
_SECONDS = Key(
    "seconds",
    OneOf((Number(0), Text("duration", parse_duration))),
    "How long, in seconds or as 90s or 5m; 0 in the last activity: until stopped.",
    default=0.0,
)
_ONCE = Key(
    "once", Boolean(), "It belongs to the beginning, which a profile that repeats does not repeat.", default=False
)

ACTIVITY = Section(
    "workloads.base.profile",
    (
        Key(
            "load",
            OneOf((Number(0, 100), _FUNCTION, Text("value function"))),
            "Mean load, or a value function, as ramp(0,90) or {ramp: [0, 90]}.",
            default=0.0,
            unit="%",
        ),
        Key("fluctuation", Number(0, 100), "Values stay within load +/- this.", default=0.0, unit="%"),
        _SECONDS,
        Key(
            "spread",
            Number(1, MAX_SPREAD),
            "How far its length varies: drawn for each workload and run, mostly within seconds divided by this and "
            "seconds times this.",
            default=1.0,
        ),
        _ONCE,
    ),
    doc="One activity of a profile.",
)

METRIC_ACTIVITY = Section(
    "workloads.base.metrics",
    (
        Key(
            "value",
            OneOf((Number(0), _FUNCTION, Text("size, share or value function"))),
            "Mean value, as 40GiB or 50%, or a value function.",
            default=0.0,
        ),
        Key(
            "fluctuation",
            OneOf((Number(0), Text("size or share"))),
            "Values stay within value +/- this.",
            default=0.0,
        ),
        _SECONDS,
        _ONCE,
    ),
    doc="One activity of a metric.",
)

SERIES = Section(
    "workloads.base.series",
    (
        Key(
            "csv",
            Text("path"),
            "A file whose first line is time,value. Times are seconds, or durations, and go up.",
            required=True,
        ),
        Key(
            "join",
            Choice(("hold", "linear")),
            "hold: a value lasts until the next time, the last one as long as the one before it; linear: straight "
            "lines from value to value, up to the last time.",
            default="hold",
        ),
    ),
    doc="A recorded series, in place of a profile.",
)


SCHEDULED = Section(
    "workloads.base.profile.schedule",
    (
        Key(
            "time",
            OneOf((Number(0), Text("duration", parse_duration))),
            "How long, in seconds or as 1h or 90s; 0 in the last entry: until stopped.",
            default=0.0,
        ),
        Key("utilization", Number(0, 100), "Mean load.", required=True, unit="%"),
    ),
    doc="One entry of a schedule of utilization; a list of such entries may also be a profile.",
    mark="utilization",
)

#: How often a profile runs.
REPEAT = Integer(0, 2**53)

SCHEDULE = Section(
    "workloads.base.schedule",
    (
        Key("schedule", ListOf(SCHEDULED, 1, words="list of entries"), "The entries, in their order.", required=True),
        Key(
            "repeat",
            REPEAT,
            "How often; 0: for ever. The workload's own repeat wins.",
            default_words="the workload's repeat",
        ),
    ),
    doc="A schedule of utilization, in place of a profile.",
    mark="schedule",
)


def profile_types(activities: tuple[Section, ...], first: str) -> tuple[Type, ...]:
    """The types of a profile, apart from plain numbers, series and schedules.

    :param activities: the sections that an entry may be.
    :param first: the word for its values.
    """
    values = OneOf((Number(), _FUNCTION, Text("value")))
    triple = ListOf(values, words=f"list of {first}, fluctuation, seconds")
    entries = OneOf((triple, *activities, Text(f"{first}:fluctuation:seconds")))
    return ListOf(entries, 1, words="list of activities"), Text(f"{first}:fluctuation:seconds,...", longest=65_536)


#: Intensities: one for all activities, or one each.
INTENSITY = OneOf(
    (
        Number(0, 100),
        Text("percent:fluctuation,..."),
        ListOf(OneOf((Number(0, 100), ListOf(Number(0, 100), words="list of percent, fluctuation"))), 1,
               words="list of percents"),
    ),
    "percent, percent:fluctuation,... or list of percents",
)  # fmt: skip


class Point(NamedTuple):
    """A line of a series."""

    seconds: float
    value: object


class Series:
    """Reads series; problems are reported with file and line."""

    def __init__(self, catalog: Catalog, report: Report) -> None:
        self._catalog = catalog
        self._report = report

    def activities(self, values: Values, check: Callable[[object], object]) -> list[list[object]] | None:
        """[value, fluctuation, seconds] of each step of a series; None when it cannot be used.

        With ``hold`` a value lasts until the next time, the last one as long as the one before it; with ``linear`` the
        values are joined by ramps, and the last time is the end. A series of one value lasts until stopped.

        :param check: raises ValueError for a value that cannot be.
        """
        if values["csv"] is None:
            return None
        found = self._catalog.text(values["csv"], values.place_of("csv"), "the series")
        if found is None or not is_clean(*found, self._report):
            return None
        points = self._points(*found, check)
        if points is None:
            return None
        if len(points) == 1:
            return [[points[0].value, 0, 0]]
        if values["join"] == "linear":
            return [
                [{"ramp": [one.value, other.value]}, 0, other.seconds - one.seconds] for one, other in pairwise(points)
            ]
        lengths = [other.seconds - one.seconds for one, other in pairwise(points)]
        return [[point.value, 0, length] for point, length in zip(points, [*lengths, lengths[-1]], strict=True)]

    def _points(self, text: str, shown: str, check: Callable[[object], object]) -> list[Point] | None:
        reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
        points: list[Point] = []
        before = len(self._report.sorted_problems())
        try:
            columns = [column.strip() for column in reader.fieldnames or ()]
            reader.fieldnames = columns
            for column in ("time", "value"):
                if column not in columns:
                    self._problem(Place(shown, 1), f"has no column {column!r}: the first line is time,value")
                    return None
            for row in reader:
                place = Place(shown, reader.line_num)
                if len(points) > MAX_ACTIVITIES:
                    self._problem(place, f"has more than {MAX_ACTIVITIES} values")
                    return None
                point = self._point(row, place, points, check)
                if point is not None:
                    points.append(point)
        except csv.Error as error:
            self._problem(Place(shown, reader.reader.line_num), f"is not CSV: {error}")
        if not points and len(self._report.sorted_problems()) == before:
            self._problem(Place(shown, 1), "has no value: give at least one line below the first")
        return points if points and len(self._report.sorted_problems()) == before else None

    def _point(
        self, row: dict[Any, Any], place: Place, points: list[Point], check: Callable[[object], object]
    ) -> Point | None:
        try:
            if None in row:
                raise ValueError("has more values than the first line has columns")
            time, value = ((row[column] or "").strip() for column in ("time", "value"))
            seconds = float(time) if _NUMBER.fullmatch(time) else parse_duration(time)
            if points and seconds <= points[-1].seconds:
                raise ValueError(f"the time {time} is not after the one before it")
            if not value:
                raise ValueError("has no value")
            number = float(value) if _NUMBER.fullmatch(value) else value
            check(number)
        except ValueError as error:
            # The line identifies the value.
            self._problem(place, str(error).replace("activity 1: ", ""))
            return None
        return Point(seconds, number)

    def _problem(self, place: Place, text: str) -> None:
        self._report.problem(place, text)
