"""The data of charts and maps: a ring of the last ticks of every device, and small whole numbers for each device."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.state import Level, Mask, Positions, State

Whole = NDArray[np.int32]

#: The states of a device's health, by the number that :func:`health` gives; the worst is the last.
HEALTH: Final = ("well", "power", "heat", "hardware", "error", "hung", "lost")
#: The quantity that is above 0 in each state, in the same order.
_SIGNS: Final = (
    "", "throttled_power", "throttled_thermal", "throttled_hardware", "xid", "hung", "lost",
)  # fmt: skip
#: The quantities of :func:`summary`.
SUMMED: Final = ("usage_ratio", "power_watts", "temperature_celsius")
#: For a quantity that a device does not have.
ABSENT: Final = -1
#: The kept quantities, and the divisors with which 16 bits hold them to a thousandth.
KEPT: Final[Mapping[str, float]] = {
    "usage_ratio": 1.0,
    "power_watts": 1.0,
    "temperature_celsius": 1.0,
    "core_frequency_mhz": 1.0,
    "memory_used_bytes": 2.0**30,
}
#: The number of kept ticks, for fleets of usual size and for the largest.
MAX_TICKS: Final = 600
MIN_TICKS: Final = 30
#: The size of the ring, if that is not below MIN_TICKS.
MAX_BYTES: Final = 32 * 1024 * 1024


@dataclass
class _Era:
    """The time between two reloads.

    :ivar rows: quantity name to its row in the values of a tick.
    :ivar positions: the position in the era of each current device, -1 if it did not exist: shape (devices,); None: the
        current positions.
    """

    rows: dict[str, int]
    positions: Positions | None = None

    def reindex(self, moves: FleetReindex) -> None:
        """Use the new positions of the devices."""
        old_of = moves.old_of
        self.positions = old_of if self.positions is None else np.where(old_of >= 0, self.positions[old_of], -1)


class _Kept(NamedTuple):
    """The kept values of a tick.

    :ivar values: shape (quantities, devices), with the rows and positions of its era.
    :ivar fleet: the summary, in the order of SUMMED.
    """

    tick: int
    seconds: float
    values: NDArray[np.float16]
    fleet: tuple[float, ...]
    era: _Era

    def value(self, name: str, position: int) -> float:
        """A quantity of a current device; NaN if it was not shown."""
        row = self.era.rows.get(name)
        before = position if self.era.positions is None else int(self.era.positions[position])
        return math.nan if row is None or before < 0 else float(self.values[row, before])


class History:
    """The last ticks of every device.

    :ivar size: the number of kept ticks.
    """

    def __init__(self, first: State) -> None:
        level = first.levels["device"]
        self._era = _era_of(level)
        row_bytes = 2 * level.count * max(1, len(self._era.rows))
        self.size = min(MAX_TICKS, max(MIN_TICKS, MAX_BYTES // max(1, row_bytes)))
        self._kept: deque[_Kept] = deque(maxlen=self.size)
        self.note(first)

    def note(self, state: State) -> None:
        """Add a state; the oldest of ``size`` states is removed."""
        level = state.levels["device"]
        values = np.empty((len(self._era.rows), level.count), np.float16)
        for row, name in enumerate(self._era.rows):
            values[row] = np.where(shown(level, name), level.arrays[name] / KEPT[name], np.nan)
        self._kept.append(_Kept(state.tick, state.seconds, values, summary(level), self._era))

    def move(self, moves: FleetReindex, state: State) -> None:
        """Use the new positions of the devices after a reload, and their quantities; the last ticks stay.

        :param state: of the first tick after the reload.
        """
        for era in {id(kept.era): kept.era for kept in self._kept}.values():
            era.reindex(moves)
        self._era = _era_of(state.levels["device"])

    def of_device(self, position: int) -> dict[str, list[float | None]]:
        """Each quantity of a device, the oldest tick first; None for ticks that did not show it."""
        return {
            name: _plain(np.array([kept.value(name, position) for kept in self._kept]) * KEPT[name])
            for name in self._era.rows
        }

    def of_fleet(self) -> dict[str, list[float | None]]:
        """The mean usage, the power of all and the highest temperature, the oldest tick first."""
        return {name: _plain(np.array([kept.fleet[row] for kept in self._kept])) for row, name in enumerate(SUMMED)}

    def times(self) -> dict[str, list[float]]:
        """The kept ticks and their simulated seconds, the oldest first."""
        return {"ticks": [kept.tick for kept in self._kept], "seconds": [kept.seconds for kept in self._kept]}


def _era_of(level: Level) -> _Era:
    return _Era({name: row for row, name in enumerate([name for name in KEPT if name in level.arrays])})


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]


def health(level: Level) -> Whole:
    """The health of each device, as positions in HEALTH: shape (devices,)."""
    worst = np.zeros(level.count, np.int32)
    for number, quantity in enumerate(_SIGNS):
        if quantity in level.arrays:
            worst[shown(level, quantity) & (level.arrays[quantity] > 0)] = number
    return worst


def health_of(level: Level, position: int) -> str:
    """The health of one entity of a level: one of HEALTH."""
    for name, quantity in reversed(list(zip(HEALTH, _SIGNS, strict=True))):
        if level.has(quantity, position) and level.arrays[quantity][position] > 0:
            return name
    return HEALTH[0]


def rounded(level: Level, quantity: str, factor: float = 1.0) -> Whole:
    """A quantity times ``factor`` as whole numbers, shape (devices,); ABSENT for devices without it."""
    values = level.arrays.get(quantity)
    if values is None:
        return np.full(level.count, ABSENT, np.int32)
    is_there = shown(level, quantity) & np.isfinite(values)
    return np.where(is_there, np.rint(np.where(is_there, values, 0.0) * factor), ABSENT).astype(np.int32)


def summary(level: Level) -> tuple[float, float, float]:
    """Mean usage (0 to 1), total power in watts, highest temperature of the devices that show them; NaN if none do."""
    usage, power, temperature = (_values(level, name) for name in SUMMED)
    return (
        float(usage.mean()) if len(usage) else math.nan,
        float(power.sum()) if len(power) else math.nan,
        float(temperature.max()) if len(temperature) else math.nan,
    )


def _values(level: Level, quantity: str) -> Floats:
    values = level.arrays[quantity][shown(level, quantity)] if quantity in level.arrays else np.empty(0)
    return values[np.isfinite(values)]


def shown(level: Level, quantity: str) -> Mask:
    """Which devices have and show the quantity (a lost device shows only ``lost``): shape (devices,)."""
    is_there = level.mask(quantity)
    if quantity != "lost" and "lost" in level.arrays:
        is_there = is_there & (level.arrays["lost"] <= 0)
    return is_there
