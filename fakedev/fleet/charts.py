"""The data of charts and maps: the last hour of every device, and small whole numbers for each device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.base.histograms import MAX_SPARSE, Recent
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.state import Level, Positions, State
from fakedev.fleet.levels import Whole, shown

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
#: The size of the values of devices, if that is not below MIN_TICKS; a quarter of it for the hour before these ticks.
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
        if self.positions is None:
            self.positions = old_of
            return
        # With one more place, which -1 finds: a fleet whose nodes have all left has no position at all.
        self.positions = np.append(self.positions, -1)[old_of]


class _Kept(NamedTuple):
    """The kept values of a tick.

    :ivar values: shape (quantities, devices), with the rows and positions of its era.
    """

    tick: int
    seconds: float
    wall_seconds: float
    values: NDArray[np.float16]
    era: _Era

    def value(self, name: str, position: int) -> float:
        """A quantity of a current device; NaN if it was not shown."""
        row = self.era.rows.get(name)
        before = position if self.era.positions is None else int(self.era.positions[position])
        return math.nan if row is None or before < 0 else float(self.values[row, before])


class _Summary(NamedTuple):
    """The summary of a tick.

    :ivar values: in the order of SUMMED.
    """

    tick: int
    seconds: float
    wall_seconds: float
    values: tuple[float, ...]


class History:
    """The last ticks of every device and of the fleet, and points of the hour before them.

    :ivar size: the number of kept ticks.
    """

    def __init__(self, first: State) -> None:
        level = first.levels["device"]
        self._era = _era_of(level)
        row_bytes = 2 * level.count * max(1, len(self._era.rows))
        self.size = min(MAX_TICKS, max(MIN_TICKS, 3 * MAX_BYTES // 4 // max(1, row_bytes)))
        sparse = min(MAX_SPARSE, MAX_BYTES // 4 // max(1, row_bytes))
        self._kept: Recent[_Kept] = Recent(self.size, sparse)
        self._summaries: Recent[_Summary] = Recent(MAX_TICKS)
        self.note(first)

    def note(self, state: State) -> None:
        """Add a state; the oldest of ``size`` states is removed, or kept as a point of the hour before."""
        level = state.levels["device"]
        values = np.empty((len(self._era.rows), level.count), np.float16)
        is_any_lost = _is_any_lost(level)
        for row, name in enumerate(self._era.rows):
            scaled = level.arrays[name] / KEPT[name]
            is_partial = is_any_lost or name in level.present
            values[row] = np.where(shown(level, name), scaled, np.nan) if is_partial else scaled
        self._kept.add(_Kept(state.tick, state.seconds, state.wall_seconds, values, self._era))
        self._summaries.add(_Summary(state.tick, state.seconds, state.wall_seconds, summary(level)))

    def move(self, moves: FleetReindex, state: State) -> None:
        """Use the new positions of the devices after a reload, and their quantities; the last ticks stay.

        :param state: of the first tick after the reload.
        """
        for era in {id(kept.era): kept.era for kept in self._kept}.values():
            era.reindex(moves)
        self._era = _era_of(state.levels["device"])

    def of_device(self, position: int, seconds: float | None = None) -> dict[str, Any]:
        """The ticks, their simulated seconds, and each quantity of a device; None where a tick did not show it.

        :param seconds: the time span, which ends now; None: the last ticks, without points of the hour before.
        """
        kept = list(self._kept.within(seconds))
        rows = {name: [each.value(name, position) * factor for each in kept] for name, factor in KEPT.items()}
        return _told(kept, {name: row for name, row in rows.items() if name in self._era.rows})

    def of_fleet(self, seconds: float | None = None) -> dict[str, Any]:
        """The ticks, their simulated seconds, the mean usage, the power of all, and the highest temperature."""
        kept = list(self._summaries.within(seconds))
        return _told(kept, {name: [each.values[row] for each in kept] for row, name in enumerate(SUMMED)})


def _told(kept: Sequence[_Kept | _Summary], quantities: Mapping[str, Iterable[float]]) -> dict[str, Any]:
    return {
        "ticks": [each.tick for each in kept],
        "seconds": [each.seconds for each in kept],
        "wall-seconds": [round(each.wall_seconds, 3) for each in kept],
        "quantities": {
            name: [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]
            for name, values in quantities.items()
        },
    }


def _era_of(level: Level) -> _Era:
    return _Era({name: row for row, name in enumerate([name for name in KEPT if name in level.arrays])})


def rounded(level: Level, quantity: str, factor: float = 1.0) -> Whole:
    """A quantity times ``factor`` as whole numbers, shape (devices,); ABSENT for devices without it."""
    values = level.arrays.get(quantity)
    if values is None:
        return np.full(level.count, ABSENT, np.int32)
    is_there = shown(level, quantity) & np.isfinite(values)
    return np.where(is_there, np.rint(np.where(is_there, values, 0.0) * factor), ABSENT).astype(np.int32)


def summary(level: Level) -> tuple[float, float, float]:
    """Mean usage (0 to 1), total power in watts, highest temperature of the devices that show them; NaN if none do."""
    is_any_lost = _is_any_lost(level)
    usage, power, temperature = (_values(level, name, is_any_lost) for name in SUMMED)
    return (
        float(usage.mean()) if len(usage) else math.nan,
        float(power.sum()) if len(power) else math.nan,
        float(temperature.max()) if len(temperature) else math.nan,
    )


def _is_any_lost(level: Level) -> bool:
    return "lost" in level.arrays and bool((level.arrays["lost"] > 0).any())


def _values(level: Level, quantity: str, is_any_lost: bool) -> Floats:
    values = level.arrays.get(quantity, np.empty(0))
    if len(values) and (is_any_lost or quantity in level.present):
        values = values[shown(level, quantity)]
    is_finite = np.isfinite(values)
    return values if is_finite.all() else values[is_finite]
