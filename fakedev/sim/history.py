"""What devices showed in the last ticks: a ring of fixed size, in half precision, for charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.moves import Moves
from fakedev.sim.overview import SUMMED, shown, summary
from fakedev.sim.state import State

#: What is kept, and by what it is divided so that 16 bits hold it to a part in a thousand.
KEPT: Final[Mapping[str, float]] = {
    "usage_ratio": 1.0,
    "power_watts": 1.0,
    "temperature_celsius": 1.0,
    "core_frequency_mhz": 1.0,
    "memory_used_bytes": 2.0**30,
}
#: Ticks that are kept of a fleet of any usual size, and of the largest.
MOST_TICKS: Final = 600
LEAST_TICKS: Final = 30
#: What the ring may hold where that is not below LEAST_TICKS.
MOST_BYTES: Final = 32 * 1024 * 1024


class History:
    """The last ticks of every device.

    :param first: the state before the first tick.
    :ivar size: how many ticks are kept.
    """

    def __init__(self, first: State) -> None:
        level = first.levels["device"]
        self._names = [name for name in KEPT if name in level.arrays]
        row_bytes = 2 * level.count * max(1, len(self._names))
        self.size = min(MOST_TICKS, max(LEAST_TICKS, MOST_BYTES // max(1, row_bytes)))
        self._values = np.full((len(self._names), self.size, level.count), np.nan, np.float16)
        self._ticks = np.full(self.size, -1, np.int64)
        self._seconds = np.zeros(self.size)
        self._fleet = np.full((len(SUMMED), self.size), np.nan)
        self.note(first)

    def note(self, state: State) -> None:
        """Keep a state; that of the tick ``size`` ticks ago is forgotten."""
        place = state.tick % self.size
        level = state.levels["device"]
        self._ticks[place] = state.tick
        self._seconds[place] = state.seconds
        for row, name in enumerate(self._names):
            kept = self._values[row, place]
            kept[:] = np.where(shown(level, name), level.arrays[name] / KEPT[name], np.nan)
        self._fleet[:, place] = summary(level)

    def move(self, moves: Moves, state: State) -> None:
        """The devices have new places, and what they have may be other quantities; the last ticks stay.

        :param state: of the first tick with them.
        """
        level = state.levels["device"]
        names = [name for name in KEPT if name in level.arrays]
        values = np.full((len(names), self.size, level.count), np.nan, np.float16)
        stays = np.flatnonzero(moves.old_of >= 0)
        for row, name in enumerate(names):
            if name in self._names:
                values[row][:, stays] = self._values[self._names.index(name)][:, moves.old_of[stays]]
        self._names, self._values = names, values

    def of_device(self, position: int) -> dict[str, list[float | None]]:
        """Each quantity of a device, the oldest tick first; None where it was not shown."""
        order = self._order()
        return {
            name: _plain(self._values[row, order, position].astype(np.float64) * KEPT[name])
            for row, name in enumerate(self._names)
        }

    def of_fleet(self) -> dict[str, list[float | None]]:
        """The mean usage, the power of all and the highest temperature, the oldest tick first."""
        order = self._order()
        return {name: _plain(self._fleet[row, order]) for row, name in enumerate(SUMMED)}

    def times(self) -> dict[str, list[float]]:
        """The ticks that are kept and their simulated seconds, the oldest first."""
        order = self._order()
        return {"ticks": self._ticks[order].tolist(), "seconds": self._seconds[order].tolist()}

    def _order(self) -> NDArray[np.int64]:
        """Places in the ring, the oldest tick first."""
        places = np.argsort(self._ticks, kind="stable")
        return places[self._ticks[places] >= 0]


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]
