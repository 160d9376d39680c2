"""The state of a fleet in one tick: arrays by quantity name for each entity level. A state never changes.

Here are also tools for arrays: lazy arrays, and dataclasses with columns whose rows can be kept or joined.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fakedev.base.steps import Steps, result_of
from fakedev.fleet.entities.randomness import Floats

Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]
Values = TypeVar("Values")


@dataclass(frozen=True)
class Level:
    """The quantities of one kind of entity: devices, parts, links, ...

    :ivar count: the number of entities, E.
    :ivar arrays: quantity name to values, shape (E,), in the unit of the name.
    :ivar present: which entities have the quantity, shape (E,); all of them, if the name is missing.
    """

    count: int
    arrays: Mapping[str, Floats]
    present: Mapping[str, Mask]

    def has(self, quantity: str, position: int) -> bool:
        """Whether an entity has a quantity."""
        return quantity in self.arrays and (quantity not in self.present or bool(self.present[quantity][position]))

    def mask(self, quantity: str) -> Mask:
        """Which entities have a quantity, shape (E,)."""
        has = self.present.get(quantity)
        return np.full(self.count, quantity in self.arrays) if has is None else has


@dataclass(frozen=True)
class State:
    """A fleet at one tick.

    :ivar seconds: simulated seconds since the epoch.
    :ivar wall_seconds: the time at which the tick was due, in seconds since 1970.
    :ivar levels: entity level name to its quantities.
    :ivar labels_version: grows whenever a label of any entity changes.
    """

    tick: int
    seconds: float
    wall_seconds: float
    levels: Mapping[str, Level]
    labels_version: int


def same_arrays(one: Floats | None, other: Floats | None) -> bool:
    """Whether two arrays that are there have the same values, NaN among them."""
    return one is not None and other is not None and np.array_equal(one, other, equal_nan=True)


class LazyArrays(Mapping[str, Values]):
    """Arrays by name; each is computed at its first use."""

    def __init__(self, names: Mapping[str, object], make: Callable[[str], Values]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def overlaid(below: Mapping[str, Values]) -> MutableMapping[str, Values]:
    """A mutable view of arrays: a change computes no lazy array, and does not change ``below``."""
    # ChainMap changes only the first of its maps, so the second need not be one that can be changed.
    return dict(below) if isinstance(below, dict) else ChainMap({}, below)  # type: ignore[arg-type]


def column(axis: str, dtype: DTypeLike = np.float64, of: str = "") -> Any:
    """A dataclass field of :class:`Rows` for an array along an axis; empty by default.

    :param of: the axis in which the values are positions; empty: they are no positions.
    """
    return field(default_factory=lambda: np.zeros(0, dtype=dtype), metadata={"axis": axis, "of": of})


#: Rows from which on a column takes time to copy: if they are all equal the value is kept once.
MANY_ROWS: Final = 20_000


class Rows:
    """A dataclass of columns along some axes, whose rows can be kept or joined; columns are only read."""

    def _kept(self, **masks: Mask) -> dict[str, Any]:
        """See :meth:`_kept_steps`: all of them at once."""
        return result_of(self._kept_steps(**masks))

    def _kept_steps(self, **masks: Mask) -> Steps[dict[str, Any]]:
        """The columns with the rows that the mask of their axis keeps, and with new positions: each in one step."""
        columns = {}
        for name, axis, of in self._columns():
            rows = _kept_rows(getattr(self, name), masks[axis])
            columns[name] = (np.cumsum(masks[of]) - 1)[rows] if of and len(rows) else rows
            yield
        return columns

    def _joined(self, other: Self, **counts: int) -> dict[str, Any]:
        """See :meth:`_joined_steps`: all of them at once."""
        return result_of(self._joined_steps(other, **counts))

    def _joined_steps(self, other: Self, **counts: int) -> Steps[dict[str, Any]]:
        """The columns, each joined with the same column of other rows, in one step.

        :param counts: the rows of each axis whose positions come before the other rows.
        """
        columns = {}
        for name, _, of in self._columns():
            rows = getattr(other, name)
            columns[name] = _joined_rows(getattr(self, name), rows + counts[of] if of else rows)
            yield
        return columns

    def _carried(self, old: Self, was: NDArray[np.int64], *names: str) -> dict[str, Any]:
        """Some columns along one axis, with the old values of rows that were there before.

        :param was: the old position of each row, -1 for a new row.
        """
        return {
            name: np.where(was >= 0, getattr(old, name)[was], getattr(self, name)) if len(getattr(old, name))
            else getattr(self, name)
            for name in names
        }

    def _columns(self) -> Iterator[tuple[str, str, str]]:
        for each in fields(self):  # type: ignore[arg-type]  # the classes of rows are dataclasses
            if "axis" in each.metadata:
                yield each.name, each.metadata["axis"], each.metadata["of"]


def _kept_rows(values: NDArray[Any], mask: Mask) -> NDArray[Any]:
    return np.broadcast_to(values[0], int(np.count_nonzero(mask))) if _is_kept_once(values) else values[mask]


def _joined_rows(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    count = len(first) + len(second)
    if not len(first) and first.dtype == second.dtype:
        return second
    if count > MANY_ROWS and len(first) and len(second):
        value = first[0]
        if second[0] == value and _has_only(second, value) and _has_only(first, value):
            return np.broadcast_to(value, count)
    return np.concatenate((first, second))


def _is_kept_once(values: NDArray[Any]) -> bool:
    return len(values) > 1 and values.strides == (0,)


def _has_only(values: NDArray[Any], value: Any) -> bool:
    """Whether all values are the same; if not, comparing three of them nearly always shows it."""
    if _is_kept_once(values):
        return bool(values[0] == value)
    return bool(values[-1] == value and values[len(values) // 2] == value and (values == value).all())
