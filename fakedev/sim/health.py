"""The health of devices and parts: the worst of their conditions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.parts.layout import Parts

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
        if any(level.has(quantity, each) and level.arrays[quantity][each] > 0 for each in positions):
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
