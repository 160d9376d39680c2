"""The limits that workloads have of their own, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.columns import column, joined_columns, kept_columns
from fakedev.sim.randomness import Floats
from fakedev.sim.schedule import Positions
from fakedev.sim.workload import Limit


@dataclass
class LimitRows:
    """L limits of workloads.

    :ivar workload: its place in the table, shape (L,).
    :ivar order: which of the workload's limits it is.
    :ivar metric, quantity, factor, value: as in :class:`Limit`.
    """

    workload: Positions = column("limit", np.int64)
    order: Positions = column("limit", np.int64)
    metric: NDArray[np.object_] = column("limit", object)
    quantity: NDArray[np.object_] = column("limit", object)
    factor: Floats = column("limit")
    value: Floats = column("limit")

    @classmethod
    def of(cls, limits: Sequence[Sequence[Limit]]) -> LimitRows:
        """The limits of some workloads, in their order."""
        rows = [(place, order, limit) for place, each in enumerate(limits) for order, limit in enumerate(each)]
        if not rows:
            return cls()
        places, orders, found = zip(*rows, strict=True)
        return cls(
            np.array(places, dtype=np.int64),
            np.array(orders, dtype=np.int64),
            np.array([limit.metric for limit in found], dtype=object),
            np.array([limit.quantity for limit in found], dtype=object),
            np.array([limit.factor for limit in found]),
            np.array([limit.value for limit in found]),
        )

    def __len__(self) -> int:
        return len(self.workload)

    @cached_property
    def by_quantity(self) -> dict[str, Positions]:
        """The rows of each quantity."""
        found: dict[str, list[int]] = {}
        for row, quantity in enumerate(self.quantity.tolist()):
            found.setdefault(quantity, []).append(row)
        return {quantity: np.array(rows, dtype=np.int64) for quantity, rows in sorted(found.items())}

    def kept(self, keep: NDArray[np.bool_]) -> LimitRows:
        """Those of the workloads that stay, shape (W,), by their new places."""
        rest = LimitRows(**kept_columns(self, {"limit": keep[self.workload]}))
        rest.workload = (np.cumsum(keep) - 1)[rest.workload]
        return rest

    def joined(self, other: LimitRows, workloads: int) -> LimitRows:
        """These, then the other's, whose places are counted from ``workloads`` on."""
        both = LimitRows(**joined_columns(self, other))
        both.workload[len(self) :] += workloads
        return both
