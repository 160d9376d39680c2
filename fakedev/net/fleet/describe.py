"""Workloads, devices and nodes as plain values, for the API and for answers on the line ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fakedev.sim.charts import health_of
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.entities.state import Level
from fakedev.sim.fleet import Fleet
from fakedev.sim.workloads.workload import Workload, origin_of
from fakedev.spec.workload_fields import fields_of_workload

#: Workloads that are told of a device or part; of more it is said how many there are.
_MAX_WORKLOADS: Final = 100
#: What is told of each of the parts of a device: all else is told of one part alone.
_OF_EACH_PART: Final = frozenset({
    "usage_ratio", "memory_bandwidth_ratio", "memory_used_bytes", "memory_total_bytes", "core_frequency_mhz",
    "power_watts", "temperature_celsius", "xid", "lost",
})  # fmt: skip


def describe_workloads(fleet: Fleet, workloads: Sequence[Workload]) -> list[dict[str, Any]]:
    """Workloads: id and state of each, what it was started with, and how it is doing."""
    loads, left = fleet.workloads.load_percents(), fleet.workloads.work_left()
    return [_workload(fleet, workload, loads, left) for workload in workloads]


def _workload(
    fleet: Fleet, workload: Workload, loads: Mapping[str, float], left: Mapping[str, float]
) -> dict[str, Any]:
    begun = workload.start_seconds
    lasts, _, _ = workload.end_seconds
    run_seconds = 0.0 if begun is None else round(fleet.state.seconds - begun, 6)
    if workload.spec.is_work:
        # At the highest clock from now on: it cannot be over sooner.
        lasts = min(lasts, run_seconds + left.get(workload.workload_id, workload.profile_seconds))
    return {
        "id": workload.workload_id,
        "state": "starting" if begun is None else "running",
        "origin": origin_of(workload.workload_id),
        **fields_of_workload(workload.spec),
        "device-count": len(workload.devices),
        "load-percent": loads.get(workload.workload_id, 0.0),
        "run-seconds": run_seconds,
        "remaining-seconds": None if lasts > 1e12 else round(max(lasts - run_seconds, 0.0), 6),
    }


def describe_device(fleet: Fleet, node: RosterNode, index: int, facts: dict[str, str]) -> dict[str, Any]:
    """A device: names, labels and all its quantities at the present tick.

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
    """A part of a device: names, labels and all its quantities at the present tick.

    :param unit: the part.
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
    """The parts of a device, each with its names, how it is, and the most important of its quantities."""
    roster, facts, level = fleet.roster, dict(fleet.part_facts(node)), fleet.state.levels["part"]
    return [
        {
            "part": roster.unit_name(unit),
            "facts": facts[unit],
            "quantities": _quantities(level, unit - roster.device_count, _OF_EACH_PART),
            **describe_state(fleet, unit),
        }
        for unit in roster.parts.of(node.first + index)
    ]


def describe_state(fleet: Fleet, unit: int) -> dict[str, Any]:
    """What is the matter with a device or part, and the workloads that are on it."""
    which = np.zeros(fleet.roster.parts.unit_count, np.bool_)
    which[unit] = True
    found = [each for each, _ in fleet.workloads.on_devices(fleet.roster.parts.spread(which))]
    told = [{"id": each.workload_id, "name": each.spec.name} for each in found[:_MAX_WORKLOADS]]
    more = len(found) - len(told)
    return {
        "health": health_of(fleet.state.levels["unit"], unit),
        "workloads": told,
        **({"more-workloads": more} if more else {}),
    }


def _quantities(level: Level, position: int, names: Collection[str] | None = None) -> dict[str, float]:
    """What an entity of a level has.

    :param names: of these quantities; None: of all.
    """
    wanted = level.arrays if names is None else (name for name in names if name in level.arrays)
    return {name: level.arrays[name][position].item() for name in sorted(wanted) if level.has(name, position)}


def describe_node(node: RosterNode, identity_title: str) -> dict[str, Any]:
    """A node: its pool, its devices, how it is seen."""
    return {
        "node": node.name,
        "pool": node.pool.name,
        "device-type": node.pool.device_type.name,
        "devices": node.pool.devices_per_node,
        "identity": identity_title,
        "metrics": f"/nodes/{node.name}/metrics",
    }


def describe_clock(fleet: Fleet, speed: float) -> dict[str, Any]:
    """Where the simulated clock stands."""
    return {
        "tick": fleet.state.tick,
        "tick-seconds": fleet.spec.tick_seconds,
        "seconds": fleet.state.seconds,
        "speed": speed,
        "epoch-seconds": fleet.spec.epoch_seconds,
        "due-seconds": fleet.state.wall_seconds,
    }
