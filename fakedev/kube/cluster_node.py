"""A simulated node of a cluster: its object of the API, its devices, and what they are to look like there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from fakedev.kube.allocation import NodeAllocation
from fakedev.kube.devices import NodeDevices
from fakedev.kube.dra_devices import DRIVER, dra_devices
from fakedev.kube.dra_slices import resource_slices
from fakedev.kube.health import NodeHealth
from fakedev.kube.labels import node_labels
from fakedev.kube.node_status import (
    DOWN,
    DOWN_TAINT,
    KWOK_NODE,
    NOT_READY,
    READY,
    WROTE,
    Condition,
    NodePatches,
    NodeWanted,
    node_patches,
)
from fakedev.kube.node_view import NodeView, ViewedSlot
from fakedev.kube.operator_objects import operator_annotations, operator_labels
from fakedev.kube.reports import Told
from fakedev.spec.fleet import NodeSpec, PoolSpec
from fakedev.spec.kubernetes import KubernetesSettings, Resources

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
    :ivar told: what was said of it.
    :ivar lacking: namespace and name of the pods that it has not enough devices for, in order of arrival.
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
        self.told = Told()
        self.lacking: dict[tuple[str, str], None] = {}
        self._settings = settings
        self.devices = NodeDevices.of(seed, pool, NodeSpec(self.name))
        self.allocation = NodeAllocation(self.devices)
        self._slots = self.devices.slots
        uses_dra = settings.resources is not Resources.DEVICE_PLUGIN
        self.dra_devices = dra_devices(self.devices) if uses_dra else ()
        # The time of the discovery is that of the node: so it stays when fakedev starts again.
        self._labels = node_labels(self.devices, _seconds_of(metadata.get("creationTimestamp", "")))
        self._annotations: Mapping[str, str] = {}
        self.others = others
        if settings.is_compatible:
            self._labels |= operator_labels(self.devices)
            self._annotations = operator_annotations(self.devices)

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

    def is_same(self, item: Mapping[str, Any]) -> bool:
        """Whether an object of that name is this node, and no later one."""
        return bool(self.uid == item["metadata"].get("uid", ""))

    def is_newer_than(self, item: Mapping[str, Any]) -> bool:
        """Whether a later state of the node is known: an answer to a patch may overtake the event of an earlier change.

        Versions are numbers of one order (Kubernetes 1.35: KEP-5504; before it by etcd); others are not compared.
        """
        known, told = (each["metadata"].get("resourceVersion", "") for each in (self.item, item))
        return known.isdecimal() and told.isdecimal() and int(known) > int(told)

    def take_over(self, before: ClusterNode) -> None:
        """Go on from the same node with other devices: what was said of it, and what is known of its health."""
        self.told = before.told
        ids = {slot.device_id for slot in self._slots}
        unhealthy = {device: why for device, why in before.health.unhealthy.items() if device in ids}
        self.health = replace(before.health, unhealthy=unhealthy)

    def is_like(self, before: PoolSpec | None, now: PoolSpec) -> bool:
        """Whether the node has the same devices in a pool that was read again."""
        return before is not None and replace(before, nodes=()) == replace(now, nodes=())

    def patches(self) -> NodePatches:
        """What is to be changed at the API; false: nothing. A kubelet counts the devices of its node itself."""
        if self.has_kubelet:
            return node_patches(self.item, NodeWanted(self._labels, annotations=self._annotations))
        capacity, allocatable = Counter(self.others), Counter(self.others)
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            is_well = slot.device_id not in self.health.unhealthy and not self.health.plugin_is_down
            capacity[slot.resource] += 1
            allocatable[slot.resource] += is_well
        taints = (DOWN_TAINT,) if self.health.is_down else ()
        wanted = NodeWanted(self._labels, capacity, allocatable, taints, self._condition, self._annotations)
        return node_patches(self.item, wanted)

    @property
    def _condition(self) -> Condition:
        if self.health.is_down:
            return DOWN
        return NOT_READY if self.health.kubelet_is_down else READY

    @property
    def problem(self) -> str:
        """Why it offers no devices; empty: it does."""
        why = self.devices.mig_problem
        return f"mig-strategy single cannot be followed: {why}; it offers no devices" if why else ""

    @property
    def unhealthy_words(self) -> frozenset[str]:
        """The device words of its unhealthy devices."""
        unhealthy = self.health.unhealthy
        return frozenset(slot.word(self.name) for slot in self._slots if slot.device_id in unhealthy)

    def slices(self) -> list[dict[str, Any]]:
        """The ResourceSlices that are wanted: none while the driver is down."""
        if not self.dra_devices or self.health.plugin_is_down:
            return []
        return resource_slices(self.devices, self.health.unhealthy, self.uid)

    def view(self) -> NodeView:
        """What its fakedev-node offers to the kubelet."""
        resources: dict[str, list[ViewedSlot]] = {}
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            why = self.health.unhealthy.get(slot.device_id, "")
            resources.setdefault(slot.resource, []).append(ViewedSlot(slot.id, slot.numa_node, why))
        driver = DRIVER if self.dra_devices else ""
        # A kubelet that starts again forgets its plugins. This one goes on, so that they go and come back.
        is_down = self.health.plugin_is_down or self.health.kubelet_is_down
        return NodeView(self.name, resources, is_down, driver)


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
