"""The new position of each device when a fleet is reloaded with another configuration.

A device remains if the new configuration has a device with the same index on a node of the same name, in a pool of the
same name, with a device type of the same name. All else may change. A part remains only with its device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import LazyArrays, Level, Mask, Positions
from fakedev.fleet.spec.fleet_spec import PoolSpec

Number = TypeVar("Number", np.float64, np.bool_, np.int64)


class Reindex:
    """The positions of the entities of one level before and after a reload.

    :ivar new_of: the new position of each old entity, -1 if it was removed: shape (old entities,).
    :ivar old_of: the old position of each new entity, -1 if it was added: shape (new entities,).
    """

    def __init__(self, new_of: Positions, new_count: int) -> None:
        self.new_of = new_of
        self.old_of: Positions = np.full(new_count, -1, dtype=np.int64)
        stays = np.flatnonzero(new_of >= 0)
        self.old_of[new_of[stays]] = stays
        self._added = np.flatnonzero(self.old_of < 0)
        self._is_empty = not len(stays)

    @property
    def gone(self) -> Mask:
        """Which old entities were removed, shape (old entities,)."""
        return self.new_of < 0

    def followed(self, entities: Positions) -> Positions:
        """The new positions of some old entities, without removed ones."""
        places = self.new_of[entities]
        return places[places >= 0]

    def each_followed(self, every: Sequence[Positions]) -> list[Positions]:
        """As :meth:`followed`, for each of at least one list of entities."""
        places = self.new_of[np.concatenate(every)]
        ends = np.cumsum([len(places) for places in every])
        stays = places >= 0
        ends = np.append(0, np.cumsum(stays))[ends].tolist()
        places = places[stays]
        return [places[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def carried(self, old: NDArray[Number], new: NDArray[Number]) -> NDArray[Number]:
        """The old values of remaining entities, and new values of added ones: shape (new entities,)."""
        if self._is_empty:
            return new.copy()
        # Added entities first get the value at -1: to index all is several times as fast as to choose.
        carried = old[self.old_of]
        carried[self._added] = new[self._added]
        return carried


class FleetReindex(Reindex):
    """The positions of the devices before and after a reload.

    :ivar unchanged: each new node with an unchanged configuration, with its old node.
    :ivar before: the roster of the old devices.
    :ivar parts, units: the positions of the parts, and of devices and parts together.
    :ivar closed: which old units cannot continue their work, because they are removed or divided differently: shape
        (old units,).
    """

    def __init__(self, old: Roster, new: Roster) -> None:
        self.before = old
        self.unchanged: dict[RosterNode, RosterNode] = {}
        #: Pools of one name may differ; whether two are the same is compared once for each pair.
        same_pools: dict[tuple[int, int], bool] = {}
        new_of: Positions = np.full(old.device_count, -1, dtype=np.int64)
        for node in old.nodes:
            other = new.simulated(node.name)
            if other is None or other.pool.name != node.pool.name:
                continue
            if other.pool.device_type.name == node.pool.device_type.name:
                count = min(len(node.devices), len(other.devices))
                new_of[node.first : node.first + count] = np.arange(other.first, other.first + count)
                pair = id(node.pool), id(other.pool)
                if pair not in same_pools:
                    same_pools[pair] = _but_nodes(node.pool) == _but_nodes(other.pool)
                if same_pools[pair] and node.spec == other.spec:
                    self.unchanged[other] = node
        super().__init__(new_of, new.device_count)
        self.parts = _parts_moved(old, new, self)
        self.units = _units_moved(old, new, self)
        stays = np.flatnonzero(self.new_of >= 0)
        self.closed = self.units.gone
        self.closed[stays] |= old.parts.is_whole[stays] & ~new.parts.is_whole[self.new_of[stays]]

    def level(self, past: Level, had: Mapping[str, Mask], fresh: Level) -> Level:
        """The last level of the devices, in their new order.

        :param past: the level in the old order.
        :param had: which devices had each quantity, lost ones included; all of them, if the name is missing.
        :param fresh: the level of new devices; remaining devices take from it only quantities that they did not have.
        """
        ever = np.ones(fresh.count, dtype=np.bool_)

        def moved(name: str) -> Floats:
            values = fresh.arrays[name]
            if name not in past.arrays:
                return values
            carried = self.carried(past.arrays[name], values)
            has_all = name not in had or had[name].all()
            return carried if has_all else np.where(self.carried(had[name], ever), carried, values)

        # Lazy, because the next tick does not need most of them.
        return Level(fresh.count, LazyArrays(fresh.arrays, moved), fresh.present)

    def conditions(self, conditions: Conditions) -> Conditions:
        """The conditions of the devices in their new order; added devices have none."""
        unchanged = np.full(len(self.old_of), np.nan)
        return conditions.mapped(lambda old: self.carried(old, unchanged))


def _parts_moved(old: Roster, new: Roster, devices: Reindex) -> Reindex:
    """The parts: a part remains if its device remains and has a part with the same key and size."""
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


def _units_moved(old: Roster, new: Roster, moves: FleetReindex) -> Reindex:
    if not old.parts.count and not new.parts.count:
        return Reindex(moves.new_of, new.device_count)
    of_parts = np.where(moves.parts.gone, -1, moves.parts.new_of + new.device_count)
    return Reindex(np.concatenate((moves.new_of, of_parts)), new.parts.unit_count)


def _but_nodes(pool: PoolSpec) -> PoolSpec:
    """A pool without its nodes, for comparison."""
    return replace(pool, nodes=())
