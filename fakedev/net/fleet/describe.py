"""Workloads, devices and nodes as plain values, for the API and for answers on the line ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.entities.state import Level
from fakedev.sim.fleet import Fleet
from fakedev.sim.health import worst_of
from fakedev.sim.workloads.workload import Workload, origin_of
from fakedev.spec.web_paths import NODE_METRICS
from fakedev.spec.workload_fields import fields_of_workload

#: Workloads in the description of a device or part; ``more-workloads`` counts the rest.
_MAX_WORKLOADS: Final = 100
#: The quantities in a list of parts; the description of a single part has all.
_LISTED_QUANTITIES: Final = frozenset({
    "usage_ratio", "memory_bandwidth_ratio", "memory_used_bytes", "memory_total_bytes", "core_frequency_mhz",
    "power_watts", "temperature_celsius", "xid", "lost",
})  # fmt: skip


def describe_workloads(fleet: Fleet, workloads: Sequence[Workload]) -> list[dict[str, Any]]:
    """Workloads: the id of each, the fields that it was started with, and its state."""
    loads, left = fleet.workloads.load_percents(), fleet.workloads.work_left()
    return [_workload(fleet, workload, loads, left) for workload in workloads]


def _workload(
    fleet: Fleet, workload: Workload, loads: Mapping[str, float], left: Mapping[str, float]
) -> dict[str, Any]:
    started = workload.start_seconds
    total_seconds, _, _ = workload.end_seconds
    run_seconds = 0.0 if started is None else round(fleet.state.seconds - started, 6)
    if workload.spec.is_work:
        # At the highest clock from now on: the earliest possible end.
        total_seconds = min(total_seconds, run_seconds + left.get(workload.workload_id, workload.profile_seconds))
    return {
        "id": workload.workload_id,
        "state": "starting" if started is None else "running",
        "origin": origin_of(workload.workload_id),
        **fields_of_workload(workload.spec),
        "device-count": len(workload.devices),
        "load-percent": loads.get(workload.workload_id, 0.0),
        "run-seconds": run_seconds,
        "remaining-seconds": None if total_seconds > 1e12 else round(max(total_seconds - run_seconds, 0.0), 6),
    }


def describe_device(fleet: Fleet, node: RosterNode, index: int, facts: dict[str, str]) -> dict[str, Any]:
    """A device: names, labels and all its quantities at the current tick.

    :param facts: the device's own, from ``fleet.facts(node)``.
    """
    parts = [fleet.roster.unit_name(unit) for unit in fleet.roster.parts.of(node.first + index)]
    return {
        "device": f"{node.name}/{index}",
        "type": node.pool.device_type.name,
        "facts": facts,
        "quantities": _quantities(fleet.state.levels["device"], node.first + index),
        **({"parts": parts} if parts else {}),
    }


def describe_part(fleet: Fleet, unit: int, facts: Mapping[str, str]) -> dict[str, Any]:
    """A part of a device: names, labels and all its quantities at the current tick.

    :param facts: its own, from ``fleet.part_facts(node)``.
    """
    roster = fleet.roster
    return {
        "part": roster.unit_name(unit),
        "device": roster.unit_name(roster.parts.owner(unit)),
        "type": roster.nodes[roster.node_position(unit)].pool.device_type.name,
        "facts": dict(facts),
        "quantities": _quantities(fleet.state.levels["part"], unit - roster.device_count),
        **describe_state(fleet, unit),
    }


def describe_parts(fleet: Fleet, node: RosterNode, index: int) -> list[dict[str, Any]]:
    """The parts of a device, each with its names, state and most important quantities."""
    roster, facts, level = fleet.roster, dict(fleet.part_facts(node)), fleet.state.levels["part"]
    return [
        {
            "part": roster.unit_name(unit),
            "facts": facts[unit],
            "quantities": _quantities(level, unit - roster.device_count, _LISTED_QUANTITIES),
            **describe_state(fleet, unit),
        }
        for unit in roster.parts.of(node.first + index)
    ]


def describe_state(fleet: Fleet, unit: int) -> dict[str, Any]:
    """The health of a part, or of a device and its parts, and the workloads on it."""
    which = np.zeros(fleet.roster.parts.unit_count, np.bool_)
    which[unit] = True
    found = [each for each, _ in fleet.workloads.on_devices(fleet.roster.parts.spread(which))]
    described = [{"id": each.workload_id, "name": each.spec.name} for each in found[:_MAX_WORKLOADS]]
    more = len(found) - len(described)
    return {
        "health": worst_of(fleet.state.levels["unit"], [unit, *fleet.roster.parts.of(unit)]),
        "workloads": described,
        **({"more-workloads": more} if more else {}),
    }


def _quantities(level: Level, position: int, names: Collection[str] | None = None) -> dict[str, float]:
    """The quantities that an entity of a level has.

    :param names: only these; None for all.
    """
    wanted = level.arrays if names is None else (name for name in names if name in level.arrays)
    return {name: level.arrays[name][position].item() for name in sorted(wanted) if level.has(name, position)}


def describe_node(node: RosterNode, identity_title: str) -> dict[str, Any]:
    """A node: its pool, its devices and its identity."""
    return {
        "node": node.name,
        "pool": node.pool.name,
        "device-type": node.pool.device_type.name,
        "devices": node.pool.devices_per_node,
        "identity": identity_title,
        "metrics": NODE_METRICS.at(NODE=node.name),
    }


def describe_clock(fleet: Fleet, speed: float) -> dict[str, Any]:
    """The state of the simulated clock."""
    return {
        "tick": fleet.state.tick,
        "tick-seconds": fleet.spec.tick_seconds,
        "seconds": fleet.state.seconds,
        "speed": speed,
        "epoch-seconds": fleet.spec.epoch_seconds,
        "due-seconds": fleet.state.wall_seconds,
    }
