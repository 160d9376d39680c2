"""Which devices have parts, and where those stand in arrays.

A *unit* is a device or a part. Units are numbered: all devices of the roster first, then all parts, those of one device
after each other. Work is on units: on devices that have no parts, and on parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.part import PartSpec

Number = TypeVar("Number", np.float64, np.bool_, np.uint64, np.int64)


class Parts:
    """P parts of D devices.

    :param owners: the device of each part, ascending.
    :ivar owners: the same, shape (P,).
    :ivar is_whole: devices that have no parts, shape (D,).
    :ivar compute_share, memory_bytes: as in PartSpec, shape (P,).
    :ivar has_links, is_tile: likewise; of those that may not use links, no device may.
    :ivar siblings: how many parts its device has, of each part, shape (P,).
    :ivar is_tiled, is_undivided: devices whose parts are tiles; those, and devices without parts: shape (D,).
    """

    def __init__(self, device_count: int, owners: Sequence[int] = (), specs: Sequence[PartSpec] = ()) -> None:
        self.device_count = device_count
        self.count = len(specs)
        self.specs = tuple(specs)
        self.owners: Positions = np.array(owners, dtype=np.int64)
        self.is_whole: Mask = np.ones(device_count, dtype=np.bool_)
        self.is_whole[self.owners] = False
        self.compute_share = np.array([each.compute_share for each in specs])
        self.memory_bytes = np.array([each.memory_bytes for each in specs])
        self.has_links: Mask = np.array([each.has_links for each in specs], dtype=np.bool_)
        self._has_tiles = any(each.is_tile for each in specs)
        self.is_tile: Mask = np.array([each.is_tile for each in specs], dtype=np.bool_)
        self.siblings = np.bincount(self.owners, minlength=device_count)[self.owners].astype(np.float64)
        self.is_tiled: Mask = np.zeros(device_count, dtype=np.bool_)
        self.is_tiled[self.owners[self.is_tile]] = True
        self.is_undivided = self.is_whole | self.is_tiled

    @property
    def unit_count(self) -> int:
        """D + P."""
        return self.device_count + self.count

    def of(self, device: int) -> range:
        """The units that are parts of a device."""
        first, last = np.searchsorted(self.owners, (device, device + 1)).tolist()
        return range(self.device_count + first, self.device_count + last)

    def owner(self, unit: int) -> int:
        """The device that a unit is, or is a part of."""
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
        """Some units, and the parts of the devices among them."""
        if not self.count:
            return units
        named = np.zeros(self.unit_count, dtype=np.bool_)
        named[units] = True
        named[self.device_count :] |= named[self.owners]
        return np.flatnonzero(named)

    def with_work(self, units: Positions) -> Positions:
        """Where the work is that is put on some units: on the parts of a device that has such."""
        every = self.with_parts(units)
        return every if not self.count else every[(every >= self.device_count) | self.is_whole[self.owners_of(every)]]

    def held(self, units: Positions) -> Positions:
        """Some units, and the devices that tiles among them are tiles of."""
        if self._has_tiles:
            parts = units[units >= self.device_count] - self.device_count
            units = np.unique(np.concatenate((units, self.owners[parts[self.is_tile[parts]]])))
        return units

    def amount_shares(self, units: Positions, whose: Positions) -> Floats:
        """What of an amount that is asked of each of some units it is asked for, shape as ``units``.

        All tiles of a board together are the board, of which each has its share; all else is asked for all of it.

        :param whose: the workload that asks, as a number, shape as ``units``.
        """
        shares = np.ones(len(units))
        if self._has_tiles:
            places = np.flatnonzero(units >= self.device_count)
            parts = units[places] - self.device_count
            boards = whose[places] * self.device_count + self.owners[parts]
            _, numbers, counts = np.unique(boards, return_inverse=True, return_counts=True)
            of_each = counts[numbers]
            whole = self.is_tile[parts] & (of_each == self.siblings[parts])
            shares[places[whole]] = self.compute_share[parts[whole]]
        return shares

    def units(self, devices: NDArray[Number], parts: NDArray[Number] | None = None) -> NDArray[Number]:
        """Values of all units.

        :param devices: those of the devices, shape (D,).
        :param parts: those of the parts, shape (P,); None: those of their devices.
        """
        if not self.count:
            return devices
        return np.concatenate((devices, devices[self.owners] if parts is None else parts))

    def spread(self, flags: Mask) -> Mask:
        """Flags of units, shape (D + P,), that parts have from their devices too."""
        if not self.count:
            return flags
        return np.concatenate((flags[: self.device_count], flags[self.device_count :] | flags[self.owners]))

    def folded(self, units: Floats, weights: Floats | float = 1.0) -> Floats:
        """What all units of each device have together, shape (D,).

        :param weights: of the parts, shape (P,).
        """
        if not self.count:
            return units
        amounts = units[self.device_count :] * weights
        return units[: self.device_count] + np.bincount(self.owners, weights=amounts, minlength=self.device_count)
