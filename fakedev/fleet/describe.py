"""Workloads, devices and nodes as plain values, for the API and for answers on the line ports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from fakedev.base.errors import Refused, did_you_mean
from fakedev.base.units import parse_duration
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.entities.state import Level
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import JOURNAL_KINDS, MAX_KEPT, JournalEntry
from fakedev.fleet.levels import DEVICE, UNIT, worst_of
from fakedev.fleet.past import wall_time
from fakedev.fleet.spec.workload_fields import fields_of_workload
from fakedev.fleet.ticker import Ticker
from fakedev.fleet.workloads.owners import owned, value_facts
from fakedev.fleet.workloads.workload import Workload, origin_of
from fakedev.web.paths import NODE_METRICS

#: Workloads in the description of a device or part; ``more-workloads`` counts the rest.
_MAX_WORKLOADS: Final = 100
#: The quantities in a list of parts; the description of a single part has all.
_LISTED_QUANTITIES: Final = frozenset({
    "usage_ratio", "memory_bandwidth_ratio", "memory_used_bytes", "memory_total_bytes", "core_frequency_mhz",
    "power_watts", "temperature_celsius", "xid", "lost",
})  # fmt: skip


def describe_workloads(fleet: Fleet, workloads: Sequence[Workload]) -> list[dict[str, Any]]:
    """Workloads: the id of each, the fields that it was started with, and its state."""
    return list(map(workload_describer(fleet, workloads), workloads))


def describe_workload(fleet: Fleet, word: str) -> dict[str, Any]:
    """The workload of that id, or the oldest of that name.

    :raises Refused: when there is none.
    """
    found = fleet.workloads.find(word)
    if not found:
        raise fleet.workloads.unknown(word)
    return describe_workloads(fleet, [fleet.workloads.by_id[found[0]]])[0]


def workload_describer(fleet: Fleet, workloads: Sequence[Workload]) -> Callable[[Workload], dict[str, Any]]:
    """A function that describes these workloads as they are now, also when it is called in a later tick."""
    rows = fleet.workloads.rows_of([workload.workload_id for workload in workloads])
    loads, left = fleet.workloads.load_percents(rows), fleet.workloads.work_left(rows)
    return partial(_workload, fleet.state.seconds, loads, left)


def _workload(
    now_seconds: float, loads: Mapping[str, float], left: Mapping[str, float], workload: Workload
) -> dict[str, Any]:
    started = workload.start_seconds
    work_left = left.get(workload.workload_id, workload.profile_seconds)
    remaining_seconds = workload_seconds_left(now_seconds, work_left, workload)
    return {
        "id": workload.workload_id,
        "state": "starting" if started is None else "running",
        "origin": origin_of(workload.workload_id),
        **fields_of_workload(workload.spec),
        "device-count": len(workload.devices),
        "load-percent": loads.get(workload.workload_id, 0.0),
        "run-seconds": 0.0 if started is None else round(max(now_seconds - started, 0.0), 6),
        "remaining-seconds": None if remaining_seconds > 1e12 else round(remaining_seconds, 6),
    }


def workload_seconds_left(now_seconds: float, work_left: float, workload: Workload) -> float:
    """Seconds until the earliest known end of a workload; over 1e12 when it has none.

    :param work_left: the remaining seconds of its profile, if that has an open end.
    """
    started = workload.start_seconds
    total_seconds = workload.end_seconds.seconds
    run_seconds = 0.0 if started is None else max(now_seconds - started, 0.0)
    if workload.spec.has_open_end:
        # At the highest clock and without what is drawn, from now on.
        total_seconds = min(total_seconds, run_seconds + work_left)
    return max(total_seconds - run_seconds, 0.0)


def device_describer(fleet: Fleet, devices: Sequence[int]) -> Callable[[int], dict[str, Any]]:
    """A function that describes these devices as they are now, also when it is called in a later tick.

    It returns names, labels and all quantities of one of them.
    """
    roster, seed = fleet.roster, fleet.spec.seed
    level, units = fleet.state.levels[DEVICE], fleet.state.levels[UNIT]
    owners = {device: fleet.labels.attribution.facts(device) for device in devices}
    rows = {device: row for row, device in enumerate(devices)}
    chosen = np.array(devices, np.int64)
    values = {name: level.arrays[name][chosen].tolist() for name in sorted(level.arrays)}
    present = {name: level.present[name][chosen].tolist() for name in values if name in level.present}
    facts = lru_cache(maxsize=1)(partial(roster.facts, seed))

    def describe(device: int) -> dict[str, Any]:
        node, row = roster.nodes[roster.node_position(device)], rows[device]
        parts = [roster.unit_name(unit) for unit in roster.parts.of(device)]
        return {
            "device": f"{node.name}/{device - node.first}",
            "type": node.pool.device_type.name,
            "facts": owned(facts(node)[device - node.first], owners[device]) | value_facts(units, device),
            "quantities": {
                name: column[row] for name, column in values.items() if name not in present or present[name][row]
            },
            **({"parts": parts} if parts else {}),
        }

    return describe


def describe_part(fleet: Fleet, unit: int, facts: Mapping[str, str]) -> dict[str, Any]:
    """A part of a device: names, labels and all its quantities at the current tick.

    :param facts: its own, from ``fleet.labels.part_facts(node)``.
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
    roster, facts, level = fleet.roster, dict(fleet.labels.part_facts(node)), fleet.state.levels["part"]
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
    found = [workload for workload, _ in fleet.workloads.on_devices(fleet.roster.parts.spread(which))]
    described = [{"id": workload.workload_id, "name": workload.spec.name} for workload in found[:_MAX_WORKLOADS]]
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


def describe_clock(fleet: Fleet, ticker: Ticker) -> dict[str, Any]:
    """The state of the simulated clock."""
    tick, advance = fleet.state.tick, ticker.advancing
    return {
        "tick": tick,
        "tick-seconds": fleet.spec.tick_seconds,
        "seconds": fleet.state.seconds,
        "speed": ticker.speed,
        "epoch-seconds": fleet.spec.epoch_seconds,
        "due-seconds": fleet.state.wall_seconds,
        "advance": None
        if advance is None
        else {"first-tick": advance.first, "target-tick": advance.target, "percent": advance.percent_at(tick)},
    }


def find_entries(
    fleet: Fleet, kinds: Sequence[str] = (), devices: Sequence[str] = (), node: str = "", count: int = MAX_KEPT,
    since: str = "",
) -> list[JournalEntry]:  # fmt: skip
    """The latest entries, oldest first.

    :param kinds: only these kinds, without those that begin with a minus; empty for all.
    :param devices: only what concerns one of these devices or a part of it; device words as in a workload.
    :param node: the node of device words that name none; without devices, only what concerns this node.
    :param since: only what happened in a simulated time that ends now, or since a wall time; empty for all.
    :raises Refused: when there is no such kind, device or node, or the time is none.
    """
    for kind in (kind_word.removeprefix("-") for kind_word in kinds):
        if kind not in JOURNAL_KINDS:
            hint = did_you_mean(kind, JOURNAL_KINDS, f": give some of {', '.join(JOURNAL_KINDS)}")
            raise Refused("unknown-name", f"nothing of the kind {kind[:100]!r} happens{hint}", "kind")
    if any(kind.startswith("-") for kind in kinds):
        chosen = [kind for kind in kinds if not kind.startswith("-")] or JOURNAL_KINDS
        kinds = [kind for kind in chosen if f"-{kind}" not in kinds]
    on = None
    if devices or node:
        parts = fleet.roster.parts
        on = np.zeros(parts.unit_count, dtype=np.bool_)
        on[parts.with_parts(resolve(devices or ["all"], fleet.roster, node))] = True
    if not since:
        return fleet.journal.last(count, frozenset(kinds), on)
    is_recent = _after(fleet, since)
    return [entry for entry in fleet.journal.last(MAX_KEPT, frozenset(kinds), on) if is_recent(entry)][-count:]


def _after(fleet: Fleet, since: str) -> Callable[[JournalEntry], bool]:
    try:
        begin = fleet.state.seconds - parse_duration(since)
        return lambda entry: entry.seconds >= begin
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(since)
    except ValueError:
        text = f"since: {since[:40]!r} is no duration, as 10m, and no time, as 2026-11-26T10:04:05Z"
        raise Refused("bad-argument", text, "since") from None
    wall_seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return lambda entry: fleet.clock.past_seconds(entry.tick) >= wall_seconds


def describe_entry(fleet: Fleet, entry: JournalEntry) -> dict[str, Any]:
    """An entry of the journal with its wall time."""
    return {**entry.fields(), "at": wall_time(fleet.clock.past_seconds(entry.tick))}


def describe_limits(fleet: Fleet, device: int) -> dict[str, list[list[Any]]]:
    """The limits of a device's quantities, for lines in charts: pairs of a name and a value, the present one first."""
    level, node = fleet.state.levels[DEVICE], fleet.roster.nodes[fleet.roster.node_position(device)]
    dynamics = node.pool.device_type.dynamics
    found: dict[str, list[list[Any]]] = {}
    for quantity, limit, name in (
        ("power_watts", "power_limit_watts", "limit"),
        ("core_frequency_mhz", "core_frequency_max_mhz", "limit"),
        ("memory_used_bytes", "memory_total_bytes", "limit"),
    ):
        if level.has(limit, device):
            found[quantity] = [[name, float(level.arrays[limit][device])]]
    if dynamics is not None:
        if dynamics.power_limit_watts and found.get("power_watts", [["", 0.0]])[0][1] != dynamics.power_limit_watts:
            found.setdefault("power_watts", []).append(["usual limit", dynamics.power_limit_watts])
        found["temperature_celsius"] = [
            ["slowdown", dynamics.slowdown_celsius], ["hardware slowdown", dynamics.hardware_slowdown_celsius],
            ["shutdown", dynamics.shutdown_celsius],
        ]  # fmt: skip
    return found
