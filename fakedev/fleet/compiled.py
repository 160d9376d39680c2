"""A compiled configuration: all that depends only on a fleet's specification, with the nodes that a shard depends on.

A thread can prepare it.

A shard must simulate further nodes besides its own, so that its own nodes behave as in the whole fleet. A workload of
the configuration on devices of several shards may end, or slow down, because of one of these devices. The nodes where
that is possible are simulated in every shard with devices of the workload, but shown only in their own shard. The
same is true for the nodes on which their own workloads depend, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.base.errors import Refused
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.faults.rules import FaultRules
from fakedev.fleet.parts.part_demand import unit_capacity
from fakedev.fleet.parts.part_relations import PartRelations
from fakedev.fleet.spec.fault_kinds import KINDS, MACHINE_SCOPES
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import Shard
from fakedev.fleet.spec.value_functions import highest
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.workloads.admission import Admission
from fakedev.fleet.workloads.churn import Churn
from fakedev.fleet.workloads.endings import DeviceLimits
from fakedev.fleet.workloads.table import MEMORY

#: The part of the memory that a workload can demand without risk.
_NEARLY_ALL: Final = 0.9
#: Nodes, as positions in the whole fleet.
Nodes = frozenset[int]


def shard_roster(spec: FleetSpec, shard: Shard) -> Roster:
    """The roster of a shard.

    :raises Refused: if it has no node, and no nodes of a cluster may come.
    """
    whole = Roster(spec.pools)
    own = frozenset(place for place, node in enumerate(whole.nodes) if shard.has(node.name))
    if not own and not any(pool.has_cluster_nodes for pool in spec.pools):
        raise Refused("bad-argument", f"shard {shard} has none of the {len(whole.nodes)} nodes of the fleet", "shard")
    tied = _tied(own, list(_ties(spec, whole, shard)))
    return Roster(spec.pools, shard, frozenset(whole.nodes[place].name for place in tied))


def _tied(own: Nodes, ties: Sequence[tuple[Nodes, Nodes]]) -> Nodes:
    """The nodes that must be simulated in addition to a shard's own nodes.

    :param ties: (nodes of a workload, the nodes among them on which it depends).
    """
    simulated, size = own, -1
    while len(simulated) > size:
        size = len(simulated)
        for nodes, behind in ties:
            if not simulated.isdisjoint(nodes):
                simulated |= behind
    return simulated - own


def _ties(spec: FleetSpec, whole: Roster, shard: Shard) -> Iterator[tuple[Nodes, Nodes]]:
    """For each workload on devices of several shards: its nodes, and the nodes on which it depends."""
    numbers = [shard.other(node.name).number for node in whole.nodes]
    found = [(workload, _nodes(workload.devices, whole, workload.node)) for workload in spec.base]
    dangerous: Nodes | None = None
    for workload, nodes in found:
        if len({numbers[place] for place in nodes}) < 2:
            continue
        if dangerous is None:
            dangerous = _dangerous(spec, whole, found)
        behind = nodes if _is_one(workload) else nodes & dangerous
        if behind:
            yield nodes, behind


def _is_one(workload: WorkloadSpec) -> bool:
    """Whether the progress or end of a workload depends on all its devices together."""
    return workload.is_work or bool(
        workload.limits or workload.measured_frequency_mhz or workload.measured_capability
    )


def _dangerous(spec: FleetSpec, whole: Roster, found: Sequence[tuple[WorkloadSpec, Nodes]]) -> Nodes:
    """The nodes on which workloads may end early: by faults, limits of devices, heat and full memory."""
    places: set[int] = set()
    for fault in spec.faults:
        if KINDS[fault.kind].scope in MACHINE_SCOPES:
            places |= _nodes(fault.devices, whole, fault.node)
    crowds = Counter(place for _, nodes in found for place in nodes)
    for workload, nodes in found:
        if workload.faults:
            places |= nodes
        elif _asks_memory(workload):
            places |= {place for place in nodes if crowds[place] > 1 or _may_fill(workload, whole.nodes[place])}
    for place, node in enumerate(whole.nodes):
        dynamics = node.pool.device_type.dynamics
        of_devices = [device.inlet_celsius for device in node.pool.devices.values()]
        given = (node.pool.inlet_celsius, node.spec.inlet_celsius, *of_devices)
        is_hot = any(value is not None for value in given) and dynamics is not None
        kinds = node.pool.churn.kinds if node.pool.churn is not None else ()
        ends_others = any(kind.workload.faults or _asks_memory(kind.workload) for kind in kinds)
        if node.pool.device_type.limits or is_hot or ends_others:
            places.add(place)
    return frozenset(places)


def _asks_memory(workload: WorkloadSpec) -> bool:
    return any(use.metric == MEMORY for use in workload.uses)


def _may_fill(workload: WorkloadSpec, node: RosterNode) -> bool:
    """Whether a single workload may demand nearly all memory of a device, or more."""
    room = node.pool.device_type.memory_total_bytes - node.pool.device_type.memory_reserved_bytes
    for use in workload.uses:
        if use.metric == MEMORY:
            asked = max(highest(activity.value) + activity.fluctuation for activity in use.activities)
            if asked > _NEARLY_ALL * (100.0 if use.is_share else room) or node.pool.has_parts:
                return True
    return False


def _nodes(words: Sequence[str], whole: Roster, node: str) -> Nodes:
    return frozenset(np.unique(whole.node_positions(resolve(words, whole, node))).tolist())


#: What a compiled fleet depends on.
_COMPILED: Final = ("pools", "seed", "shard", "tick_seconds", "exact_sensors", "metric_names")


class CompiledFleet:
    """The parts of a fleet without a history.

    To compile a large fleet takes long, and has no side effects: a thread may do it.

    :ivar keys: the key of randomness of each unit (device or part): shape (units,).
    :ivar capacity: of the units.
    :ivar part_relations: None if no device has parts.
    :ivar quantities: every quantity of the fleet, with the devices that have it, shape (devices,).
    :ivar idle: the level of devices without work.
    :ivar unit_quantities: every quantity, with the units that have it, shape (units,).
    """

    def __init__(self, spec: FleetSpec) -> None:
        self.spec = spec
        self.roster = Roster(spec.pools) if spec.shard is None else shard_roster(spec, spec.shard)
        self.roster.links.prepare()
        self.relations = Relations(self.roster, spec.epoch_seconds, spec.seed, spec.exact_sensors)
        parts = self.roster.parts
        self.part_relations: PartRelations | None = None
        if parts.count:
            self.part_relations = PartRelations(self.roster, self.relations, spec.seed, spec.exact_sensors)
        self.capacity = unit_capacity(self.relations.capacity(), parts)
        self.keys = self.roster.unit_keys
        self.quantities = self.relations.quantities
        self.unit_quantities: Mapping[str, Mask] = {name: parts.units(has) for name, has in self.quantities.items()}
        known = self._known_quantities()
        self.admission = Admission(
            self.roster, self.capacity, self.quantities, spec.metric_names, spec.tick_seconds, known
        )
        self.admission.prepare(spec.base)
        self.fault_rules = FaultRules(
            self.roster, self.keys, self.unit_quantities, self.admission.known_metric, known, spec.tick_seconds,
            self.relations.rack_layout,
        )
        self.device_limits = DeviceLimits(self.roster, self.capacity)
        self.churn = Churn(spec.seed, spec.tick_seconds, self.roster)
        self.idle = self.relations.idle_level()
        self._moves: FleetReindex | None = None

    @classmethod
    def taken(cls, spec: FleetSpec, ready: list[CompiledFleet]) -> CompiledFleet:
        """What was compiled before, if it is of the same nodes, else a new one.

        :param ready: at most one, perhaps with another epoch and without the workloads. It is removed: no other fleet
            can use it, and memory is free again after the next reload.
        """
        compiled = ready.pop() if ready else None
        if compiled is None or any(getattr(compiled.spec, it) != getattr(spec, it) for it in _COMPILED):
            return cls(spec)
        compiled.spec = spec
        compiled.relations.set_epoch(spec.epoch_seconds)
        compiled.admission.prepare(spec.base)
        return compiled

    def reindex_from(self, old: Roster) -> FleetReindex:
        """The positions of another roster's devices in this one; computed at the first call."""
        if self._moves is None or self._moves.before is not old:
            self._moves = FleetReindex(old, self.roster)
        return self._moves

    def _known_quantities(self) -> Collection[str]:
        """The quantities of all pools; a shard may have no node of some pools."""
        if self.roster.whole is None:
            return self.quantities
        samples = Roster([replace(pool, nodes=pool.nodes[:1]) for pool in self.spec.pools])
        return Relations(samples, self.spec.epoch_seconds, self.spec.seed).quantities

    def pace(self, devices: Level) -> Mapping[str, Floats]:
        """The speed of each kind of work on each unit, relative to its speed at the highest clock: shape (units,)."""
        return {kind: self.roster.parts.units(pace) for kind, pace in self.relations.pace(devices).items()}
