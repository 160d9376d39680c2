"""Some of the devices of a fleet: their part of arrays, and arrays of theirs put among those of all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask


class Subset:
    """Where some devices stand among all.

    :param which: those that are meant, shape (devices,).
    :ivar are_all: whether it is all of them, so that nothing has to be picked out.
    """

    def __init__(self, which: Mask) -> None:
        self.are_all = bool(which.all())
        self._count = len(which)
        self._positions = np.flatnonzero(which)

    def of(self, arrays: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """Their part of arrays of all devices."""
        return arrays if self.are_all else {name: values[self._positions] for name, values in arrays.items()}

    def conditions(self, conditions: Conditions) -> Conditions:
        """Their part of the conditions of all devices."""
        return conditions if self.are_all else conditions.at(self._positions)

    def put(self, values: Floats, others: Floats | None) -> Floats:
        """Their values among those of the others: shape (devices,). ``others`` stays as it is; None is 0."""
        if self.are_all:
            return values
        every = np.zeros(self._count) if others is None else others.copy()
        every[self._positions] = values
        return every
