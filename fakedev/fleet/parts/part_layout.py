"""The parts of devices: their positions in arrays, and the levels of parts and units, which are computed on demand.

A *unit* is a device or a part. Units are numbered: first all devices of the roster, then all parts, device by device.
Workloads run on units: on parts, and on devices without parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import LazyArrays, Level, Mask, Positions
from fakedev.fleet.spec.device_types import PartSpec

Number = TypeVar("Number", np.float64, np.bool_, np.uint64, np.int64)


class Parts:
    """P parts of D devices.

    :ivar owners: the device of each part, ascending: shape (P,).
    :ivar is_whole: devices without parts, shape (D,).
    :ivar compute_share, memory_bytes, has_links, is_tile: as in PartSpec, shape (P,).
    :ivar siblings: for each part the number of parts of its device, shape (P,).
    :ivar is_tiled, is_undivided: devices with tiles; devices with tiles or without parts: shape (D,).
    """

    def __init__(self, device_count: int, owners: Sequence[int] = (), specs: Sequence[PartSpec] = ()) -> None:
        self.device_count = device_count
        self.count = len(specs)
        self.specs = tuple(specs)
        self.owners: Positions = np.array(owners, dtype=np.int64)
        self.is_whole: Mask = np.ones(device_count, dtype=np.bool_)
        self.is_whole[self.owners] = False
        self.compute_share = np.array([spec.compute_share for spec in specs])
        self.memory_bytes = np.array([spec.memory_bytes for spec in specs])
        self.has_links: Mask = np.array([spec.has_links for spec in specs], dtype=np.bool_)
        self._has_tiles = any(spec.is_tile for spec in specs)
        self.is_tile: Mask = np.array([spec.is_tile for spec in specs], dtype=np.bool_)
        self.siblings = np.bincount(self.owners, minlength=device_count)[self.owners].astype(np.float64)
        self.is_tiled: Mask = np.zeros(device_count, dtype=np.bool_)
        self.is_tiled[self.owners[self.is_tile]] = True
        self.is_undivided = self.is_whole | self.is_tiled

    @property
    def unit_count(self) -> int:
        """D + P."""
        return self.device_count + self.count

    def of(self, device: int) -> range:
        """The parts of a device, as units."""
        first, last = np.searchsorted(self.owners, (device, device + 1)).tolist()
        return range(self.device_count + first, self.device_count + last)

    def owner(self, unit: int) -> int:
        """The device of a unit: itself, or the device of a part."""
        return unit if unit < self.device_count else int(self.owners[unit - self.device_count])

    def owners_of(self, units: Positions) -> Positions:
        """As :meth:`owner`, for an array of units: shape as ``units``."""
        if not self.count:
            return units
        owners = units.copy()
        parts = units >= self.device_count
        owners[parts] = self.owners[units[parts] - self.device_count]
        return owners

    def with_parts(self, units: Positions) -> Positions:
        """Some units and the parts of the devices among them."""
        if not self.count:
            return units
        named = np.zeros(self.unit_count, dtype=np.bool_)
        named[units] = True
        named[self.device_count :] |= named[self.owners]
        return np.flatnonzero(named)

    def without_parts(self, units: Positions) -> Positions:
        """Some units, without the parts of the devices among them."""
        if not self.count or not len(units):
            return units
        return units[(units < self.device_count) | ~np.isin(self.owners_of(units), units)]

    def with_work(self, units: Positions) -> Positions:
        """The units that work for some units runs on: devices with parts are replaced by their parts."""
        every = self.with_parts(units)
        return every if not self.count else every[(every >= self.device_count) | self.is_whole[self.owners_of(every)]]

    def held(self, units: Positions) -> Positions:
        """Some units and the devices of the tiles among them."""
        if self._has_tiles:
            parts = units[units >= self.device_count] - self.device_count
            units = np.unique(np.concatenate((units, self.owners[parts[self.is_tile[parts]]])))
        return units

    def held_by(self, holders: Positions, units: Positions) -> tuple[Positions, Positions]:
        """Pairs of a holder and a unit, with those of the holder and the devices of its tiles.

        :param holders, units: grouped by holder, shape (P,).
        """
        if not self._has_tiles:
            return holders, units
        is_part = units >= self.device_count
        parts = units[is_part] - self.device_count
        tiles, boards = self.is_tile[parts], self.owners[parts]
        codes = np.concatenate((holders, holders[is_part][tiles])) * self.unit_count
        codes = np.unique(codes + np.concatenate((units, boards[tiles])))
        return codes // self.unit_count, codes % self.unit_count

    def amount_shares(self, units: Positions, workloads: Positions) -> Floats:
        """The share of a workload's amount that each of some units does, shape as ``units``.

        It is 1, except where a workload has all tiles of a board: those share the amount of the board.

        :param workloads: the workload of each, as a number, shape as ``units``.
        """
        shares = np.ones(len(units))
        if self._has_tiles:
            places = np.flatnonzero(units >= self.device_count)
            parts = units[places] - self.device_count
            boards = workloads[places] * self.device_count + self.owners[parts]
            _, numbers, counts = np.unique(boards, return_inverse=True, return_counts=True)
            of_each = counts[numbers]
            whole = self.is_tile[parts] & (of_each == self.siblings[parts])
            shares[places[whole]] = self.compute_share[parts[whole]]
        return shares

    def units(self, devices: NDArray[Number], parts: NDArray[Number] | None = None) -> NDArray[Number]:
        """Values of all units.

        :param devices: values of the devices, shape (D,).
        :param parts: values of the parts, shape (P,); None for those of their devices.
        """
        if not self.count:
            return devices
        return np.concatenate((devices, devices[self.owners] if parts is None else parts))

    def spread(self, flags: Mask) -> Mask:
        """Flags of units, shape (D + P,), with those of devices set on their parts too."""
        if not self.count:
            return flags
        return np.concatenate((flags[: self.device_count], flags[self.device_count :] | flags[self.owners]))

    def folded(self, units: Floats, weights: Floats | float = 1.0) -> Floats:
        """The sums of each device and its parts, shape (D,).

        :param weights: of the parts, shape (P,).
        """
        if not self.count:
            return units
        amounts = units[self.device_count :] * weights
        return units[: self.device_count] + np.bincount(self.owners, weights=amounts, minlength=self.device_count)

    def part_level(self, devices: Level, own: Mapping[str, Floats], lost: Mask | None = None) -> Level:
        """The level of the parts: a part shows its own quantities, and otherwise its device's.

        :param own: the parts' own quantities, shape (P,).
        :param lost: parts that are lost without their devices, shape (P,): they show nothing else.
        """

        def array(name: str) -> Floats:
            return own[name] if name in own else devices.arrays[name][self.owners]

        def mask(name: str) -> Mask:
            has = devices.present[name][self.owners] if name in devices.present else np.ones(self.count, np.bool_)
            if lost is None:
                return has
            # A part that is lost alone says so, also one of a device without dynamics.
            return has | lost if name == "lost" else has & ~lost

        names = {**devices.arrays, **own}
        return Level(self.count, LazyArrays(names, array), LazyArrays(devices.present if lost is None else names, mask))

    def unit_level(self, devices: Level, of_parts: Level) -> Level:
        """The level of all units, from those of devices and parts."""

        def array(name: str) -> Floats:
            own = devices.arrays[name] if name in devices.arrays else np.zeros(devices.count)
            return self.units(own, of_parts.arrays[name])

        def mask(name: str) -> Mask:
            return np.concatenate([level.mask(name) for level in (devices, of_parts)])

        # Only names: arrays are computed on demand.
        names = dict.fromkeys((*devices.arrays, *of_parts.arrays))
        only_of_parts = [name for name in of_parts.arrays if name not in devices.arrays]
        masked = dict.fromkeys((*devices.present, *of_parts.present, *only_of_parts))
        return Level(self.unit_count, LazyArrays(names, array), LazyArrays(masked, mask))

    def split_level(self, units: Level) -> tuple[Level, Level]:
        """The levels of devices and of parts in a level of all units."""

        def of(begin: int, end: int) -> Level:
            return Level(
                end - begin,
                LazyArrays(units.arrays, lambda name: units.arrays[name][begin:end]),
                LazyArrays(units.present, lambda name: units.present[name][begin:end]),
            )

        return of(0, self.device_count), of(self.device_count, self.unit_count)
