"""The section ``workloads.base``: workloads, their profiles and schedules, and profiles of pools and devices by name.

The keys of profiles are for workloads and for metrics; recorded series come from CSV files. A profile of a pool or
device by name stands for workloads and faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from fakedev.base.errors import FieldError, Refused
from fakedev.base.units import parse_duration, parse_size
from fakedev.fleet.entities.randomness import uniform
from fakedev.fleet.faults.rules import FaultRules, workload_faults
from fakedev.fleet.settings.catalog import DeviceCatalog, Fields, csv_rows
from fakedev.fleet.settings.faults import BROUGHT, DEVICE_WORDS
from fakedev.fleet.settings.loaded import LoadedPool
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.named_profiles import IDLE, MIXES, PROFILES
from fakedev.fleet.spec.profiles import MAX_ACTIVITIES, MAX_SPREAD, profile_from, uses_from
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS as _FIELDS
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.spec.workload_spec import RESTARTS, WorkloadSpec
from fakedev.fleet.workloads.admission import Admission
from fakedev.schema.places import Place, Report, Table
from fakedev.schema.sections import Key, Section, Type, Values, plain, was_read
from fakedev.schema.types import Boolean, Choice, Integer, ListOf, MapOf, Number, OneOf, Text, key_of

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

    def __init__(self, catalog: DeviceCatalog, report: Report) -> None:
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
        points = None if found is None else self._points(*found, check)
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
        points: list[Point] = []
        before = len(self._report.sorted_problems())
        for place, row in csv_rows(text, shown, self._report, _missing_column):
            if len(points) > MAX_ACTIVITIES:
                self._problem(place, f"has more than {MAX_ACTIVITIES} values")
                return None
            point = self._point(row, place, points, check)
            if point is not None:
                points.append(point)
        if not points and len(self._report.sorted_problems()) == before:
            self._problem(Place(shown, 1), "has no value: give at least one line below the first")
        return points if points and len(self._report.sorted_problems()) == before else None

    def _point(
        self, row: Mapping[str, str | None], place: Place, points: list[Point], check: Callable[[object], object]
    ) -> Point | None:
        try:
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


def _missing_column(columns: list[str]) -> list[str]:
    """The first column that a series needs and does not have."""
    missing = (column for column in ("time", "value") if column not in columns)
    return [f"has no column {column!r}: the first line is time,value" for column in islice(missing, 1)]


#: Of the configuration's workloads alone: what a request starts ends for its peer.
_RESTART: Final = "restart"


def load_base(
    entries: Iterable[Values],
    catalog: DeviceCatalog,
    admission: Admission | None,
    rules: FaultRules | None,
    report: Report,
) -> tuple[WorkloadSpec, ...]:
    """The base workloads; problems are reported.

    :param admission, rules: which workloads and faults the fleet accepts; None when the fleet is not known.
    """
    workloads = []
    series = Series(catalog, report)
    for values in entries:
        workload = read_workload(values, catalog, series, report, admission, rules, (_RESTART,))
        if workload is not None:
            workloads.append(replace(workload, restart=values[_RESTART] or "never"))
    return tuple(workloads)


def read_workload(
    values: Values,
    catalog: DeviceCatalog,
    series: Series,
    report: Report,
    admission: Admission | None = None,
    rules: FaultRules | None = None,
    besides: Collection[str] = (),
    *,
    repeat: int | None = 0,
) -> WorkloadSpec | None:
    """The workload that values describe; None when it has problems, which were reported.

    :param admission, rules: which workloads and faults the fleet accepts; None for no check.
    :param besides: keys that are not fields of a workload.
    :param repeat: how often its profile runs, unless the values say it; None: as on the workload port.
    """
    fields: Fields = {"devices": ("all", values.place)}
    if repeat is not None:
        fields["repeat"] = (repeat, values.place)
    if values.get("file") is not None:
        from_file = catalog.workload(values["file"], values.place_of("file"))
        if from_file is None:
            return None
        fields |= from_file
    fields |= _plain_fields(values, besides)
    if not _is_whole(values):
        return None  # a problem was reported
    if values.given("profile"):
        profile = _profile(values["profile"], series, lambda value: profile_from([[value]]))
        if profile is None:
            return None
        fields["profile"] = (profile, values.place_of("profile"))
        if isinstance(profile, Mapping) and not values.given("repeat") and "repeat" in profile:
            fields.pop("repeat", None)
    if values.given("metrics"):
        metrics = _metrics(values, series)
        if metrics is None:
            return None
        fields["metrics"] = (metrics, values.place_of("metrics"))
    try:
        workload = workload_from_fields({key: value for key, (value, _) in fields.items()})
    except FieldError as error:
        place = fields[error.field][1] if error.field in fields else values.place
        report.problem(place, f"{error.field}: {error.reason}")
        return None
    if admission is not None:
        _check(workload, fields, values, admission, rules, report)
    return workload


def _plain_fields(values: Values, besides: Collection[str]) -> Fields:
    """The fields that are passed on as they are written, and the faults."""
    fields: Fields = {}
    apart = ("file", "profile", "metrics", "faults", *besides)
    for key in values:
        if key not in apart and values.given(key) and values[key] is not None:
            fields[key] = (plain(values[key]), values.place_of(key))
    if values.get("faults") is not None:
        fields["faults"] = ([_given(fault) for fault in values["faults"]], values.place_of("faults"))
    return fields


def _given(fault: Values) -> dict[str, object]:
    """The keys of a fault that are written and are not the default."""
    keys = fault.section.keys
    return {key.name: fault[key.name] for key in keys if fault.given(key.name) and fault[key.name] != key.default}


def _is_whole(values: Values) -> bool:
    """Whether the whole profile and all faults could be read."""
    return all(
        was_read(values[key], node) or (key == "faults" and values[key] == ())
        for key, node in values.nodes.items()
        if key in ("profile", "faults")
    )


def _metrics(values: Values, series: Series) -> dict[str, object] | None:
    """The profiles of metrics; None when one has problems, which were reported."""
    table = values.nodes["metrics"]
    written = {key.text: node for key, node in table.entries} if isinstance(table, Table) else {}
    metrics = {}
    for name, value in values["metrics"].items():
        profile = _profile(value, series, partial(_check_use, name))
        metrics[name] = profile if was_read(value, written[name]) else None
    return None if None in metrics.values() or len(metrics) != len(written) else metrics


def _check_use(metric: str, value: object) -> None:
    uses_from({metric: [[value]]})


def _profile(value: object, series: Series, check: Callable[[object], object]) -> object:
    """A profile as fields of workloads have it: a list of texts becomes one text with commas.

    :param check: raises ValueError for a value that a series cannot have.
    """
    if isinstance(value, Values):
        return plain(value) if "schedule" in value else series.activities(value, check)
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return plain(value)


def _check(
    workload: WorkloadSpec,
    fields: Fields,
    values: Values,
    admission: Admission,
    rules: FaultRules | None,
    report: Report,
) -> None:
    try:
        admission.check(workload)
        if rules is not None:
            workload_faults("config", workload, rules)
    except Refused as error:
        place = fields[error.where][1] if error.where in fields else values.place
        report.problem(place, f"{error.where}: {error.text}")


def _size(text: str) -> str:
    """The text of a size, unchanged: the rules know which metrics take one."""
    parse_size(text)
    return text


BASE = Section(
    "workloads.base",
    (
        Key("file", Text("path"), "The original's workload JSON; the other keys here override it."),
        key_of(
            _FIELDS["name"], doc="Name of the workload; needed without a file.", default=None,
            default_words="from the file",
        ),
        key_of(
            _FIELDS["devices"], DEVICE_WORDS,
            "Devices: all, even, odd, card0, dgx-0/3, dgx-[0-3]/*, dgx-0/3/1.", default="all",
        ),
        key_of(
            _FIELDS["profile"],
            OneOf((SCHEDULE, SERIES, *profile_types((SCHEDULED, ACTIVITY), "load"))),
            "Activities, as load:fluctuation:seconds with commas between them, or as a list; a recorded series; a "
            "schedule of utilization; or a profile by name (doc/simulation.md).",
            default_words="from the file",
        ),
        key_of(
            _FIELDS["metrics"],
            MapOf(
                OneOf((SERIES, Number(0), *profile_types((METRIC_ACTIVITY,), "value"))),
                words="mapping of metrics to their profiles",
            ),
            "What it requests of metrics in addition to the load: memory, tensor, fabric-tx and others of run in "
            "protocol-workload.txt; each has its own profile.",
            default={},
        ),
        key_of(_FIELDS["repeat"], REPEAT, default=None, default_words="from the file or schedule, else 0"),
        key_of(_FIELDS["intensity"], INTENSITY, default_words="100, or as the named profile has it"),
        *(
            key_of(_FIELDS[name])
            for name in (
                "seconds-of", "measured-frequency", "measured-capability", "kind", "service", "node", "pod",
                "namespace", "container",
            )
        ),
        key_of(_FIELDS["labels"], MapOf(Text(), words="mapping of names to texts"), default={}),
        key_of(
            _FIELDS["limits"],
            MapOf(OneOf((Number(), Text("size", _size)), "number or size"), words="mapping of metrics to numbers"),
            default={},
        ),
        key_of(_FIELDS["faults"], ListOf(BROUGHT, words="list of faults"), default_words="of the named profile"),
        key_of(_FIELDS["run-time-limit"]),
        key_of(_FIELDS["ttl"]),
        Key(
            _RESTART, Choice(RESTARTS),
            "Whether it starts again after its end, as a container of a pod: always, on-failure (it ended with another "
            "code than 0, as by a fault) or never; after 10 s, twice as long each time up to 5 minutes, and again 10 s "
            "once it has run for 10 minutes.",
            default="never",
        ),
    ),
    doc="Workloads that are present from the first tick. The path of the original's JSON alone is enough.",
    shorthand="file",
)  # fmt: skip


class _Work(NamedTuple):
    """What some devices of a pool do.

    :ivar profile: its name, or a schedule.
    :ivar words: the devices, by the name of their workload.
    """

    profile: str | Values
    words: dict[str, list[str]]


def load_profiles(
    pools: Iterable[LoadedPool], seed: int, rules: FaultRules, report: Report
) -> tuple[tuple[WorkloadSpec, ...], tuple[FaultSpec, ...]]:
    """A workload for each node and profile, or for each device, and the faults of each pool and profile.

    Metrics and faults of a profile that the devices lack are left out.
    """
    workloads: list[WorkloadSpec] = []
    faults: list[FaultSpec] = []
    for pool in pools:
        for profile, words in _works(pool, seed):
            if isinstance(profile, str):
                fields: dict[str, object] = {"profile": profile, "faults": []}
                every = [word for each in words.values() for word in each]
                # Not the devices name these faults: a node more must not change what happens on the others.
                of = f"{pool.spec.name}/{pool.spec.device_type.name}/{profile}"
                made = [fault_from_fields({"devices": every, **fault}) for fault in PROFILES[profile].faults]
                given = [replace(fault, name=of) for fault in made]
                faults += [fault for fault in given if _is_possible(rules, fault)]
            else:
                fields = {"profile": plain(profile), "repeat": profile["repeat"] or 0}
            try:
                any_devices = workload_from_fields({"name": "x", "devices": "all", **fields})
            except FieldError as error:
                if not isinstance(profile, str) and was_read(profile):
                    report.problem(profile.place, f"{error.field}: {error.reason}")
                continue
            workloads += [replace(any_devices, name=name, devices=tuple(each)) for name, each in words.items()]
    return tuple(workloads), tuple(faults)


def _works(pool: LoadedPool, seed: int) -> list[_Work]:
    """For each profile its devices: those of single devices, and the pool's in turn."""
    written = pool.values["profile"]
    names: list[str | Values] = list(written) if isinstance(written, tuple) else [written] if written else []
    own = {} if isinstance(pool.values["devices"], str) else {
        row["index"]: row["profile"] for row in pool.values["devices"] if row["profile"] is not None
    }  # fmt: skip
    found: dict[str | int, _Work] = {}
    number = 0
    for node in pool.spec.nodes:
        drawn = _Draws(seed, pool.spec.name, node.name)
        for index in range(pool.spec.devices_per_node):
            profile = own.get(index)
            if profile is None and names:
                profile, number = names[number % len(names)], number + 1
            if isinstance(profile, str) and profile in MIXES:
                profile = MIXES[profile].drawn(drawn.of(), drawn.of(str(index)))
            if profile is None or profile == IDLE:
                continue
            is_named = isinstance(profile, str)
            name = f"{profile if is_named else 'schedule'}-{node.name}"
            if isinstance(profile, str) and PROFILES[profile].is_single:
                name = f"{name}-{index}"
            key = profile if isinstance(profile, str) else id(profile)
            words = found.setdefault(key, _Work(profile, {})).words
            words.setdefault(name, []).append(f"{node.name}/{index}")
    return list(found.values())


class _Draws:
    """Random numbers in 0 to 1 of a node and its devices: they follow from the names alone."""

    def __init__(self, seed: int, *names: str) -> None:
        self._seed = seed
        self._names = names

    def of(self, *more: str) -> float:
        """The number of the node, or of a device of it."""
        keys = np.array([entity_key("mix", *self._names, *more)], dtype=np.uint64)
        return float(uniform(self._seed, keys, "profile", 0)[0])


def _is_possible(rules: FaultRules, fault: FaultSpec) -> bool:
    try:
        rules.made("config", fault)
    except Refused:
        return False
    return True
