"""Sources of the entities of pages, in groups; and held states of exporters that collect at intervals.

The label texts of a group are cached until its labels change. A held state is the last state at a multiple of the
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from zope.interface import Attribute, Interface, implementer

from fakedev.base.groups import grouped
from fakedev.exporters.identity import Identity, SharedDevices
from fakedev.exporters.row_levels import POD, PROCESS, PROCESS_PART, PageLevels
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import State
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.facts import link_facts, port_facts, switch_facts
from fakedev.fleet.racks.racks import RACK_QUANTITIES
from fakedev.fleet.racks.tray_facts import tray_facts

Group = TypeVar("Group")
#: An index into the arrays of a level, and the facts of the entity there.
Entity = tuple[int, Mapping[str, str]]


@dataclass(frozen=True)
class PreviousLabels(Generic[Group]):
    """A group before a reload, whose label texts are still valid.

    :ivar shift: how far the positions of its entities of a level have moved since; None if they differ in that.
    """

    group: Group
    shift: Callable[[str], int | None]


class ISource(Interface):
    """Entities of a page, in groups of one type."""

    seed = Attribute("Of the fleet, for random rows.")

    def entities(level: str, group: Any) -> Iterable[Entity]:
        """The entities of a level in a group, in the order of their rows; none for a level without any."""

    def version(group: Any) -> object:
        """A value that changes with the facts and the members of a group."""

    def completed(state: State) -> State:
        """A state with the levels that only pages have: the same object for the same state."""

    def previous(group: Any) -> PreviousLabels[Any] | None:
        """The same group before the last reload; None if more than its :meth:`version` has changed."""


def by_identity(
    nodes: Iterable[RosterNode], identities: Mapping[str, Identity]
) -> list[tuple[Identity, list[RosterNode]]]:
    """Nodes grouped by the identity of their page, in the order of first occurrence.

    :param identities: the identity of each pool, by its name; equal ones share a group.
    """
    groups: dict[Identity, list[RosterNode]] = {}
    of_pool: dict[str, list[RosterNode]] = {}
    for node in nodes:
        if node.pool.name not in of_pool:
            of_pool[node.pool.name] = groups.setdefault(identities[node.pool.name], [])
        of_pool[node.pool.name].append(node)
    return list(groups.items())


@implementer(ISource)
class DeviceSource:
    """The devices of a fleet; each node is a group.

    Levels: ``device``; ``held``, devices of pods; ``part``, instances of divided devices; ``whole``, undivided devices;
    ``unit``: undivided devices and instances, by device; ``repeated``: as ``unit``, each with the values of its device;
    ``tile``; ``tiled`` and ``single``, devices with tiles and without; ``xid``, error codes that devices have reported,
    for each ``repeated``; ``xid/device``, the same for each device; ``peer``, a device with another one of its node;
    ``link``; ``link/5``, the links with that number and the facts of their devices; ``port``, links as switches see
    them; ``switch``; ``process``, workloads on devices; ``process-part``, on each tile or instance, or
    device without parts; ``pod``, containers on undivided devices and instances;
    ``pod/whole``, those on undivided devices; ``unit/bare`` and ``whole/bare``, devices and instances without their
    containers, where each container has rows; ``cpu``, ``cpucore`` and ``host``, CPUs, their cores and nodes in racks;
    ``node``, with the facts that all its devices have; ``page``, the same,
    of which a page shows only the first.

    :param shared: the rows of devices that several pods share.
    :param has_processes: processes are shown.
    :param of_processes: their quantities that are shown.
    :param has_parts_of_processes: what they have on each part is shown.
    """

    def __init__(
        self, fleet: Fleet, shared: SharedDevices = SharedDevices.FIRST, has_processes: bool = False,
        of_processes: Collection[str] = (), has_parts_of_processes: bool = False,
    ) -> None:  # fmt: skip
        self._fleet = fleet
        self.seed = fleet.spec.seed
        self._levels = PageLevels(fleet, of_processes, has_parts_of_processes)
        self._has_processes = has_processes
        self._shared = shared
        self._is_shared = shared is not SharedDevices.FIRST

    @classmethod
    def of(cls, fleet: Fleet, identity: Identity) -> DeviceSource:
        """The devices as an identity shows them."""
        has_parts = any(row.level == PROCESS_PART for family in identity.families for row in family.rows)
        return cls(fleet, identity.shared_devices, identity.has_processes, identity.of_processes, has_parts)

    def entities(self, level: str, group: RosterNode) -> Sequence[Entity]:
        parts = self._fleet.roster.parts
        match level:
            case "device":
                return self._devices(group)
            case "whole":
                return [device for device in self._devices(group) if parts.is_undivided[device[0]]]
            case "part":
                return [(unit - parts.device_count, facts) for unit, facts in self._parts(group, are_tiles=False)]
            case "unit":
                whole = [device for device in self._devices(group) if parts.is_undivided[device[0]]]
                instances = self._parts(group, are_tiles=False)
                return sorted([*whole, *instances], key=lambda each: (parts.owner(each[0]), each[0]))
            case "unit/bare":
                whole = self._bare(group)
                instances = self._parts(group, are_tiles=False, are_bare=self._shared is SharedDevices.EACH)
                return sorted([*whole, *instances], key=lambda each: (parts.owner(each[0]), each[0]))
            case "whole/bare":
                return self._bare(group)
            case "repeated":
                return [(parts.owner(unit), facts) for unit, facts in self.entities("unit", group)]
            case "tile":
                return [(unit - parts.device_count, facts) for unit, facts in self._parts(group, are_tiles=True)]
            case "tiled":
                return [device for device in self._devices(group) if parts.is_tiled[device[0]]]
            case "single":
                return [device for device in self._devices(group) if not parts.is_tiled[device[0]]]
            case "held":
                return [device for device in self._devices(group) if device[1].get("pod")]
        return self._counted(level, group)

    def _counted(self, level: str, node: RosterNode) -> Sequence[Entity]:
        """What exporters count and list of the node's devices: error codes, pairs, processes, the node itself."""
        match level:
            case "xid":
                return self._xids(self.entities("repeated", node))
            case "xid/device":
                return self._xids(self._devices(node))
            case "peer":
                return self._peers(node)
            case "process":
                facts = self._fleet.labels.facts(node)
                return [(place, {**facts[index], **own}) for place, index, own in self._levels.processes(node)]
            case "process-part":
                of_unit = dict(zip(node.devices, self._fleet.labels.facts(node), strict=True))
                of_unit |= self._fleet.labels.part_facts(node)
                return [(at, {**of_unit[unit], **own}) for at, unit, own in self._levels.processes_on_parts(node)]
            case "pod" | "pod/whole":
                return self._pods(node, are_whole=level != POD)
            case "node" | "page":
                return [(node.first, _of_all(self._fleet.labels.facts(node)))]
        return self._connections(level, node)

    def _connections(self, level: str, node: RosterNode) -> Sequence[Entity]:
        """The node's links as devices or switches see them, switches, or for ``link/5`` the links of that number."""
        roster = self._fleet.roster
        match level:
            case "link":
                return link_facts(roster, node, self._fleet.labels.facts(node))
            case "port":
                return port_facts(roster, node, self._fleet.labels.facts(node))
            case "switch":
                return switch_facts(roster, node)
        level, _, number = level.partition("/")
        if level in RACK_QUANTITIES:
            return tray_facts(self._fleet.compiled.relations.racks, level, node, self._fleet.spec.seed)
        if level != "link" or not number:
            return []
        links = roster.links
        devices = [entity for entity in self.entities("whole", node) if links.counts[entity[0]] > int(number)]
        return [(int(links.firsts[device]) + int(number), facts) for device, facts in devices]

    def _bare(self, node: RosterNode) -> list[Entity]:
        """Undivided devices, where each container has rows without their containers."""
        if self._shared is not SharedDevices.EACH:
            return list(self.entities("whole", node))
        bare = self._with_holders(zip(node.devices, self._fleet.labels.bare_facts(node), strict=True))
        return [instance for instance in bare if self._fleet.roster.parts.is_undivided[instance[0]]]

    def _pods(self, node: RosterNode, *, are_whole: bool) -> list[Entity]:
        """The containers of pods on undivided devices, and on instances."""
        if self._shared is not SharedDevices.EACH:
            return []
        parts = self._fleet.roster.parts
        every = zip(node.devices, self._fleet.labels.shared_facts(node), strict=True)
        held = {unit: facts for unit, facts in every if parts.is_undivided[unit]}
        held |= dict(() if are_whole else self._fleet.labels.shared_part_facts(node))
        return [
            (position, facts)
            for position, unit, container in self._levels.pods(node)
            for facts in held.get(unit, ())
            if container == (facts["pod"], facts["namespace"], facts["container"])
        ]

    def _peers(self, node: RosterNode) -> list[Entity]:
        """The node's pairs of devices, with the facts of the first; one row for each of its holders."""
        peers = self._fleet.tallies.peers
        if peers is None:
            return []
        facts = grouped((device - node.first, own) for device, own in self._devices(node))
        pairs = list(peers.of_node(node))
        return [(place, {**own, "peer": str(peer)}) for place, board, peer in pairs for own in facts[board]]

    def _xids(self, devices: Sequence[Entity]) -> list[Entity]:
        """Error codes that devices have reported, with their facts."""
        return [
            (place, {**facts, "xid": str(code)})
            for device, facts in devices
            for place, code in self._fleet.tallies.xids_of(device)
        ]

    def _devices(self, node: RosterNode) -> list[Entity]:
        if not self._is_shared:
            return list(zip(node.devices, self._fleet.labels.facts(node), strict=True))
        return self._with_holders(zip(node.devices, self._fleet.labels.shared_facts(node), strict=True))

    def _parts(self, node: RosterNode, *, are_tiles: bool, are_bare: bool = False) -> list[Entity]:
        """The parts, as units: tiles or instances; without their containers if they are bare."""
        if not self._is_shared:
            every = list[Entity](self._fleet.labels.part_facts(node))
        else:
            every = self._with_holders(self._fleet.labels.shared_part_facts(node, are_bare=are_bare))
        parts = self._fleet.roster.parts
        return [unit for unit in every if parts.is_tile[unit[0] - parts.device_count] == are_tiles]

    def _with_holders(self, held: Iterable[tuple[int, Sequence[Mapping[str, str]]]]) -> list[Entity]:
        if self._shared is SharedDevices.NO_POD:
            return [(position, _of_all(units)) for position, units in held]
        return [(position, facts) for position, units in held for facts in units]

    def version(self, group: RosterNode) -> object:
        """The version of the node's labels, and its processes if they are shown."""
        version = self._fleet.labels.version(group, is_shared=self._is_shared)
        return (version, self._levels.version(group)) if self._has_processes else version

    def completed(self, state: State) -> State:
        return self._levels.completed(state, self._has_processes)

    def previous(self, group: RosterNode) -> PreviousLabels[RosterNode] | None:
        moves, roster = self._fleet.moves, self._fleet.roster
        old_node = None if moves is None else moves.unchanged.get(group)
        if moves is None or old_node is None:
            return None
        old_roster = moves.before

        def shift(level: str) -> int | None:
            if level == PROCESS:
                return (group.first - old_node.first) * self._levels.stride
            if level.partition("/")[0] in (POD, PROCESS_PART):
                stride = self._levels.part_stride if level == PROCESS_PART else self._levels.pod_stride
                return None if roster.parts.count else (group.first - old_node.first) * stride
            new, old = _first(roster, group, level), _first(old_roster, old_node, level)
            return None if new is None or old is None else new - old

        return PreviousLabels(old_node, shift)


def _of_all(holders: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """The facts of a device that do not depend on its holder; empty texts for the others."""
    first = holders[0]
    if len(holders) == 1:
        return first
    return {name: text if all(holder.get(name) == text for holder in holders) else "" for name, text in first.items()}


def _first(roster: Roster, node: RosterNode, level: str) -> int | None:
    """The position of a node's first entity of a level; None if its entities are not consecutive."""
    match level.partition("/")[0]:
        case "device" | "held" | "whole" | "tiled" | "single" | "node" | "page":
            return node.first
        case "unit" | "repeated":
            return None if roster.parts.count else node.first
        case "part" | "tile":
            return int(np.searchsorted(roster.parts.owners, node.first))
        case "link" | "port":
            return int(roster.links.firsts[node.first]) if len(node.devices) else 0
        case "switch":
            return roster.links.switches_of(node.first).start
    return None


class HeldStates:
    """The current state, and for each interval of exporters the state at its start.

    :param present: returns the current state.
    """

    def __init__(self, present: Callable[[], State]) -> None:
        self._present = present
        self._held: dict[float, State] = {}

    def every(self, seconds: float) -> Callable[[], State]:
        """A function that returns the last state at a multiple of some simulated seconds; 0: the current state.

        Before the first multiple it returns the state at the time of the first call.
        """
        if not seconds:
            return self._present
        self._held.setdefault(seconds, self._present())
        return lambda: self._held[seconds]

    def keep(self) -> None:
        """Keep the state of a tick for intervals that have started with it."""
        state = self._present()
        for seconds, held in self._held.items():
            if _interval(state, seconds) != _interval(held, seconds):
                self._held[seconds] = state

    def renew(self) -> None:
        """Replace all held states by the current one, after the devices have changed."""
        self._held = dict.fromkeys(self._held, self._present())


def _interval(state: State, seconds: float) -> int:
    return math.floor(round(state.seconds / seconds, 9))
