"""The data of charts and maps: the last day of every device, and small whole numbers for each device."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.base.histograms import MAX_SPARSE, Recent
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.state import Level, Positions, State
from fakedev.fleet.levels import Whole, shown

#: The quantities of :func:`summary`.
SUMMED: Final = ("usage_ratio", "power_watts", "temperature_celsius")
#: For a quantity that a device does not have.
ABSENT: Final = -1
#: The kept quantities, SUMMED first, and the divisors with which 16 bits hold them to a thousandth.
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
MAX_BYTES: Final = 16 * 1024 * 1024
DAY_SECONDS: Final = 86_400
#: The length of a point of the day: the shortest with which the points of a whole day take at most MAX_DAY_BYTES.
POINT_SECONDS: Final = (60, 120, 300, 600, 900, 1800, 3600)
MAX_DAY_BYTES: Final = 16 * 1024 * 1024
#: The digits after the point that answers have, or, below 0, the zeros before it.
_DIGITS: Final[Mapping[str, int]] = {
    "usage_ratio": 5,
    "power_watts": 2,
    "temperature_celsius": 2,
    "core_frequency_mhz": 1,
    "memory_used_bytes": -6,
}
#: Values for which a call of NumPy costs as much as what it does.
_AT_ONCE: Final = 4000
_MAX_HALF: Final = np.float32(65504)
#: Moves the exponent of a float32 to a float16's.
_HALF_BIAS: Final = np.float32(2.0**-112)

_Array = NDArray[np.floating]


@dataclass
class _Era:
    """The time between two reloads.

    :ivar positions: the position in the era of each current device, -1 if it did not exist: shape (devices,); None: the
        current positions.
    """

    positions: NDArray[np.int32] | None = None  # in 32 bits: where nodes come and go there are some hundred eras

    def reindex(self, moves: Reindex) -> None:
        """Use the new positions of the devices."""
        old_of = moves.old_of
        if self.positions is None:
            self.positions = old_of.astype(np.int32)
            return
        # With one more place, which -1 finds: a fleet whose nodes have all left has no position at all.
        self.positions = np.append(self.positions, np.int32(-1))[old_of]


class _Kept(NamedTuple):
    """The kept values of a tick, or of the ticks of a point, which begins at this one.

    :ivar values: shape (quantities, devices), of a point (3, quantities, devices): lowest, mean, highest; with the
        positions of its era.
    """

    tick: int
    seconds: float
    wall_seconds: float
    values: _Array
    era: _Era

    def of(self, positions: Positions) -> _Array:
        """The values of current devices; NaN where they were not shown."""
        if self.era.positions is None:
            return self.values[..., positions]
        return _taken(self.values, self.era.positions[positions])


class TickValues:
    """The values of one tick, in arrays that all ticks use: large arrays are not allocated in each of them.

    :ivar values: shape (quantities, devices).
    """

    def __init__(self, quantities: int, devices: int) -> None:
        self.values = np.empty((quantities, devices), np.float32)
        self._scaled = np.empty_like(self.values)
        self._signs = np.empty(self.values.shape, np.uint32)

    def halves(self) -> NDArray[np.float16]:
        """The values in 16 bits, as by ``astype(np.float16)``, which takes several times as long.

        Too large numbers become the largest of 16 bits; numbers below 0.0001 are a little less exact.
        """
        if self.values.size < _AT_ONCE:
            return self.values.astype(np.float16)
        np.clip(self.values, -_MAX_HALF, _MAX_HALF, out=self._scaled)
        np.multiply(self._scaled, _HALF_BIAS, out=self._scaled)
        # Now the bits of the float16 begin at 13, but for the sign.
        bits = self._scaled.view(np.uint32)
        np.right_shift(bits, 16, out=self._signs)
        np.bitwise_and(self._signs, 0x8000, out=self._signs)
        np.add(bits, 0x1000, out=bits)
        np.right_shift(bits, 13, out=bits)
        np.bitwise_and(bits, 0x7FFF, out=bits)
        np.bitwise_or(bits, self._signs, out=bits)
        return bits.astype(np.uint16).view(np.float16)


class _Past:
    """The last ticks of some devices, points of the hour before them, and points of the day before those.

    :ivar point_seconds: the length of a point of the day; None: the devices are too many to keep a day.
    """

    def __init__(self, scales: Mapping[str, float], value_bytes: int, ticks: int, sparse: int, devices: int) -> None:
        """
        :param scales: the quantities, with the divisors of their kept values.
        """
        self._scales, self._value_bytes = scales, value_bytes
        self._recent: Recent[_Kept] = Recent(ticks, sparse)
        self._day: deque[_Kept] = deque()
        self._first: _Kept | None = None  # the first tick of the point that is not complete
        self._resize(ticks, sparse, devices)

    def _resize(self, ticks: int, sparse: int, devices: int) -> None:
        """Keep from now on what a number of devices allows; the oldest beyond that is forgotten."""
        point_bytes = 3 * len(self._scales) * self._value_bytes * max(1, devices)
        fitting = (seconds for seconds in POINT_SECONDS if DAY_SECONDS // seconds * point_bytes <= MAX_DAY_BYTES)
        self.point_seconds = next(fitting, None)
        self._recent.resize(ticks, sparse)
        self._day = deque(self._day, DAY_SECONDS // self.point_seconds if self.point_seconds else 0)
        self._first = self._first if self.point_seconds else None
        shape = len(self._scales), devices
        self._point = np.empty((4, *shape), np.float32)  # its lowest, sum, highest, and the number of values
        # Of small fleets the values of several ticks are added at once.
        self._waiting = np.empty((max(1, min(60, _AT_ONCE // max(1, math.prod(shape)))), *shape), np.float32)
        self._waiting_count = 0
        self._reduced = np.empty(shape, np.float32)

    def add(self, kept: _Kept, values: NDArray[np.float32]) -> None:
        """Add a tick, with its values also in 32 bits."""
        self._recent.add(kept)
        if self.point_seconds is None:
            return
        if self._first is None or kept.seconds // self.point_seconds != self._first.seconds // self.point_seconds:
            if self._first is not None:
                self._day.append(self._complete(self._first))
            self._first = kept
            self._point[::2] = np.nan
            self._point[1::2] = 0
        self._waiting[self._waiting_count] = values
        self._waiting_count += 1
        if self._waiting_count == len(self._waiting):
            self._reduce()

    def _reduce(self) -> None:
        """Add the waiting values to the point."""
        if not self._waiting_count:
            return
        waiting, reduced = self._waiting[: self._waiting_count], self._reduced
        self._waiting_count = 0
        lowest, total, highest, number = self._point
        np.fmin(lowest, np.fmin.reduce(waiting, out=reduced), out=lowest)
        np.fmax(highest, np.fmax.reduce(waiting, out=reduced), out=highest)
        gaps = np.isnan(waiting)
        if gaps.any():
            np.add(number, len(waiting) - np.add.reduce(gaps, dtype=np.float32), out=number)
            waiting[gaps] = 0
        else:
            np.add(number, len(waiting), out=number)
        np.add(total, np.add.reduce(waiting, out=reduced), out=total)

    def move(self, moves: Reindex, ticks: int, sparse: int) -> None:
        """Use the new positions of the devices, and keep as much as their number allows."""
        for era in {id(kept.era): kept.era for kept in (*self._recent, *self._day)}.values():
            era.reindex(moves)
        self._reduce()
        point = _taken(self._point, moves.old_of)
        self._resize(ticks, sparse, len(moves.old_of))
        self._point[::2] = point[::2]
        self._point[1::2] = np.nan_to_num(point[1::2])  # the sum and the number of a new device
        if self._first is not None:
            self._first = self._first._replace(era=_Era())

    def of(self, positions: Positions, seconds: float | None, names: Collection[str]) -> dict[str, Any]:
        """Times, and at these times the quantities with these names, of each device.

        If the first times belong to points of the day, ``lowest`` and ``highest`` have these times.

        :param seconds: the time span, which ends now; None: the last ticks alone.
        """
        ticks = list(self._recent.within(seconds))
        points = [] if seconds is None else self._points(ticks[-1].seconds - seconds)
        tables = {"quantities": np.array([kept.of(positions) for kept in ticks], np.float64)}
        if points:
            lowest, mean, highest = np.array([kept.of(positions) for kept in points], np.float64).swapaxes(0, 1)
            tables = {"quantities": np.concatenate([mean, tables["quantities"]]), "lowest": lowest, "highest": highest}
        every = [*points, *ticks]
        return {
            "ticks": [kept.tick for kept in every],
            "seconds": [kept.seconds for kept in every],
            "wall-seconds": [round(kept.wall_seconds, 3) for kept in every],
            "point-seconds": self.point_seconds,
            **{
                key: {
                    name: np.round(table[:, row].T * scale, _DIGITS[name]).tolist()
                    for row, (name, scale) in enumerate(self._scales.items())
                    if name in names
                }
                for key, table in tables.items()
            },
        }

    def _points(self, begin: float) -> list[_Kept]:
        """The points of the day that begin at a time or later, and before all other entries."""
        end = next(iter(self._recent)).seconds
        points = [kept for kept in self._day if begin <= kept.seconds < end]
        if self._first is not None and begin <= self._first.seconds < end:
            points.append(self._complete(self._first))
        return points

    def _complete(self, first: _Kept) -> _Kept:
        """The point that begins with a tick, as far as it is known."""
        self._reduce()
        lowest, total, highest, number = self._point
        mean = np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)
        return first._replace(values=np.stack([lowest, mean, highest]).astype(first.values.dtype))


class History:
    """The last day of every device and of the fleet: the last ticks, and points of the time before them.

    :ivar size: the number of kept ticks; it depends on the number of devices.
    """

    def __init__(self, first: State) -> None:
        devices = first.levels["device"].count
        self.size, sparse = _sizes(devices)
        self._devices = _Past(KEPT, 2, self.size, sparse, devices)
        self._fleet = _Past(dict.fromkeys(SUMMED, 1.0), 4, MAX_TICKS, MAX_SPARSE, 1)
        self._era, self._fleet_era = _Era(), _Era()
        self._tick = TickValues(len(KEPT), devices)
        self._names: list[str] = []
        self.note(first)

    def note(self, state: State) -> None:
        """Add a state; the oldest of ``size`` states is removed, or kept as a point of the hour before."""
        level, values = state.levels["device"], self._tick.values
        is_any_lost = _is_any_lost(level)
        self._names = [name for name in KEPT if name in level.arrays]
        for row, (name, scale) in enumerate(KEPT.items()):
            if name not in level.arrays:
                values[row] = np.nan
                continue
            np.divide(level.arrays[name], scale, out=values[row], casting="same_kind")
            if is_any_lost or name in level.present:
                values[row, ~shown(level, name)] = np.nan
        time = state.tick, state.seconds, state.wall_seconds
        self._devices.add(_Kept(*time, self._tick.halves(), self._era), values)
        sums = np.array(_quick_summary(values) or summary(level), np.float32)[:, np.newaxis]
        self._fleet.add(_Kept(*time, sums, self._fleet_era), sums)

    def move(self, moves: Reindex) -> None:
        """Use the new positions of the devices after a reload; the past stays."""
        self.size, sparse = _sizes(len(moves.old_of))
        self._devices.move(moves, self.size, sparse)
        self._era = _Era()
        self._tick = TickValues(len(KEPT), len(moves.old_of))

    def of_devices(self, positions: Positions, seconds: float | None = None, quantity: str = "") -> dict[str, Any]:
        """The ticks, their simulated seconds, and the quantities of some devices; NaN where a tick did not show one.

        Before the last ticks are points; if the first are points of the day, their lowest and highest values are there.

        :param seconds: the time span, which ends now; None: the last ticks, without points.
        :param quantity: the only one; empty for all.
        """
        return self._devices.of(positions, seconds, [name for name in self._names if quantity in ("", name)])

    def of_device(self, position: int, seconds: float | None = None) -> dict[str, Any]:
        """The same of one device."""
        return _only(self.of_devices(np.array([position]), seconds))

    def of_fleet(self, seconds: float | None = None) -> dict[str, Any]:
        """The same of the fleet: the mean usage, the power of all, and the highest temperature."""
        return _only(self._fleet.of(np.array([0]), seconds, SUMMED))


def _sizes(devices: int) -> tuple[int, int]:
    """The number of kept ticks of some devices, and of points of the hour before these."""
    row_bytes = 2 * len(KEPT) * max(1, devices)
    ticks = min(MAX_TICKS, max(MIN_TICKS, 3 * MAX_BYTES // 4 // row_bytes))
    return ticks, min(MAX_SPARSE, MAX_BYTES // 4 // row_bytes)


def _only(past: dict[str, Any]) -> dict[str, Any]:
    """The past of the only device, without lists of devices."""
    return {
        key: {name: rows[0] for name, rows in value.items()} if isinstance(value, dict) else value
        for key, value in past.items()
    }


def _taken(values: _Array, positions: NDArray[np.integer]) -> _Array:
    """Values at positions of the last axis; NaN at -1."""
    found = np.full((*values.shape[:-1], len(positions)), np.nan, values.dtype)
    is_there = positions >= 0
    found[..., is_there] = values[..., positions[is_there]]
    return found


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


def _quick_summary(values: NDArray[np.float32]) -> tuple[float, float, float] | None:
    """The :func:`summary` from the kept values of a tick; None if one is missing, or there is no device."""
    usage, power, temperature = np.add.reduce(values[: len(SUMMED)], axis=1).tolist()
    if not values.shape[1] or not math.isfinite(usage + power + temperature):
        return None
    return usage / values.shape[1], power, float(np.maximum.reduce(values[SUMMED.index("temperature_celsius")]))


def _is_any_lost(level: Level) -> bool:
    return "lost" in level.arrays and bool((level.arrays["lost"] > 0).any())


def _values(level: Level, quantity: str, is_any_lost: bool) -> Floats:
    values = level.arrays.get(quantity, np.empty(0))
    if len(values) and (is_any_lost or quantity in level.present):
        values = values[shown(level, quantity)]
    is_finite = np.isfinite(values)
    return values if is_finite.all() else values[is_finite]
