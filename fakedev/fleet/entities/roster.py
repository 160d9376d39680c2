"""The nodes, devices and parts of a fleet in page order, with their positions in arrays."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby

import numpy as np

from fakedev.fleet.entities.naming import device_facts, part_facts
from fakedev.fleet.entities.randomness import Floats, Keys, uniform
from fakedev.fleet.entities.state import Positions
from fakedev.fleet.links.link_layout import LinkLayout
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.device_types import MAX_SWITCH
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.fleet.spec.limits import Shard, entity_key


@dataclass(frozen=True, eq=False)
class RosterNode:
    """A node and the position of its devices: ``first`` to ``first + pool.devices_per_node``; equal only to itself."""

    name: str
    spec: NodeSpec
    pool: PoolSpec
    first: int

    @property
    def devices(self) -> range:
        """Positions of the node's devices in arrays of the device level."""
        return range(self.first, self.first + self.pool.devices_per_node)


class Roster:
    """The nodes and devices of some pools, found by name.

    :param shard: the shard whose nodes are simulated; None: all nodes.
    :param tied: names of nodes of other shards that are simulated too, but not shown.
    :ivar nodes: all simulated nodes, in order of the configuration.
    :ivar shown: the nodes that are shown: all but the tied ones.
    :ivar links: the links of the devices, and the switches of the nodes.
    :ivar parts: the parts of the devices; a *unit* is a device or a part.
    :ivar whole: in a shard the roster of the whole fleet; else None.
    :ivar here: the position of each unit of the whole fleet, -1 if it is not simulated.
    """

    def __init__(self, pools: Sequence[PoolSpec], shard: Shard | None = None, tied: Collection[str] = ()) -> None:
        self.pools = tuple(pools)
        self.shard = shard
        nodes = []
        first = 0
        for _, parts in groupby(self.pools, key=lambda pool: pool.name):
            for spec, pool in sorted([(s, p) for p in parts for s in p.nodes], key=lambda each: each[0].row):
                if shard is None or spec.name in tied or shard.has(spec.name):
                    nodes.append(RosterNode(spec.name, spec, pool, first))
                    first += pool.devices_per_node
        self.nodes = tuple(nodes)
        self.shown = tuple(node for node in nodes if node.name not in tied)
        self.device_count = first
        self._simulated = {node.name: node for node in self.nodes}
        self._by_name = {node.name: node for node in self.shown}
        self._files = {id(pool): {file: i for i, file in enumerate(device_files(pool))} for pool in self.pools}
        self._first_devices = [node.first for node in self.nodes]
        self._firsts = np.array(self._first_devices, dtype=np.int64)
        divided = [
            (node.first + index, part)
            for node in self.nodes
            if node.pool.has_parts
            for index in range(node.pool.devices_per_node)
            for part in node.pool.parts_of(index)
        ]
        runs = [list(run) for _, run in groupby(nodes, key=lambda node: id(node.pool))]
        self.parts = Parts(first, [device for device, _ in divided], [part for _, part in divided])
        isolated = self.parts.owners[~self.parts.has_links]
        self.links = LinkLayout([(run[0].pool, len(run)) for run in runs], isolated)
        self.whole = None if shard is None else Roster(self.pools)
        self.here = np.arange(self.parts.unit_count) if self.whole is None else self._places_of(self.whole)

    def _places_of(self, whole: Roster) -> Positions:
        places = np.full(whole.parts.unit_count, -1, dtype=np.int64)
        for node in self.nodes:
            places[whole._units_of(whole._by_name[node.name])] = self._units_of(node)
        return places

    def _units_of(self, node: RosterNode) -> Positions:
        """The devices of a node, then their parts."""
        first, last = np.searchsorted(self.parts.owners, (node.devices.start, node.devices.stop)).tolist()
        return np.concatenate((np.array(node.devices), np.arange(first, last) + self.device_count))

    @property
    def summary(self) -> str:
        """The number of shown devices and nodes: ``8 devices on 1 node``."""
        devices, nodes = len(self.shown_devices), len(self.shown)
        count = self.parts.count
        parts = f" in {count} part{'s' * (count != 1)}" if count else ""
        of_shard = f" (shard {self.shard})" if self.shard else ""
        return f"{devices} device{'s' * (devices != 1)}{parts} on {nodes} node{'s' * (nodes != 1)}{of_shard}"

    @cached_property
    def shown_devices(self) -> Positions:
        """Positions of the devices of the nodes that are shown, ascending."""
        return np.array([device for node in self.shown for device in node.devices], dtype=np.int64)

    def node(self, name: str) -> RosterNode | None:
        """The node of that name, or None."""
        return self._by_name.get(name)

    def host(self, name: str) -> RosterNode | None:
        """The node of a host name, by its whole name or up to the first dot, in any letter case; or None."""
        lower = name.lower()
        return self.node(name) or self._by_host.get(lower) or self._by_host.get(lower.partition(".")[0])

    @cached_property
    def _by_host(self) -> dict[str, RosterNode]:
        return {node.name.lower(): node for node in reversed(self.shown)}

    def simulated(self, name: str) -> RosterNode | None:
        """As :meth:`node`, also for nodes that are not shown."""
        return self._simulated.get(name)

    def files(self, pool: PoolSpec) -> Mapping[str, int]:
        """Device file to index, for the nodes of a pool."""
        return self._files[id(pool)]

    def node_position(self, unit: int) -> int:
        """The position in ``nodes`` of a unit's node."""
        return bisect_right(self._first_devices, self.parts.owner(unit)) - 1

    def node_positions(self, units: Positions) -> Positions:
        """As :meth:`node_position`, for an array of units: shape as ``units``."""
        return np.searchsorted(self._firsts, self.parts.owners_of(units), side="right") - 1

    def unit_name(self, unit: int) -> str:
        """``node/index`` of a device, ``node/index/part`` of a part."""
        node, device = self.nodes[self.node_position(unit)], self.parts.owner(unit)
        part = "" if unit == device else f"/{unit - self.parts.of(device).start}"
        return f"{node.name}/{device - node.first}{part}"

    @cached_property
    def unit_keys(self) -> Keys:
        """A key of randomness for each unit: shape (units,)."""
        parts = self.parts
        found = []
        for device, part in zip(parts.owners.tolist(), parts.specs, strict=True):
            node = self.nodes[self.node_position(device)]
            found.append(entity_key(node.pool.name, node.name, str(device - node.first), part.key))
        return parts.units(self.keys, np.array(found, dtype=np.uint64))

    def device_pools(self) -> Positions:
        """The position in ``pools`` of each device's pool: shape (devices,)."""
        places = {id(pool): place for place, pool in enumerate(self.pools)}
        found = np.array([places[id(node.pool)] for node in self.nodes], dtype=np.int64)
        return np.repeat(found, [node.pool.devices_per_node for node in self.nodes])

    @cached_property
    def keys(self) -> Keys:
        """A key of randomness for each device: shape (devices,)."""
        names = [(node.pool.name, node.name, str(i)) for node in self.nodes for i in range(node.pool.devices_per_node)]
        return np.array([entity_key(*name) for name in names], dtype=np.uint64)

    def inlets(self) -> Floats:
        """The inlet temperature of each device in degrees Celsius, NaN for the type's own: shape (devices,)."""
        found = np.full(self.device_count, math.nan)
        for node in self.nodes:
            given = node.pool.inlet_celsius if node.spec.inlet_celsius is None else node.spec.inlet_celsius
            if given is not None:
                found[node.first : node.first + node.pool.devices_per_node] = given
            for index, device in node.pool.devices.items():
                if device.inlet_celsius is not None and index < node.pool.devices_per_node:
                    found[node.first + index] = device.inlet_celsius
        return found

    def inlet_drifts(self) -> Floats:
        """How far the inlet of each device is from its mean over the day, as its pool says; NaN: it says nothing."""
        drifts = [node.pool.inlet_drift_celsius for node in self.nodes]
        own = np.array([math.nan if drift is None else drift for drift in drifts])
        return np.repeat(own, [node.pool.devices_per_node for node in self.nodes])

    def inlet_rises(self) -> Floats:
        """How much warmer its place in a rack makes the inlet of each device: shape (devices,)."""
        rises = [
            node.spec.place % node.pool.racks.trays * node.pool.racks.inlet_step_celsius if node.pool.racks else 0.0
            for node in self.nodes
        ]
        return np.repeat(np.array(rises), [node.pool.devices_per_node for node in self.nodes])

    def places(self, seed: int) -> Floats:
        """How far the slot and the place in the room take each device's usual inlet temperature: shape (devices,).

        Each of the two is -1 to 1. The slot is a position in the server, the same for all nodes of a pool.
        """
        rooms = np.array([entity_key("place in the room", node.pool.name, node.name) for node in self.nodes], np.uint64)
        slots = [[entity_key("slot", node.pool.name, str(i)) for i in range(node.pool.devices_per_node)]
                 for node in self.nodes]  # fmt: skip
        counts = [node.pool.devices_per_node for node in self.nodes]
        both = (np.repeat(rooms, counts), np.array([key for slot in slots for key in slot], dtype=np.uint64))
        return sum((2.0 * uniform(seed, keys, "inlet", 0) - 1.0 for keys in both), np.zeros(self.device_count))

    def pcie_switches(self) -> Positions:
        """The PCIe switch of each device among all, -1: it has a link of its own to the host; shape (devices,)."""
        found = np.full(self.device_count, -1, dtype=np.int64)
        for place, node in enumerate(self.nodes):
            switches = node.pool.device_type.connections.server.pcie_switches
            if len(node.devices) <= len(switches):
                found[node.devices] = np.array(switches[: len(node.devices)]) + place * (MAX_SWITCH + 1)
        return found

    def switch_mates(self, device: int) -> list[int]:
        """The devices that share a PCIe switch with a device."""
        switches = self.pcie_switches()
        own = switches[device]
        return [other for other in np.flatnonzero(switches == own).tolist() if own >= 0 and other != device]

    def facts(self, seed: int, node: RosterNode) -> list[dict[str, str]]:
        """The facts of each device of a node, in order of index.

        Where a pool has parts, ``unit`` counts devices and instances: the number of a device, or of its first instance.
        """
        found = [device_facts(seed, node.pool, node.spec, index) for index in range(node.pool.devices_per_node)]
        if not node.pool.has_parts:
            return found
        counts = [sum(not part.is_tile for part in node.pool.parts_of(index)) for index in range(len(found))]
        firsts = accumulate((max(1, count) for count in counts), initial=0)
        return [{**facts, "unit": str(first)} for facts, first in zip(found, firsts, strict=False)]

    def part_facts(self, seed: int, node: RosterNode, devices: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
        """The facts of each part of a node's devices, in order: the facts of its device and its own.

        ``node_tile`` counts the tiles of a node whose devices are all of one type.

        :param devices: the facts of each device, in order of index.
        """
        if not node.pool.has_parts:
            return []
        return [
            {
                **device, **part_facts(seed, node.name, index, number, part), "unit": str(int(device["unit"]) + number),
                **({"node_tile": str(index * len(parts) + number)} if part.is_tile else {}),
            }
            for index, device in enumerate(devices)
            for parts in (node.pool.parts_of(index),)
            for number, part in enumerate(parts)
        ]


def device_files(pool: PoolSpec) -> list[str]:
    """The device file of each index of a pool's nodes, as workloads name them (``card0``)."""
    names = []
    for index in range(pool.devices_per_node):
        device = pool.devices.get(index)
        facts = device.facts if device else {}
        names.append(facts.get("file") or facts.get("device_file") or f"card{index}")
    return names
