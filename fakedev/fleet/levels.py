"""The levels of a fleet's states (:mod:`fakedev.fleet.entities.state`), and the health of devices and parts.

Levels are computed only here. A new level of entities must be added to each function here. The health of a device or
part is the worst of its conditions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.faults.per_tick import FaultTick
from fakedev.fleet.links.link_levels import LinkHistory, link_history, link_levels, moved
from fakedev.fleet.parts.part_demand import device_demand
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.parts.part_relations import Before
from fakedev.fleet.racks.racks import RACK_QUANTITIES, Racks
from fakedev.fleet.workloads.demand import Demand

Levels = Mapping[str, Level]

#: The devices of a fleet, in the order of its roster.
DEVICE: Final = "device"
#: Parts, in the order of their devices; units: all devices, then all parts; and devices without parts.
PART: Final = "part"
UNIT: Final = "unit"
WHOLE: Final = "whole"
#: Units, each with the quantities of its device: the arrays are those of the devices.
REPEATED: Final = "repeated"
#: Tiles, which are parts; devices with tiles, and devices without.
TILE: Final = "tile"
_TILED_LEVELS: Final = ("tiled", "single")
#: Devices of a pod.
_HELD: Final = "held"
_NO_PARTS: Final = Level(0, {}, {})


def next_levels(
    compiled: CompiledFleet,
    past: Levels | None,
    demand: Demand,
    tick_seconds: float,
    faults: FaultTick | None,
    links: LinkHistory,
    tick: int,
) -> Levels:
    """The levels of a tick.

    :param past: the levels of the tick before; None: there was none.
    :param demand: of the workloads, on all units in this tick.
    :param faults: the effects of faults in this tick; None: there are none.
    :param links: the history of the links, with this tick.
    :param tick: its number.
    """
    relations, of_parts, parts = compiled.relations, compiled.part_relations, compiled.roster.parts
    of_devices = None if faults is None else faults.of_devices()
    before = None if past is None else past[DEVICE]
    demand = compiled.capacity.with_usage(demand)
    if of_parts is None:
        devices = relations.device_level(demand, before, tick_seconds, of_devices, tick)
        return _all(parts, devices, _NO_PARTS, links, relations.racks)
    demand = of_parts.demand_within(demand)
    used_bytes = of_parts.used_bytes(demand)
    folded = device_demand(demand, parts, used_bytes, of_parts.idle_memory_bytes)
    devices = relations.device_level(folded, before, tick_seconds, of_devices, tick)
    past_parts = None if past is None else Before(past[PART], past[DEVICE])
    shown = of_parts.level(demand, used_bytes, devices, past_parts, tick_seconds, faults, tick)
    return _all(parts, devices, shown, links, relations.racks)


def first_levels(compiled: CompiledFleet, demand: Demand, tick: int, created_seconds: float | None = None) -> Levels:
    """The levels before the first tick of a history: the mean of an instant.

    :param created_seconds: creation time of all counters, in seconds since 1970; None: the epoch.
    """
    levels = next_levels(compiled, None, demand, 0.0, None, LinkHistory(compiled.roster.links), tick)
    if created_seconds is None:
        return levels
    devices = levels[DEVICE]
    arrays = {**devices.arrays, "created_seconds": np.full(devices.count, created_seconds)}
    return {**levels, DEVICE: Level(devices.count, arrays, devices.present)}


def reindexed_levels(
    compiled: CompiledFleet, past: Levels, before: CompiledFleet, moves: FleetReindex, created_seconds: float
) -> Levels:
    """The levels after a reload: remaining entities keep their values.

    :param past: the last levels before the reload.
    :param created_seconds: creation time of new entities, in seconds since 1970.
    """
    idle = compiled.idle
    created = np.full(idle.count, created_seconds)
    arrays, present = {**idle.arrays, "created_seconds": created}, idle.present
    if "lost" in past[DEVICE].arrays and "lost" not in arrays:
        # Devices without dynamics do not show it, and lost ones get no new work.
        arrays["lost"] = np.zeros(idle.count)
        present = {**present, "lost": np.zeros(idle.count, np.bool_)}
    fresh = Level(idle.count, arrays, present)
    devices = moves.level(past[DEVICE], before.quantities, fresh)
    links = moved(link_history(past), past[DEVICE], compiled.roster.links, moves)
    if compiled.part_relations is None:
        return _all(compiled.roster.parts, devices, _NO_PARTS, links, compiled.relations.racks)
    parts = compiled.part_relations.moved_level(past[PART], moves.parts, devices)
    return _all(compiled.roster.parts, devices, parts, links, compiled.relations.racks)


def shown_levels(parts: Parts, units: Level, levels: Levels) -> Levels:
    """The levels that pages show, from the shown level of all units.

    :param levels: the true levels.
    """
    devices, of_parts = parts.split_level(units) if parts.count else (units, _NO_PARTS)
    # Faults of boards and their exporters leave CPUs and racks unimpaired.
    of_racks = {name: levels[name] for name in RACK_QUANTITIES if name in levels}
    return _named(devices, of_parts, units) | link_levels(link_history(levels), levels[DEVICE], devices) | of_racks


def _all(parts: Parts, devices: Level, of_parts: Level, links: LinkHistory, racks: Racks | None) -> Levels:
    units = parts.unit_level(devices, of_parts) if parts.count else devices
    if links.happened and "lost" in devices.arrays:
        links = links.settled(devices.arrays["lost"] > 0)
    of_racks = {} if racks is None else racks.levels(devices)
    return _named(devices, of_parts, units) | link_levels(links, devices) | of_racks


def _named(devices: Level, of_parts: Level, units: Level) -> dict[str, Level]:
    of_devices = dict.fromkeys((DEVICE, WHOLE, REPEATED, *_TILED_LEVELS, _HELD), devices)
    return of_devices | {PART: of_parts, TILE: of_parts, UNIT: units}


Whole = NDArray[np.int32]

#: The states of a device's health, by the number that :func:`health` gives; the worst is the last.
HEALTH: Final = ("well", "power", "heat", "hardware", "error", "hung", "lost")
#: The quantity that is above 0 in each state, in the same order.
_SIGNS: Final = (
    "", "throttled_power", "throttled_thermal", "throttled_hardware", "xid", "hung", "lost",
)  # fmt: skip


def health(level: Level) -> Whole:
    """The health of each device, as positions in HEALTH: shape (devices,)."""
    worst = np.zeros(level.count, np.int32)
    for number, quantity in enumerate(_SIGNS):
        if quantity in level.arrays:
            worst[shown(level, quantity) & (level.arrays[quantity] > 0)] = number
    return worst


def worst_of(level: Level, positions: Collection[int]) -> str:
    """The worst health of some entities of a level: one of HEALTH."""
    for name, quantity in reversed(list(zip(HEALTH, _SIGNS, strict=True))):
        if any(level.has(quantity, position) and level.arrays[quantity][position] > 0 for position in positions):
            return name
    return HEALTH[0]


def health_of_boards(units: Level, parts: Parts) -> Whole:
    """The health of each board, the worst of its own and its parts', as positions in HEALTH: shape (devices,).

    :param units: the level of all units, devices first.
    """
    of_units = health(units)
    worst = of_units[: parts.device_count].copy()
    np.maximum.at(worst, parts.owners, of_units[parts.device_count :])
    return worst


def shown(level: Level, quantity: str) -> Mask:
    """Which devices have and show the quantity (a lost device shows only ``lost``): shape (devices,)."""
    is_there = level.mask(quantity)
    if quantity != "lost" and "lost" in level.arrays:
        is_there = is_there & (level.arrays["lost"] <= 0)
    return is_there
