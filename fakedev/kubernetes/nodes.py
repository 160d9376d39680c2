"""The simulated nodes of a cluster: API objects, devices, wanted state; and why other nodes are not simulated.

Nodes with the label of fakedev may be refused; the reason is here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from fakedev.base.errors import did_you_mean
from fakedev.fleet.spec.fleet_spec import FleetSpec, NodeSpec, PoolSpec
from fakedev.fleet.spec.offers import KubernetesSettings, Resources
from fakedev.kubernetes.dra import DRIVER, HAS_SLICES, HELD, dra_devices, resource_slices
from fakedev.kubernetes.health import NodeHealth
from fakedev.kubernetes.node_labels import node_labels
from fakedev.kubernetes.node_ledger import ContainerIds, Grant, Mechanism, NodeLedger
from fakedev.kubernetes.node_status import (
    DOWN,
    DOWN_TAINT,
    KWOK_NODE,
    NOT_READY,
    READY,
    WROTE,
    NodePatches,
    NodeWanted,
    ReportedMessages,
    clean_patches,
    node_patches,
)
from fakedev.kubernetes.node_view import HELD_BY, NodeView, ViewedSlot
from fakedev.kubernetes.offered_devices import NodeDevices, Slot
from fakedev.kubernetes.operator import operator_annotations, operator_labels

#: What is kept of the metadata of a node.
_METADATA: Final = ("name", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations")


class ClusterNode:
    """A node with the label.

    :param item: as the API has it.
    :param seed: of the fleet.
    :param others: further resources of the node, beside its devices.
    :ivar others: the same; they may be set anew.
    :ivar health: of its devices, as the cluster sees it.
    :ivar has_kubelet: whether a kubelet gives its devices to pods; else fakedev does.
    :ivar reported: the messages about it that were reported.
    :ivar lacking: namespace and name of the pods that it has not enough devices for, in order of arrival.
    :ivar denied: namespace and name of the claims whose devices others hold, each with the grant that is in the way.
    :ivar offered_version: of the ledger, when its devices were offered last.
    :ivar is_registered: whether its kubelet has taken the DRA plugin of its fakedev-node.
    :ivar dra_devices: its devices as a driver of DRA names them; empty when that is not used.
    """

    def __init__(
        self,
        item: Mapping[str, Any],
        pool: PoolSpec,
        seed: int,
        settings: KubernetesSettings,
        others: Mapping[str, int],
    ) -> None:
        metadata = item["metadata"]
        self.item = item
        self.pool = pool
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.health = NodeHealth()
        self.reported = ReportedMessages()
        self.lacking: dict[tuple[str, str], None] = {}
        self.denied: dict[tuple[str, str], Grant] = {}
        self.is_registered = False
        self.offered_version = 0
        self._settings = settings
        self.devices = NodeDevices(seed, pool, NodeSpec(self.name))
        self.ledger = NodeLedger(self.devices)
        self._slots = self.devices.slots
        uses_dra = settings.resources is not Resources.DEVICE_PLUGIN
        self.dra_devices = dra_devices(self.devices) if uses_dra else ()
        self.dra_slots = {device.name: device.slot for device in self.dra_devices}
        # The time of the discovery is that of the node: so it stays when fakedev starts again.
        self._labels = node_labels(self.devices, _seconds_of(metadata.get("creationTimestamp", "")))
        self._annotations: Mapping[str, str] = {HAS_SLICES: DRIVER} if self.dra_devices else {}
        self.others = others
        if settings.is_compatible:
            self._labels |= operator_labels(self.devices)
            self._annotations = {**self._annotations, **operator_annotations(self.devices)}
        self.devices.drop_facts()

    @property
    def has_kubelet(self) -> bool:
        """Whether the node has a kubelet: nodes of KWOK have none."""
        return KWOK_NODE not in (self.item["metadata"].get("annotations") or {})

    @property
    def noted(self) -> str:
        """What fakedev, this one or another, has noted at the node of all that it wrote; empty: nothing."""
        annotations: Mapping[str, str] = self.item["metadata"].get("annotations") or {}
        return annotations.get(WROTE, "")

    def update(self, item: Mapping[str, Any]) -> bool:
        """The node has changed at the API; whether that is news."""
        known = self.item["metadata"].get("resourceVersion")
        self.item = item
        return known is None or known != item["metadata"].get("resourceVersion")

    def is_newer_than(self, item: Mapping[str, Any]) -> bool:
        """Whether a later state of the node is known: an answer to a patch may overtake the event of an earlier change.

        Versions are numbers of one order (Kubernetes 1.35: KEP-5504; before it by etcd); others are not compared.
        """
        known, other = (each["metadata"].get("resourceVersion", "") for each in (self.item, item))
        return known.isdecimal() and other.isdecimal() and int(known) > int(other)

    def take_over(self, before: ClusterNode) -> None:
        """Go on from the same node with other devices: what was said of it, and what is known of its health."""
        self.reported, self.is_registered = before.reported, before.is_registered
        ids = {slot.device_id for slot in self._slots}
        unhealthy = {device: why for device, why in before.health.unhealthy.items() if device in ids}
        self.health = replace(before.health, unhealthy=unhealthy)

    def patches(self) -> NodePatches:
        """What is to be changed at the API; false: nothing. A kubelet counts the devices of its node itself."""
        return node_patches(self.item, self.wanted())

    def wanted(self) -> NodeWanted:
        """What the node should have of ours."""
        if self.has_kubelet:
            return NodeWanted(self._labels, annotations=self._annotations)
        capacity, allocatable = Counter(self.others), Counter(self.others)
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            is_well = not self._why_not(slot) and not self.health.plugin_is_down
            capacity[slot.resource] += 1
            allocatable[slot.resource] += is_well
        taints = (DOWN_TAINT,) if self.health.is_down else ()
        ready = DOWN if self.health.is_down else NOT_READY if self.health.kubelet_is_down else READY
        return NodeWanted(self._labels, capacity, allocatable, taints, ready, self._annotations)

    @property
    def problem(self) -> str:
        """Why it offers no devices; empty: it does."""
        return self.devices.problem

    @property
    def unhealthy_words(self) -> frozenset[str]:
        unhealthy = self.health.unhealthy
        return frozenset(slot.word(self.name) for slot in self._slots if slot.device_id in unhealthy)

    def _why_not(self, slot: Slot) -> str:
        """Why the device plugin does not give a slot to a pod; empty: it does, unless a pod has it already."""
        claim = self.ledger.holder_of(slot, Mechanism.DEVICE_PLUGIN)
        held = f"{HELD_BY}{claim.holder}" if claim is not None and claim.by is Mechanism.CLAIM else ""
        return self.health.unhealthy.get(slot.device_id, "") or held

    def slices(self) -> list[dict[str, Any]] | None:
        """The ResourceSlices that are wanted: none while the driver is down. None: those that are there stay.

        A kubelet deletes the slices of a driver that has been away for a while; nobody makes them again before the
        driver is there, as pods that are bound to the node could not start.
        """
        if not self.dra_devices or self.health.plugin_is_down:
            return []
        if self.has_kubelet and not self.is_registered:
            return None
        held = {grant.slot.device_id: HELD for grant in self.ledger if grant.by is Mechanism.DEVICE_PLUGIN}
        return resource_slices(self.devices, {**held, **self.health.unhealthy}, self.uid)

    def view(self) -> NodeView:
        resources: dict[str, list[ViewedSlot]] = {}
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            resources.setdefault(slot.resource, []).append(ViewedSlot(slot.id, slot.numa_node, self._why_not(slot)))
        driver = DRIVER if self.dra_devices else ""
        unhealthy = self.health.unhealthy
        claimable = tuple(
            ViewedSlot(each.name, each.slot.numa_node, unhealthy.get(each.slot.id) or unhealthy.get(each.board_id, ""))
            for each in self.dra_devices
        )
        # A kubelet that starts again forgets its plugins. This one goes on, so that they go and come back.
        is_down = self.health.plugin_is_down or self.health.kubelet_is_down
        return NodeView(self.name, resources, is_down, driver, claimable)


def slim_node(item: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a node's object: without its images, addresses and managed fields, which are long."""
    metadata, spec, status = (item.get(each) or {} for each in ("metadata", "spec", "status"))
    return {
        "metadata": {key: metadata[key] for key in _METADATA if metadata.get(key)},
        "spec": {"taints": spec.get("taints") or []},
        "status": {key: status[key] for key in ("capacity", "allocatable", "conditions") if status.get(key)},
    }


def pool_label(item: Mapping[str, Any], label: str, operator_label: str) -> tuple[str, str, str]:
    """The label that names a node's pool, its value, and what is wrong with it.

    :param label: the name of ours.
    :param operator_label: that of fake-gpu-operator, which is taken too.
    """
    labels = item["metadata"].get("labels") or {}
    found = {name: labels[name] for name in (label, operator_label) if labels.get(name)}
    if not found:
        return label, "", ""
    if len(set(found.values())) > 1:
        both = " and ".join(f"{name}={value}" for name, value in found.items())
        return label, "", f"two pools: {both}: remove one of the labels"
    name, value = next(iter(found.items()))
    return name, value, ""


def _seconds_of(time: str) -> float:
    """Seconds since 1970 of a time of the API; 0 for none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


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
        self.remembered: dict[str, ContainerIds] = {}
        #: The objects of the nodes with problems, which another configuration may solve.
        self._refused: dict[str, Mapping[str, Any]] = {}
        self._new_problems: dict[str, None] = {}
        self._pools_of_nodes: Mapping[str, str] | None = None

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self._nodes.values())

    def get(self, name: str) -> ClusterNode | None:
        return self._nodes.get(name)

    @property
    def pools_of_nodes(self) -> Mapping[str, str]:
        """The name of the pool of each simulated node; the same object until that changes."""
        if self._pools_of_nodes is None:
            self._pools_of_nodes = {node.name: node.pool.name for node in self._nodes.values()}
        return self._pools_of_nodes

    def registered(self, name: str, *, is_registered: bool) -> None:
        """Whether the kubelet of a node has taken the DRA plugin."""
        node = self._nodes.get(name)
        if node is not None and node.is_registered != is_registered:
            node.is_registered = is_registered
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
        is_of_another = clean_patches(item) and name not in self._was_ours and known is None
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
        if known is not None and known.pool is pool:
            if known.update(item):
                self.changed[name] = None
            return False
        node = ClusterNode(item, pool, self._spec.seed, self._settings, self._others(pool.name))
        if known is not None:
            node.take_over(known)
            self.remembered |= known.ledger.take_all()
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
        before = {pool.name: replace(pool, nodes=()) for pool in self._spec.pools}
        self._spec = spec
        gone = []
        for name, node in list(self._nodes.items()):
            pool, _ = self._pool_of(node.item)
            if pool is not None and before.get(pool.name) == replace(pool, nodes=()):
                node.pool = pool  # with the same devices
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
