"""Which nodes of a cluster are simulated, and why others with the label are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fakedev.kube.cluster_node import ClusterNode, pool_label
from fakedev.kube.node_status import NodePatches, clean_patches
from fakedev.spec.errors import did_you_mean
from fakedev.spec.fleet import FleetSpec, PoolSpec
from fakedev.spec.kubernetes import KubernetesSettings


class NodeTable:
    """The simulated nodes, by name.

    :param spec: of the fleet, whose pools with ``nodes: cluster`` the label's values name.
    :param has: whether a node is simulated by this process: others are those of other shards.
    :param others: finds the further resources of each node of a pool, by the pool's name.
    :ivar left: nodes that lost the label, or whose pool is gone, and still have what was written to them.
    :ivar changed: the nodes whose objects of the API are to be compared with what is wanted.
    :ivar renewed: the nodes that are new, or have other devices; their pods get devices anew.
    :ivar viewed: the nodes whose view for fakedev-node may have changed.
    :ivar sliced: the nodes whose ResourceSlices may have changed.
    :ivar problems: why nodes with the label are not simulated, by their names.
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
        self._has = has
        self._others = others
        self._nodes: dict[str, ClusterNode] = {}
        self.left: dict[str, Mapping[str, Any]] = {}
        self._was_ours: set[str] = set()
        self.changed: dict[str, None] = {}
        self.renewed: dict[str, None] = {}
        self.viewed: dict[str, None] = {}
        self.sliced: dict[str, None] = {}
        self.problems: dict[str, str] = {}
        #: The objects of the nodes with problems, which another configuration may solve.
        self._refused: dict[str, Mapping[str, Any]] = {}
        self._new_problems: dict[str, None] = {}
        self._pools_of_nodes: Mapping[str, str] | None = None

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self._nodes.values())

    def get(self, name: str) -> ClusterNode | None:
        """The simulated node of that name, or None."""
        return self._nodes.get(name)

    @property
    def pools_of_nodes(self) -> Mapping[str, str]:
        """The name of the pool of each simulated node; the same object until that changes."""
        if self._pools_of_nodes is None:
            self._pools_of_nodes = {node.name: node.pool.name for node in self._nodes.values()}
        return self._pools_of_nodes

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
        is_same = known is not None and known.is_same(item)
        if known is not None and is_same and not is_listed and known.is_newer_than(item):
            return False
        pool, problem = self._pool_of(item)
        self._note_problem(item, problem)
        if pool is None:
            is_gone = self._forget(name)
            if is_gone:
                self._was_ours.add(name)
            if name in self._was_ours and clean_patches(item):
                self.left[name] = item
            return is_gone
        self._was_ours.discard(name)
        self.left.pop(name, None)
        if known is not None and is_same and known.pool is pool:
            if known.update(item):
                self.changed[name] = None
            return False
        node = ClusterNode(item, pool, self._spec.seed, self._settings, self._others(pool.name))
        if known is not None and is_same:
            node.take_over(known)
        self._nodes[name] = node
        self._pools_of_nodes = None
        self.changed[name] = self.renewed[name] = self.viewed[name] = self.sliced[name] = None
        return False

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
        return self._forget(name)

    def take_left(self, most: int) -> list[tuple[str, NodePatches]]:
        """What cleans nodes that are in the cluster and not simulated any more, of at most so many nodes."""
        names = list(self.left)[:most]
        return [(name, clean_patches(self.left.pop(name))) for name in names]

    def use(self, spec: FleetSpec) -> list[str]:
        """The fleet has another configuration: nodes of pools that have changed get their devices anew.

        :returns: the nodes that are not simulated any more.
        """
        before = {pool.name: pool for pool in self._spec.pools}
        self._spec = spec
        gone = []
        for name, node in list(self._nodes.items()):
            pool, _ = self._pool_of(node.item)
            if pool is not None and node.is_like(before.get(pool.name), pool):
                node.pool = pool
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
        if not value or problem or not self._has(name):
            return None, problem
        pools = {pool.name: pool for pool in self._spec.pools if pool.has_cluster_nodes}
        if value not in pools:
            hint = did_you_mean(value, pools, f"; there are {', '.join(pools)}" if pools else "")
            return None, f"label {label}: there is no pool {value!r} with nodes: cluster{hint}"
        for pool in self._spec.pools:
            if not pool.has_cluster_nodes and any(node.name == name for node in pool.nodes):
                text = f"the pool {pool.name} of the configuration has a node {name} already: rename one of them"
                return None, text
        return pools[value], ""

    def _forget(self, name: str) -> bool:
        if self._nodes.pop(name, None) is None:
            return False
        self._pools_of_nodes = None
        self.changed.pop(name, None)
        self.renewed.pop(name, None)
        self.viewed[name] = self.sliced[name] = None
        return True
