"""Why workloads end at the end of a tick: known ends, faults, lost devices, limits of workloads and of devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

import numpy as np

from fakedev.base.steps import AT_ONCE, Steps
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.faults.per_tick import Ending, FaultTick
from fakedev.fleet.workloads.demand import Capacity
from fakedev.fleet.workloads.running import BROUGHT, Workloads, WorkShares
from fakedev.fleet.workloads.table import MEMORY, Table
from fakedev.fleet.workloads.workload import Verdict, Workload

#: Work that states such traffic shares memory with other boards.
_SHARED: Final = ("fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")
#: A demand over a limit by less than this part of it fits: sums of floats have errors of that size.
_ROUNDING: Final = 1e-9


class Endings:
    """The ends of a fleet's workloads: first known ends, then faults, lost devices, limits of workloads and of devices.

    :ivar causes: the ids of the faults that ended workloads in the last tick, by the workload's id.
    :ivar lost_on: the lost units that ended workloads in the last tick without such a fault, likewise.
    """

    def __init__(self, roster: Roster, workloads: Workloads, limits: DeviceLimits) -> None:
        self._roster = roster
        self._workloads = workloads
        self._limits = limits
        self.causes: dict[str, str] = {}
        self.lost_on: dict[str, int] = {}

    def of_tick(
        self, level: Level, before: Level, faults: FaultTick | None, end_seconds: float
    ) -> Steps[dict[str, Verdict]]:
        """A verdict for each workload that ends, by its id.

        :param level: the level of the units (devices and parts) at the end of the tick.
        :param before: the same level one tick ago.
        :param faults: the effects of faults in the tick; None: there are none.
        :param end_seconds: simulated time at the end of the tick.
        """
        over = yield from self._workloads.over(end_seconds)
        over |= yield from self._on_struck_devices(level, faults, over)
        table = self._workloads.table
        if len(table) and (len(table.limits) or self._limits.apply_to(table)):
            over |= self._limits_crossed(table, level, before, over)
            yield
        return over

    def _on_struck_devices(
        self, level: Level, faults: FaultTick | None, gone: Collection[str]
    ) -> Steps[dict[str, Verdict]]:
        """Verdicts on the workloads that faults end, then on those with a lost device."""
        parts, verdicts = self._roster.parts, dict[str, Verdict]()
        self.causes, self.lost_on = {}, {}
        struck: list[tuple[Mask, Ending]] = []
        for ending in faults.endings if faults else ():
            which = np.zeros(parts.unit_count, np.bool_)
            which[ending.devices] = True
            struck.append((parts.spread(which), ending))
        if "lost" in level.arrays:
            lost = level.arrays["lost"] > 0
            struck.append((lost, Ending(np.flatnonzero(lost), "Device {} lost, terminated", "")))
        for which, ending in struck:
            reasons: dict[int, str] = {}
            fault_id = ending.fault_id
            if which.any():
                yield
            for place, (workload, device) in enumerate(self._concerned(which, ending)):
                if place % AT_ONCE == AT_ONCE - 1:
                    yield
                if workload.workload_id not in gone and workload.workload_id not in verdicts:
                    if device not in reasons:
                        reasons[device] = ending.text.replace("{}", self._roster.unit_name(device))
                    verdicts[workload.workload_id] = workload.verdict(1, reasons[device])
                    if fault_id:
                        self.causes[workload.workload_id] = fault_id
                    else:
                        self.lost_on[workload.workload_id] = device
        if verdicts:
            yield
        return verdicts

    def _concerned(self, which: Mask, ending: Ending) -> Iterator[tuple[Workload, int]]:
        """The workloads that a fault ends, each with the device that the reason names."""
        for workload, device in self._workloads.on_devices(which):
            if workload.start_seconds is not None and workload.start_seconds < ending.since_seconds:
                continue
            if not ending.of_shared:
                yield workload, device
            elif any(use.metric in _SHARED for use in workload.spec.uses):
                ranks = self._ranks(workload)
                if any(not which[rank.devices].all() for rank in ranks):
                    yield from ((rank, device) for rank in ranks)

    def _ranks(self, workload: Workload) -> list[Workload]:
        """The workloads of a running one's job, that one among them."""
        workloads, jobs = self._workloads, self._workloads.table.jobs
        if jobs is None:
            return [workload]
        row = workloads.rows_of([workload.workload_id])[workload.workload_id]
        return [workloads.by_id[rank] for rank in workloads.table.ids[jobs == jobs[row]].tolist()]

    def _limits_crossed(
        self, table: Table, level: Level, before: Level, gone: Collection[str]
    ) -> dict[str, Verdict]:
        shares, ids = self._workloads.shares(), table.ids.tolist()
        places = {place for place, workload_id in enumerate(ids) if workload_id in gone} if gone else set()
        found = [crossing for crossing in own_limits_crossed(table, shares, level) if crossing.place not in places]
        if self._limits.apply_to(table):
            places.update(crossing.place for crossing in found)
            shares_before = self._workloads.shares_before
            for crossing in self._limits.crossed(table, shares, shares_before, level, before, places):
                shown_as = self._roster.nodes[self._roster.node_position(crossing.device)].pool.shown_as
                found.append(crossing._replace(metric=shown_as.get(crossing.metric, crossing.metric)))
        verdicts = {}
        for crossed in found:
            workload = self._workloads.by_id[ids[crossed.place]]
            verdict = workload.verdict(1, f"Limit {crossed.metric} reached, terminated")
            device = self._roster.unit_name(crossed.device)
            detail = f"{crossed.metric} {crossed.reading:g} is over the limit of {crossed.limit:g} on {device}"
            verdicts[verdict.workload_id] = verdict._replace(detail=detail)
        return verdicts


class Crossed(NamedTuple):
    """A workload that ends because of a limit.

    :ivar place: its position in the table.
    :ivar metric: of the limit, as the workload named it; of a device's limit the quantity.
    :ivar reading, limit: in the metric's unit, or the quantity's.
    :ivar device: the unit that has the reading.
    """

    place: int
    metric: str
    reading: float
    limit: float
    device: int


def own_limits_crossed(table: Table, shares: WorkShares, level: Level) -> list[Crossed]:
    """The workloads that crossed their own limits, in the table's order, each with the first such limit of its list.

    A limit of a quantity in BROUGHT is compared with the workload's share on each device, others with the device's.
    """
    limits = table.limits
    crossed: dict[int, tuple[int, Crossed]] = {}
    for quantity, rows in limits.by_quantity.items():
        # Only of the workloads with the limit: a few limits of one workload take no time for the devices of all others.
        places, of_rows = np.unique(limits.workload[rows], return_inverse=True)
        counts = table.pair_counts[places]
        firsts = np.cumsum(counts) - counts
        pairs = np.arange(counts.sum()) + np.repeat(table.firsts[places] - firsts, counts)
        values = _values(quantity, table, shares, level, pairs)
        worst = np.maximum.reduceat(values, firsts)
        over = rows[worst[of_rows] * limits.factor[rows] > limits.value[rows]]
        for row in over.tolist():
            place, order = int(limits.workload[row]), int(limits.order[row])
            at = int(np.searchsorted(places, place))
            worst_pair = int(firsts[at] + np.argmax(values[firsts[at] : firsts[at] + counts[at]]))
            reading, device = float(worst[at] * limits.factor[row]), int(table.device[pairs[worst_pair]])
            found = order, Crossed(place, str(limits.metric[row]), reading, float(limits.value[row]), device)
            crossed[place] = min(found, crossed.get(place, found))
    return [found for _, (_, found) in sorted(crossed.items())]


def _values(quantity: str, table: Table, shares: WorkShares, level: Level, pairs: Positions) -> Floats:
    """The values that a limit of a quantity is compared with, for some pairs; -inf where the device lacks it."""
    device = table.device[pairs]
    values = shares.of(quantity, pairs) if quantity in BROUGHT else level.arrays[quantity][device]
    if quantity in level.present:
        values = np.where(level.present[quantity][device], values, -np.inf)
    return values


class DeviceLimits:
    """The limits of D units, from their device types; a part has its share of the memory limit.

    For workloads that state how much memory they need, the board's whole memory is also a limit.
    """

    def __init__(self, roster: Roster, capacity: Capacity) -> None:
        types = [pool.device_type for pool in roster.pools]
        pools = roster.device_pools()
        parts = roster.parts
        total = capacity.memory_total_bytes
        whole = total[parts.owners_of(np.arange(parts.unit_count))]
        share = np.divide(total, whole, out=np.ones_like(total), where=whole > 0)
        self._capacity = capacity
        self._limits = {}
        for quantity in sorted({quantity for device_type in types for quantity in device_type.limits}):
            limits = np.array([device_type.limits.get(quantity, np.inf) for device_type in types])[pools]
            self._limits[quantity] = parts.units(limits) * (share if quantity == MEMORY else 1.0)
        self._memory = np.where(capacity.memory_total_bytes > 0, capacity.most(MEMORY), np.inf)

    def apply_to(self, table: Table) -> bool:
        """Whether any limit of devices applies while these workloads run."""
        return bool(self._limits) or MEMORY in table.uses

    def crossed(
        self, table: Table, now: WorkShares, before: Callable[[], WorkShares], level: Level, past: Level,
        gone: Collection[int],
    ) -> Iterator[Crossed]:  # fmt: skip
        """The workloads that limits of devices end.

        For a demanded quantity all workloads without room end; for a quantity that the device shows one workload in
        each tick, unless the quantity falls.

        :param now, before: the workloads' shares in this tick, and in the one before it.
        :param level, past: the level of the units in this tick, and in the one before it.
        :param gone: positions of workloads that end in this tick for other reasons.
        """
        gone = set(gone)
        for quantity, limit in self._applicable(table):
            is_demanded = quantity in BROUGHT and quantity != "usage_ratio"
            if is_demanded:
                amounts = now.of(quantity)
                shown = self._capacity.idle.get(quantity, 0.0) + now.by_device(amounts)
            else:
                amounts = now.parts
                shown = level.arrays[quantity]
            too_much = shown > limit * (1.0 + _ROUNDING)
            if not is_demanded:
                too_much &= shown >= past.arrays[quantity]
            over = np.flatnonzero(too_much)
            if not len(over):
                continue
            growth = amounts - (before().of(quantity) if is_demanded else before().parts)
            order = np.argsort(table.device, kind="stable")
            begins, ends = (np.searchsorted(table.device[order], over, side) for side in ("left", "right"))
            for device, begin, end in zip(over.tolist(), begins.tolist(), ends.tolist(), strict=True):
                pairs = order[begin:end]
                if is_demanded:
                    room = float(limit[device] * (1.0 + _ROUNDING) - shown[device] + math.fsum(amounts[pairs].tolist()))
                    places = _without_room(table, pairs, amounts, growth, room, gone)
                else:
                    places = _grown_most(table, pairs, amounts, growth, gone)
                for place in places:
                    gone.add(place)
                    yield Crossed(place, quantity, float(shown[device]), float(limit[device]), device)

    def _applicable(self, table: Table) -> Iterator[tuple[str, Floats]]:
        """The quantities with a limit in this tick, each with the limits of the devices."""
        uses = table.uses.get(MEMORY)
        if uses is not None:
            limit = self._limits.get(MEMORY, np.full(self._capacity.count, np.inf))
            asked = np.zeros(self._capacity.count, dtype=np.bool_)
            asked[table.device[uses.pair]] = True
            yield MEMORY, np.where(asked, np.minimum(limit, self._memory), limit)
        for quantity, limit in self._limits.items():
            if quantity != MEMORY or uses is None:
                yield quantity, limit


def _without_room(
    table: Table, pairs: Positions, amounts: Floats, growth: Floats, room: float, gone: Collection[int]
) -> list[int]:
    """The workloads of one device whose start or growth crosses a limit.

    Shrinking workloads make room first; new workloads take theirs next, in order; then growing ones, the least first.

    :param room: the amount that all of them together may have.
    """
    owners = table.owner[pairs]
    stays = np.array([place not in gone for place in owners.tolist()], dtype=np.bool_)
    # Exact sums: the order in which the workloads started decides none of their digits.
    held = math.fsum((amounts[pairs] - growth[pairs])[stays].tolist())
    turn = np.where(table.is_fresh[owners], 0.0, growth[pairs])
    crossed = []
    for rank in np.lexsort((owners, turn)).tolist():
        if not stays[rank]:
            continue
        held += float(growth[pairs[rank]])
        amount = float(amounts[pairs[rank]])
        if held > room and amount > 0:
            held -= amount
            crossed.append(int(owners[rank]))
    return crossed


def _grown_most(table: Table, pairs: Positions, amounts: Floats, growth: Floats, gone: Collection[int]) -> list[int]:
    """The workload of one device with the largest growth of load, the latest of several; none if one ends already."""
    owners = table.owner[pairs]
    busy = amounts[pairs] > 0
    if not busy.any() or any(place in gone for place in owners[busy].tolist()):
        return []
    last = np.lexsort((owners[busy], growth[pairs][busy]))[-1]
    return [int(owners[busy][last])]
