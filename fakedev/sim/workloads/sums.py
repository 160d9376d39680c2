"""Sums over the workloads of each device, in an order that follows from the workloads' names alone.

A sum of floats depends on its order from the third number on. The order of arrival, or that of an array, would give a
device other last digits in a shard, after a reload, or because of workloads elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys
from fakedev.sim.entities.state import Mask, Positions

#: The sum of so many numbers is the same in every order.
_ANY_ORDER: Final = 2


class DeviceSums:
    """Sums over P pairs of a workload and a device: those of a device in the order of its workloads' keys.

    :param device: the device of each pair, shape (P,).
    :param owner: the workload of each pair, shape (P,).
    :param keys: the workloads' keys of randomness, which follow from their names, shape (W,).
    :param kinds: K kinds of work, sorted by name.
    :param rows: the position of each pair's kind among them, shape (P,).
    :param uses: the pairs that demand a metric, by metric, each of shape (V,).
    """

    def __init__(
        self, device: Positions, owner: Positions, keys: Keys, kinds: Sequence[str], rows: Positions,
        uses: Mapping[str, Positions],
    ) -> None:  # fmt: skip
        self._device = device
        self._uses = uses
        self._kinds = kinds
        crowded = np.flatnonzero(np.bincount(device)[device] > _ANY_ORDER) if len(device) else device
        #: The pairs in the order of their sums; None if every order gives the same sums.
        self._order: Positions | None = None
        if len(crowded):
            self._order = np.arange(len(device))
            self._order[crowded] = crowded[np.argsort(keys[owner[crowded]], kind="stable")]
        self._places = device if self._order is None else device[self._order]
        self._rows = rows if self._order is None else rows[self._order]
        self._kind_places: Positions | None = None

    def by_device(self, values: Floats, count: int) -> Floats:
        """The sums over the pairs of each device, shape (count,).

        :param values: of the pairs, shape (P,).
        """
        return _sums(self._places, values, self._order, count)

    def by_kind(self, values: Floats, count: int) -> Floats:
        """As :meth:`by_device`, for each kind of work: shape (K, count); the count never changes."""
        if self._kind_places is None:
            self._kind_places = self._rows * count + self._places
        sums = _sums(self._kind_places, values, self._order, len(self._kinds) * count)
        return sums.reshape(len(self._kinds), count)

    def by_use(self, metric: str, amounts: Floats, count: int) -> Floats:
        """As :meth:`by_device`, for the pairs that demand a metric.

        :param amounts: what each of them demands, shape (V,).
        """
        order, device = self._use_orders.get(metric), self._device[self._uses[metric]]
        return _sums(device if order is None else device[order], amounts, order, count)

    @cached_property
    def _use_orders(self) -> Mapping[str, Positions]:
        """The pairs of each metric in the order of their sums; empty if every order gives the same sums."""
        if self._order is None:
            return {}
        ranks = np.empty(len(self._device), dtype=np.int64)
        ranks[self._order] = np.arange(len(self._device))
        return {metric: np.argsort(ranks[pairs]) for metric, pairs in self._uses.items()}

    def has_use(self, metric: str, count: int) -> Mask:
        """The devices with a workload that demands a metric, shape (count,)."""
        has = np.zeros(count, dtype=np.bool_)
        if metric in self._uses:
            has[self._device[self._uses[metric]]] = True
        return has


def _sums(places: Positions, values: Floats, order: Positions | None, count: int) -> Floats:
    """The sums of values by place, one value after the other: shape (count,).

    :param places: of the values, in their order.
    :param order: None: as they are.
    """
    weights = values if order is None else values[order]
    return np.asarray(np.bincount(places, weights=weights, minlength=count), dtype=np.float64)
