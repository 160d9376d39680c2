"""A simulated node of a cluster: its object of the API, its devices, and what they are to look like there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from fakedev.kube.allocation import NodeAllocation
from fakedev.kube.devices import NodeDevices
from fakedev.kube.health import NodeHealth
from fakedev.kube.labels import node_labels
from fakedev.kube.node_status import NodePatches, NodeWanted, node_patches
from fakedev.kube.node_view import Allocation, NodeView, ViewedSlot
from fakedev.spec.fleet import NodeSpec, PoolSpec
from fakedev.spec.kubernetes import OPERATOR_NODE_LABEL, KubernetesSettings, Resources

#: KWOK writes it to its nodes, which have no kubelet.
_METADATA: Final = ("name", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations")
KWOK_ANNOTATION: Final = "kwok.x-k8s.io/node"


class ClusterNode:
    """A node with the label.

    :param item: as the API has it.
    :param seed: of the fleet.
    :ivar health: of its devices, as the cluster sees it.
    :ivar has_kubelet: whether a kubelet gives its devices to pods; else fakedev does.
    :ivar reported: what its kubelet says of its containers.
    """

    def __init__(self, item: Mapping[str, Any], pool: PoolSpec, seed: int, settings: KubernetesSettings) -> None:
        metadata = item["metadata"]
        self.item = item
        self.pool = pool
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.health = NodeHealth()
        self.reported: Sequence[Allocation] = ()
        self._settings = settings
        self.devices = NodeDevices.of(seed, pool, NodeSpec(self.name))
        self.allocation = NodeAllocation(self.devices)
        self._slots = self.devices.slots
        # The time of the discovery is that of the node: so it stays when fakedev starts again.
        self._labels = node_labels(self.devices, _seconds_of(metadata.get("creationTimestamp", "")))

    @property
    def has_kubelet(self) -> bool:
        """Whether the node has a kubelet: nodes of KWOK have none."""
        return KWOK_ANNOTATION not in (self.item["metadata"].get("annotations") or {})

    def update(self, item: Mapping[str, Any]) -> bool:
        """The node has changed at the API; whether that is news."""
        known = self.item["metadata"].get("resourceVersion")
        self.item = item
        self.uid = item["metadata"].get("uid", "")
        return known is None or known != item["metadata"].get("resourceVersion")

    def is_like(self, before: PoolSpec | None, now: PoolSpec) -> bool:
        """Whether the node has the same devices in a pool that was read again."""
        return before is not None and replace(before, nodes=()) == replace(now, nodes=())

    def patches(self) -> NodePatches | None:
        """What is to be changed at the API; None: nothing."""
        capacity: dict[str, int] | None = None
        allocatable: dict[str, int] | None = None
        if not self.has_kubelet:
            counts: Counter[str] = Counter()
            healthy: Counter[str] = Counter()
            for slot in self._slots if self._settings.resources is not Resources.DRA else ():
                counts[slot.resource] += 1
                is_well = slot.device_id not in self.health.unhealthy and not self.health.plugin_is_down
                healthy[slot.resource] += is_well
            capacity, allocatable = dict(counts), dict(healthy)
        wanted = NodeWanted(
            labels=self._labels,
            capacity=capacity,
            allocatable=allocatable,
            is_down=self.health.is_down and not self.has_kubelet,
        )
        return node_patches(self.item, wanted)

    def view(self) -> NodeView:
        """What its fakedev-node offers to the kubelet."""
        resources: dict[str, list[ViewedSlot]] = {}
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            why = self.health.unhealthy.get(slot.device_id, "")
            resources.setdefault(slot.resource, []).append(ViewedSlot(slot.id, slot.numa_node, why))
        return NodeView(self.name, resources, self.health.plugin_is_down)


def slim_node(item: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a node's object: without its images, addresses and managed fields, which are long."""
    metadata, spec, status = (item.get(each) or {} for each in ("metadata", "spec", "status"))
    return {
        "metadata": {key: metadata[key] for key in _METADATA if metadata.get(key)},
        "spec": {"taints": spec.get("taints") or []},
        "status": {key: status[key] for key in ("capacity", "allocatable", "conditions") if status.get(key)},
    }


def pool_label(item: Mapping[str, Any], label: str) -> tuple[str, str, str]:
    """The label that names a node's pool, its value, and what is wrong with it.

    :param label: the name of ours; that of fake-gpu-operator is taken too.
    """
    labels = item["metadata"].get("labels") or {}
    found = {name: labels[name] for name in (label, OPERATOR_NODE_LABEL) if labels.get(name)}
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
