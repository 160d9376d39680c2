"""The section ``workloads.base``: its keys, and the workloads that it describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from fakedev.config.catalog import Catalog, Fields
from fakedev.config.faults import BROUGHT, DEVICE_WORDS
from fakedev.config.profile_keys import (
    ACTIVITY,
    INTENSITY,
    METRIC_ACTIVITY,
    REPEAT,
    SCHEDULE,
    SCHEDULED,
    SERIES,
    Series,
    profile_types,
)
from fakedev.config.schema.fields import key_of
from fakedev.config.schema.nodes import Report, Table
from fakedev.config.schema.schema import Key, Section, Values, plain, was_read
from fakedev.config.schema.types import ListOf, MapOf, Number, OneOf, Text
from fakedev.sim.faults.rules import FaultRules, workload_faults
from fakedev.sim.workloads.admission import Admission
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fleet import WorkloadSpec
from fakedev.spec.profiles import profile_from, uses_from
from fakedev.spec.units import parse_size
from fakedev.spec.workload_fields import WORKLOAD_FIELDS as _FIELDS
from fakedev.spec.workload_fields import workload_from_fields


def load_base(
    entries: Iterable[Values], catalog: Catalog, admission: Admission | None, rules: FaultRules | None, report: Report
) -> tuple[WorkloadSpec, ...]:
    """The base workloads; problems are reported.

    :param admission, rules: which workloads and faults the fleet accepts; None when the fleet is not known.
    """
    workloads = []
    series = Series(catalog, report)
    for values in entries:
        workload = read_workload(values, catalog, series, report, admission, rules)
        if workload is not None:
            workloads.append(workload)
    return tuple(workloads)


def read_workload(
    values: Values,
    catalog: Catalog,
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
        fields["faults"] = ([_given(each) for each in values["faults"]], values.place_of("faults"))
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
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
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
            "What it asks of metrics beside the load: memory, tensor, fabric-tx and others of run in "
            "protocol-workload.txt; each has its own profile.",
            default={},
        ),
        key_of(_FIELDS["repeat"], REPEAT, default=None, default_words="from the file or schedule, else 0"),
        key_of(_FIELDS["intensity"], INTENSITY, default_words="100, or that of a profile by name"),
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
        key_of(_FIELDS["faults"], ListOf(BROUGHT, words="list of faults"), default_words="those of a profile by name"),
        key_of(_FIELDS["run-time-limit"]),
        key_of(_FIELDS["ttl"]),
    ),
    doc="Workloads that are present from the first tick. The path of the original's JSON alone is enough.",
    shorthand="file",
)  # fmt: skip
