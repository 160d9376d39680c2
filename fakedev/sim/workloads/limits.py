"""Limits that end workloads: their own, and those of their devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.workloads.demand import Capacity
from fakedev.sim.workloads.schedule import Positions
from fakedev.sim.workloads.shares import BROUGHT, WorkShares
from fakedev.sim.workloads.table import MEMORY, Table

#: A demand that is over a limit by less than this part of it fits: sums of floats miss by as much.
_ROUNDING: Final = 1e-9


class Crossed(NamedTuple):
    """A workload that a limit ends: its place in the table, and the metric whose limit it is."""

    place: int
    metric: str


def own_limits_crossed(table: Table, amounts: WorkShares, level: Level) -> list[Crossed]:
    """The workloads that crossed a limit of their own, each with the first that it named; in order of their start.

    Of what workloads bring themselves (BROUGHT) it is their own amount on one of their devices; else the device's.
    """
    limits = table.limits
    crossed: dict[int, tuple[int, str]] = {}
    for quantity, rows in limits.by_quantity.items():
        worst = np.maximum.reduceat(_values(quantity, table, amounts, level), table.firsts)
        over = rows[worst[limits.workload[rows]] * limits.factor[rows] > limits.value[rows]]
        for row in over.tolist():
            place, found = int(limits.workload[row]), (int(limits.order[row]), str(limits.metric[row]))
            crossed[place] = min(found, crossed.get(place, found))
    return [Crossed(place, metric) for place, (_, metric) in sorted(crossed.items())]


def _values(quantity: str, table: Table, amounts: WorkShares, level: Level) -> Floats:
    """What a limit of a quantity is compared with, for each pair; what is not there is never too much."""
    device = table.device
    values = amounts.of(quantity) if quantity in BROUGHT else level.arrays[quantity][device]
    if quantity in level.present:
        values = np.where(level.present[quantity][device], values, -np.inf)
    return values


class DeviceLimits:
    """The limits of D units, which are data of the devices' types; of memory a part has its share.

    Where a workload says how much memory it needs, all the memory that the board has is a limit too.
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
        for quantity in sorted({quantity for each in types for quantity in each.limits}):
            limits = np.array([each.limits.get(quantity, np.inf) for each in types])[pools]
            self._limits[quantity] = parts.units(limits) * (share if quantity == MEMORY else 1.0)
        self._memory = np.where(capacity.memory_total_bytes > 0, capacity.most(MEMORY), np.inf)

    def hold(self, table: Table) -> bool:
        """Whether any limit holds while these workloads run."""
        return bool(self._limits) or MEMORY in table.uses

    def crossed(
        self,
        table: Table,
        now: WorkShares,
        before: Callable[[], WorkShares],
        level: Level,
        past: Level,
        gone: Collection[int],
    ) -> Iterator[tuple[int, str, int]]:
        """(place of the workload, quantity, device) for each workload that is ended by a limit of a device.

        Of what is demanded all that find no room; of what a device shows one in a tick, as long as it does not fall.

        :param now, before: whose what was in the tick, and in the one before it.
        :param level, past: what the devices show, and what they showed a tick ago.
        :param gone: places of workloads that end with this tick for other reasons.
        """
        gone = set(gone)
        for quantity, limit in self._present(table):
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
                    room = float(limit[device] * (1.0 + _ROUNDING) - shown[device] + amounts[pairs].sum())
                    places = _without_room(table, pairs, amounts, growth, room, gone)
                else:
                    places = _grown_most(table, pairs, amounts, growth, gone)
                for place in places:
                    gone.add(place)
                    yield place, quantity, device

    def _present(self, table: Table) -> Iterator[tuple[str, Floats]]:
        """Quantities with the limits of the devices that hold in this tick."""
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
    """The workloads of one device whose arrival or growth crosses a limit.

    Who needs less makes room first; then those that came take theirs, in order; then those that grew, the least first.

    :param pairs: those of the device.
    :param room: what all of them may bring together.
    """
    owners = table.owner[pairs]
    stays = np.array([place not in gone for place in owners.tolist()], dtype=np.bool_)
    held = float((amounts[pairs] - growth[pairs])[stays].sum())
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
    """The workload of one device whose load grew most, the latest on a tie; none when another leaves it already.

    :param pairs: those of the device.
    """
    owners = table.owner[pairs]
    busy = amounts[pairs] > 0
    if not busy.any() or any(place in gone for place in owners[busy].tolist()):
        return []
    last = np.lexsort((owners[busy], growth[pairs][busy]))[-1]
    return [int(owners[busy][last])]
