"""Arrays of boards: time constants, exponents, some boards among all, the settings of their types, their air."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import LazyArrays, Mask, Positions
from fakedev.fleet.spec.device_types import DeviceType, Dynamics

Number = TypeVar("Number", bound=np.generic)

#: Exponents for which a square root and products suffice.
_WITH_ROOT: Final = (0.5, 1.5, 2.5)


class Lag:
    """A time constant of each board; few of them differ.

    :param constants: seconds, shape (B,); 0: no lag.
    """

    def __init__(self, constants: Floats) -> None:
        self._different, self._which = np.unique(constants, return_inverse=True)
        self._seconds = -1.0
        self._left = self._mean = constants

    def kept(self, seconds: float) -> Floats:
        """The share of a difference that remains after some seconds, for each board."""
        self._measure(seconds)
        return self._left

    def mean(self, seconds: float) -> Floats:
        """The mean share of a difference that remains over some seconds, for each board."""
        self._measure(seconds)
        return self._mean

    def _measure(self, seconds: float) -> None:
        if seconds == self._seconds:
            return
        constants = self._different.tolist()
        left = [math.exp(-seconds / constant) if constant else 0.0 for constant in constants]
        mean = [-math.expm1(-seconds / each) * each / seconds if each and seconds else 0.0 for each in constants]
        self._left, self._mean = np.array(left)[self._which], np.array(mean)[self._which]
        self._seconds = seconds


class Exponents:
    """An exponent of each board, grouped by value: few of them need the slow power function."""

    def __init__(self, exponents: Floats) -> None:
        self._different = sorted({*exponents.tolist()})  # numpy.unique would load numpy.ma
        self._where: list[Mask] = [exponents == exponent for exponent in self._different]

    def of(self, base: Floats) -> Floats:
        """``base ** exponent`` of each board, for bases of 0 and more."""
        if len(self._different) == 1:
            return _power(base, self._different[0])
        result = np.empty_like(base)
        for exponent, where in zip(self._different, self._where, strict=True):
            result[where] = _power(base[where], exponent)
        return result


def as_few(values: Floats) -> Floats | float:
    """One number in place of an array of equal ones: multiplying by it is faster."""
    return float(values[0]) if (values == values[0]).all() else values


def by_type(values: NDArray[Number], which: Positions) -> NDArray[Number]:
    """The value of each board's type. Where all types have the same, it is kept once, and cannot be written.

    :param which: the type of each board.
    """
    if len(values) and (len(values) == 1 or (values == values[0]).all()):
        # What numpy.broadcast_to makes, in a third of its time: a fleet has hundreds of such arrays.
        shared = np.ndarray(which.shape, values.dtype, values, strides=(0,) * which.ndim)
        shared.flags.writeable = False
        return shared
    return values[which]


def _power(base: Floats, exponent: float) -> Floats:
    if exponent == 1.0:
        return base
    if exponent == 0.0:
        return np.ones_like(base)
    if exponent in _WITH_ROOT:
        powered: Floats = np.sqrt(base)
        for _ in range(int(exponent)):
            powered = powered * base
        return powered
    return np.asarray(base**exponent, dtype=np.float64)


class Subset:
    """Some of the devices or parts of a fleet, such as those with dynamics: positions among all.

    :param which: the members, shape (all,).
    :ivar is_all: whether all are members; arrays are then passed on as they are.
    :ivar positions: positions of the members, ascending.
    """

    def __init__(self, which: Mask) -> None:
        self.is_all = bool(which.all())
        self.positions: Positions = np.flatnonzero(which)
        self._count = len(which)

    def of(self, arrays: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """The members' values of arrays over all; each is computed at its first use."""
        return arrays if self.is_all else LazyArrays(arrays, lambda name: arrays[name][self.positions])

    def put(self, values: Floats, others: Floats | None) -> Floats:
        """A new array over all: the members' values, and elsewhere those of ``others`` (None: 0)."""
        if self.is_all:
            return values
        every = np.zeros(self._count) if others is None else others.copy()
        every[self.positions] = values
        return every


def with_dynamics(
    types: Sequence[DeviceType], which: Positions
) -> tuple[list[DeviceType], Positions]:
    """The types with dynamics, and the type of each device with dynamics, as an index into these.

    :param which: the type of each device, as an index into ``types``.
    """
    used = [place for place, device_type in enumerate(types) if device_type.dynamics is not None]
    return [types[place] for place in used], np.searchsorted(used, which[np.isin(which, used)])


class OfTypes(NamedTuple):
    """Settings of the types of B boards as arrays of shape (B,).

    :ivar dynamics: of each type.
    :ivar which: the type of each board.
    """

    dynamics: Sequence[Dynamics]
    which: Positions

    def number(self, name: str) -> Floats:
        """A field of :class:`Dynamics`; NaN where it is None."""
        found = [getattr(dynamic, name) for dynamic in self.dynamics]
        return by_type(np.array([math.nan if number is None else number for number in found], np.float64), self.which)

    def has(self, switch: str) -> Mask:
        """Whether they have a relation."""
        return by_type(np.array([switch not in each.without for each in self.dynamics], dtype=np.bool_), self.which)


class Air(NamedTuple):
    """The air at B boards: arrays of shape (B,).

    :ivar celsius: inlet temperatures that are given exactly; NaN for the usual one of the board's type.
    :ivar places: how far the slot and the place in the room take a usual one: -2 to 2, in the spread of the type.
    :ivar rises: how much warmer the place in a rack makes any.
    :ivar drifts: how far each is from its mean over the day; NaN for the type's drift of a usual one, and none else.
    """

    celsius: Floats
    places: Floats
    rises: Floats | float = 0.0
    drifts: Floats | float = math.nan

    @classmethod
    def usual(cls, count: int) -> Self:
        """The mean air of the types."""
        return cls(np.full(count, math.nan), np.zeros(count))
