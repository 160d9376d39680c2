"""From what is asked of each part to the quantities that it has of its own.

Engines, memory bandwidth and memory of a part follow from the work on it alone, as those of a whole device would, by
what the part has of them. Clocks, power, temperatures, links and errors are the board's, and are shown of a part as
its device's. The clock that holds the work back is the board's too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients, with_dynamics
from fakedev.sim.boards.engines import ENGINES, Engines
from fakedev.sim.boards.heat_and_power import work_share
from fakedev.sim.devices.relations import Relations
from fakedev.sim.devices.subset import Subset
from fakedev.sim.entities.carry_over import Reindex
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.faults.tick import FALLEN_OFF, FaultTick
from fakedev.sim.parts.demand import memory_share, part_demand
from fakedev.sim.parts.levels import part_level
from fakedev.sim.parts.tiles import HEATS, OF_TILES, Drawn, Tiles
from fakedev.sim.workloads.demand import Demand
from fakedev.spec.metrics_of_work import ASKABLE
from fakedev.spec.quantities import COUNTERS, INTEGRALS, MEMORY_TRAFFIC

_MEMORY: Final = "memory_used_bytes"
MEMORY: Final = (
    "memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", _MEMORY, "memory_used_ratio",
)  # fmt: skip
#: What a part has of its own, by the load on it.
BY_LOAD: Final = ("usage_ratio", *ENGINES, "memory_bandwidth_ratio", *MEMORY_TRAFFIC)


#: What is a part's own. All else is its device's.
OWN: Final = frozenset((*BY_LOAD, *MEMORY, "memory_read_bytes", "memory_write_bytes", "xid", "lost"))


class Before(NamedTuple):
    """What was shown a tick ago."""

    parts: Level
    devices: Level


class PartRelations:
    """The relations of the parts of a fleet, their coefficients as arrays of shape (P,).

    :param relations: those of the devices.
    """

    def __init__(self, roster: Roster, relations: Relations, seed: int) -> None:
        parts = self._parts = roster.parts
        owners = parts.owners
        types, pools = [pool.device_type for pool in roster.pools], roster.device_pools()[owners]
        capacity = relations.capacity()
        of_memory = memory_share(parts, capacity.most(_MEMORY))
        self._page = np.array([each.memory_page_bytes for each in types])[pools]
        self._max_used = np.floor(capacity.most(_MEMORY)[owners] * of_memory / self._page) * self._page
        total = capacity.memory_total_bytes[owners]
        self._total = np.where((parts.memory_bytes > 0) & (total > 0), parts.memory_bytes, total * of_memory)
        self._low, self._span = self._ends(relations, of_memory)
        self.idle_memory_bytes = capacity.idle.get(_MEMORY, np.zeros(parts.device_count))
        has_dynamics = np.array([each.dynamics is not None for each in types], dtype=np.bool_)[pools]
        self._places = Subset(has_dynamics)
        self._boards: Coefficients | None = None
        self._engines: Engines | None = None
        if has_dynamics.any():
            of_boards, which = with_dynamics(types, pools)
            keys = roster.keys[owners][has_dynamics]
            self._boards = Coefficients(of_boards, which, np.full(len(which), np.nan), seed, keys)
            self._engines = Engines(self._boards)
        self._tiles: Tiles | None = None
        if parts.is_tile.any():
            idle_watts = capacity.idle.get("power_watts", np.zeros(parts.device_count))[owners]
            self._tiles = Tiles(parts, idle_watts, self._places, self._boards)

    def _ends(self, relations: Relations, of_memory: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """The ends of the ranges of what parts have of their own."""
        low, span = {}, {}
        for name in (*BY_LOAD, _MEMORY):
            ends = relations.ends(name)
            if ends is not None:
                share = of_memory if name == _MEMORY else self._share(name)
                low[name], span[name] = (each[self._parts.owners] * share for each in ends)
        return low, span

    def _share(self, name: str) -> Floats | float:
        return 1.0 if name.endswith("_ratio") else self._parts.compute_share

    def used_bytes(self, demand: Demand) -> Floats:
        """What each part uses of its memory, shape (P,).

        :param demand: of all units.
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
    ) -> Level:
        """All quantities of the parts for one tick.

        :param demand: what the workloads ask of all units in this tick.
        :param used_bytes: what they use of their memory by that: :meth:`used_bytes`.
        :param devices: what the devices show of it.
        :param before: what parts and devices showed a tick ago; None at the start.
        :param faults: what faults do in this tick; None: there are none.
        """
        asked = part_demand(demand, self._parts)
        own, drawn = self._by_load(asked, devices)
        self._add_memory(own, used_bytes, devices)
        if self._tiles is not None:
            own |= self._tiles.own(own["usage_ratio"], drawn, demand, devices, before, seconds)
        alone = None if faults is None else faults.where("lost")
        lost = self._lost(devices, alone)
        if lost is not None:
            own = self._hidden(own, lost, self._lost(devices, None))
        reset = None if faults is None else faults.resets()
        is_reset = None if reset is None else self._parts.spread(reset)[self._parts.device_count :]
        for counter, rate in INTEGRALS.items():
            if rate in own and counter in devices.arrays:
                so_far: Floats | float = before.parts.arrays[counter] if before else 0.0
                if is_reset is not None:
                    so_far = np.where(is_reset, 0.0, so_far)
                own[counter] = so_far + own[rate] * seconds
        self._where_own(own, devices)
        self._add_errors(own, devices, before, faults, is_reset)
        if alone is None:
            return part_level(self._parts, devices, own)
        # What is lost of its own accord its device has not lost.
        own["lost"] = np.ones(self._parts.count) * (lost if lost is not None else 0.0)
        return part_level(self._parts, devices, own, alone[self._parts.device_count :])

    def _add_errors(
        self, own: dict[str, Floats], devices: Level, before: Before | None, faults: FaultTick | None,
        is_reset: Mask | None,
    ) -> None:  # fmt: skip
        """The last error of each part: its own, or its device's if that came later."""
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
            # An instance that is gone has not fallen off the bus: it is its board that would.
            is_told = ~np.isnan(of_parts) & (of_parts != FALLEN_OFF)
            codes = np.where(is_told, of_parts, codes)
        own["xid"] = codes

    def _where_own(self, own: dict[str, Floats], devices: Level) -> None:
        """What only tiles have of their own is the devices' on other parts."""
        for name in OF_TILES:
            if name in own:
                own[name] = np.where(self._parts.is_tile, own[name], devices.arrays[name][self._parts.owners])

    def moved_level(self, past: Level, reindex: Reindex, devices: Level) -> Level:
        """The level of the parts when the fleet goes over to another configuration.

        :param past: what parts showed last, in their old order.
        :param reindex: from their old places to the new ones.
        :param devices: what their devices show.
        """
        idle = Demand({}, np.zeros(self._parts.unit_count), {})
        fresh = self.level(idle, self.used_bytes(idle), devices, None, 0.0)
        names = (*BY_LOAD, *MEMORY, *INTEGRALS, "xid", *(OF_TILES if self._tiles is not None else ()))
        own = {name: fresh.arrays[name] for name in names if name in fresh.arrays}
        carried = {
            name: reindex.carried(past.arrays[name], values) if name in past.arrays else values
            for name, values in own.items()
        }
        self._where_own(carried, devices)
        return part_level(self._parts, devices, carried)

    def _hidden(self, own: Mapping[str, Floats], lost: Mask, with_board: Mask | None) -> dict[str, Floats]:
        """What is 0 on parts that are lost: all but counters, and but for the heat of tiles that are lost alone.

        :param with_board: the parts that are lost with their devices; None for none.
        """
        hidden = {}
        for name, values in own.items():
            gone = with_board if name in HEATS else lost
            hidden[name] = values if name in COUNTERS or gone is None else np.where(gone, 0.0, values)
        return hidden

    def _lost(self, devices: Level, alone: Mask | None) -> Mask | None:
        """The parts that are lost, by themselves or with their devices, shape (P,); None for none.

        :param alone: units that faults have lost; None for none.
        """
        lost = np.zeros(self._parts.count, dtype=np.bool_)
        if "lost" in devices.arrays:
            lost |= devices.arrays["lost"][self._parts.owners] > 0
        if alone is not None:
            lost |= alone[self._parts.device_count :]
        return lost if lost.any() else None

    def _by_load(self, asked: Demand, devices: Level) -> tuple[dict[str, Floats], Drawn | None]:
        """Engines and memory bandwidth, and what the work on parts of boards with dynamics draws."""
        own = {}
        load = np.minimum(sum(asked.loads.values(), np.zeros(self._parts.count)), 1.0)
        for name in BY_LOAD:
            if name in self._low:
                value = self._low[name] + load * self._span[name]
                if name in asked.asked and name in ASKABLE:
                    value = np.clip(value + asked.asked[name], self._low[name], self._low[name] + self._span[name])
                own[name] = value
        made, drawn = self._made(asked, devices)
        for name, values in made.items():
            if name in devices.arrays:
                own[name] = self._places.put(values * self._of_places(self._share(name)), own.get(name))
        return own, drawn

    def _of_places(self, share: Floats | float) -> Floats | float:
        return share if isinstance(share, float) else self._places.of({"": share})[""]

    def _made(self, asked: Demand, devices: Level) -> tuple[Mapping[str, Floats], Drawn | None]:
        """What dynamics make, of the parts of boards alone."""
        if self._engines is None or self._boards is None:
            return {}, None
        of_devices = {name: devices.arrays[name][self._parts.owners] for name in ("work_clock_ratio", "hung")}
        shown = self._places.of(of_devices)
        loads, uses = self._places.of(asked.loads), self._places.of(asked.asked)
        hangs = shown["hung"] > 0
        work = self._engines.work(loads, uses, hangs if hangs.any() else None)
        made, active = self._engines.busy(work)
        traffic = self._engines.traffic(work, shown["work_clock_ratio"])
        own = {name: each for name, each in (made | traffic).items() if name in BY_LOAD}
        return own, Drawn(work_share(self._boards, work), active) if self._tiles is not None else None

    def _add_memory(self, own: dict[str, Floats], used: Floats, devices: Level) -> None:
        if _MEMORY not in devices.arrays:
            return
        own[_MEMORY] = used
        if "memory_total_bytes" in devices.arrays:
            own["memory_total_bytes"] = self._total
            own["memory_reserved_bytes"] = self._total - self._max_used
            own["memory_free_bytes"] = self._max_used - used
            own["memory_used_ratio"] = np.divide(used, self._total, out=np.zeros_like(used), where=self._total > 0)
