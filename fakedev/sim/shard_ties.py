"""What a shard must simulate beside its own nodes, so that they are just as in the whole fleet.

A workload of the configuration on devices of several shards may end, or get on more slowly, because of what becomes
of one of them. Where that can be, the nodes on which it can are simulated in every shard that has devices of that
workload, and shown in none but their own. So are, in turn, the nodes on which their own workloads depend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fakedev.sim.errors import Refused
from fakedev.sim.faults.kinds import KINDS, Scope
from fakedev.sim.roster import Roster
from fakedev.sim.selectors import resolve
from fakedev.sim.shards import Shard
from fakedev.sim.spec import FleetSpec, WorkloadSpec
from fakedev.sim.workload_table import MEMORY

#: Nodes, by their places in the whole fleet.
Nodes = frozenset[int]


def shard_roster(spec: FleetSpec, shard: Shard) -> Roster:
    """The roster of a shard.

    :raises Refused: when it has no node.
    """
    whole = Roster(spec.pools)
    own = frozenset(place for place, node in enumerate(whole.nodes) if shard.has(node.name))
    if not own:
        raise Refused("bad-argument", f"shard {shard} has none of the {len(whole.nodes)} nodes of the fleet", "shard")
    tied = _tied(own, list(_ties(spec, whole, shard)))
    return Roster(spec.pools, shard, frozenset(whole.nodes[place].name for place in tied))


def _tied(own: Nodes, ties: Sequence[tuple[Nodes, Nodes]]) -> Nodes:
    """The nodes that must be simulated beside some.

    :param ties: (nodes of a workload, those of them on which it depends).
    """
    simulated, size = own, -1
    while len(simulated) > size:
        size = len(simulated)
        for nodes, behind in ties:
            if not simulated.isdisjoint(nodes):
                simulated |= behind
    return simulated - own


def _ties(spec: FleetSpec, whole: Roster, shard: Shard) -> Iterator[tuple[Nodes, Nodes]]:
    """For each workload on devices of several shards its nodes, and those on which it depends."""
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
    """Whether what becomes of a workload follows from all its devices together."""
    return workload.is_work or bool(
        workload.limits or workload.measured_frequency_mhz or workload.measured_capability
    )


def _dangerous(spec: FleetSpec, whole: Roster, found: Sequence[tuple[WorkloadSpec, Nodes]]) -> Nodes:
    """The nodes on which workloads may end that are not over: by faults, limits of devices, heat and full memory."""
    places: set[int] = set()
    for fault in spec.faults:
        if KINDS[fault.kind].scope in (Scope.BOARD, Scope.NODE):
            places |= _nodes(fault.devices, whole, fault.node)
    for workload, nodes in found:
        if _asks_memory(workload):
            places |= nodes
    for place, node in enumerate(whole.nodes):
        dynamics = node.pool.device_type.dynamics
        of_devices = [device.inlet_celsius for device in node.pool.devices.values()]
        given = (node.pool.inlet_celsius, node.spec.inlet_celsius, *of_devices)
        is_hot = any(each is not None for each in given) and dynamics is not None
        churn = node.pool.churn
        fills_memory = churn is not None and any(_asks_memory(kind.workload) for kind in churn.kinds)
        if node.pool.device_type.limits or is_hot or fills_memory:
            places.add(place)
    return frozenset(places)


def _asks_memory(workload: WorkloadSpec) -> bool:
    return any(use.metric == MEMORY for use in workload.uses)


def _nodes(words: Sequence[str], whole: Roster, node: str) -> Nodes:
    return frozenset(np.unique(whole.node_positions(resolve(words, whole, node))).tolist())
