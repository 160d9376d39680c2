"""The PCIe links of the devices: generation, width and speed, as they can be and as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.sim.boards.conditions import Conditions, unless_changed
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask
from fakedev.spec.device_types import GIGATRANSFERS_PER_SECOND, DeviceType

#: What every device whose type says how it is connected has of its link.
PCIE_QUANTITIES: Final = (
    "pcie_link_generation",
    "pcie_link_generation_max",
    "pcie_link_width",
    "pcie_link_width_max",
    "pcie_link_gigatransfers_per_second",
    "pcie_link_gigatransfers_per_second_max",
)
#: By generation; 0 where there is none.
_SPEEDS: Final = np.array([0.0, *(GIGATRANSFERS_PER_SECOND[each] for each in sorted(GIGATRANSFERS_PER_SECOND))])
_NARROWEST_FIRST: Final = (1, 2, 4, 8, 16, 32)


class PcieLinks:
    """The PCIe links of D devices; arrays of shape (D,).

    :param types: the type of each node's devices.
    :param spread: from a number of each node to those of its devices.
    :ivar has: the devices whose types say how they are connected.
    """

    def __init__(self, types: Sequence[DeviceType], spread: Callable[[list[float]], Floats]) -> None:
        links = [each.connections.pcie for each in types]
        self._generation = spread([float(each.generation) if each else 0.0 for each in links])
        self._width = spread([float(each.width) if each else 0.0 for each in links])
        idle = spread([float(each.idle_generation) if each else 0.0 for each in links])
        self._idle_generation = np.where(idle > 0, idle, self._generation)
        self._saves = bool((self._idle_generation < self._generation).any())
        self.has: Mask = self._width > 0
        self._well = self._arrays(self._generation, self._width)
        self._now = self._well

    def _arrays(self, generation: Floats, width: Floats) -> dict[str, Floats]:
        speeds = (_SPEEDS[each.astype(np.int64)] for each in (generation, self._generation))
        made = (generation, self._generation, width, self._width, *speeds)
        return dict(zip(PCIE_QUANTITIES, made, strict=True))

    def set_conditions(self, conditions: Conditions) -> Conditions:
        """From the next tick on the links live in other conditions.

        :returns: the conditions, with what the links carry at the width and generation that are left.
        """
        changed = (conditions.pcie_share, conditions.pcie_width, conditions.pcie_generation)
        if all(each is None for each in changed):
            self._now = self._well
            return conditions
        width = np.minimum(unless_changed(conditions.pcie_width, self._width), self._width)
        generation = np.minimum(unless_changed(conditions.pcie_generation, self._generation), self._generation)
        said = unless_changed(conditions.pcie_share, np.ones(len(width)))
        best = self._width * _SPEEDS[self._generation.astype(np.int64)]
        left = width * _SPEEDS[generation.astype(np.int64)]
        share = np.minimum(said, np.divide(left, best, out=np.ones(len(width)), where=best > 0))
        self._now = self._arrays(generation, np.minimum(width, _fitting(self._width * said, width)))
        return replace(conditions, pcie_share=share)

    def shown(self, idle: Floats | None) -> dict[str, Floats]:
        """What the links show in a tick.

        :param idle: over 0 on devices that idle; None: on none.
        """
        if not self._saves or idle is None:
            return self._now
        now = self._now["pcie_link_generation"]
        saving = np.minimum(now, np.where(idle > 0, self._idle_generation, now))
        return self._now | self._arrays(saving, self._now["pcie_link_width"])


def _fitting(lanes: Floats, most: Floats) -> Floats:
    """The narrowest width that links can have and that is not less than some lanes; ``most`` where none is."""
    widths = np.array(_NARROWEST_FIRST, dtype=np.float64)
    places = np.searchsorted(widths, lanes - 1e-9)
    fitting: Floats = np.minimum(widths[np.minimum(places, len(widths) - 1)], most)
    return fitting
