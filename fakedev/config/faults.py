"""The faults of the configuration."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.config.schema.problems import Place, Report
from fakedev.config.schema.values import Values
from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.roster import Roster
from fakedev.sim.faults.fields import fault_from_fields
from fakedev.sim.faults.rules import FaultRules
from fakedev.sim.workloads.admission import Admission
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fault import FaultSpec


def fault_rules(tick_seconds: float, roster: Roster, relations: Relations, admission: Admission) -> FaultRules:
    """Which faults the fleet can have."""
    present = {name: roster.parts.units(has) for name, has in relations.quantities.items()}
    return FaultRules(roster, roster.unit_keys, present, admission.metric, present, tick_seconds)


def load_faults(entries: Iterable[Values], rules: FaultRules | None, report: Report) -> tuple[FaultSpec, ...]:
    """The faults; what is wrong is reported.

    :param rules: which faults the fleet can have; None when it is not known.
    """
    faults = []
    for values in entries:
        fault = _fault(values, report)
        if fault is not None:
            faults.append(fault)
            if rules is not None:
                _check(fault, values, rules, report)
    return tuple(faults)


def _check(fault: FaultSpec, values: Values, rules: FaultRules, report: Report) -> None:
    try:
        rules.made("config", fault)
    except Refused as error:
        report.problem(_place(values, error.where), f"{error.where}: {error.text}")


def _fault(values: Values, report: Report) -> FaultSpec | None:
    fields = {key: values[key] for key in values if values.given(key) and values[key] is not None}
    if values["kind"] is None:
        return None  # it was missing or wrong, and that was reported
    try:
        return fault_from_fields(fields)
    except FieldError as error:
        report.problem(_place(values, error.field), f"{error.field}: {error.reason}")
        return None


def _place(values: Values, field: str) -> Place:
    return values.place_of(field) if values.given(field) else values.place
