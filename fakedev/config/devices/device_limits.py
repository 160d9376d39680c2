"""The ``limits`` of a device type's file: over which values of a device workloads are ended."""

from __future__ import annotations

from collections.abc import Collection

from fakedev.config.schema.nodes import Table
from fakedev.config.schema.problems import Report
from fakedev.config.schema.schema import nearest_name
from fakedev.config.schema.values import Values
from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.roster import Roster
from fakedev.spec.device_types import DeviceType
from fakedev.spec.fleet import NodeSpec, PoolSpec
from fakedev.spec.quantities import quantity_name


def read_limits(values: Values, device: DeviceType, report: Report) -> dict[str, float]:
    """The limits that a device type gives, by quantity.

    Problems: limits of what the type has not, limits given twice.

    :param device: the type without its limits.
    """
    table = values.nodes.get("limits")
    if not isinstance(table, Table):
        return {}
    known = Relations(Roster([PoolSpec("pool", (NodeSpec("node"),), device, 1)]), 0.0, 0).quantities
    limits: dict[str, float] = {}
    for key, node in table.entries:
        limit = values["limits"].get(key.text)
        name = quantity_name(key.text.replace("-", "_"))
        if limit is None:
            continue
        if name not in known:
            report.problem(key.place, f"limits: {device.name or 'it'} has no {key.text!r}{_hint(name, known)}")
        elif name in limits:
            report.problem(node.place, f"limits: {name} is there twice: remove one")
        else:
            limits[name] = limit
    return limits


def _hint(name: str, known: Collection[str]) -> str:
    nearest = nearest_name(name, known)
    return f"; did you mean {nearest!r}?" if nearest else ""
