"""The levels of a fleet's states (:mod:`fakedev.sim.state`): the one place where they are made, a tick from the last.

Whoever adds a level of entities adds it to each of these functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.sim.demand import Demand
from fakedev.sim.faults.fault_tick import FaultTick
from fakedev.sim.machinery import Machinery
from fakedev.sim.moves import Moves
from fakedev.sim.state import Level

Levels = Mapping[str, Level]

#: The level that every fleet has: its devices, in the order of its roster.
DEVICE: Final = "device"


def first_levels(machinery: Machinery, demand: Demand) -> Levels:
    """The levels of the first instant.

    :param demand: what the workloads ask in it.
    """
    return {DEVICE: machinery.relations.device_level(demand, None, 0.0)}


def next_levels(
    machinery: Machinery, past: Levels, demand: Demand, tick_seconds: float, faults: FaultTick | None
) -> Levels:
    """The levels of a tick.

    :param past: those of the tick before.
    :param demand: what the workloads ask in this tick.
    :param faults: what faults do in it; None: there are none.
    """
    return {DEVICE: machinery.relations.device_level(demand, past[DEVICE], tick_seconds, faults)}


def moved_levels(machinery: Machinery, past: Levels, before: Machinery, moves: Moves, created_seconds: float) -> Levels:
    """The levels of a fleet that goes over to another configuration: what lives on shows what it showed.

    :param past: what was shown last, of the fleet before.
    :param before: what that was made of.
    :param created_seconds: when those came that are new, in seconds since 1970.
    """
    idle = machinery.idle
    created = np.full(idle.count, created_seconds)
    fresh = Level(idle.count, {**idle.arrays, "created_seconds": created}, idle.present)
    return {DEVICE: moves.level(past[DEVICE], before.quantities, fresh)}
