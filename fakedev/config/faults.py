"""The faults of the configuration."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.config.problems import Report
from fakedev.config.values import Values
from fakedev.sim.admission import Admission
from fakedev.sim.errors import FieldError, Refused
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.fields import fault_from_fields
from fakedev.sim.faults.spec import FaultSpec
from fakedev.sim.relations import Relations
from fakedev.sim.roster import Roster
from fakedev.sim.spec import FleetSpec


def load_faults(
    entries: Iterable[Values], fleet: FleetSpec, admission: Admission | None, report: Report
) -> tuple[FaultSpec, ...]:
    """The faults; what is wrong is reported.

    :param admission: which metrics the fleet has; None when the fleet is not known.
    """
    given = list(entries)
    specs = [spec for values in given if (spec := _fault(values, report)) is not None]
    if admission is None or not specs or len(specs) < len(given):
        return tuple(specs)
    roster = Roster(fleet.pools)
    relations = Relations(roster, 0.0, fleet.seed)
    faults = Faults(
        fleet.seed, roster, roster.keys(), relations.quantities, admission.metric, fleet.tick_seconds
    )  # fmt: skip
    for values, spec in zip(given, specs, strict=True):
        try:
            faults.made("config", spec)
        except Refused as error:
            place = values.place_of(error.where) if values.given(error.where) else values.place
            report.problem(place, f"{error.where}: {error.text}")
    return tuple(specs)


def _fault(values: Values, report: Report) -> FaultSpec | None:
    fields = {key: values[key] for key in values if values.given(key) and values[key] is not None}
    if values["kind"] is None:
        return None  # it was missing or wrong, and that was reported
    try:
        return fault_from_fields(fields)
    except FieldError as error:
        place = values.place_of(error.field) if values.given(error.field) else values.place
        report.problem(place, f"{error.field}: {error.reason}")
        return None
