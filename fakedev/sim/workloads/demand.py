"""The workloads' demand on the devices of a fleet in one tick, and the devices' capacity for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask, Positions
from fakedev.spec.quantities import IMPLIED_USAGE

_AS_LOADS: Final[Mapping[str, Floats]] = MappingProxyType({})
_NO_CONTEXTS: Final[Mask] = np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True)
class Demand:
    """Sums over all workloads, for D devices.

    :ivar loads: the time with a kernel, by kind of work, shares of 1, each of shape (D,); all kinds together at most 1
        on a device.
    :ivar held: the memory of workloads that do not state how much they need, a share of 1, shape (D,).
    :ivar asked: by quantity, the demand of that quantity's activities beside the plain load, in its unit, each of shape
        (D,); for counters the increment in this tick. Not limited to what the device has.
    :ivar activity: how busy the engines are: load x intensity, by kind of work, each of shape (D,), reduced as the
        loads are. The same mapping as ``loads`` (the default) if all intensities are 100 %.
    :ivar contexts: devices on which a workload runs, whatever its load, shape (D,); by default none.
    """

    loads: Mapping[str, Floats]
    held: Floats
    asked: Mapping[str, Floats] = field(default_factory=dict)
    activity: Mapping[str, Floats] = field(default_factory=lambda: _AS_LOADS)
    contexts: Mask = field(default_factory=lambda: _NO_CONTEXTS)

    def __post_init__(self) -> None:
        if self.activity is _AS_LOADS:
            object.__setattr__(self, "activity", self.loads)
        if self.contexts is _NO_CONTEXTS:
            object.__setattr__(self, "contexts", np.zeros(len(self.held), dtype=np.bool_))

    def with_loads(self, change: Callable[[Floats], Floats]) -> Self:
        """The demand with changed loads and activity: ``change`` makes the new array of a kind from the old one."""
        loads = {kind: change(load) for kind, load in self.loads.items()}
        if self.activity is self.loads:
            return replace(self, loads=loads, activity=loads)
        return replace(self, loads=loads, activity={kind: change(busy) for kind, busy in self.activity.items()})


#: Traffic that kernels make: who requests it runs kernels.
_BY_KERNELS: Final = ("memory_bandwidth_ratio", "fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")


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

    def with_usage(self, demand: Demand) -> Demand:
        """A demand with the usage that requested traffic of memory and links implies.

        The kernels of the loads may be the same: so much as these take of the time is not added.
        """
        names = [name for name in _BY_KERNELS if name in demand.asked]
        if not names:
            return demand
        share = np.zeros(self.count)
        for name in names:
            most = self.most(name)
            share = np.maximum(share, np.divide(demand.asked[name], most, out=np.zeros(self.count), where=most > 0))
        used = np.zeros(self.count)
        for kind, load in demand.loads.items():
            used += load * self.brought(kind).get("usage_ratio", 0.0)
        implied = np.maximum(np.minimum(share, 1.0) - used, 0.0)
        return replace(demand, asked={**demand.asked, IMPLIED_USAGE: implied})

    @property
    def count(self) -> int:
        """D."""
        return len(self.holds_memory)

    def most(self, quantity: str) -> Floats:
        """The value of 100 % of a quantity, shape (D,): 0 on devices without it."""
        return self.maxima.get(quantity, np.zeros(self.count))
