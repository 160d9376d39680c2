"""All quantities of devices from the demand of workloads: power, memory, PCIe, counters, in the order of a tick.

1. Direct: each quantity follows the load, value = low + load x (high - low), as in the original exporter; low and
   high are the device type's. Requests for single metrics are added, up to high.
2. Boards: where a device type has dynamics, engines, traffic, clocks, power and temperatures follow from each other
   instead (:mod:`fakedev.fleet.boards.tick`).
3. Memory and PCIe links.
4. Counters: energy is the integral of the power shown, bytes are the integrals of the rates shown; errors are the
   errors that workloads cause.
5. Errors, and lost boards (:mod:`fakedev.fleet.devices.reports`).
A quantity without a range in the device type is absent on its devices.

Memory is total, reserved, used by workloads, and free. Used memory is a whole number of pages; free memory is the
total without used and reserved. PCIe links have generation, width and speed, current and highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final

import numpy as np

from fakedev.fleet.boards.arrays import Air, Subset, by_type, with_dynamics
from fakedev.fleet.boards.conditions import Conditions, unless_changed
from fakedev.fleet.boards.engines import SUBSTITUTES
from fakedev.fleet.boards.sensors import READ, Readings, Sensors
from fakedev.fleet.boards.tick import BOARD_QUANTITIES, PACED, Boards, Moment
from fakedev.fleet.devices.reports import (
    RECOVERY_ACTION,
    REPORTED,
    LostDevices,
    add_reported,
    fallen_off,
    recovery_action,
)
from fakedev.fleet.entities.randomness import Floats, Keys, uniform
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import LazyArrays, Level, Mask, Positions
from fakedev.fleet.faults.per_tick import FaultTick
from fakedev.fleet.links.exchange import Exchange, limited
from fakedev.fleet.links.link_levels import CARRIED, FETCHED, LinkHistory
from fakedev.fleet.links.pcie_switches import PcieSwitches
from fakedev.fleet.racks.rack_layout import RackLayout
from fakedev.fleet.racks.racks import NO_BOUNDS, PowerBounds, Racks
from fakedev.fleet.spec.device_types import GIGATRANSFERS_PER_SECOND, PCIE_PAYLOAD, DeviceType
from fakedev.fleet.spec.quantities import ASKABLE, CPU_CORES, ERROR_COUNTERS, INTEGRALS, MEMORY_TRAFFIC
from fakedev.fleet.spec.xids import Xid
from fakedev.fleet.workloads.demand import Capacity, Demand, Swing

USED: Final = "memory_used_bytes"
#: By how much less than a share of the memory devices hold, at most: allocators differ. Chosen.
_MEMORY_SPREAD: Final = 0.02
#: How long before the first tick drivers were loaded, and how often this time may double: an hour to six weeks, chosen.
_LOADED_SECONDS: Final = 3600.0
_LOADED_DOUBLINGS: Final = 10.0
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
        ranges = [device_type.ranges.get(USED) for device_type in types]
        self._is_ranged = any(ranges)
        self._low = spread([limits.low if limits else 0.0 for limits in ranges])
        self._span = spread([limits.high - limits.low if limits else 0.0 for limits in ranges])
        self.total, self._reserved, self._page = (
            spread([getattr(device_type, name) for device_type in types])
            for name in ("memory_total_bytes", "memory_reserved_bytes", "memory_page_bytes")
        )
        self.has: Mask = (self.total > 0) & (spread([float(limits is not None) for limits in ranges]) > 0)
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
#: What a lane carries, likewise: the part of these that is data.
_CARRIED: Final = _SPEEDS * np.array([0.0, *(PCIE_PAYLOAD[generation] for generation in sorted(PCIE_PAYLOAD))])
_WIDTHS: Final = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


class PcieLinks:
    """The PCIe links of D devices; arrays of shape (D,).

    :param types: the device type of each pool.
    :param spread: from a number of each pool to those of its devices.
    :ivar has: devices whose types describe their link.
    """

    def __init__(self, types: Sequence[DeviceType], spread: Callable[[list[float]], Floats]) -> None:
        links = [device_type.connections.pcie for device_type in types]
        self._generation = spread([float(link.generation) if link else 0.0 for link in links])
        self._width = spread([float(link.width) if link else 0.0 for link in links])
        idle = spread([float(link.idle_generation) if link else 0.0 for link in links])
        self._idle_generation = np.where(idle > 0, idle, self._generation)
        self._saves_power = bool((self._idle_generation < self._generation).any())
        self.has: Mask = self._width > 0
        self._unimpaired = self._arrays(self._generation, self._width)
        self._current = self._unimpaired

    def _arrays(self, generation: Floats, width: Floats) -> dict[str, Floats]:
        speeds = (_SPEEDS[generations.astype(np.int64)] for generations in (generation, self._generation))
        made = (generation, self._generation, width, self._width, *speeds)
        return dict(zip(PCIE_QUANTITIES, made, strict=True))

    def set_conditions(self, conditions: Conditions) -> Conditions:
        """Change the conditions from the next tick on.

        :returns: the conditions, with the capacity that the remaining width and generation allow.
        """
        changed = (conditions.pcie_share, conditions.pcie_width, conditions.pcie_generation)
        if all(values is None for values in changed):
            self._current = self._unimpaired
            return conditions
        width = np.minimum(unless_changed(conditions.pcie_width, self._width), self._width)
        generation = np.minimum(unless_changed(conditions.pcie_generation, self._generation), self._generation)
        given = unless_changed(conditions.pcie_share, np.ones(len(width)))
        best = self._width * _CARRIED[self._generation.astype(np.int64)]
        left = width * _CARRIED[generation.astype(np.int64)]
        share = np.minimum(given, np.divide(left, best, out=np.ones(len(width)), where=best > 0))
        # As many lanes of this generation as carry the share.
        speed = _CARRIED[generation.astype(np.int64)]
        lanes = np.divide(share * best, speed, out=np.zeros(len(width)), where=speed > 0)
        self._current = self._arrays(generation, np.minimum(width, _fitting(lanes, width)))
        return replace(conditions, pcie_share=share)

    def shown(self, idle: Floats | None, *, is_unimpaired: bool = False) -> dict[str, Floats]:
        """The quantities of the links in a tick.

        :param idle: over 0 on idle devices; None for none.
        :param is_unimpaired: without the conditions.
        """
        shown = self._unimpaired if is_unimpaired else self._current
        if not self._saves_power or idle is None:
            return shown
        current = shown["pcie_link_generation"]
        generation = np.minimum(current, np.where(idle > 0, self._idle_generation, current))
        return shown | self._arrays(generation, shown["pcie_link_width"])


def _fitting(lanes: Floats, most: Floats) -> Floats:
    """The narrowest width of a link with at least some lanes, up to ``most``."""
    places = np.searchsorted(_WIDTHS, lanes - 1e-9)
    fitting: Floats = np.minimum(_WIDTHS[np.minimum(places, len(_WIDTHS) - 1)], most)
    return fitting


_BANDWIDTH: Final = "memory_bandwidth_ratio"
_ERRORS: Final = frozenset(ERROR_COUNTERS)
#: This one is a flag.
_REMAP_FAILURE: Final = "row_remap_failure"
#: Flags of pending repairs, and the counter of boards that do such repairs.
_PENDING: Final = {"row_remap_pending": _REMAP_FAILURE, "retired_pages_pending": "retired_pages_double_bit"}


def _range_end(quantity: str, end: str) -> Callable[[DeviceType], float]:
    return lambda board: getattr(board.ranges.get(quantity), end, math.inf)


def _dynamic(name: str) -> Callable[[DeviceType], float]:
    return lambda board: getattr(board.dynamics, name, math.inf)


#: Ratings: quantities that ticks do not change, and their values of a device type; infinite where the type gives none.
RATINGS: Final[Mapping[str, Callable[[DeviceType], float]]] = {
    "core_frequency_max_mhz": _range_end("core_frequency_mhz", "high"),
    "core_frequency_min_mhz": _range_end("core_frequency_mhz", "low"),
    "memory_frequency_max_mhz": _range_end("memory_frequency_mhz", "high"),
    "memory_frequency_min_mhz": _range_end("memory_frequency_mhz", "low"),
    "memory_max_bytes_per_second": lambda board: _dynamic("memory_bytes_per_second")(board) or math.inf,
    "memory_usable_bytes": lambda board: board.memory_total_bytes - board.memory_reserved_bytes or math.inf,
    "power_limit_default_watts": _dynamic("power_limit_watts"),
    "slowdown_temperature_celsius": _dynamic("slowdown_celsius"),
    "hardware_slowdown_temperature_celsius": _dynamic("hardware_slowdown_celsius"),
    "shutdown_temperature_celsius": _dynamic("shutdown_celsius"),
}


class Relations:
    """The relations of a fleet's devices, their coefficients as arrays of shape (devices,).

    :param exact: whether sensors show the true values.
    :ivar maxima: 100 % of each quantity that workloads use, 0 on devices without it.
    :ivar conditions: what acts on the devices from outside.
    """

    def __init__(self, roster: Roster, epoch_seconds: float, seed: int, exact: bool = True) -> None:
        types, pools = [pool.device_type for pool in roster.pools], roster.device_pools()
        self._count, self._epoch_seconds = roster.device_count, epoch_seconds

        def spread(values: list[float]) -> Floats:
            return by_type(np.array(values, dtype=np.float64), pools)

        def mask(has: list[bool]) -> Mask:
            return by_type(np.array(has, dtype=np.bool_), pools)

        names = sorted({name for device_type in types for name in device_type.ranges})
        ranges = {name: [device_type.ranges.get(name) for device_type in types] for name in names}
        lows = {name: np.array([limits.low if limits else 0.0 for limits in found]) for name, found in ranges.items()}
        spans = {
            name: np.array([limits.high - limits.low if limits else 0.0 for limits in found])
            for name, found in ranges.items()
        }
        self._low = {name: by_type(low, pools) for name, low in lows.items()}
        self._span = {name: by_type(span, pools) for name, span in spans.items()}
        self._high = {name: by_type(low + spans[name], pools) for name, low in lows.items()}
        self._present = {name: mask([limits is not None for limits in found]) for name, found in ranges.items()}
        self._memory = Memory(types, spread)
        nothing = np.zeros(self._count)
        #: Quantities that may follow the load directly; the others stay at the lower end, or the memory makes them.
        self._direct_names = [name for name, span in self._span.items() if name != USED and span.any()]
        self._constant: dict[str, Floats] = {
            **{name: low for name, low in self._low.items() if name not in self._direct_names},
            **self._memory.sizes,
            "created_seconds": np.full(self._count, epoch_seconds),
            "xid": nothing,
            "row_remap_pending": nothing,
            "retired_pages_pending": nothing,
            RECOVERY_ACTION: nothing,
        }
        self._present |= dict.fromkeys(MEMORY_QUANTITIES, self._memory.has)
        for name, rating in RATINGS.items():
            ratings = spread([rating(device_type) for device_type in types])
            if (has := np.isfinite(ratings)).any():
                self._constant[name], self._present[name] = np.where(has, ratings, 0.0), has
        self._pcie = PcieLinks(types, spread)
        self._layout = roster.links
        self._link_counts = self._links_up = roster.links.counts.astype(np.float64)
        self._present |= {"links_up": self._link_counts > 0, **dict.fromkeys(PCIE_QUANTITIES, self._pcie.has)}
        self._present |= {
            name: mask([device_type.counts_errors and name not in device_type.lacks for device_type in types])
            for name in (*ERROR_COUNTERS, "xid")
        }
        repairs = {name: self._present[repaired] for name, repaired in _PENDING.items()}
        self._present |= {RECOVERY_ACTION: self._present["xid"], **repairs}
        dynamics = [device_type.dynamics for device_type in types]
        self._memory_carries = spread([dynamic.memory_bytes_per_second if dynamic else 0.0 for dynamic in dynamics])
        self._has_dynamics = mask([dynamic is not None for dynamic in dynamics])
        self._subset = Subset(self._has_dynamics)
        self._memory_share = None if exact else partial(_held_memory, seed)
        #: Counters at the beginning; 0 without a name here.
        self._first: dict[str, Floats] = {}
        self._boards: Boards | None = None
        if self._has_dynamics.any():
            self._boards = self._made_boards(types, pools, roster, seed, exact)
            has_state = mask([each is not None and each.idle_performance_state is not None for each in dynamics])
            self._present["performance_state"] = has_state
        if roster.links.is_meshed:
            self._present[FETCHED[0]] = roster.links.meshed
        self._present |= {name: self._present[other] for name, other in SUBSTITUTES.items() if other in self._present}
        for counter, rate in INTEGRALS.items():
            if rate in self._present:
                self._present[counter] = self._present[rate] & mask([counter not in each.lacks for each in types])
        self._capability = spread([device_type.capability for device_type in types])
        #: None: no device is in a rack.
        self.racks = Racks.of(roster, seed)
        self._present |= {} if self.racks is None else self.racks.present(self._present)
        self._masks = {name: has for name, has in self._present.items() if not has.all()}
        self._lost, self.maxima = LostDevices(self._present, self._has_dynamics), self._maxima()
        self.conditions = Conditions()
        self.use_links(LinkHistory(roster.links))

    def set_epoch(self, epoch_seconds: float) -> None:
        """Change the wall time of tick 0, in seconds since 1970."""
        self._epoch_seconds = epoch_seconds
        self._constant["created_seconds"] = np.full(self._count, epoch_seconds)

    def _made_boards(
        self, types: Sequence[DeviceType], pools: Positions, roster: Roster, seed: int, exact: bool
    ) -> Boards:
        """The devices with dynamics, whose quantities are then present.

        :param pools: the type of each device, as an index into ``types``.
        """
        of_boards, which = with_dynamics(types, pools)
        has = self._has_dynamics
        self._present |= dict.fromkeys(BOARD_QUANTITIES, has)
        nowhere = np.zeros(self._count, dtype=np.bool_)
        for name in MEMORY_TRAFFIC:
            given = self._present.get(name, nowhere) & ~has
            self._present[name] = given | ((self._memory_carries > 0) & self._present.get(_BANDWIDTH, ~nowhere))
        air = Air(roster.inlets()[has], roster.places(seed)[has], roster.inlet_rises()[has], roster.inlet_drifts()[has])
        switches = PcieSwitches(roster.pcie_switches()[has])
        boards = Boards(of_boards, which, air, seed, roster.keys[has], exact, switches)
        if not exact:
            loaded = _LOADED_SECONDS * 2.0 ** (_LOADED_DOUBLINGS * uniform(seed, roster.keys[has], "driver loaded", 0))
            self._first["energy_joules"] = self._subset.put(boards.coefficients.idle_watts * loaded, None)
        return boards

    @property
    def rack_layout(self) -> RackLayout | None:
        """Where the devices are in racks; None: in none."""
        return None if self.racks is None else self.racks.layout

    def update_conditions(
        self, faults: FaultTick | None, links: LinkHistory, bounds: PowerBounds = NO_BOUNDS
    ) -> None:
        """Change the conditions to those that faults, links and racks make, from the next tick on.

        :param faults: effects on all units; None without faults.
        :param bounds: of the power, by racks.
        """
        conditions = Conditions() if faults is None else faults.of_devices().conditions(self.inlet_celsius())
        self.conditions = replace(conditions, shared_watts=bounds.most, held_watts=bounds.least)
        self.use_links(links)

    def use_links(self, links: LinkHistory) -> None:
        """Exchange traffic over the links that are up from the next tick on."""
        self._exchange = Exchange(links, self._has_dynamics)
        self.change_conditions(limited(links, self.conditions))

    def is_limited(self, device: int, quantity: str, level: Level) -> bool:
        """Whether impaired links changed a quantity of a device in the last tick; True where that is not known.

        :param quantity: traffic of the device, or a quantity of its PCIe link.
        :param level: of the devices, in that tick.
        """
        if quantity in PCIE_QUANTITIES:
            idle = level.arrays.get("throttled_idle")
            return bool(self._pcie.shown(idle)[quantity][device]
                        != self._pcie.shown(idle, is_unimpaired=True)[quantity][device])  # fmt: skip
        if self._boards is None:
            return False
        changed = self._boards.changed_traffic(quantity, Exchange(LinkHistory(self._layout), self._has_dynamics).settle)
        return changed is None or self._subset.put(changed.astype(np.float64), None)[device] > 0

    def falling(self, before: Level) -> Mask | None:
        """The devices that heat shuts down in the tick after a level, shape (D,); None for none."""
        if self._boards is None:
            return None
        too_hot = self._subset.of(before.arrays)["temperature_celsius"] >= self._boards.coefficients.shutdown
        return self._subset.put(too_hot.astype(np.float64), None) > 0 if too_hot.any() else None

    def change_conditions(self, conditions: Conditions) -> None:
        """Change the conditions from the next tick on."""
        self.conditions = conditions
        self._links_up = unless_changed(conditions.links_up, self._link_counts)
        conditions = self._pcie.set_conditions(self._exchange.limited(conditions))
        if self._boards is not None:
            subset = self._subset
            at_boards = conditions if subset.is_all else conditions.at(subset.positions)
            self._boards.set_conditions(at_boards, self._exchange.settle)

    def inlet_celsius(self) -> Floats:
        """The inlet temperature without conditions; NaN on devices without dynamics."""
        unknown = np.full(self._count, np.nan)
        return unknown if self._boards is None else self._subset.put(self._boards.coefficients.inlet, unknown)

    def device_level(
        self, demand: Demand, before: Level | None, seconds: float, faults: FaultTick | None = None, tick: int = 0
    ) -> Level:
        """All quantities of the devices for one tick.

        :param demand: of the workloads in this tick.
        :param before: the level a tick ago, for the counters; None at the start.
        :param seconds: simulated seconds that the counters integrate over.
        :param faults: effects of faults in this tick, in addition to the conditions; None without faults.
        """
        arrays = dict(self._constant)
        made = self._board_quantities(demand, before, seconds, faults, tick)
        has_all_boards = self._subset.is_all
        if direct := [name for name in self._direct_names if not (has_all_boards and name in made)]:
            # Shares of 1 may add up to slightly more.
            load = np.minimum(sum(demand.loads.values(), np.zeros(self._count)), 1.0)
            arrays.update({name: self._direct(name, load, demand.asked) for name in direct})
        arrays.update({name: arrays[other] for name, other in SUBSTITUTES.items() if other in arrays})
        put, present = self._subset.put, self._present
        arrays.update({
            name: values if has_all_boards else put(values, arrays.get(name))
            for name, values in made.items() if name in present
        })
        arrays.update(self._pcie.shown(arrays.get("throttled_idle")))
        arrays["links_up"] = self._links_up
        arrays.update(self._memory.shown(demand))
        self._add_counters(arrays, demand, before, seconds, None if faults is None else faults.resets(), tick)
        removed = self.conditions.lost
        is_any_lost = "lost" in arrays and bool(arrays["lost"].any())
        if before is not None:
            ranged: dict[str, Floats] = {name: arrays[name] for name in REPORTED if name in self._low}
            for name in REPORTED:
                arrays[name] = before.arrays[name]
            if faults is not None:
                add_reported(arrays, before, faults, self._constant["created_seconds"])
            if is_any_lost and (fallen := fallen_off(arrays, before, removed)).any():
                arrays["xid"] = np.where(fallen, Xid.FALLEN_OFF, arrays["xid"])
            arrays.update(ranged)
            if faults is not None and "xid" in self._masks:
                # Drivers of other vendors report no such code.
                arrays["xid"] = np.where(self._masks["xid"], arrays["xid"], 0.0)
            needs_reset = None if faults is None else faults.where("needs_reset")
            arrays[RECOVERY_ACTION] = recovery_action(arrays, needs_reset)
        if removed is not None:
            gone = (removed > 0).astype(np.float64)
            arrays["lost"] = np.maximum(arrays["lost"], gone) if "lost" in arrays else gone
            is_any_lost = bool(arrays["lost"].any())
        if self.racks is not None:
            of_devices = None if faults is None else faults.of_devices()
            arrays[CPU_CORES] = demand.asked.get(CPU_CORES, np.zeros(self._count))
            arrays.update(self.racks.quantities(arrays, before, of_devices, seconds, tick))
        level = self._lost.level(arrays, before, removed) if is_any_lost else Level(self._count, arrays, self._masks)
        if self._boards is None or self._boards.sensors is None:
            return level
        return replace(level, arrays=self._read(level.arrays, self._boards.sensors, tick))

    def idle_level(self) -> Level:
        """All quantities of the devices before any demand."""
        return self.device_level(Demand({}, np.zeros(self._count), {}), None, 0.0)

    def _direct(self, name: str, load: Floats, asked: Mapping[str, Floats]) -> Floats:
        low = self._low[name]
        value: Floats = low + load * self._span[name]
        if name in asked and name in ASKABLE:
            value = np.clip(value + asked[name], low, self._high[name])
        return value

    def _read(self, true: Mapping[str, Floats], sensors: Sensors, tick: int) -> Mapping[str, Floats]:
        """What is shown of the true values: on boards what their sensors say, each made when it is first used."""
        readings = Readings(sensors, self._subset.of(true), tick)
        return LazyArrays(
            true, lambda name: self._subset.put(readings.of(name), true[name]) if name in READ else true[name]
        )

    def _board_quantities(
        self, demand: Demand, before: Level | None, seconds: float, faults: FaultTick | None, tick: int
    ) -> Mapping[str, Floats]:
        """The quantities of the boards with dynamics, and of no other devices."""
        if self._boards is None:
            return {}
        past = None
        if before is not None:
            past = self._subset.of(before.arrays)
            if faults is not None and (reset := faults.resets()) is not None:
                past = self._boards.after_reset(past, reset[self._subset.positions])
        subset = self._subset
        loads, contexts = subset.of(demand.loads), demand.contexts
        work = self._boards.work(
            loads,
            loads if demand.activity is demand.loads else subset.of(demand.activity),
            subset.of(demand.asked),
            contexts if subset.is_all else contexts[subset.positions],
        )
        # Ticks follow each other at equal distances from the epoch.
        moment = Moment(tick, self._epoch_seconds + tick * seconds)
        swing = demand.swing
        if swing is not None and not subset.is_all:
            swing = Swing(*(values[subset.positions] for values in swing))
        return self._boards.step(work, past, moment, seconds, swing)

    def _add_counters(
        self, arrays: dict[str, Floats], demand: Demand, before: Level | None, seconds: float, reset: Mask | None,
        tick: int,
    ) -> None:  # fmt: skip
        sensors = None if self._boards is None else self._boards.sensors
        counted_shares = {} if sensors is None else sensors.counted_shares(tick)
        # Over links from board to board the counter of one end derives from that of the other.
        meshed = self._present.get(FETCHED[0])
        for counter, rate in INTEGRALS.items():
            if rate in arrays:
                so_far: Floats | float = before.arrays[counter] if before else self._first.get(counter, 0.0)
                if reset is not None:
                    so_far = np.where(reset, 0.0, so_far)
                counted = arrays[rate] * seconds
                if counter in counted_shares:
                    share = self._subset.put(counted_shares[counter], np.ones(self._count))
                    if meshed is not None and counter in CARRIED:
                        share = np.where(meshed, 1.0, share)
                    counted *= share
                counted += so_far
                arrays[counter] = counted
        errors = before.arrays if before else dict.fromkeys(ERROR_COUNTERS, np.zeros(self._count))
        arrays.update({name: errors[name] for name in ERROR_COUNTERS})
        for name in _ERRORS.intersection(demand.asked):
            count = errors[name] + np.rint(np.maximum(demand.asked[name], 0.0))
            arrays[name] = np.minimum(count, 1.0) if name == _REMAP_FAILURE else count

    def pace(self, level: Level) -> Mapping[str, Floats]:
        """The speed of each kind of work, and of each link's traffic, by its full speed; shape (devices,)."""
        if self._boards is None:
            return {}
        shown = self._subset.of({name: level.arrays[name] for name in PACED})
        paces = self._boards.pace(shown)
        of_all = {kind: self._subset.put(pace, np.ones(self._count)) for kind, pace in paces.items()}
        loading = None if self.racks is None else self.racks.pace(level.arrays)
        return of_all if loading is None else of_all | {CPU_CORES: loading}

    def ends(self, quantity: str) -> tuple[Floats, Floats] | None:
        """The value of a quantity at load 0, and what load 100 adds; None for a quantity without ranges."""
        return (self._low[quantity], self._span[quantity]) if quantity in self._low else None

    def capacity(self) -> Capacity:
        """The capacity of the devices for workloads."""
        return Capacity(
            maxima=self.maxima,
            idle=self._low,
            holds_memory=self._has_dynamics & self._present.get(USED, self._has_dynamics),
            memory_total_bytes=self._memory.total,
            memory_bytes_per_second=self._memory_carries,
            clock_mhz=self._high.get("core_frequency_mhz", np.zeros(self._count)),
            capability=self._capability,
            brought=cache(self._added),
            memory_share=self._memory_share,
        )

    def _maxima(self) -> dict[str, Floats]:
        ones = np.ones(self._count)
        highest = self._high if self.racks is None else {**self._high, CPU_CORES: self.racks.cores()}
        maxima = {}
        for name in ("usage_ratio", *ASKABLE):
            if name in self._present:
                most = self._memory.max_used if name == USED else highest.get(name, ones)
                maxima[name] = np.where(self._present[name], most, 0.0)
        return self._with_boards(maxima, {} if self._boards is None else self._boards.engines.maxima)

    def _added(self, kind: str) -> Mapping[str, Floats]:
        """What a full load of a kind of work adds to each quantity, shape (devices,)."""
        added = {name: self._span[name] for name in ("usage_ratio", *ASKABLE) if name in self._span}
        return self._with_boards(added, {} if self._boards is None else self._boards.engines.added(kind))

    def _with_boards(self, every: Mapping[str, Floats], boards: Mapping[str, Floats]) -> dict[str, Floats]:
        """Arrays over all devices, with the values of boards with dynamics."""
        return {name: self._subset.put(boards[name], own) if name in boards else own for name, own in every.items()}

    @property
    def quantities(self) -> Mapping[str, Mask]:
        """Every quantity of some device, with the devices that have it, shape (devices,)."""
        created = {"created_seconds": np.ones(self._count, dtype=np.bool_)}
        return {name: has for name, has in self._present.items() if has.any()} | created


def _held_memory(seed: int, keys: Keys) -> Floats:
    return 1.0 - _MEMORY_SPREAD * uniform(seed, keys, "memory spread", 0)
