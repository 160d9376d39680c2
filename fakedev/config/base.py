"""The workloads that are present from the first tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fakedev.config.catalog import Catalog, Fields
from fakedev.config.problems import Report
from fakedev.config.values import Values
from fakedev.sim.errors import FieldError, Refused
from fakedev.sim.roster import Roster
from fakedev.sim.selectors import resolve
from fakedev.sim.spec import WorkloadSpec
from fakedev.sim.workload_fields import workload_from_fields


def load_base(
    entries: Iterable[Values], catalog: Catalog, roster: Roster | None, report: Report
) -> tuple[WorkloadSpec, ...]:
    """The base workloads; what is wrong is reported.

    :param roster: who is in the fleet; None when that is not known, and devices cannot be checked.
    """
    workloads = []
    for values in entries:
        workload = _workload(values, catalog, roster, report)
        if workload is not None:
            workloads.append(workload)
    return tuple(workloads)


def _workload(values: Values, catalog: Catalog, roster: Roster | None, report: Report) -> WorkloadSpec | None:
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
    if roster is not None:
        _check_devices(workload, fields, roster, report)
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


def _check_devices(workload: WorkloadSpec, fields: Fields, roster: Roster, report: Report) -> None:
    try:
        resolve(workload.devices, roster, workload.node)
    except Refused as error:
        where = error.where if error.where in fields else "devices"
        report.problem(fields[where][1], f"{where}: {error.text}")


def _plain(value: object) -> object:
    """A value as plain lists and mappings."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
