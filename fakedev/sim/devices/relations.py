"""From what is asked of each device to all its quantities: the relations of one tick, in their order.

1. Direct: each quantity follows the load, value = low + load x (high - low), as in the original
   exporter; low and high are the device type's. What is asked of single metrics comes on top, up to high.
2. Boards: where a device type has dynamics, engines, traffic, clocks, power and temperatures follow
   from each other instead (:mod:`fakedev.sim.boards.tick`).
3. Memory (:mod:`fakedev.sim.devices.memory`).
4. Counters: energy is the integral of the power shown, bytes are those of the rates shown; errors are
   what workloads bring of them.
5. What boards that are lost show no longer (:mod:`fakedev.sim.devices.lost`).
A quantity that a device type gives no range for is absent on its devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards.coefficients import with_dynamics
from fakedev.sim.boards.conditions import Conditions, unless_changed
from fakedev.sim.boards.tick import BOARD_QUANTITIES, Boards
from fakedev.sim.devices.lost import LostBoards
from fakedev.sim.devices.memory import MEMORY_QUANTITIES, USED, Memory
from fakedev.sim.devices.pcie import PCIE_QUANTITIES, PcieLinks
from fakedev.sim.devices.ratings import rated
from fakedev.sim.devices.subset import Subset
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.faults.reported import REPORTED, add_losses, add_reported
from fakedev.sim.faults.tick import FaultTick
from fakedev.sim.links.advance import limited
from fakedev.sim.links.history import LinkHistory
from fakedev.sim.parts.links import without_links
from fakedev.sim.workloads.demand import Capacity, Demand
from fakedev.spec.device_types import DeviceType
from fakedev.spec.metrics_of_work import ASKABLE
from fakedev.spec.quantities import ERROR_COUNTERS, INTEGRALS, MEMORY_TRAFFIC

#: Repairs that wait for a reset, and what boards have that do them.
_PENDING: Final = {"row_remap_pending": "row_remap_failure", "retired_pages_pending": "retired_pages_double_bit"}


class Relations:
    """The relations of a fleet's devices, their coefficients as arrays of shape (devices,).

    :ivar maxima: what 100 % of each quantity that workloads bring is, 0 on devices that have it not.
    """

    def __init__(self, roster: Roster, epoch_seconds: float, seed: int) -> None:
        types = [pool.device_type for pool in roster.pools]
        pools = roster.device_pools()
        self._count = roster.device_count

        def spread(values: list[float]) -> Floats:
            return np.array(values, dtype=np.float64)[pools]

        def mask(has: list[bool]) -> Mask:
            return np.array(has, dtype=np.bool_)[pools]

        self._low: dict[str, Floats] = {}
        self._span: dict[str, Floats] = {}
        self._present: dict[str, Mask] = {}
        for name in _names(types):
            ranges = [each.ranges.get(name) for each in types]
            self._low[name] = spread([each.low if each else 0.0 for each in ranges])
            self._span[name] = spread([each.high - each.low if each else 0.0 for each in ranges])
            self._present[name] = mask([each is not None for each in ranges])
        self._high = {name: low + self._span[name] for name, low in self._low.items()}
        self._memory = Memory(types, spread)
        nothing = np.zeros(self._count)
        self._constant: dict[str, Floats] = {
            **self._memory.sizes,
            "created_seconds": np.full(self._count, epoch_seconds),
            "xid": nothing,
            "row_remap_pending": nothing,
            "retired_pages_pending": nothing,
        }
        self._present |= dict.fromkeys(MEMORY_QUANTITIES, self._memory.has)
        for name, ratings in rated(types).items():
            self._constant[name] = spread([each if math.isfinite(each) else 0.0 for each in ratings])
            self._present[name] = mask([math.isfinite(each) for each in ratings])
        self._links, self._pcie = roster.links.counts.astype(np.float64), PcieLinks(types, spread)
        self._present |= {"links_up": self._links > 0, **dict.fromkeys(PCIE_QUANTITIES, self._pcie.has)}
        for name in (*ERROR_COUNTERS, "xid"):
            self._present[name] = mask([each.counts_errors and name not in each.lacks for each in types])
        self._present |= {name: self._present[repaired] for name, repaired in _PENDING.items()}
        dynamics = [each.dynamics for each in types]
        self._memory_carries = spread([each.memory_bytes_per_second if each else 0.0 for each in dynamics])
        self._has_dynamics = mask([each is not None for each in dynamics])
        self._places = Subset(self._has_dynamics)
        self._boards: Boards | None = None
        if self._has_dynamics.any():
            of_boards, which = with_dynamics(types, pools)
            inlets = roster.inlets()[self._has_dynamics]
            keys = roster.keys[self._has_dynamics]
            self._boards = Boards(of_boards, which, inlets, seed, keys)
            self._present |= dict.fromkeys(BOARD_QUANTITIES, self._has_dynamics)
            has_state = mask([each is not None and each.idle_performance_state is not None for each in dynamics])
            self._present["performance_state"] = has_state
            for name in MEMORY_TRAFFIC:
                given = self._present.get(name, nothing > 0) & ~self._has_dynamics
                self._present[name] = given | (
                    (self._memory_carries > 0) & self._present.get("memory_bandwidth_ratio", nothing == 0)
                )
        for counter, rate in INTEGRALS.items():
            if rate in self._present:
                self._present[counter] = self._present[rate]
        self._capability = spread([each.capability for each in types])
        self._masks = {name: has for name, has in self._present.items() if not has.all()}
        self._losses = LostBoards(self._present, self._has_dynamics)
        self.maxima: Mapping[str, Floats] = self._maxima()
        #: What is done to the devices from outside.
        self.conditions = Conditions()
        self._parts = roster.parts
        self.change_conditions(self.conditions)

    def live_in(self, faults: FaultTick | None, links: LinkHistory) -> None:
        """From the next tick on the devices live in what faults, and what happened to their links, make of it.

        :param faults: what they do to all units; None: there are none.
        """
        conditions = Conditions() if faults is None else faults.of_devices().conditions(self.inlet_celsius())
        self.change_conditions(limited(links, conditions))

    def change_conditions(self, conditions: Conditions) -> None:
        """From the next tick on the devices live in other conditions."""
        self.conditions = conditions
        carried = self._pcie.set_conditions(without_links(conditions, self._parts))
        if self._boards is not None:
            self._boards.set_conditions(self._places.conditions(carried))

    def inlet_celsius(self) -> Floats:
        """The temperature of the air where no condition has changed it; NaN on devices without dynamics."""
        unknown = np.full(self._count, np.nan)
        return unknown if self._boards is None else self._places.put(self._boards.inlet_celsius, unknown)

    def device_level(
        self, demand: Demand, before: Level | None, seconds: float, faults: FaultTick | None = None
    ) -> Level:
        """All quantities of the devices for one tick.

        :param demand: what the workloads ask in this tick.
        :param before: the level as it was a tick ago, for the counters; None at the start.
        :param seconds: simulated seconds that the counters integrate over.
        :param faults: what faults do in this tick, beside the conditions; None: there are none.
        """
        arrays = dict(self._constant)
        made = self._boards_made(demand, before, seconds, faults)
        # Parts of 1 may add up to a last digit more.
        load = np.minimum(sum(demand.loads.values(), np.zeros(self._count)), 1.0)
        for name, low in self._low.items():
            if name not in made or not self._places.are_all:
                arrays[name] = self._direct(name, low, load, demand.asked)
        for name, values in made.items():
            if name in self._present:
                arrays[name] = self._places.put(values, arrays.get(name))
        arrays.update(self._pcie.shown(arrays.get("throttled_idle")))
        arrays["links_up"] = unless_changed(self.conditions.links_up, self._links)
        arrays.update(self._memory.shown(demand))
        self._add_counters(arrays, demand, before, seconds, None if faults is None else faults.resets())
        if before is not None:
            own: dict[str, Floats] = {name: arrays[name] for name in REPORTED if name in self._low}
            add_reported(arrays, before, faults, self._constant["created_seconds"])
            add_losses(arrays, before, self.conditions.lost)
            arrays.update(own)
            if faults is not None and "xid" in self._masks:
                # The driver of another vendor reports no such code.
                arrays["xid"] = np.where(self._masks["xid"], arrays["xid"], 0.0)
        if self.conditions.lost is not None:
            gone = (self.conditions.lost > 0).astype(np.float64)
            arrays["lost"] = np.maximum(arrays["lost"], gone) if "lost" in arrays else gone
        lost = arrays.get("lost")
        if lost is None or not lost.any():
            return Level(self._count, arrays, self._masks)
        return self._losses.shown(arrays, before, self.conditions.lost)

    def idle_level(self) -> Level:
        """All quantities of the devices when nobody has asked anything of them yet."""
        return self.device_level(Demand({}, np.zeros(self._count), {}), None, 0.0)

    def _direct(self, name: str, low: Floats, load: Floats, asked: Mapping[str, Floats]) -> Floats:
        value: Floats = low + load * self._span[name]
        if name in asked and name in ASKABLE:
            value = np.clip(value + asked[name], low, self._high[name])
        return value

    def _boards_made(
        self, demand: Demand, before: Level | None, seconds: float, faults: FaultTick | None
    ) -> Mapping[str, Floats]:
        """What dynamics make, of the boards alone."""
        if self._boards is None:
            return {}
        past = None
        if before is not None:
            names = [name for name in self._boards.REMEMBERED if name in before.arrays]
            past = self._places.of({name: before.arrays[name] for name in names})
            if faults is not None and (reset := faults.resets()) is not None:
                past = self._boards.awakened(past, self._places.of({"reset": reset.astype(np.float64)})["reset"] > 0)
        return self._boards.step(self._places.of(demand.loads), self._places.of(demand.asked), past, seconds)

    def _add_counters(
        self, arrays: dict[str, Floats], demand: Demand, before: Level | None, seconds: float, reset: Mask | None
    ) -> None:
        for counter, rate in INTEGRALS.items():
            if rate in arrays:
                so_far: Floats | float = before.arrays[counter] if before else 0.0
                if reset is not None:
                    so_far = np.where(reset, 0.0, so_far)
                arrays[counter] = so_far + arrays[rate] * seconds
        for name in ERROR_COUNTERS:
            count = before.arrays[name] if before else np.zeros(self._count)
            if name in demand.asked:
                count = count + np.rint(np.maximum(demand.asked[name], 0.0))
            arrays[name] = count
        # It is counted among the errors, and no more than a flag.
        arrays["row_remap_failure"] = np.minimum(arrays["row_remap_failure"], 1.0)

    def pace(self, level: Level) -> Mapping[str, Floats]:
        """How fast each kind of work gets on, by its speed at the highest clock: each of shape (devices,).

        A kind that is missing gets on at full speed.
        """
        if self._boards is None:
            return {}
        shown = self._places.of({name: level.arrays[name] for name in ("work_clock_ratio", "hung")})
        paces = self._boards.pace(shown["work_clock_ratio"], shown["hung"])
        return {kind: self._places.put(pace, np.ones(self._count)) for kind, pace in paces.items()}

    def ends(self, quantity: str) -> tuple[Floats, Floats] | None:
        """Of a quantity that types give ranges for its value at load 0, and what load 100 adds; None without any."""
        return (self._low[quantity], self._span[quantity]) if quantity in self._low else None

    def capacity(self) -> Capacity:
        """What the devices can do for workloads."""
        return Capacity(
            maxima=self.maxima,
            idle=self._low,
            holds_memory=self._has_dynamics & self._present.get(USED, self._has_dynamics),
            memory_total_bytes=self._memory.total,
            memory_bytes_per_second=self._memory_carries,
            clock_mhz=self._high.get("core_frequency_mhz", np.zeros(self._count)),
            capability=self._capability,
            brought=cache(self._brought),
        )

    def _maxima(self) -> dict[str, Floats]:
        ones = np.ones(self._count)
        maxima = {}
        for name in ("usage_ratio", *ASKABLE):
            if name in self._present:
                most = self._memory.max_used if name == USED else self._high.get(name, ones)
                maxima[name] = np.where(self._present[name], most, 0.0)
        if self._boards is not None:
            for name, most in self._boards.maxima.items():
                if name in maxima:
                    maxima[name] = self._places.put(most, maxima[name])
        return maxima

    def _brought(self, kind: str) -> Mapping[str, Floats]:
        """What a full load of a kind of work brings of each quantity, shape (devices,)."""
        brought = {name: self._span[name] for name in ("usage_ratio", *ASKABLE) if name in self._span}
        if self._boards is not None:
            for name, values in self._boards.brought(kind).items():
                if name in brought:
                    brought[name] = self._places.put(values, brought[name])
        return brought

    @property
    def quantities(self) -> Mapping[str, NDArray[np.bool_]]:
        """Every quantity that some device has, with the devices that have it, shape (devices,)."""
        created = {"created_seconds": np.ones(self._count, dtype=np.bool_)}
        return {name: has for name, has in self._present.items() if has.any()} | created


def _names(types: list[DeviceType]) -> list[str]:
    """Quantities that some type gives a range for, in a stable order."""
    return sorted({name for each in types for name in each.ranges})
