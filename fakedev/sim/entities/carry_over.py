"""Where each device of a fleet stands when the fleet goes over to another configuration: found by its name.

A device lives on when the new configuration has one of the same index on a node of the same name, in a pool of the
same name, whose device type has the same name. What else is said of it may change. A part lives on with its device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.state import LazyArrays, Level, Mask
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.fleet import PoolSpec

Number = TypeVar("Number", np.float64, np.bool_, np.int64)


class Reindex:
    """From the entities of one level of a fleet to those of another.

    :ivar new_of: the new position of each old entity, -1 of those that are gone: shape (old entities,).
    :ivar old_of: the old position of each new entity, -1 of those that have come: shape (new entities,).
    """

    def __init__(self, new_of: Positions, new_count: int) -> None:
        self.new_of = new_of
        self.old_of: Positions = np.full(new_count, -1, dtype=np.int64)
        stays = np.flatnonzero(new_of >= 0)
        self.old_of[new_of[stays]] = stays
        self._came = np.flatnonzero(self.old_of < 0)
        self._is_empty = not len(stays)

    @property
    def gone(self) -> NDArray[np.bool_]:
        """The old entities that are gone, shape (old entities,)."""
        return self.new_of < 0

    def followed(self, entities: Positions) -> Positions:
        """The new positions of some old entities: of those that live on."""
        places = self.new_of[entities]
        return places[places >= 0]

    def each_followed(self, every: Sequence[Positions]) -> list[Positions]:
        """As :meth:`followed`, for each of several lists of entities, of which there is at least one."""
        places = self.new_of[np.concatenate(every)]
        ends = np.cumsum([len(each) for each in every])
        stays = places >= 0
        ends = np.append(0, np.cumsum(stays))[ends].tolist()
        places = places[stays]
        return [places[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def carried(self, old: NDArray[Number], new: NDArray[Number]) -> NDArray[Number]:
        """The old values of the entities that live on, the new ones of those that have come: shape (new entities,)."""
        if self._is_empty:
            return new.copy()
        # Those that have come take the last one's first: taking all is several times as fast as choosing.
        carried = old[self.old_of]
        carried[self._came] = new[self._came]
        return carried


class Moves(Reindex):
    """From the devices of one roster to those of another.

    :ivar unchanged: what each new node was of which nothing else is said than before.
    :ivar before: the roster of the old devices.
    :ivar parts, units: the same for the parts of the devices, and for devices and parts together.
    :ivar closed: old units that work cannot go on upon: they are gone, or are divided otherwise, shape (old units,).
    """

    def __init__(self, old: Roster, new: Roster) -> None:
        self.before = old
        self.unchanged: dict[RosterNode, RosterNode] = {}
        now = {pool.name: _but_nodes(pool) for pool in new.pools}
        same_pools = {pool.name for pool in old.pools if _but_nodes(pool) == now.get(pool.name)}
        new_of: Positions = np.full(old.device_count, -1, dtype=np.int64)
        for node in old.nodes:
            other = new.simulated(node.name)
            if other is None or other.pool.name != node.pool.name:
                continue
            if other.pool.device_type.name == node.pool.device_type.name:
                count = min(len(node.devices), len(other.devices))
                new_of[node.first : node.first + count] = np.arange(other.first, other.first + count)
                if node.pool.name in same_pools and node.spec == other.spec:
                    self.unchanged[other] = node
        super().__init__(new_of, new.device_count)
        self.parts = _parts_moved(old, new, self)
        self.units = _units_moved(old, new, self)
        stays = np.flatnonzero(self.new_of >= 0)
        self.closed = self.units.gone
        self.closed[stays] |= old.parts.is_whole[stays] & ~new.parts.is_whole[self.new_of[stays]]

    def level(self, past: Level, had: Mapping[str, Mask], fresh: Level) -> Level:
        """What the devices showed last, in their new order.

        :param past: that, in the old order.
        :param had: which of them had each quantity, whether they showed it or were lost; all where a name is missing.
        :param fresh: the new devices as they begin; those that live on have from it only what they had not before.
        """
        ever = np.ones(fresh.count, dtype=np.bool_)

        def moved(name: str) -> Floats:
            values = fresh.arrays[name]
            if name not in past.arrays:
                return values
            carried = self.carried(past.arrays[name], values)
            has_all = name not in had or had[name].all()
            return carried if has_all else np.where(self.carried(had[name], ever), carried, values)

        # Most of it nobody asks for: the next tick is made of less.
        return Level(fresh.count, LazyArrays(fresh.arrays, moved), fresh.present)

    def conditions(self, conditions: Conditions) -> Conditions:
        """The conditions of the devices in their new order; those that have come have none."""
        unchanged = np.full(len(self.old_of), np.nan)
        given = {each.name: getattr(conditions, each.name) for each in fields(conditions)}
        return replace(
            conditions, **{name: self.carried(old, unchanged) for name, old in given.items() if old is not None}
        )


def _parts_moved(old: Roster, new: Roster, devices: Reindex) -> Reindex:
    """The parts: one lives on when its device does, and has a part of the same key and the same size."""
    new_of: Positions = np.full(old.parts.count, -1, dtype=np.int64)
    places: dict[tuple[int, str], int] = {}
    if old.parts.count:
        owners = new.parts.owners.tolist()
        places = {(owner, part.key): at for at, (owner, part) in enumerate(zip(owners, new.parts.specs, strict=True))}
    for at, (owner, part) in enumerate(zip(old.parts.owners.tolist(), old.parts.specs, strict=True)):
        place = places.get((int(devices.new_of[owner]), part.key))
        if place is not None and replace(new.parts.specs[place], facts=part.facts) == part:
            new_of[at] = place
    return Reindex(new_of, new.parts.count)


def _units_moved(old: Roster, new: Roster, moves: Moves) -> Reindex:
    if not old.parts.count and not new.parts.count:
        return Reindex(moves.new_of, new.device_count)
    of_parts = np.where(moves.parts.gone, -1, moves.parts.new_of + new.device_count)
    return Reindex(np.concatenate((moves.new_of, of_parts)), new.parts.unit_count)


def _but_nodes(pool: PoolSpec) -> PoolSpec:
    """All that is said of a pool, but which nodes it has."""
    return replace(pool, nodes=())
