"""Where each device of a fleet stands when the fleet goes over to another configuration: found by its name.

A device lives on when the new configuration has one of the same index on a node of the same name, in a pool of the
same name, whose device type has the same name. What else is said of it may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.roster import Roster
from fakedev.sim.schedule import Positions
from fakedev.sim.state import Level, Mask

Number = TypeVar("Number", np.float64, np.bool_)


class Moves:
    """From the devices of one roster to those of another.

    :ivar new_of: the new position of each old device, -1 of those that are gone: shape (old devices,).
    :ivar old_of: the old position of each new device, -1 of those that have come: shape (new devices,).
    """

    def __init__(self, old: Roster, new: Roster) -> None:
        self.new_of: Positions = np.full(old.device_count, -1, dtype=np.int64)
        for node in old.nodes:
            other = new.simulated(node.name)
            if other is None or other.pool.name != node.pool.name:
                continue
            if other.pool.device_type.name == node.pool.device_type.name:
                count = min(len(node.devices), len(other.devices))
                self.new_of[node.first : node.first + count] = np.arange(other.first, other.first + count)
        self.old_of: Positions = np.full(new.device_count, -1, dtype=np.int64)
        stays = np.flatnonzero(self.new_of >= 0)
        self.old_of[self.new_of[stays]] = stays

    @property
    def gone(self) -> NDArray[np.bool_]:
        """The old devices that are gone, shape (old devices,)."""
        return self.new_of < 0

    def followed(self, devices: Positions) -> Positions:
        """The new positions of some old devices that live on."""
        places = self.new_of[devices]
        return places[places >= 0]

    def carried(self, old: NDArray[Number], new: NDArray[Number]) -> NDArray[Number]:
        """The old values of the devices that live on, the new ones of those that have come: shape (new devices,)."""
        return np.where(self.old_of >= 0, old[self.old_of], new) if len(old) else new

    def level(self, past: Level, had: Mapping[str, Mask], fresh: Level) -> Level:
        """What the devices showed last, in their new order.

        :param past: that, in the old order.
        :param had: which of them had each quantity, whether they showed it or were lost; all where a name is missing.
        :param fresh: the new devices as they begin; those that live on have from it only what they had not before.
        """
        arrays = dict(fresh.arrays)
        for name, values in fresh.arrays.items():
            if name in past.arrays:
                carried = self.carried(past.arrays[name], values)
                keeps = self.carried(had[name], self.old_of >= 0) if name in had else True
                arrays[name] = np.where(keeps, carried, values)
        return Level(fresh.count, arrays, fresh.present)

    def conditions(self, conditions: Conditions) -> Conditions:
        """The conditions of the devices in their new order; those that have come have none."""
        unchanged = np.full(len(self.old_of), np.nan)
        given = {each.name: getattr(conditions, each.name) for each in fields(conditions)}
        return replace(
            conditions, **{name: self.carried(old, unchanged) for name, old in given.items() if old is not None}
        )
