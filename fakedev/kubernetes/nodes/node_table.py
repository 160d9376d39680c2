"""The simulated nodes of a cluster by name: who joins, changes and leaves; and why other nodes are not simulated.

Nodes with the label of fakedev may be refused; the reason is here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

from fakedev.base.errors import Refused, did_you_mean
from fakedev.fleet.events import Where, with_layout
from fakedev.fleet.spec.fleet_spec import FleetSpec, Layout, PoolSpec, place_by_name
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.kubernetes.devices.dra import CHANNEL_DRIVER, DRIVER
from fakedev.kubernetes.devices.mig_config import DIVIDING, PENDING, SUCCESS, applied_to
from fakedev.kubernetes.devices.node_ledger import ContainerIds
from fakedev.kubernetes.nodes.node_status import NodePatches, clean_patches, is_rebooted, pool_label
from fakedev.kubernetes.nodes.simulated_node import ClusterNode

#: A node with many instances takes some milliseconds to make: as many more steps of a list.
_HEAVY: Final = 5


class NodeTable:
    """The simulated nodes, by name.

    :param spec: of the fleet, whose pools with ``nodes: cluster`` the label's values name.
    :param has: whether this process simulates a node; other shards simulate the others.
    :param others: finds the further resources of each node of a pool, by the pool's name.
    :ivar left: nodes that lost the label, or whose pool is gone, and still have what was written to them.
    :ivar changed: the nodes whose objects of the API must be compared with what is wanted.
    :ivar renewed: the nodes that are new, or have other devices; their pods get devices anew.
    :ivar viewed: the nodes whose view for fakedev-node may have changed.
    :ivar sliced: the nodes whose ResourceSlices may have changed.
    :ivar problems: why nodes with the label are not simulated, by their names.
    :ivar dividing: the nodes whose boards must be divided, as their labels say.
    :ivar replaced: the nodes that were deleted or booted: the fleet lets them go before they may join (again).
    :ivar remembered: what pods had before their node got other devices, or before fakedev started, by UID.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        spec: FleetSpec,
        has: Callable[[str], bool],
        others: Callable[[str], Mapping[str, int]],
    ) -> None:
        self._settings = settings
        self._spec = spec
        self.has = has
        self._others = others
        self._nodes: dict[str, ClusterNode] = {}
        self.left: dict[str, Mapping[str, Any]] = {}
        self._was_ours: set[str] = set()
        self.changed: dict[str, None] = {}
        self.renewed: dict[str, None] = {}
        self.viewed: dict[str, None] = {}
        self.sliced: dict[str, None] = {}
        self.problems: dict[str, str] = {}
        self.remembered: dict[str, ContainerIds] = {}
        #: The objects of the nodes with problems, which another configuration may solve.
        self._refused: dict[str, Mapping[str, Any]] = {}
        self._new_problems: dict[str, None] = {}
        self._pools_of_nodes: Mapping[str, Where] | None = None
        self.dividing: dict[str, None] = {}
        self.replaced: dict[str, None] = {}
        self._divided_pools: dict[Where, PoolSpec] = {}
        self._mig_problems: list[tuple[ClusterNode, str]] = []
        #: The nodes at places in racks, by pool and place.
        self._places: dict[tuple[str, int], str] = {}

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self._nodes.values())

    def get(self, name: str) -> ClusterNode | None:
        return self._nodes.get(name)

    @property
    def pools_of_nodes(self) -> Mapping[str, Where]:
        """Pool and layout of each simulated node, for the fleet; the same object until that changes."""
        if self._pools_of_nodes is None:
            self._pools_of_nodes = {name: node.where for name, node in self._nodes.items() if name not in self.replaced}
        return self._pools_of_nodes

    def join_again(self, gone: Collection[str]) -> None:
        self.replaced = {name: None for name in self.replaced if name not in gone}
        self._pools_of_nodes = None

    def registered(self, name: str, plugins: Collection[str]) -> None:
        """The kubelet of a node has taken these plugins, and no others; a DRA plugin counts by its driver."""
        node = self._nodes.get(name)
        if node is None:
            return
        before = node.is_registered, node.has_channel_plugin
        node.is_registered, node.has_channel_plugin = DRIVER in plugins, CHANNEL_DRIVER in plugins
        if before != (node.is_registered, node.has_channel_plugin):
            self.sliced[name] = None

    def names(self) -> list[str]:
        """The nodes that are simulated, and those with problems."""
        return [*self._nodes, *self.problems]

    def put(self, item: Mapping[str, Any], *, is_listed: bool = False) -> bool:
        """A node of the cluster is new, or has changed.

        :param is_listed: it is as the server has it now; else it is left out when a later state is known.
        :returns: whether it is not simulated any more.
        """
        name = item["metadata"]["name"]
        known = self._nodes.get(name)
        if known is not None and known.uid != item["metadata"].get("uid", ""):
            known = None  # another node of the same name
        if known is not None and not is_listed and known.is_newer_than(item):
            return False
        pool, problem = self._pool_of(item)
        is_of_another = known is None and name not in self._was_ours and clean_patches(item)
        self._note_problem(item, "" if is_of_another and name not in self.problems else problem)
        if pool is None:
            is_gone = self._forget(name)
            if is_gone:
                self._was_ours.add(name)
            if name in self._was_ours and clean_patches(item):
                self.left[name] = item
            return is_gone
        self._was_ours.discard(name)
        self.left.pop(name, None)
        is_booted = known is not None and is_rebooted(known.item, item)
        if is_booted or (known is None and name in self._nodes):
            self.replaced[name] = None
        if known is not None and known.base is pool and not is_booted:
            if known.update(item):
                self.changed[name] = None
                self._asked(known, known.mig_state, known.follow_mig_config())
            return False
        self._make(item, pool, known, known.pool.layout if known is not None else applied_to(item, pool))
        return False

    def _make(self, item: Mapping[str, Any], base: PoolSpec, known: ClusterNode | None, layout: Layout) -> None:
        """A node is new, or has other devices."""
        pool = self._divided(base, layout)
        node = ClusterNode(item, pool, self._spec.seed, self._settings, self._others(base.name), base)
        if known is not None:
            node.take_over(known)
            self.remembered |= known.ledger.take_all()
        name = node.name
        self._nodes[name] = node
        if pool.racks is not None:
            self._places[pool.name, node.devices.node.place] = name
        self._pools_of_nodes = None
        self.changed[name] = self.renewed[name] = self.viewed[name] = self.sliced[name] = None
        self._asked(node, node.mig_state, node.follow_mig_config())

    def _divided(self, base: PoolSpec, layout: Layout) -> PoolSpec:
        """A pool with boards divided like this, which its nodes share; as it is if they cannot be divided so."""
        key = base.name, layout
        if key not in self._divided_pools:
            try:
                self._divided_pools[key] = with_layout(base, layout)
            except Refused:  # the pool has other boards by now, or somebody else wrote the annotation
                self._divided_pools[key] = base
        return self._divided_pools[key]

    def _asked(self, node: ClusterNode, before: str, problem: str) -> None:
        """The state of a node may have changed.

        :param problem: why it is ``failed`` now.
        """
        if problem:
            self._mig_problems.append((node, problem))
        if node.mig_state != before:
            self._pools_of_nodes = None
            self.changed[node.name] = self.viewed[node.name] = self.sliced[node.name] = None
        if node.is_paused or node.where[1] != node.pool.layout:
            self.dividing[node.name] = None
        else:
            self.dividing.pop(node.name, None)

    def claims_changed(self, node: ClusterNode, claimed: Collection[str]) -> None:
        """Claims have these devices of a node now."""
        if node.is_partitionable:
            before = node.layout
            node.divide_for(claimed)
            if node.layout != before:
                self._pools_of_nodes = None
            self._asked(node, node.mig_state, "")

    def divide(self, is_there: Callable[[str, Where], bool]) -> Iterator[None]:
        """Go on with the nodes whose boards must be divided, one in each step; called after each tick.

        :param is_there: whether the fleet has a node like this by now.
        """
        for name in [*self.dividing]:
            yield
            node = self._nodes.get(name)
            if node is None or name not in self.dividing:  # it left since
                continue
            if node.mig_state == PENDING:
                self._asked(node, PENDING, node.begin_division())
            elif is_there(name, self.pools_of_nodes[name]):
                node.mig_state = SUCCESS if node.mig_state == DIVIDING else node.mig_state
                self._make(node.item, node.base, node, node.layout)
                yield from repeat(None, _HEAVY)

    def take_mig_problems(self) -> list[tuple[ClusterNode, str]]:
        """Nodes whose label ``nvidia.com/mig.config`` could not be followed since the last call, and why."""
        taken, self._mig_problems = self._mig_problems, []
        return taken

    def _note_problem(self, item: Mapping[str, Any], text: str) -> None:
        name = item["metadata"]["name"]
        if not text:
            self.problems.pop(name, None)
            self._refused.pop(name, None)
            return
        if self.problems.get(name) != text:
            self._new_problems[name] = None
        self.problems[name] = text
        self._refused[name] = item

    def take_new_problems(self) -> list[tuple[str, str, str]]:
        """Name, UID and problem of the nodes that have another problem than when this was called last."""
        taken = [
            (name, self._refused[name]["metadata"].get("uid", ""), self.problems[name])
            for name in self._new_problems
            if name in self.problems
        ]
        self._new_problems.clear()
        return taken

    def remove(self, name: str) -> bool:
        """A node is not in the cluster any more; whether it was simulated."""
        self.problems.pop(name, None)
        self._refused.pop(name, None)
        self._was_ours.discard(name)
        self.left.pop(name, None)
        self.replaced[name] = None
        return self._forget(name)

    def take_left(self, most: int) -> list[tuple[str, NodePatches]]:
        """What cleans nodes that are in the cluster and no longer simulated, up to a limit."""
        names = list(self.left)[:most]
        return [(name, clean_patches(self.left.pop(name))) for name in names]

    def use(self, spec: FleetSpec) -> list[str]:
        """The fleet has another configuration: nodes of pools that have changed get their devices anew.

        :returns: the nodes that are not simulated any more.
        """
        before = {pool.name: replace(pool, nodes=()) for pool in self._spec.pools if not pool.layout}
        self._divided_pools.clear()
        self._spec = spec
        gone = []
        for name, node in list(self._nodes.items()):
            pool, _ = self._pool_of(node.item)
            if pool is not None and before.get(pool.name) == replace(pool, nodes=()):
                node.base, node.pool = pool, self._divided(pool, node.pool.layout)  # with the same devices
                if node.others != self._others(pool.name):
                    node.others = self._others(pool.name)
                    self.changed[name] = None
            elif self.put(node.item, is_listed=True):
                gone.append(name)
        for item in list(self._refused.values()):
            self.put(item, is_listed=True)
        return gone

    def _pool_of(self, item: Mapping[str, Any]) -> tuple[PoolSpec | None, str]:
        """The pool of a node; None when it is not simulated, with the reason if that is a mistake."""
        name = item["metadata"]["name"]
        label, value, problem = pool_label(item, self._settings.node_label, self._settings.operator_label)
        if not value or problem or not self.has(name):
            return None, problem
        pools = {pool.name: pool for pool in self._spec.pools if pool.has_cluster_nodes and not pool.layout}
        if value not in pools:
            hint = did_you_mean(value, pools, f"; there are {', '.join(pools)}" if pools else "")
            return None, f"label {label}: there is no pool {value!r} with nodes: cluster{hint}"
        for pool in self._spec.pools:
            if not pool.has_cluster_nodes and any(node.name == name for node in pool.nodes):
                text = f"the pool {pool.name} of the configuration has a node {name} already: rename one of them"
                return None, text
        return self._in_racks(name, pools[value])

    def _in_racks(self, name: str, pool: PoolSpec) -> tuple[PoolSpec | None, str]:
        """The same pool, unless a node has no place in its racks, with the reason."""
        if pool.racks is None:
            return pool, ""
        place = place_by_name(name)
        if place is None:
            return None, f"pool {pool.name}: its name ends with no number, its place in the racks: name it {name}-0"
        holder = self._places.get((pool.name, place), name)
        if holder != name:
            return None, f"pool {pool.name}: {holder} has the place {place} in the racks already: rename one of them"
        return pool, ""

    def _forget(self, name: str) -> bool:
        node = self._nodes.pop(name, None)
        if node is None:
            return False
        self.dividing.pop(name, None)
        self._pools_of_nodes = None
        self.changed.pop(name, None)
        self.renewed.pop(name, None)
        self.viewed[name] = self.sliced[name] = None
        if self._places.pop((node.pool.name, node.devices.node.place), None):
            for item in [*self._refused.values()]:  # another node may have its place now
                self.put(item, is_listed=True)
        return True
