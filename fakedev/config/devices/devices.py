"""A device type's YAML to the device type that the fleet reads."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from fakedev.config.devices.connections import read_connections
from fakedev.config.devices.dynamics import read_dynamics
from fakedev.config.devices.keys import DEVICE_TYPE
from fakedev.config.devices.mig import read_mig
from fakedev.config.models import LoadedDevice
from fakedev.config.schema.nodes import Node, Place, Report, Table
from fakedev.config.schema.schema import INVALID, Values, did_you_mean
from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.roster import Roster
from fakedev.sim.parts.tiles import tiles_of
from fakedev.spec.device_types import DeviceType, Range
from fakedev.spec.fleet import NodeSpec, PoolSpec
from fakedev.spec.quantities import DIRECT_QUANTITIES, FILE_ALIASES, KNOWN_QUANTITIES, quantity_in_file, quantity_name

_QUANTITY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Replaces a range that was reported, so that the quantity has no further problems.
_UNKNOWN: Final = Range(0.0, 0.0)


def load_device(node: Node, report: Report) -> LoadedDevice | None:
    """The device type of a document; None when it cannot be used (the problems are reported)."""
    if not isinstance(node, Table):
        report.problem(node.place, "a device type is a mapping with name, facts, memory and ranges")
        return None
    values = DEVICE_TYPE.read(node, "", report)
    if values is INVALID:
        return None
    memory: Values = values["memory"]
    ranges = _ranges(values, report)
    if values["capability"] < 0:
        report.problem(values.place_of("capability"), f"capability must not be below 0, as {values['capability']:g} is")
    _check_memory(memory, ranges, values.place_of("ranges"), report)
    device = DeviceType(
        name=values["name"] or "",
        ranges=ranges,
        facts=dict(values["facts"]),
        memory_total_bytes=memory["total"],
        memory_reserved_bytes=memory["reserved"],
        memory_page_bytes=max(memory["page"], 1.0),
        counts_errors=values["counts-errors"],
        lacks=values["lacks"],
        capability=values["capability"],
        dynamics=read_dynamics(values["dynamics"] if values.given("dynamics") else None, ranges, report),
        connections=read_connections(values["connections"] if values.given("connections") else None, report),
        tiles=tiles_of(values["tiles"], memory["total"]),
    )
    mig = read_mig(values, report)
    device = replace(
        device, limits=_read_limits(values, device, report), mig_slices=mig.slices if mig else 0,
        mig_profiles=mig.profiles if mig else (),
    )  # fmt: skip
    return LoadedDevice(device, mig=mig)


def checked_range(name: str, low: float, high: float) -> Range:
    """The range of a quantity.

    :raises ValueError: when no device could have it.
    """
    if low > high:
        raise ValueError(f"{name}: {low:g} at load 0 is over {high:g} at load 100: the smaller number comes first")
    if name in KNOWN_QUANTITIES:
        if name.endswith("_ratio") and not 0 <= low <= high <= 1:
            raise ValueError(f"{name}: {low:g} to {high:g} is not within 0 to 1")
        if low < 0 and not name.endswith("_celsius"):
            raise ValueError(f"{name}: {low:g} is below 0")
    return Range(low, high)


def _ranges(values: Values, report: Report) -> dict[str, Range]:
    table = values.nodes.get("ranges")
    if not isinstance(table, Table):
        return {}
    ranges: dict[str, Range] = {}
    for key, node in table.entries:
        pair = (values["ranges"] or {}).get(key.text)
        if pair is None:
            ranges.setdefault(quantity_in_file(key.text), _UNKNOWN)
            continue
        try:
            name = _range_name(key.text, key.place, report)
            if len(pair) != 2:
                raise ValueError(f"{key.text}: must be two numbers, at load 0 and at load 100, as [3, 35]")
            ranges[name] = checked_range(name, *pair)
        except ValueError as error:
            ranges.setdefault(quantity_in_file(key.text), _UNKNOWN)
            report.problem(node.place, f"ranges: {error}")
    return ranges


def _range_name(text: str, place: Place, report: Report) -> str:
    name = quantity_in_file(text)
    if name in KNOWN_QUANTITIES and name not in DIRECT_QUANTITIES:
        raise ValueError(
            f"{text}: is computed and has no range; ranges are for {', '.join(DIRECT_QUANTITIES)} or names of your own"
        )
    if not _QUANTITY.fullmatch(name):
        raise ValueError(f"{text[:60]!r} is no name of a quantity: letters, digits and _ only, no digit first")
    if name not in KNOWN_QUANTITIES:
        hint = did_you_mean(name, (*DIRECT_QUANTITIES, *FILE_ALIASES), "; ")
        if hint:
            report.note(place, f"ranges: {name!r} is taken as a quantity of your own{hint}")
    return name


def _check_memory(memory: Values, ranges: dict[str, Range], place: Place, report: Report) -> None:
    total, reserved = memory["total"], memory["reserved"]
    if reserved > total:
        report.problem(memory.place_of("reserved"), f"memory: reserved {reserved:.0f} is over total {total:.0f}")
    used = ranges.get("memory_used_bytes")
    if used is not None and total and used.high > total - reserved:
        report.problem(
            place,
            f"ranges: memory_used_bytes goes to {used.high:.0f}, and total less reserved is {total - reserved:.0f}",
        )


def _read_limits(values: Values, device: DeviceType, report: Report) -> dict[str, float]:
    """The limits of a device type, by quantity.

    Problems: limits of quantities that the type lacks, limits given twice.

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
            hint = did_you_mean(name, known, "; ")
            report.problem(key.place, f"limits: {device.name or 'it'} has no {key.text!r}{hint}")
        elif name in limits:
            report.problem(node.place, f"limits: {name} is there twice: remove one")
        else:
            limits[name] = limit
    return limits
