"""The memory of devices: total, reserved, used by workloads, and free.

Used memory is a whole number of pages; free memory is the total without used and reserved.
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
#: Quantities of devices whose types give the total memory.
MEMORY_QUANTITIES: Final = ("memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", "memory_used_ratio")


class Memory:
    """The memory of D devices; arrays of shape (D,).

    :param types: the device type of each pool.
    :param spread: from a number of each pool to those of its devices.
    :ivar total: in bytes; 0 where it is not known.
    :ivar has: devices whose types give the total.
    :ivar max_used: memory that workloads can use, in bytes.
    :ivar sizes: the quantities that never change.
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
        self._is_known: Mask = self.total > 0
        self._is_all_known = bool(self._is_known.all())
        self._usable = self.total - self._reserved
        self.max_used = np.where(self.has, self.total - self._reserved, self._low + self._span)
        self.sizes = {"memory_total_bytes": self.total, "memory_reserved_bytes": self._reserved}

    def shown(self, demand: Demand) -> dict[str, Floats]:
        """The quantities of memory in a tick; empty if no type has any.

        :param demand: of the workloads in this tick: a share of the memory, or bytes.
        """
        if not self._is_ranged:
            return {}
        used = demand.held * self._span
        used += self._low
        if USED in demand.asked:
            used += demand.asked[USED]
        if self._some_have:
            pages = np.rint(used / self._page)
            pages *= self._page
            used = pages if self._is_all_known else np.where(self._is_known, pages, used)
        used = np.minimum(np.maximum(used, 0.0), self.max_used)
        if not self._some_have:
            return {USED: used}
        if self._is_all_known:
            ratio = used / self.total
        else:
            ratio = np.divide(used, self.total, out=np.zeros_like(used), where=self._is_known)
        return {USED: used, "memory_free_bytes": self._usable - used, "memory_used_ratio": ratio}
