"""The whole fleet at a glance: a few small whole numbers for each device, as a map shows them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level

Whole = NDArray[np.int32]

#: What may be the matter with a device, by the number that :func:`health` gives it; the worst is the last.
HEALTH: Final = ("well", "power", "heat", "hardware", "error", "hung", "lost")
#: The quantity that is above 0 then, in the same order.
_SIGNS: Final = (
    "", "throttled_power", "throttled_thermal", "throttled_hardware", "xid", "hung", "lost",
)  # fmt: skip
#: What :func:`summary` tells of.
SUMMED: Final = ("usage_ratio", "power_watts", "temperature_celsius")
#: Stands for a value that a device has not.
ABSENT: Final = -1


def health(level: Level) -> Whole:
    """What is the matter with each device: places in HEALTH, shape (devices,)."""
    worst = np.zeros(level.count, np.int32)
    for number, quantity in enumerate(_SIGNS):
        if quantity in level.arrays:
            worst[shown(level, quantity) & (level.arrays[quantity] > 0)] = number
    return worst


def health_of(level: Level, place: int) -> str:
    """What is the matter with one entity of a level: one of HEALTH."""
    for name, quantity in reversed(list(zip(HEALTH, _SIGNS, strict=True))):
        if level.has(quantity, place) and level.arrays[quantity][place] > 0:
            return name
    return HEALTH[0]


def rounded(level: Level, quantity: str, factor: float = 1.0) -> Whole:
    """A quantity by ``factor``, as whole numbers, shape (devices,); ABSENT where a device does not have it."""
    values = level.arrays.get(quantity)
    if values is None:
        return np.full(level.count, ABSENT, np.int32)
    is_there = shown(level, quantity) & np.isfinite(values)
    return np.where(is_there, np.rint(np.where(is_there, values, 0.0) * factor), ABSENT).astype(np.int32)


def summary(level: Level) -> tuple[float, float, float]:
    """Mean usage from 0 to 1, power of all in watts, highest temperature, of the devices that show them; NaN: none."""
    usage, power, temperature = (_values(level, name) for name in SUMMED)
    return (
        float(usage.mean()) if len(usage) else math.nan,
        float(power.sum()) if len(power) else math.nan,
        float(temperature.max()) if len(temperature) else math.nan,
    )


def _values(level: Level, quantity: str) -> Floats:
    values = level.arrays[quantity][shown(level, quantity)] if quantity in level.arrays else np.empty(0)
    return values[np.isfinite(values)]


def shown(level: Level, quantity: str) -> NDArray[np.bool_]:
    """Which devices have the quantity, and show it (a lost one shows nothing but that): shape (devices,)."""
    has = level.present.get(quantity)
    is_there = np.ones(level.count, np.bool_) if has is None else has
    if quantity != "lost" and "lost" in level.arrays:
        is_there = is_there & (level.arrays["lost"] <= 0)
    return is_there
