"""Nodes that come and go: a fleet of which some pools have the nodes of a cluster.

The order of the nodes of such a pool is that of their names, not that of their arrival: the same nodes give the same
page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fakedev.sim.compiled import CompiledFleet
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import FleetSpec, NodeSpec, PoolSpec

#: Devices a fleet may have.
MAX_DEVICES: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class PreparedFleet:
    """A fleet that was compiled before its event, perhaps in a thread.

    :param base: the fleet that it was made from; the preparation is void for another one.
    """

    base: CompiledFleet
    compiled: CompiledFleet


def prepare(base: CompiledFleet, joined: Sequence[tuple[str, str]], left: Sequence[str]) -> PreparedFleet:
    """The fleet after a change of its nodes; takes long for large fleets, and may run in a thread.

    :raises Refused: as :func:`with_changed_nodes`.
    """
    compiled = CompiledFleet(with_changed_nodes(base.spec, joined, left))
    compiled.reindex_from(base.roster)
    return PreparedFleet(base, compiled)


def with_changed_nodes(spec: FleetSpec, joined: Sequence[tuple[str, str]], left: Sequence[str]) -> FleetSpec:
    """The specification of a fleet with other nodes of its cluster.

    :param joined: the name of each new node, and that of its pool.
    :raises Refused: for an unknown pool or one with nodes of its own, a node that is there already, one that is not
        there, or too many devices.
    """
    pools = {pool.name: pool for pool in spec.pools if pool.has_cluster_nodes}
    present = {node.name: pool for pool in spec.pools for node in pool.nodes}
    for name in left:
        if name not in present or not present[name].has_cluster_nodes:
            raise Refused("unknown-name", f"{name} is not a node of the cluster", name)
        del present[name]
    added: dict[str, list[NodeSpec]] = {}
    for name, pool in joined:
        if pool not in pools:
            known = ", ".join(pools) or "none"
            text = f"node {name}: no pool {pool!r} has nodes of the cluster (nodes: cluster); there are: {known}"
            raise Refused("unknown-name", text, pool)
        if name in present:
            raise Refused("bad-argument", f"node {name} is in the pool {present[name].name} already", name)
        present[name] = pools[pool]
        added.setdefault(pool, []).append(NodeSpec(name))
    gone = frozenset(left)
    changed = {
        pool.name: _sorted([*(node for node in pool.nodes if node.name not in gone), *added.get(pool.name, ())])
        for pool in pools.values()
    }
    return _with_nodes(spec, changed)


def with_nodes_of(spec: FleetSpec, present: FleetSpec) -> FleetSpec:
    """A specification with the cluster's nodes that another one has, each in the pool of the same name.

    The same object is returned when it has them already. A node whose pool is not there any more is left out.
    """
    nodes = {pool.name: pool.nodes for pool in present.pools if pool.has_cluster_nodes}
    own = {node.name for pool in spec.pools if not pool.has_cluster_nodes for node in pool.nodes}
    wanted = {
        pool.name: tuple(node for node in nodes.get(pool.name, ()) if node.name not in own)
        for pool in spec.pools
        if pool.has_cluster_nodes
    }
    return _with_nodes(spec, wanted)


def _with_nodes(spec: FleetSpec, nodes: Mapping[str, tuple[NodeSpec, ...]]) -> FleetSpec:
    """The specification with other nodes of some pools; the same object when these are the nodes that it has.

    :raises Refused: when there are too many devices.
    """
    if all(pool.nodes == nodes.get(pool.name, pool.nodes) for pool in spec.pools):
        return spec
    pools: list[PoolSpec] = []
    for pool in spec.pools:
        pools.append(replace(pool, nodes=nodes[pool.name]) if pool.has_cluster_nodes else pool)
    count = sum(len(pool.nodes) * pool.devices_per_node for pool in pools)
    if count > MAX_DEVICES:
        raise Refused("limit", f"the fleet would have {count} devices: at most {MAX_DEVICES}")
    return replace(spec, pools=tuple(pools))


def _sorted(nodes: Sequence[NodeSpec]) -> tuple[NodeSpec, ...]:
    return tuple(sorted(nodes, key=lambda node: node.name))
