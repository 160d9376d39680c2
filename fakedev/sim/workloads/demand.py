"""What the workloads of a fleet ask of its devices in one tick.

What devices can do for workloads: the most they have of what is asked for, and what plain load brings there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.workloads.schedule import Positions


@dataclass(frozen=True)
class Demand:
    """Sums over all workloads, for D devices.

    :ivar loads: by kind of work, shares of 1, each of shape (D,); all kinds together at most 1 on a device.
    :ivar held: what the workloads hold of each device as long as they run, a share of 1, shape (D,): the memory of
        those that do not say how much they need.
    :ivar asked: by quantity, what activities of that quantity ask beside the plain load, in its unit, each of shape
        (D,); of counters what is added in this tick. Not held to what the device has.
    """

    loads: Mapping[str, Floats]
    held: Floats
    asked: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Capacity:
    """Of D devices; all arrays of shape (D,).

    :ivar maxima: by quantity what 100 % of it is; 0 on devices that have it not.
    :ivar idle: by quantity what a device has of it without any work.
    :ivar holds_memory: memory is held as long as a workload runs; elsewhere it follows the load.
    :ivar memory_total_bytes: all memory of the board; 0 where it is not known.
    :ivar memory_bytes_per_second: what its memory carries; 0 where it is not known.
    :ivar clock_mhz: the highest core clock; 0 where it is not known.
    :ivar capability: the device type's; 0 where it is not known.
    :ivar brought: kind of work to what a full load of it brings, by quantity.
    :ivar amount_shares: of an amount that is asked of each of some devices, what it is asked for there: 1 but for what
        together is one device. It is told the devices of several workloads, and whose each is, as a number.
    """

    maxima: Mapping[str, Floats]
    idle: Mapping[str, Floats]
    holds_memory: NDArray[np.bool_]
    memory_total_bytes: Floats
    memory_bytes_per_second: Floats
    clock_mhz: Floats
    capability: Floats
    brought: Callable[[str], Mapping[str, Floats]] = field(repr=False)
    amount_shares: Callable[[Positions, Positions], Floats] = field(
        default=lambda devices, whose: np.ones(len(devices)), repr=False
    )

    @property
    def count(self) -> int:
        """D."""
        return len(self.holds_memory)

    def most(self, quantity: str) -> Floats:
        """What 100 % of a quantity is, shape (D,): 0 where a device has it not."""
        return self.maxima.get(quantity, np.zeros(self.count))
