"""The limits of running workloads as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fakedev.base.groups import grouped
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask, Positions, Rows, column
from fakedev.fleet.workloads.workload import Limit


@dataclass
class LimitRows(Rows):
    """L limits of workloads.

    :ivar by_quantity: the rows of each quantity, ascending.
    :ivar workload: the workload's position in the table, shape (L,).
    :ivar order: the limit's position in the workload's list of limits.
    :ivar metric, factor, value: as in :class:`Limit`.
    """

    by_quantity: dict[str, Positions] = field(default_factory=dict)
    workload: Positions = column("limit", np.int64, "workload")
    order: Positions = column("limit", np.int64)
    metric: NDArray[np.object_] = column("limit", object)
    factor: Floats = column("limit")
    value: Floats = column("limit")

    @classmethod
    def of(cls, limits: Sequence[Sequence[Limit]]) -> LimitRows:
        """The limits of some workloads, in their order."""
        rows = [(place, order, limit) for place, each in enumerate(limits) for order, limit in enumerate(each)]
        if not rows:
            return cls()
        places, orders, found = zip(*rows, strict=True)
        quantities = grouped((limit.quantity, row) for row, limit in enumerate(found))
        return cls(
            {quantity: np.array(rows, dtype=np.int64) for quantity, rows in sorted(quantities.items())},
            np.array(places, dtype=np.int64),
            np.array(orders, dtype=np.int64),
            np.array([limit.metric for limit in found], dtype=object),
            np.array([limit.factor for limit in found]),
            np.array([limit.value for limit in found]),
        )

    def __len__(self) -> int:
        return len(self.workload)

    def kept(self, keep: Mask) -> LimitRows:
        """The limits of the workloads where ``keep``, shape (W,), is true, with the workloads' new positions."""
        stays = keep[self.workload]
        places = np.cumsum(stays) - 1
        by_quantity = {quantity: places[rows[stays[rows]]] for quantity, rows in self.by_quantity.items()}
        left = {quantity: rows for quantity, rows in by_quantity.items() if len(rows)}
        return LimitRows(left, **self._kept(limit=stays, workload=keep))

    def joined(self, other: LimitRows, workloads: int) -> LimitRows:
        """These limits, followed by the other limits, whose workloads' positions begin at ``workloads``."""
        none = np.zeros(0, dtype=np.int64)
        by_quantity = {
            quantity: np.concatenate(
                (self.by_quantity.get(quantity, none), other.by_quantity.get(quantity, none) + len(self))
            )
            for quantity in sorted({*self.by_quantity, *other.by_quantity})
        }
        return LimitRows(by_quantity, **self._joined(other, workload=workloads))
