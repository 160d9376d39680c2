"""Where pages get their entities from: groups whose label text is kept until their labels change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from fakedev.exposition.identity import Identity, SharedDevices
from fakedev.sim.fleet import Fleet
from fakedev.sim.roster import RosterNode
from fakedev.sim.tallies.tallies import XID_LEVEL

Entity = tuple[int, Mapping[str, str]]
Group_contra = TypeVar("Group_contra", contravariant=True)


class Source(Protocol[Group_contra]):
    """Entities of a page, in groups: each is an index into the arrays of its level, with its facts."""

    def entities(self, level: str, group: Group_contra) -> Iterable[Entity]:
        """The entities of a level in a group, in the order of their rows; none for a level it has not."""

    def version(self, group: Group_contra) -> object:
        """Something that is no longer equal when a fact, or who is in the group, has changed."""


def by_identity(
    nodes: Iterable[RosterNode], identities: Mapping[str, Identity]
) -> list[tuple[Identity, list[RosterNode]]]:
    """The nodes that share a page, with its identity; in the order in which each identity comes first.

    :param identities: the identity of each pool, by its name; equal ones are one.
    """
    groups: dict[Identity, list[RosterNode]] = {}
    of_pool: dict[str, list[RosterNode]] = {}
    for node in nodes:
        if node.pool.name not in of_pool:
            of_pool[node.pool.name] = groups.setdefault(identities[node.pool.name], [])
        of_pool[node.pool.name].append(node)
    return list(groups.items())


class DeviceSource:
    """The devices of a fleet, a group a node.

    :param shared: the rows of devices that several pods share.
    """

    def __init__(self, fleet: Fleet, shared: SharedDevices = SharedDevices.FIRST) -> None:
        self._fleet = fleet
        self._shared = shared
        self._is_shared = shared is not SharedDevices.FIRST

    def entities(self, level: str, group: RosterNode) -> Sequence[Entity]:
        """The node's devices by index, or what they have of that level."""
        if level == XID_LEVEL:
            tallies = self._fleet.tallies
            return [
                (place, {**facts, "xid": str(code)})
                for device, facts in self._devices(group)
                for place, code in tallies.xids_of(device)
            ]
        return self._devices(group) if level == "device" else []

    def _devices(self, group: RosterNode) -> list[Entity]:
        """The node's devices, with the facts of those who have them."""
        if not self._is_shared:
            return list(zip(group.devices, self._fleet.facts(group), strict=True))
        holders = zip(group.devices, self._fleet.shared_facts(group), strict=True)
        if self._shared is SharedDevices.NOBODY:
            return [(position, _of_all(every)) for position, every in holders]
        return [(position, facts) for position, every in holders for facts in every]

    def version(self, group: RosterNode) -> int:
        """The version of the node's labels."""
        return self._fleet.labels_version(group, is_shared=self._is_shared)


def _of_all(holders: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """The facts that are the same whoever of its holders a device is seen with."""
    first = holders[0]
    if len(holders) == 1:
        return first
    return {name: text if all(each[name] == text for each in holders) else "" for name, text in first.items()}
