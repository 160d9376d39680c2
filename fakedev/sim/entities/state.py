"""What a fleet shows in one tick: arrays by quantity name, for each entity level. Never changed once made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Level:
    """The quantities of one kind of entity (``device``, later parts and links).

    :ivar count: entities of the level, E.
    :ivar arrays: quantity name to values, shape (E,), in the unit of its name.
    :ivar present: which entities have the quantity, shape (E,); a name that is missing: all have it.
    """

    count: int
    arrays: Mapping[str, Floats]
    present: Mapping[str, Mask]

    def has(self, quantity: str, position: int) -> bool:
        """Whether an entity has a quantity."""
        return quantity in self.arrays and (quantity not in self.present or bool(self.present[quantity][position]))


@dataclass(frozen=True)
class State:
    """A fleet at one tick.

    :ivar seconds: simulated seconds since the epoch.
    :ivar wall_seconds: when the tick was due, in seconds since 1970.
    :ivar levels: entity level name to its quantities.
    :ivar labels_version: grows whenever a label of any entity changes.
    """

    tick: int
    seconds: float
    wall_seconds: float
    levels: Mapping[str, Level]
    labels_version: int
