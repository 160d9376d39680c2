"""The workloads that are present from the first tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fakedev.config.catalog import Catalog, Fields
from fakedev.config.problems import Report
from fakedev.config.values import Values
from fakedev.sim.admission import Admission
from fakedev.sim.errors import FieldError, Refused
from fakedev.sim.spec import WorkloadSpec
from fakedev.sim.workload_fields import workload_from_fields


def load_base(
    entries: Iterable[Values], catalog: Catalog, admission: Admission | None, report: Report
) -> tuple[WorkloadSpec, ...]:
    """The base workloads; what is wrong is reported.

    :param admission: which workloads the fleet takes; None when the fleet is not known.
    """
    workloads = []
    for values in entries:
        workload = _workload(values, catalog, admission, report)
        if workload is not None:
            workloads.append(workload)
    return tuple(workloads)


def _workload(
    values: Values, catalog: Catalog, admission: Admission | None, report: Report
) -> WorkloadSpec | None:
    fields: Fields = {"repeat": (0, values.place), "devices": ("all", values.place)}
    if values["file"] is not None:
        said = catalog.workload(values["file"], values.place_of("file"))
        if said is None:
            return None
        fields |= said
    for key in values:
        if key not in ("file", "profile") and values.given(key) and values[key] is not None:
            fields[key] = (_plain(values[key]), values.place_of(key))
    if values.given("profile"):
        if not _is_whole(values):
            return None  # it was wrong, and that was reported
        fields["profile"] = (_profile(values["profile"]), values.place_of("profile"))
    try:
        workload = workload_from_fields({key: value for key, (value, _) in fields.items()})
    except FieldError as error:
        place = fields[error.field][1] if error.field in fields else values.place
        report.problem(place, f"{error.field}: {error.reason}")
        return None
    if admission is not None:
        _check(workload, fields, values, admission, report)
    return workload


def _is_whole(values: Values) -> bool:
    """Whether all of the profile that was written could be read."""
    profile = values["profile"]
    if isinstance(profile, tuple):
        return 0 < len(profile) == len(values.items_of("profile"))
    return profile is not None


def _profile(value: object) -> object:
    """A profile as workloads take it: a list of texts is one text with commas."""
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return _plain(value)


def _check(workload: WorkloadSpec, fields: Fields, values: Values, admission: Admission, report: Report) -> None:
    try:
        admission.check(workload)
    except Refused as error:
        place = fields[error.where][1] if error.where in fields else values.place
        report.problem(place, f"{error.where}: {error.text}")


def _plain(value: object) -> object:
    """A value as plain lists and mappings."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
