"""What devices showed in the last ticks: a ring of fixed size, in half precision, for charts.

The whole fleet at a glance: a few small whole numbers for each device, as a map shows them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.carry_over import Moves
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level, State
from fakedev.sim.workloads.schedule import Positions

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

#: What is kept, and by what it is divided so that 16 bits hold it to a part in a thousand.
KEPT: Final[Mapping[str, float]] = {
    "usage_ratio": 1.0,
    "power_watts": 1.0,
    "temperature_celsius": 1.0,
    "core_frequency_mhz": 1.0,
    "memory_used_bytes": 2.0**30,
}
#: Ticks that are kept of a fleet of any usual size, and of the largest.
MAX_TICKS: Final = 600
MIN_TICKS: Final = 30
#: What the ring may hold where that is not below MIN_TICKS.
MAX_BYTES: Final = 32 * 1024 * 1024


@dataclass
class _Era:
    """A time in which the fleet was of one configuration.

    :ivar rows: quantity name to its row in the values of a tick.
    :ivar places: of each device of now its place then, -1 if it was not there: shape (devices,); None: the same.
    """

    rows: dict[str, int]
    places: Positions | None = None

    def move(self, moves: Moves) -> None:
        """The devices of now have new places."""
        old_of = moves.old_of
        self.places = old_of if self.places is None else np.where(old_of >= 0, self.places[old_of], -1)


class _Kept(NamedTuple):
    """What is kept of a tick.

    :ivar values: shape (quantities, devices), in the places of its era.
    :ivar fleet: by SUMMED.
    """

    tick: int
    seconds: float
    values: NDArray[np.float16]
    fleet: tuple[float, ...]
    era: _Era

    def value(self, name: str, position: int) -> float:
        """A quantity of a device of now; NaN when it was not shown."""
        row = self.era.rows.get(name)
        place = position if self.era.places is None else int(self.era.places[position])
        return math.nan if row is None or place < 0 else float(self.values[row, place])


class History:
    """The last ticks of every device.

    :param first: the state before the first tick.
    :ivar size: how many ticks are kept.
    """

    def __init__(self, first: State) -> None:
        level = first.levels["device"]
        self._era = _era_of(level)
        row_bytes = 2 * level.count * max(1, len(self._era.rows))
        self.size = min(MAX_TICKS, max(MIN_TICKS, MAX_BYTES // max(1, row_bytes)))
        self._kept: deque[_Kept] = deque(maxlen=self.size)
        self.note(first)

    def note(self, state: State) -> None:
        """Keep a state; that of the tick ``size`` ticks ago is forgotten."""
        level = state.levels["device"]
        values = np.empty((len(self._era.rows), level.count), np.float16)
        for row, name in enumerate(self._era.rows):
            values[row] = np.where(shown(level, name), level.arrays[name] / KEPT[name], np.nan)
        self._kept.append(_Kept(state.tick, state.seconds, values, summary(level), self._era))

    def move(self, moves: Moves, state: State) -> None:
        """The devices have new places, and what they have may be other quantities; the last ticks stay.

        :param state: of the first tick with them.
        """
        for era in {id(kept.era): kept.era for kept in self._kept}.values():
            era.move(moves)
        self._era = _era_of(state.levels["device"])

    def of_device(self, position: int) -> dict[str, list[float | None]]:
        """Each quantity of a device, the oldest tick first; None where it was not shown."""
        return {
            name: _plain(np.array([kept.value(name, position) for kept in self._kept]) * KEPT[name])
            for name in self._era.rows
        }

    def of_fleet(self) -> dict[str, list[float | None]]:
        """The mean usage, the power of all and the highest temperature, the oldest tick first."""
        return {name: _plain(np.array([kept.fleet[row] for kept in self._kept])) for row, name in enumerate(SUMMED)}

    def times(self) -> dict[str, list[float]]:
        """The ticks that are kept and their simulated seconds, the oldest first."""
        return {"ticks": [kept.tick for kept in self._kept], "seconds": [kept.seconds for kept in self._kept]}


def _era_of(level: Level) -> _Era:
    return _Era({name: row for row, name in enumerate([name for name in KEPT if name in level.arrays])})


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]
