"""From what is asked of each part to the quantities that it has of its own.

Engines, memory bandwidth and memory of a part follow from the work on it alone, as those of a whole device would, by
what the part has of them. Clocks, power, temperatures, links and errors are the board's, and are shown of a part as
its device's. The clock that holds the work back is the board's too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.sim.askable import ASKABLE
from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.engines import ENGINES, Engines
from fakedev.sim.demand import Demand
from fakedev.sim.faults.fault_tick import FaultTick
from fakedev.sim.moves import Carriage
from fakedev.sim.parts.demand import memory_share, part_demand
from fakedev.sim.parts.levels import part_level
from fakedev.sim.places import Places
from fakedev.sim.quantities import INTEGRALS, MEMORY_TRAFFIC
from fakedev.sim.randomness import Floats
from fakedev.sim.relations import Relations
from fakedev.sim.roster import Roster
from fakedev.sim.state import Level, Mask

_MEMORY: Final = "memory_used_bytes"
MEMORY: Final = (
    "memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", _MEMORY, "memory_used_ratio",
)  # fmt: skip
#: What a part has of its own, by the load on it.
BY_LOAD: Final = ("usage_ratio", *ENGINES, "memory_bandwidth_ratio", *MEMORY_TRAFFIC)


class PartRelations:
    """The relations of the parts of a fleet, their coefficients as arrays of shape (P,).

    :param relations: those of the devices.
    """

    def __init__(self, roster: Roster, relations: Relations, seed: int) -> None:
        parts = self._parts = roster.parts
        owners = parts.owners
        types = [roster.nodes[each].pool.device_type for each in roster.node_positions(owners).tolist()]
        capacity = relations.capacity()
        of_memory = memory_share(parts, capacity.most(_MEMORY))
        self._page = np.array([each.memory_page_bytes for each in types])
        self._most_used = np.floor(capacity.most(_MEMORY)[owners] * of_memory / self._page) * self._page
        total = capacity.memory_total_bytes[owners]
        self._total = np.where((parts.memory_bytes > 0) & (total > 0), parts.memory_bytes, total * of_memory)
        self._low, self._span = self._ends(relations, of_memory)
        self.idle_memory_bytes = capacity.idle.get(_MEMORY, np.zeros(parts.device_count))
        has_dynamics = np.array([each.dynamics is not None for each in types], dtype=np.bool_)
        self._places = Places(has_dynamics)
        self._engines: Engines | None = None
        if has_dynamics.any():
            of_boards = [each for each in types if each.dynamics is not None]
            keys = roster.keys()[owners][has_dynamics]
            self._engines = Engines(Coefficients(of_boards, np.full(len(of_boards), np.nan), seed, keys))

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
        used = np.clip(np.round(used / self._page) * self._page, 0.0, self._most_used)
        return np.asarray(used, dtype=np.float64)

    def level(
        self,
        demand: Demand,
        devices: Level,
        before: Level | None,
        seconds: float,
        faults: FaultTick | None = None,
    ) -> Level:
        """All quantities of the parts for one tick.

        :param demand: what the workloads ask of all units in this tick.
        :param devices: what the devices show of it.
        :param before: this level a tick ago; None at the start.
        :param faults: what faults do in this tick; None: there are none.
        """
        asked = part_demand(demand, self._parts)
        own = self._by_load(asked, devices)
        self._add_memory(own, demand, devices)
        lost = self._lost(devices)
        if lost is not None:
            own = {name: np.where(lost, 0.0, values) for name, values in own.items()}
        reset = None if faults is None else faults.resets()
        for counter, rate in INTEGRALS.items():
            if rate in own and counter in devices.arrays:
                so_far: Floats | float = before.arrays[counter] if before else 0.0
                if reset is not None:
                    so_far = np.where(reset[self._parts.owners], 0.0, so_far)
                own[counter] = so_far + own[rate] * seconds
        return part_level(self._parts, devices, own)

    def moved_level(self, past: Level, carriage: Carriage, devices: Level) -> Level:
        """The level of the parts when the fleet goes over to another configuration.

        :param past: what parts showed last, in their old order.
        :param carriage: from their old places to the new ones.
        :param devices: what their devices show.
        """
        idle = Demand({}, np.zeros(self._parts.unit_count), {})
        fresh = self.level(idle, devices, None, 0.0)
        own = {name: fresh.arrays[name] for name in (*BY_LOAD, *MEMORY, *INTEGRALS) if name in fresh.arrays}
        carried = {
            name: carriage.carried(past.arrays[name], values) if name in past.arrays else values
            for name, values in own.items()
        }
        return part_level(self._parts, devices, carried)

    def _lost(self, devices: Level) -> Mask | None:
        """The parts of devices that are lost, shape (P,); None for none."""
        if "lost" not in devices.arrays:
            return None
        lost: Mask = devices.arrays["lost"][self._parts.owners] > 0
        return lost if lost.any() else None

    def _by_load(self, asked: Demand, devices: Level) -> dict[str, Floats]:
        """Engines and memory bandwidth."""
        own = {}
        load = np.minimum(sum(asked.loads.values(), np.zeros(self._parts.count)), 1.0)
        for name in BY_LOAD:
            if name in self._low:
                value = self._low[name] + load * self._span[name]
                if name in asked.asked and name in ASKABLE:
                    value = np.clip(value + asked.asked[name], self._low[name], self._low[name] + self._span[name])
                own[name] = value
        for name, values in self._made(asked, devices).items():
            if name in devices.arrays:
                own[name] = self._places.put(values * self._of_places(self._share(name)), own.get(name))
        return own

    def _of_places(self, share: Floats | float) -> Floats | float:
        return share if isinstance(share, float) else self._places.of({"": share})[""]

    def _made(self, asked: Demand, devices: Level) -> Mapping[str, Floats]:
        """What dynamics make, of the parts of boards alone."""
        if self._engines is None:
            return {}
        of_devices = {name: devices.arrays[name][self._parts.owners] for name in ("work_clock_ratio", "hung")}
        shown = self._places.of(of_devices)
        loads, uses = self._places.of(asked.loads), self._places.of(asked.asked)
        hangs = shown["hung"] > 0
        work = self._engines.work(loads, uses, hangs if hangs.any() else None)
        made, _ = self._engines.busy(work)
        traffic = self._engines.traffic(work, shown["work_clock_ratio"])
        return {name: each for name, each in (made | traffic).items() if name in BY_LOAD}

    def _add_memory(self, own: dict[str, Floats], demand: Demand, devices: Level) -> None:
        if _MEMORY not in devices.arrays:
            return
        used = own[_MEMORY] = self.used_bytes(demand)
        if "memory_total_bytes" in devices.arrays:
            own["memory_total_bytes"] = self._total
            own["memory_reserved_bytes"] = self._total - self._most_used
            own["memory_free_bytes"] = self._most_used - used
            own["memory_used_ratio"] = np.divide(used, self._total, out=np.zeros_like(used), where=self._total > 0)
