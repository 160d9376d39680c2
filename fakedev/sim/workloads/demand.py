"""The workloads' demand on the devices of a fleet in one tick, and the devices' capacity for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask, Positions


@dataclass(frozen=True)
class Demand:
    """Sums over all workloads, for D devices.

    :ivar loads: by kind of work, shares of 1, each of shape (D,); all kinds together at most 1 on a device.
    :ivar held: the memory of workloads that do not state how much they need, a share of 1, shape (D,).
    :ivar asked: by quantity, the demand of that quantity's activities beside the plain load, in its unit, each of shape
        (D,); for counters the increment in this tick. Not limited to what the device has.
    """

    loads: Mapping[str, Floats]
    held: Floats
    asked: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Capacity:
    """The capacity of D devices; all arrays of shape (D,).

    :ivar maxima: by quantity the value of 100 %; 0 on devices without the quantity.
    :ivar idle: by quantity the value of a device without work.
    :ivar holds_memory: whether a workload holds its memory while it runs; else memory follows the load.
    :ivar memory_total_bytes: all memory of the board; 0 if unknown.
    :ivar memory_bytes_per_second: the bandwidth of the memory; 0 if unknown.
    :ivar clock_mhz: the highest core clock; 0 if unknown.
    :ivar capability: the device type's; 0 if unknown.
    :ivar brought: kind of work to the values at its full load, by quantity.
    :ivar amount_shares: the share of a demanded amount for each of some devices, where several of them may be parts of
        one device. Takes the devices of several workloads, and a number for the workload of each device. None: 1.
    """

    maxima: Mapping[str, Floats]
    idle: Mapping[str, Floats]
    holds_memory: Mask
    memory_total_bytes: Floats
    memory_bytes_per_second: Floats
    clock_mhz: Floats
    capability: Floats
    brought: Callable[[str], Mapping[str, Floats]] = field(repr=False)
    amount_shares: Callable[[Positions, Positions], Floats] | None = field(default=None, repr=False)

    @property
    def count(self) -> int:
        """D."""
        return len(self.holds_memory)

    def most(self, quantity: str) -> Floats:
        """The value of 100 % of a quantity, shape (D,): 0 on devices without it."""
        return self.maxima.get(quantity, np.zeros(self.count))
