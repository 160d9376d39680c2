"""The PCIe links of devices: generation, width and speed, current and highest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.sim.boards.conditions import Conditions, unless_changed
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask
from fakedev.spec.device_types import GIGATRANSFERS_PER_SECOND, DeviceType

#: Quantities of devices whose types describe their PCIe link.
PCIE_QUANTITIES: Final = (
    "pcie_link_generation",
    "pcie_link_generation_max",
    "pcie_link_width",
    "pcie_link_width_max",
    "pcie_link_gigatransfers_per_second",
    "pcie_link_gigatransfers_per_second_max",
)
#: Gigatransfers per second by generation; 0 without a link.
_SPEEDS: Final = np.array([0.0, *(GIGATRANSFERS_PER_SECOND[each] for each in sorted(GIGATRANSFERS_PER_SECOND))])
_WIDTHS: Final = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


class PcieLinks:
    """The PCIe links of D devices; arrays of shape (D,).

    :param types: the device type of each pool.
    :param spread: from a number of each pool to those of its devices.
    :ivar has: devices whose types describe their link.
    """

    def __init__(self, types: Sequence[DeviceType], spread: Callable[[list[float]], Floats]) -> None:
        links = [each.connections.pcie for each in types]
        self._generation = spread([float(each.generation) if each else 0.0 for each in links])
        self._width = spread([float(each.width) if each else 0.0 for each in links])
        idle = spread([float(each.idle_generation) if each else 0.0 for each in links])
        self._idle_generation = np.where(idle > 0, idle, self._generation)
        self._saves_power = bool((self._idle_generation < self._generation).any())
        self.has: Mask = self._width > 0
        self._unimpaired = self._arrays(self._generation, self._width)
        self._current = self._unimpaired

    def _arrays(self, generation: Floats, width: Floats) -> dict[str, Floats]:
        speeds = (_SPEEDS[each.astype(np.int64)] for each in (generation, self._generation))
        made = (generation, self._generation, width, self._width, *speeds)
        return dict(zip(PCIE_QUANTITIES, made, strict=True))

    def set_conditions(self, conditions: Conditions) -> Conditions:
        """Change the conditions from the next tick on.

        :returns: the conditions, with the capacity that the remaining width and generation allow.
        """
        changed = (conditions.pcie_share, conditions.pcie_width, conditions.pcie_generation)
        if all(each is None for each in changed):
            self._current = self._unimpaired
            return conditions
        width = np.minimum(unless_changed(conditions.pcie_width, self._width), self._width)
        generation = np.minimum(unless_changed(conditions.pcie_generation, self._generation), self._generation)
        given = unless_changed(conditions.pcie_share, np.ones(len(width)))
        best = self._width * _SPEEDS[self._generation.astype(np.int64)]
        left = width * _SPEEDS[generation.astype(np.int64)]
        share = np.minimum(given, np.divide(left, best, out=np.ones(len(width)), where=best > 0))
        # As many lanes of this generation as carry the share.
        speed = _SPEEDS[generation.astype(np.int64)]
        lanes = np.divide(share * best, speed, out=np.zeros(len(width)), where=speed > 0)
        self._current = self._arrays(generation, np.minimum(width, _fitting(lanes, width)))
        return replace(conditions, pcie_share=share)

    def shown(self, idle: Floats | None) -> dict[str, Floats]:
        """The quantities of the links in a tick.

        :param idle: over 0 on idle devices; None for none.
        """
        if not self._saves_power or idle is None:
            return self._current
        current = self._current["pcie_link_generation"]
        generation = np.minimum(current, np.where(idle > 0, self._idle_generation, current))
        return self._current | self._arrays(generation, self._current["pcie_link_width"])


def _fitting(lanes: Floats, most: Floats) -> Floats:
    """The narrowest width of a link with at least some lanes, up to ``most``."""
    places = np.searchsorted(_WIDTHS, lanes - 1e-9)
    fitting: Floats = np.minimum(_WIDTHS[np.minimum(places, len(_WIDTHS) - 1)], most)
    return fitting
