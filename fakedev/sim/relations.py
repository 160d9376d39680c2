"""From the load of each device to all its quantities: the relations of one tick, in their order.

1. Direct: each quantity follows the load, value = low + load x (high - low), as in the original
   exporter; low and high are the device type's.
2. Boards: where a device type has dynamics, clocks, power, temperatures, engines and PCIe follow
   from each other instead (:mod:`fakedev.sim.boards`).
3. Memory: used memory is a whole number of pages; free is what used and reserved leave of the total.
4. Counters: energy is the integral of the power shown, PCIe bytes of the rates shown.
Error counters stay at 0 until faults move them. A quantity that a device type gives no range for is
absent on its devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.askable import ASKABLE, ENGINES
from fakedev.sim.boards import DYNAMIC_QUANTITIES, Boards
from fakedev.sim.capacity import Capacity
from fakedev.sim.demand import Demand
from fakedev.sim.device_types import DeviceType
from fakedev.sim.quantities import ERROR_COUNTERS
from fakedev.sim.randomness import Floats
from fakedev.sim.roster import Roster
from fakedev.sim.state import Level, Mask

#: Counter to the rate it integrates.
INTEGRALS: Final = {
    "energy_joules": "power_watts",
    "pcie_tx_bytes": "pcie_tx_bytes_per_second",
    "pcie_rx_bytes": "pcie_rx_bytes_per_second",
}
_MEMORY_SIZES: Final = ("memory_total_bytes", "memory_reserved_bytes", "memory_page_bytes")


class Relations:
    """The relations of a fleet's devices, their coefficients as arrays of shape (devices,)."""

    def __init__(self, roster: Roster, epoch_seconds: float) -> None:
        types = [node.pool.device_type for node in roster.nodes]
        per_node = np.array([node.pool.devices_per_node for node in roster.nodes], dtype=np.int64)
        self._count = roster.device_count

        def spread(values: list[float]) -> Floats:
            return np.repeat(np.array(values, dtype=np.float64), per_node)

        def mask(has: list[bool]) -> Mask:
            return np.repeat(np.array(has, dtype=np.bool_), per_node)

        self._low: dict[str, Floats] = {}
        self._span: dict[str, Floats] = {}
        self._present: dict[str, Mask] = {}
        for name in _names(types):
            ranges = [each.ranges.get(name) for each in types]
            self._low[name] = spread([each.low if each else 0.0 for each in ranges])
            self._span[name] = spread([each.high - each.low if each else 0.0 for each in ranges])
            self._present[name] = mask([each is not None for each in ranges])
        sizes = {name: spread([getattr(each, name) for each in types]) for name in _MEMORY_SIZES}
        self._total, self._reserved, self._page = (sizes[name] for name in _MEMORY_SIZES)
        has_memory = (self._total > 0) & self._present.get("memory_used_bytes", np.zeros(self._count, np.bool_))
        self._most_used = np.where(has_memory, self._total - self._reserved, np.inf)
        self._constant: dict[str, Floats] = {
            "memory_total_bytes": self._total,
            "memory_reserved_bytes": self._reserved,
            "created_seconds": np.full(self._count, epoch_seconds),
        } | {name: np.zeros(self._count) for name in ERROR_COUNTERS}
        for name in ("memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", "memory_used_ratio"):
            self._present[name] = has_memory
        for name in ERROR_COUNTERS:
            self._present[name] = mask([each.counts_errors and name not in each.lacks for each in types])
        has_dynamics = mask([each.dynamics is not None for each in types])
        self._board_places = np.flatnonzero(has_dynamics)
        self._boards: Boards | None = None
        if has_dynamics.any():
            owners = np.repeat(np.arange(len(types)), per_node)[self._board_places].tolist()
            self._boards = Boards([types[owner] for owner in owners])
            for name in DYNAMIC_QUANTITIES:
                self._present[name] = has_dynamics
        for counter, rate in INTEGRALS.items():
            if rate in self._present:
                self._present[counter] = self._present[rate]
        self._some_memory = bool(has_memory.any())
        self._memory_boards = has_dynamics & self._present.get("memory_used_bytes", has_dynamics)
        self._link = spread([each.dynamics.pcie_bytes_per_second if each.dynamics else 0.0 for each in types])
        self._capability = spread([each.capability for each in types])
        self._masks = {name: has for name, has in self._present.items() if not has.all()}

    def device_level(self, demand: Demand, before: Level | None, seconds: float) -> Level:
        """All quantities of the devices for one tick.

        :param demand: what the workloads ask in this tick.
        :param before: the level as it was a tick ago, for the counters; None at the start.
        :param seconds: simulated seconds that the counters integrate over.
        """
        arrays = dict(self._constant)
        # Parts of 1 may add up to a last digit more.
        load = np.minimum(sum(demand.loads.values(), np.zeros(self._count)), 1.0)
        for name, low in self._low.items():
            arrays[name] = low + load * self._span[name]
        if self._boards is not None:
            self._add_boards(self._boards, arrays, demand.loads, before, seconds)
        self._add_memory(arrays, demand)
        if self._some_memory:
            used = np.round(arrays["memory_used_bytes"] / self._page) * self._page
            used = np.minimum(used, self._most_used)
            arrays["memory_used_bytes"] = used
            arrays["memory_free_bytes"] = self._total - self._reserved - used
            arrays["memory_used_ratio"] = _divided(used, self._total)
        for counter, rate in INTEGRALS.items():
            if rate in arrays:
                so_far: Floats | float = before.arrays[counter] if before else 0.0
                arrays[counter] = so_far + arrays[rate] * seconds
        return Level(self._count, arrays, self._masks)

    def pace(self, level: Level) -> dict[str, Floats]:
        """How fast each kind of work gets on, by its speed at the highest clock: each of shape (devices,)."""
        if self._boards is None:
            return {}
        paces = {}
        for kind, pace in self._boards.pace(level.arrays["work_clock_ratio"][self._board_places]).items():
            paces[kind] = np.ones(self._count)
            paces[kind][self._board_places] = pace
        return paces

    def _add_boards(
        self,
        boards: Boards,
        arrays: dict[str, Floats],
        loads: Mapping[str, Floats],
        before: Level | None,
        seconds: float,
    ) -> None:
        """Put what dynamics make in the place of what the direct rule made."""
        places = self._board_places
        past = None
        if before is not None:
            past = {name: before.arrays[name][places] for name in boards.REMEMBERED if name in before.arrays}
        made = boards.step({kind: load[places] for kind, load in loads.items()}, past, seconds)
        for name, values in made.items():
            if name in self._present:
                arrays.setdefault(name, np.zeros(self._count))[places] = values

    def _add_memory(self, arrays: dict[str, Floats], demand: Demand) -> None:
        """Memory is what is held of it by workloads that do not say how much they need, and what the others ask."""
        name = "memory_used_bytes"
        if name in arrays:
            arrays[name] = self._low[name] + demand.held * self._span[name] + demand.asked.get(name, 0.0)

    def capacity(self) -> Capacity:
        """What the devices can do for workloads."""
        nothing = np.zeros(self._count)
        clock = "core_frequency_mhz"
        return Capacity(
            maxima=self.maxima(),
            idle=self._low,
            holds_memory=self._memory_boards,
            memory_total_bytes=self._total,
            clock_mhz=self._low.get(clock, nothing) + self._span.get(clock, nothing),
            capability=self._capability,
            brought=cache(self._brought),
        )

    def maxima(self) -> Mapping[str, Floats]:
        """What 100 % of each quantity that workloads bring is, shape (devices,); 0 on devices that have it not."""
        maxima = {}
        for name in ("usage_ratio", *ASKABLE):
            has = self._present.get(name)
            if has is None:
                continue
            if name == "memory_used_bytes":
                most = np.where(self._total > 0, self._total - self._reserved, self._low[name] + self._span[name])
            elif name.startswith("pcie_") and name in self._low:
                most = np.where(self._link > 0, self._link, self._low[name] + self._span[name])
            elif name in self._low and name not in ENGINES:
                most = self._low[name] + self._span[name]
            else:
                most = np.ones(self._count)
            maxima[name] = np.where(has, most, 0.0)
        return maxima

    def _brought(self, kind: str) -> Mapping[str, Floats]:
        """What a full load of a kind of work brings of each quantity, shape (devices,)."""
        brought = {name: self._span[name].copy() for name in ("usage_ratio", *ASKABLE) if name in self._span}
        if self._boards is not None:
            for name, values in self._boards.brought(kind).items():
                if name in brought:
                    brought[name][self._board_places] = values
        return brought

    @property
    def quantities(self) -> Mapping[str, NDArray[np.bool_]]:
        """Every quantity that some device has, with the devices that have it, shape (devices,)."""
        return {name: has for name, has in self._present.items() if has.any()} | {
            "created_seconds": np.ones(self._count, dtype=np.bool_)
        }


def _names(types: list[DeviceType]) -> list[str]:
    """Quantities that some type gives a range for, in a stable order."""
    return sorted({name for each in types for name in each.ranges})


def _divided(part: Floats, whole: Floats) -> Floats:
    """``part / whole``, 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
