"""The memory of devices: what there is of it, and what workloads use.

Used memory is a whole number of pages; free is what used and reserved leave of the total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask
from fakedev.sim.workloads.demand import Demand
from fakedev.spec.device_types import DeviceType

USED: Final = "memory_used_bytes"
#: What devices have whose types say how much memory there is.
MEMORY_QUANTITIES: Final = ("memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", "memory_used_ratio")


class Memory:
    """The memory of D devices; arrays of shape (D,).

    :param types: the type of each node's devices.
    :param spread: from a number of each node to those of its devices.
    :ivar total: in bytes; 0 where it is not known.
    :ivar has: the devices whose types say how much there is.
    :ivar max_used: what work can have of it.
    :ivar sizes: what never changes.
    """

    def __init__(self, types: Sequence[DeviceType], spread: Callable[[list[float]], Floats]) -> None:
        ranges = [each.ranges.get(USED) for each in types]
        self._is_ranged = any(ranges)
        self._low = spread([each.low if each else 0.0 for each in ranges])
        self._span = spread([each.high - each.low if each else 0.0 for each in ranges])
        self.total, self._reserved, self._page = (
            spread([getattr(each, name) for each in types])
            for name in ("memory_total_bytes", "memory_reserved_bytes", "memory_page_bytes")
        )
        self.has: Mask = (self.total > 0) & (spread([float(each is not None) for each in ranges]) > 0)
        self._some_have = bool(self.has.any())
        self.max_used = np.where(self.has, self.total - self._reserved, self._low + self._span)
        self.sizes = {"memory_total_bytes": self.total, "memory_reserved_bytes": self._reserved}

    def shown(self, demand: Demand) -> dict[str, Floats]:
        """What is held by workloads that do not say how much they need, and what the others ask; nothing without any.

        :param demand: what the workloads ask in this tick.
        """
        if not self._is_ranged:
            return {}
        used = self._low + demand.held * self._span + demand.asked.get(USED, 0.0)
        if self._some_have:
            used = np.where(self.total > 0, np.round(used / self._page) * self._page, used)
        used = np.clip(used, 0.0, self.max_used)
        if not self._some_have:
            return {USED: used}
        ratio = np.divide(used, self.total, out=np.zeros_like(used), where=self.total > 0)
        return {USED: used, "memory_free_bytes": self.total - self._reserved - used, "memory_used_ratio": ratio}
