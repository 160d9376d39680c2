"""The faults that cause what devices show."""

from __future__ import annotations

import numpy as np

from fakedev.sim.faults.fault import Fault
from fakedev.sim.faults.faults import Faults
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.fault_kinds import Scope
from fakedev.spec.shards import entity_key


def faults_behind(faults: Faults, quantity: str, unit: int) -> list[Fault]:
    """The faults that may explain a quantity of a device or part, or its change in the last tick."""
    found = [fault for fault in faults.by_id.values() if _concerns(faults, fault.concerned, unit)]
    found += [fault for fault, _, units in faults.changes if _concerns(faults, units, unit)]
    kinds = {fault.fault_id: fault for fault in found if _moves(fault, quantity)}
    return [fault for fault in kinds.values() if fault.kind.scope in (Scope.BOARD, Scope.NODE)]


def units_by_cause(faults: Faults, quantity: str, units: Positions) -> list[Positions]:
    """Some units, grouped by the faults that explain a quantity; groups in the order of their first units."""
    where = {fault.fault_id: [fault.concerned] for fault in faults.by_id.values() if _moves(fault, quantity)}
    for fault, _, concerned in faults.changes:
        if _moves(fault, quantity):
            where.setdefault(fault.fault_id, []).append(concerned)
    owners, marks = faults.parts.owners_of(units), np.zeros(len(units), np.uint64)
    for fault_id, found in where.items():
        is_on = np.zeros(faults.parts.unit_count, np.bool_)
        is_on[np.concatenate(found)] = True
        marks[is_on[units] | is_on[owners]] ^= np.uint64(entity_key("fault", fault_id))
    _, firsts, groups = np.unique(marks, return_index=True, return_inverse=True)
    ordered = np.split(units[np.argsort(groups, kind="stable")], np.cumsum(np.bincount(groups))[:-1])
    return [ordered[each] for each in np.argsort(firsts).tolist()]


def exporter_faults_of(faults: Faults, quantity: str, unit: int) -> list[Fault]:
    """The exporter faults that change or hide a quantity of a device or part."""
    return [
        fault
        for fault in faults.active(Scope.SERIES)
        if _concerns(faults, fault.concerned, unit) and (fault.metric is None or fault.metric.quantity == quantity)
        and fault.kind.takes_metric
    ]


def _concerns(faults: Faults, concerned: Positions, unit: int) -> bool:
    """Whether some units include a unit or its device."""
    return unit in concerned or faults.parts.owner(unit) in concerned


def _moves(fault: Fault, quantity: str) -> bool:
    return not fault.kind.moves or quantity in fault.kind.moves
