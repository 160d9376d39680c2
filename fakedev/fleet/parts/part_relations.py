"""The parts' own quantities, from the demand on each part.

Engines, memory bandwidth and memory of a part follow only from the work on it, as those of a whole device do, in
proportion to its share of the device. A part shows its device's clocks, power, temperatures, links and errors; the
device's clock limits its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.boards.arrays import Air, Subset, with_dynamics
from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.boards.engines import ENGINES, GRAPHICS, MEMORY_USAGE, PROFILED, SUBSTITUTES, Engines
from fakedev.fleet.boards.heat_and_power import work_share
from fakedev.fleet.boards.sensors import PowerReading
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.faults.per_tick import FaultTick
from fakedev.fleet.parts.part_demand import demand_within, memory_share, part_demand, part_share, unit_capacity
from fakedev.fleet.parts.tiles import HEATS, TILE_QUANTITIES, Drawn, Tiles
from fakedev.fleet.spec.quantities import ASKABLE, COUNTERS, INTEGRALS, MEMORY_TRAFFIC
from fakedev.fleet.spec.xids import Xid
from fakedev.fleet.workloads.demand import Demand

_MEMORY: Final = "memory_used_bytes"
_POWER: Final = "power_watts"
_BANDWIDTH: Final = "memory_bandwidth_ratio"
#: Rounding of sums of shares.
_ROUNDING: Final = 1e-12
MEMORY: Final = (
    "memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", _MEMORY, "memory_used_ratio",
)  # fmt: skip
#: A part's own quantities that follow the load on it.
LOAD_QUANTITIES: Final = (
    "usage_ratio", *ENGINES, *PROFILED, "memory_bandwidth_ratio", *SUBSTITUTES, *MEMORY_TRAFFIC,
)  # fmt: skip
#: All of a part's own quantities; the others are its device's.
OWN: Final = frozenset((*LOAD_QUANTITIES, *MEMORY, "memory_read_bytes", "memory_write_bytes", "xid", "lost"))


class Before(NamedTuple):
    """The levels a tick ago."""

    parts: Level
    devices: Level


class PartRelations:
    """The relations of the parts of a fleet, their coefficients as arrays of shape (P,).

    :param exact: whether sensors show the true values.
    """

    def __init__(self, roster: Roster, relations: Relations, seed: int, exact: bool = True) -> None:
        parts = self._parts = roster.parts
        owners = parts.owners
        types, pools = [pool.device_type for pool in roster.pools], roster.device_pools()[owners]
        capacity = relations.capacity()
        of_memory = memory_share(parts, capacity.most(_MEMORY))
        self._capacity = unit_capacity(capacity, parts)
        self._page = np.array([device_type.memory_page_bytes for device_type in types])[pools]
        self._max_used = np.floor(capacity.most(_MEMORY)[owners] * of_memory / self._page) * self._page
        total = capacity.memory_total_bytes[owners]
        self._total = np.where((parts.memory_bytes > 0) & (total > 0), parts.memory_bytes, total * of_memory)
        self._low, self._span = self._ends(relations, of_memory)
        self.idle_memory_bytes = capacity.idle.get(_MEMORY, np.zeros(parts.device_count))
        has_dynamics = np.array([device_type.dynamics is not None for device_type in types], dtype=np.bool_)[pools]
        self._subset = Subset(has_dynamics)
        self._boards: Coefficients | None = None
        self._engines: Engines | None = None
        self._power: PowerReading | None = None
        if has_dynamics.any():
            of_boards, which = with_dynamics(types, pools)
            keys = roster.keys[owners][has_dynamics]
            self._boards = Coefficients(of_boards, which, Air.usual(len(which)), seed, keys)
            self._engines = Engines(self._boards)
            if not exact:
                own_keys = roster.unit_keys[parts.device_count :][has_dynamics]
                self._power = PowerReading.of(self._boards, seed, own_keys)
        self._tiles: Tiles | None = None
        if parts.is_tile.any():
            idle_watts = capacity.idle.get("power_watts", np.zeros(parts.device_count))[owners]
            self._tiles = Tiles(parts, idle_watts, self._subset, self._boards)

    def _ends(self, relations: Relations, of_memory: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """The lower ends and the spans of the parts' own ranges."""
        low, span = {}, {}
        for name in (*LOAD_QUANTITIES, _MEMORY):
            ends = relations.ends(name)
            if ends is not None:
                share = part_share(self._parts, name, of_memory)
                low[name], span[name] = (end[self._parts.owners] * share for end in ends)
        return low, span

    def demand_within(self, demand: Demand) -> Demand:
        """The demand with requests of parts limited to what the parts have.

        :param demand: on all units.
        """
        return demand_within(demand, self._parts, self._capacity)

    def used_bytes(self, demand: Demand) -> Floats:
        """The memory that each part uses, shape (P,).

        :param demand: on all units.
        """
        if _MEMORY not in self._low:
            return np.zeros(self._parts.count)
        asked = part_demand(demand, self._parts)
        used = self._low[_MEMORY] + asked.held * self._span[_MEMORY] + asked.asked.get(_MEMORY, 0.0)
        used = np.clip(np.round(used / self._page) * self._page, 0.0, self._max_used)
        return np.asarray(used, dtype=np.float64)

    def level(
        self,
        demand: Demand,
        used_bytes: Floats,
        devices: Level,
        before: Before | None,
        seconds: float,
        faults: FaultTick | None = None,
        tick: int = 0,
    ) -> Level:
        """All quantities of the parts for one tick.

        :param demand: on all units in this tick.
        :param devices: the level of the devices in this tick.
        :param before: the levels a tick ago; None at the start.
        :param faults: effects of faults in this tick; None without faults.
        """
        asked = part_demand(demand, self._parts)
        own, drawn = self._by_load(asked, devices)
        self._add_memory(own, used_bytes, devices)
        if self._parts.is_tile.any():
            self._add_moved(own, devices)
        if self._tiles is not None:
            own |= self._tiles.own(own["usage_ratio"], drawn, demand, devices, before, seconds)
        alone = None if faults is None else faults.where("lost")
        lost = self._lost(devices, alone)
        if lost is not None:
            # Counters stay, and temperatures of tiles, which nothing shows.
            own = {
                name: values if name in COUNTERS or name in HEATS else np.where(lost, 0.0, values)
                for name, values in own.items()
            }
        reset = None if faults is None else faults.resets()
        is_reset = None if reset is None else self._parts.spread(reset)[self._parts.device_count :]
        for counter, rate in INTEGRALS.items():
            if rate in own and counter in devices.arrays:
                so_far: Floats | float = before.parts.arrays[counter] if before else 0.0
                if is_reset is not None:
                    so_far = np.where(is_reset, 0.0, so_far)
                own[counter] = so_far + own[rate] * seconds
        self._where_own(own, devices)
        if self._power is not None and self._boards is not None:
            # Exporters read the power of the board for one instance after the other.
            watts = devices.arrays[_POWER][self._parts.owners]
            shown = self._subset.of({_POWER: watts})[_POWER]
            above = np.maximum(shown - self._boards.idle_watts, 0.0)
            read = self._subset.put(self._power.mean(shown, above, tick), watts)
            own[_POWER] = np.where(self._parts.is_tile, own.get(_POWER, read), read)
        self._add_errors(own, devices, before, faults, is_reset)
        if alone is None:
            return self._parts.part_level(devices, own)
        # A part can be lost without its device.
        own["lost"] = np.ones(self._parts.count) * (lost if lost is not None else 0.0)
        return self._parts.part_level(devices, own, alone[self._parts.device_count :])

    def _add_errors(
        self, own: dict[str, Floats], devices: Level, before: Before | None, faults: FaultTick | None,
        is_reset: Mask | None,
    ) -> None:  # fmt: skip
        """Add the last error of each part: its own, or its device's if that is newer."""
        if before is None or "xid" not in devices.arrays:
            return
        of_devices, owners = devices.arrays["xid"], self._parts.owners
        is_new = of_devices != before.devices.arrays["xid"]
        codes = np.where(is_new[owners], of_devices[owners], before.parts.arrays["xid"])
        if is_reset is not None:
            codes = np.where(is_reset, of_devices[owners], codes)
        given = None if faults is None else faults.get("xid")
        if given is not None:
            of_parts = given[self._parts.device_count :]
            # A lost instance has not fallen off the bus: only a board can.
            is_reported = ~np.isnan(of_parts) & (of_parts != Xid.FALLEN_OFF)
            if "lost" in before.parts.arrays:
                gone = before.parts.arrays["lost"] > 0
                is_reported &= ~gone if is_reset is None else ~gone | is_reset
            codes = np.where(is_reported, of_parts, codes)
        own["xid"] = codes

    def _where_own(self, own: dict[str, Floats], devices: Level) -> None:
        """Replace quantities that only tiles have with the devices' on other parts."""
        for name in TILE_QUANTITIES:
            if name in own:
                own[name] = np.where(self._parts.is_tile, own[name], devices.arrays[name][self._parts.owners])

    def moved_level(self, past: Level, reindex: Reindex, devices: Level) -> Level:
        """The level of the parts after a reload.

        :param past: the last level before, in the old order.
        :param devices: the level of the devices after the reload.
        """
        idle = Demand({}, np.zeros(self._parts.unit_count), {})
        fresh = self.level(idle, self.used_bytes(idle), devices, None, 0.0)
        names = (*LOAD_QUANTITIES, *MEMORY, *INTEGRALS, "xid", *(TILE_QUANTITIES if self._tiles is not None else ()))
        own = {name: fresh.arrays[name] for name in names if name in fresh.arrays}
        carried = {
            name: reindex.carried(past.arrays[name], values) if name in past.arrays else values
            for name, values in own.items()
        }
        self._where_own(carried, devices)
        return self._parts.part_level(devices, carried)

    def _lost(self, devices: Level, alone: Mask | None) -> Mask | None:
        """The lost parts, with or without their devices, shape (P,); None for none.

        :param alone: units that are lost by faults; None for none.
        """
        lost = np.zeros(self._parts.count, dtype=np.bool_)
        if "lost" in devices.arrays:
            lost |= devices.arrays["lost"][self._parts.owners] > 0
        if alone is not None:
            lost |= alone[self._parts.device_count :]
        return lost if lost.any() else None

    def _by_load(self, asked: Demand, devices: Level) -> tuple[dict[str, Floats], Drawn | None]:
        """Engines and memory bandwidth, and the power that work on parts of boards with dynamics draws."""
        own = {}
        load = np.minimum(sum(asked.loads.values(), np.zeros(self._parts.count)), 1.0)
        for name in LOAD_QUANTITIES:
            if name in self._low:
                value = self._low[name] + load * self._span[name]
                if name in asked.asked and name in ASKABLE:
                    value = np.clip(value + asked.asked[name], self._low[name], self._low[name] + self._span[name])
                own[name] = value
        own.update({name: own[other] for name, other in SUBSTITUTES.items() if other in own})
        made, drawn = self._with_dynamics(asked, devices)
        for name, values in made.items():
            if name in devices.arrays:
                share = 1.0 if name.endswith("_ratio") else self._parts.compute_share[self._subset.positions]
                own[name] = self._subset.put(values * share, own.get(name))
        return own, drawn

    def _with_dynamics(self, asked: Demand, devices: Level) -> tuple[Mapping[str, Floats], Drawn | None]:
        """The quantities of the parts of boards with dynamics, and of no others."""
        if self._engines is None or self._boards is None:
            return {}, None
        of_devices = {name: devices.arrays[name][self._parts.owners] for name in ("work_clock_ratio", "hung")}
        shown = self._subset.of(of_devices)
        loads, uses = self._subset.of(asked.loads), self._subset.of(asked.asked)
        hangs = shown["hung"] > 0
        activity = loads if asked.activity is asked.loads else self._subset.of(asked.activity)
        contexts = asked.contexts if self._subset.is_all else asked.contexts[self._subset.positions]
        work = self._engines.work(loads, activity, uses, contexts, hangs if hangs.any() else None)
        made, works = self._engines.busy(work)
        traffic = self._engines.traffic(work, shown["work_clock_ratio"])
        own = {name: each for name, each in (made | traffic).items() if name in LOAD_QUANTITIES}
        if GRAPHICS in own and GRAPHICS in devices.arrays:
            own[GRAPHICS] = own[GRAPHICS] * self._fitting(own[GRAPHICS], devices.arrays[GRAPHICS])
        return own, Drawn(work_share(self._boards, work), works, works | contexts) if self._tiles is not None else None

    def _fitting(self, values: Floats, of_devices: Floats) -> Floats:
        """A factor of at most 1 for shares of the parts of boards with dynamics, which together are their devices'.

        Some shares are the larger one of two: that of a device is then less than its parts' together.
        """
        positions = self._subset.positions
        owners = self._parts.owners[positions]
        together = np.bincount(owners, values * self._parts.compute_share[positions], self._parts.device_count)
        ones = np.ones(len(together))
        return np.minimum(np.divide(of_devices, together, out=ones, where=together > 0), 1.0)[owners]

    def _add_moved(self, own: dict[str, Floats], devices: Level) -> None:
        """Add to the tiles' memory traffic what links of their boards move beyond it, where they have room.

        Where they have more together than their board, whose links are named by the work on another tile, they get
        their part of what it has.
        """
        if any(name not in own or name not in devices.arrays for name in (_BANDWIDTH, *MEMORY_TRAFFIC)):
            return
        parts = self._parts
        owners, count = parts.owners, parts.device_count
        missing = {_BANDWIDTH: devices.arrays[_BANDWIDTH][owners] * parts.siblings}
        missing |= {name: devices.arrays[name][owners] for name in MEMORY_TRAFFIC}
        for name, whole in missing.items():
            together = np.bincount(owners, own[name], count)[owners]
            fitting = np.divide(whole, together, out=np.ones_like(whole), where=parts.is_tile & (together > whole))
            own[name] = own[name] * fitting
            missing[name] = whole - together * fitting
        own[MEMORY_USAGE] = own[_BANDWIDTH]
        if not (moved := parts.is_tile & (missing[_BANDWIDTH] > _ROUNDING)).any():
            return
        room = np.where(moved, np.maximum(1.0 - own[_BANDWIDTH], 0.0), 0.0)
        rooms = np.bincount(owners, room, count)[owners]
        share = np.divide(room, rooms, out=np.zeros_like(room), where=rooms > 0)
        own.update({name: own[name] + share * np.maximum(values, 0.0) for name, values in missing.items()})
        own[_BANDWIDTH] = np.minimum(own[_BANDWIDTH], 1.0)
        own[MEMORY_USAGE] = own[_BANDWIDTH]

    def _add_memory(self, own: dict[str, Floats], used: Floats, devices: Level) -> None:
        if _MEMORY not in devices.arrays:
            return
        own[_MEMORY] = used
        if "memory_total_bytes" in devices.arrays:
            own["memory_total_bytes"] = self._total
            own["memory_reserved_bytes"] = self._total - self._max_used
            own["memory_free_bytes"] = self._max_used - used
            own["memory_used_ratio"] = np.divide(used, self._total, out=np.zeros_like(used), where=self._total > 0)
