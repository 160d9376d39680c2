"""The share of each workload in the quantities of its devices."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask, Positions
from fakedev.sim.workloads.demand import Capacity
from fakedev.sim.workloads.table import MEMORY, Table
from fakedev.spec.metrics_of_work import ASKABLE, COUNTED

_MEMORY_RATIO: Final = "memory_used_ratio"
_USAGE: Final = "usage_ratio"
#: Of all pairs.
_ALL: Final = slice(None)

#: The quantities of which a workload has a share; all others are of boards only.
BROUGHT: Final = frozenset((_USAGE, _MEMORY_RATIO, *ASKABLE))


class Oversubscription(NamedTuple):
    """The demand on each of D devices in a tick as a multiple of the device, at least 1: arrays of shape (D,).

    Kept from the tick, because workloads that ended with it also had only their share.

    :param load: from the loads of the workloads.
    :param peak: from the highest loads of the workloads whose memory follows from their loads.
    """

    load: Floats
    peak: Floats


class WorkShares:
    """The amounts of P pairs of a workload and a device in the last tick; for counters the total so far.

    :param crowds: of that tick.
    :param before: of the tick before the last one, in which workloads of the last one had nothing.
    """

    def __init__(self, table: Table, capacity: Capacity, crowds: Oversubscription, *, before: bool = False) -> None:
        self._table = table
        self._capacity = capacity
        self._crowds = crowds
        self._is_before = before
        share = np.maximum(table.before if before else table.share, 0.0) / 100.0
        #: The load of each pair, reduced to the room of its device, as a share of 1: shape (P,).
        self.parts = share / crowds.load[table.device]
        #: Load x intensity, likewise.
        self._busy = self.parts
        if len(table.intense):
            self._busy = table.busy(100.0 * share, before=before) / 100.0 / crowds.load[table.device]

    def of(self, quantity: str, pairs: Positions | slice = _ALL) -> Floats:
        """The amount of a quantity (one of BROUGHT) of some pairs, in their order: by default of all, shape (P,)."""
        table = self._table
        if quantity == _MEMORY_RATIO:
            total = self._capacity.memory_total_bytes[table.device[pairs]]
            return np.divide(self.of(MEMORY, pairs), total, out=np.zeros(len(total)), where=total > 0)
        if quantity == MEMORY:
            brought = self._held_memory(pairs)
        else:
            brought = (self.parts if quantity == _USAGE else self._busy)[pairs] * self._by_load(quantity, pairs)
        uses = table.uses.get(quantity)
        if uses is not None:
            last = uses.before if self._is_before else uses.amount
            used = np.zeros(len(table.device))
            used[uses.pair] = uses.counted if quantity in COUNTED else last
            brought += used[pairs]
        return brought

    def by_workload(self) -> tuple[dict[str, Floats], dict[str, Mask]]:
        """By quantity the sum over each workload's devices, and which workloads have it: shape (W,).

        For the usage the mean. Counters and hangs are there only if a workload demands them.
        """
        table = self._table
        arrays, present = {}, {}
        of_load = {quantity for kind in table.kind_rows[0] for quantity in self._capacity.brought(kind)}
        for quantity in (_USAGE, *ASKABLE):
            has = self._capacity.most(quantity)[table.device] > 0
            if has.any() and (quantity in table.uses or quantity in of_load):
                arrays[quantity] = np.add.reduceat(self.of(quantity) * has, table.firsts)
                present[quantity] = np.logical_or.reduceat(has, table.firsts)
        if _USAGE in arrays:
            arrays[_USAGE] = arrays[_USAGE] / table.pair_counts
        return arrays, present

    def _held_memory(self, pairs: Positions | slice) -> Floats:
        """The memory of some pairs, as far as their workloads do not state how much they need."""
        table = self._table
        device, owner, holds = table.device[pairs], table.owner[pairs], table.holds[pairs]
        if self._is_before:
            holds = holds * ~table.is_fresh[owner]
        peaks = table.peak[owner] / 100.0 * holds
        held = peaks / self._crowds.peak[device]
        share = np.where(self._capacity.holds_memory[device], held, self.parts[pairs] * holds)
        return share * self._by_load(MEMORY, pairs)

    def _by_load(self, quantity: str, pairs: Positions | slice) -> Floats:
        """The amount of a quantity at full load of the kind of work of some pairs."""
        table = self._table
        kinds, rows = table.kind_rows
        nothing = np.zeros(self._capacity.count)
        full = np.array([self._capacity.brought(kind).get(quantity, nothing) for kind in kinds])
        brought: Floats = full[rows[pairs], table.device[pairs]]
        return brought

    def by_device(self, values: Floats) -> Floats:
        """The sums over the pairs of each device, shape (D,)."""
        return self._table.sums.by_device(values, self._capacity.count)
