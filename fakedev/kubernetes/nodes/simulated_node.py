"""A simulated node of a cluster: its object of the API, its devices, what is wanted of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from fakedev.base.groups import grouped
from fakedev.fleet.events import Where
from fakedev.fleet.parts.mig import mig_of
from fakedev.fleet.spec.fleet_spec import Layout, PoolSpec, node_of_cluster
from fakedev.fleet.spec.offers import KubernetesSettings, Resources
from fakedev.kubernetes.devices.dra import DRIVER, dra_devices
from fakedev.kubernetes.devices.health import NodeHealth
from fakedev.kubernetes.devices.mig_config import (
    APPLIED,
    CLIENTS,
    DIVIDING,
    FAILED,
    MIG_CONFIG,
    MIG_STATE,
    PAUSED,
    PENDING,
    SUCCESS,
    layout_now,
    layout_of,
    layout_text,
    shape,
)
from fakedev.kubernetes.devices.node_ledger import Grant, Mechanism, NodeLedger
from fakedev.kubernetes.devices.offered_devices import NodeDevices, Slot
from fakedev.kubernetes.devices.partitionable import layout_of_claims, partitionable_devices, partitionable_slices
from fakedev.kubernetes.devices.resource_slices import (
    CHANNEL_DEVICES,
    HAS_SLICES,
    HELD,
    channel_slices,
    resource_slices,
)
from fakedev.kubernetes.nodes.node_labels import CLIQUE, DOMAIN, node_labels
from fakedev.kubernetes.nodes.node_status import (
    DOWN,
    DOWN_TAINT,
    KWOK_NODE,
    NOT_READY,
    READY,
    WROTE,
    NodePatches,
    NodeWanted,
    ReportedMessages,
    node_patches,
    seconds_of,
    shared_texts,
)
from fakedev.kubernetes.nodes.node_view import NodeView, ViewedSlot
from fakedev.kubernetes.runai.mig_annotation import MIG_ANNOTATION, annotated_layout
from fakedev.kubernetes.runai.operator import operator_annotations, operator_labels


class ClusterNode:
    """A node with the label.

    :param item: as the API has it.
    :param seed: of the fleet.
    :param others: further resources of the node, besides its devices; they may be set anew.
    :param base: its pool as the configuration has it, where boards are divided otherwise; None: the same.
    :ivar base, pool: its pool as the configuration has it, and with the boards divided as they are.
    :ivar asked: what asked for instances last, a label with its value or an annotation, and the annotation's text.
    :ivar mig_state: the value of ``mig.config.state``, or :data:`DIVIDING`; empty: nothing was asked.
    :ivar layout: what was asked for, by this label or by claims.
    :ivar is_partitionable: whether claims divide its boards.
    :ivar health: of its devices, as the cluster sees it.
    :ivar has_kubelet: whether a kubelet gives its devices to pods; else fakedev does.
    :ivar reported: the messages about it that were reported.
    :ivar lacking: namespace and name of the pods that it has not enough devices for, in order of arrival.
    :ivar denied: namespace and name of the claims whose devices others hold, each with the grant that is in the way.
    :ivar offered_version: of the ledger, when its devices were offered last.
    :ivar domain: the UID of the ComputeDomain that it is in; empty: none.
    :ivar is_imex_ready: whether its IMEX daemon is ready for this domain.
    :ivar is_registered, has_channel_plugin: whether its kubelet has taken the DRA plugins, of boards and of channels.
    :ivar dra_devices: its devices as a driver of DRA names them; empty when that is not used.
    """

    def __init__(
        self,
        item: Mapping[str, Any],
        pool: PoolSpec,
        seed: int,
        settings: KubernetesSettings,
        others: Mapping[str, int],
        base: PoolSpec | None = None,
    ) -> None:
        metadata = item["metadata"]
        self.item = item
        self.base, self.pool, self.asked, self.mig_state = base or pool, pool, ("", ""), ""
        self.layout: Layout = pool.layout
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.health = NodeHealth()
        self.reported = ReportedMessages()
        self.lacking: dict[tuple[str, str], None] = {}
        self.denied: dict[tuple[str, str], Grant] = {}
        self.is_registered = self.has_channel_plugin = self.is_imex_ready = False
        self.offered_version = 0
        self._settings = settings
        self.devices = NodeDevices(seed, pool, node_of_cluster(self.name, pool.racks))
        self.ledger = NodeLedger(self.devices, has_plugin=settings.resources is not Resources.DRA)
        self._slots = self.devices.slots
        #: The boards that a device plugin offers as a whole; claims may have parts of them.
        self._board_ids = {slot.index: slot.device_id for slot in self._slots if slot.part is None}
        uses_dra = settings.resources is not Resources.DEVICE_PLUGIN
        self.is_partitionable = settings.dynamic_mig and mig_of(pool.device_type) is not None
        found = partitionable_devices if self.is_partitionable else dra_devices
        self.dra_devices = tuple(each.without_values for each in found(self.devices)) if uses_dra else ()
        self.dra_slots = {device.name: device.slot for device in self.dra_devices if device.is_made}
        # The time of the discovery is when the node was made: a restart of fakedev must not change it.
        self._labels = shared_texts(node_labels(self.devices, seconds_of(metadata.get("creationTimestamp", ""))))
        self._annotations: Mapping[str, str] = {HAS_SLICES: DRIVER} if self.dra_devices else {}
        self.domain: str = (metadata.get("labels") or {}).get(DOMAIN, "") if settings.compute_domains else ""
        self.others = others
        if settings.is_compatible:
            self._labels |= operator_labels(self.devices)
            self._annotations = {**self._annotations, **operator_annotations(self.devices)}
        if pool.layout:
            self._annotations = {**self._annotations, APPLIED: layout_text(pool.layout)}
        self.devices.drop_facts()

    @property
    def has_kubelet(self) -> bool:
        """Whether the node has a kubelet: nodes of KWOK have none."""
        return KWOK_NODE not in (self.item["metadata"].get("annotations") or {})

    @property
    def clique(self) -> str:
        """Its clique of a rack's fabric; empty: none."""
        return self._labels.get(CLIQUE, "")

    @property
    def has_channels(self) -> bool:
        """Whether it offers a channel and an IMEX daemon."""
        return bool(self._settings.compute_domains and self.dra_devices and self.clique)

    @property
    def address(self) -> str:
        """Its IP address in the cluster; empty: unknown."""
        addresses = self.item["status"].get("addresses") or ()
        return next((each.get("address", "") for each in addresses if each.get("type") == "InternalIP"), "")

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
        known, other = (node_object["metadata"].get("resourceVersion", "") for node_object in (self.item, item))
        return known.isdecimal() and other.isdecimal() and int(known) > int(other)

    def follow_mig_config(self) -> str:
        """Follow what asks for its instances as it is now; why the new state is ``failed``, else empty.

        The label ``nvidia.com/mig.config`` asks; on a node without it, where fakedev takes the place of
        fake-gpu-operator, the annotation ``run.ai/mig.config`` does.
        """
        metadata, mig = self.item["metadata"], mig_of(self.base.device_type)
        name = (metadata.get("labels") or {}).get(MIG_CONFIG, "")
        text = (metadata.get("annotations") or {}).get(MIG_ANNOTATION, "") if self._settings.is_compatible else ""
        asked = (f"label {MIG_CONFIG}={name}", "") if name else (f"annotation {MIG_ANNOTATION}", text)
        if not (name or text) or asked == self.asked or mig is None:
            return ""
        self.asked = asked
        if self.is_partitionable:
            self.mig_state = FAILED
            return f"{asked[0]}: claims divide its boards (dynamic-mig)"
        try:
            self.layout = (
                layout_of(self.devices, name, self._settings.mig_configs)
                if name
                else annotated_layout(text, layout_now(self.devices), mig)
            )
        except ValueError as problem:
            self.mig_state = FAILED
            return f"{asked[0]}: {problem}"
        self.mig_state = PENDING if self._to_divide else SUCCESS
        return ""

    def begin_division(self) -> str:
        """Divide the boards, unless they are in use, once the API has the state ``pending``; as above."""
        if (self.item["metadata"].get("labels") or {}).get(MIG_STATE) != PENDING:
            return ""
        used = sorted({grant.slot.index for grant in self.ledger} & {*self._to_divide})
        self.mig_state = FAILED if used else DIVIDING
        return f"{self.asked[0]}: pods have boards that it divides: {used}" if used else ""

    def divide_for(self, claimed: Collection[str]) -> None:
        """Ask for the instances that claims have, by the names of their devices."""
        found = [device for device in self.dra_devices if device.name in claimed]
        self.layout = layout_of_claims(NodeDevices(self.devices.seed, self.base, self.devices.node), found)

    @property
    def where(self) -> Where:
        """Where the fleet should have it: its pool, and how its boards should be divided."""
        is_asked = self.mig_state == DIVIDING or self.is_partitionable
        return self.pool.name, self.layout if is_asked else self.pool.layout

    @property
    def _to_divide(self) -> list[int]:
        """The boards that the asked layout changes."""
        shapes = zip(shape(layout_now(self.devices)), shape(self.layout), strict=True)
        self.devices.drop_facts()
        return [index for index, (now, asked) in enumerate(shapes) if now != asked]

    @property
    def is_paused(self) -> bool:
        """Whether its plugins are stopped, as its boards are being divided."""
        return self.mig_state in (PENDING, DIVIDING)

    def take_over(self, before: ClusterNode) -> None:
        """Go on from the same node with other devices: what was said of it, and what is known of its health."""
        self.reported, self.is_registered = before.reported, before.is_registered
        self.has_channel_plugin, self.is_imex_ready = before.has_channel_plugin, before.is_imex_ready
        if before.mig_state == SUCCESS:  # else what was asked is seen anew, with these devices
            self.asked, self.mig_state = before.asked, before.mig_state
        ids = {slot.device_id for slot in self._slots}
        unhealthy = {device: why for device, why in before.health.unhealthy.items() if device in ids}
        self.health = replace(before.health, unhealthy=unhealthy)

    def patches(self) -> NodePatches:
        """What must be changed at the API; false: nothing. A kubelet counts the devices of its node itself."""
        return node_patches(self.item, self.wanted())

    def wanted(self) -> NodeWanted:
        """What the node should have of ours."""
        labels = self._labels
        if self.mig_state:
            labels = {**labels, MIG_STATE: PENDING if self.is_paused else self.mig_state}
        if self.domain:
            labels = {**labels, DOMAIN: self.domain}
        if self.is_paused:
            labels |= {name: PAUSED for name in CLIENTS if name in labels}
        if self.has_kubelet:
            return NodeWanted(labels, annotations=self._annotations)
        capacity, allocatable = Counter(self.others), Counter(self.others)
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            capacity[slot.resource] += 1
            allocatable[slot.resource] += self.is_well(slot)
        taints = (DOWN_TAINT,) if self.health.is_down else ()
        ready = DOWN if self.health.is_down else NOT_READY if self.health.kubelet_is_down else READY
        return NodeWanted(labels, capacity, allocatable, taints, ready, self._annotations)

    @property
    def problem(self) -> str:
        """Why it offers no devices; empty: it does."""
        return self.devices.problem

    @property
    def unhealthy_words(self) -> frozenset[str]:
        slots = (*self._slots, *self.dra_slots.values())
        return frozenset(slot.word(self.name) for slot in slots if self.concerns(slot, self.health.unhealthy))

    def concerns(self, slot: Slot, device_ids: Collection[str]) -> bool:
        """Whether a slot, or the board that it is a part of, is one of some devices."""
        return slot.device_id in device_ids or self._board_ids.get(slot.index) in device_ids

    def _why_not(self, slot: Slot) -> str:
        """Why the device plugin does not give a slot to a pod; empty: it does, unless a pod has it already."""
        claim = self.ledger.claim_of(slot)
        return self.health.unhealthy.get(slot.device_id, "") or (f"held by {claim.holder}" if claim else "")

    def is_well(self, slot: Slot) -> bool:
        """Whether its device plugin counts a slot as one that pods may have."""
        return not (self._why_not(slot) or self.health.plugin_is_down or self.is_paused)

    def slices(self) -> list[dict[str, Any]] | None:
        """The ResourceSlices that are wanted: none while the driver is down. None: those that are there stay.

        A kubelet deletes the slices of a driver that has been away for a while; nobody makes them again before the
        driver is there, as pods that are bound to the node could not start.
        """
        if not self.dra_devices or self.health.plugin_is_down or self.is_paused:
            return []
        if self.has_kubelet and not self.is_registered:
            return None
        held = {grant.slot.device_id: HELD for grant in self.ledger if grant.by is Mechanism.DEVICE_PLUGIN}
        unhealthy = {**held, **self.health.unhealthy}
        is_offered = self.has_channels and (self.has_channel_plugin or not self.has_kubelet)
        channels = channel_slices(self.name, self.uid) if is_offered else []
        slices = (partitionable_slices if self.is_partitionable else resource_slices)(self.devices, unhealthy, self.uid)
        self.devices.drop_facts()
        return slices + channels

    def view(self) -> NodeView:
        slots = self._slots if self._settings.resources is not Resources.DRA else ()
        resources = grouped(
            (slot.resource, ViewedSlot(slot.id, slot.numa_node, self._why_not(slot))) for slot in slots
        )
        unhealthy = self.health.unhealthy
        claimable = tuple(
            ViewedSlot(each.name, each.slot.numa_node, unhealthy.get(each.slot.id) or unhealthy.get(each.board_id, ""))
            for each in self.dra_devices
        )
        # A kubelet that starts again forgets its plugins. This one goes on, so that they go and come back.
        is_down = self.health.plugin_is_down or self.health.kubelet_is_down or self.is_paused
        channels = tuple(map(ViewedSlot, CHANNEL_DEVICES)) if self.has_channels else ()
        return NodeView(self.name, resources, is_down, DRIVER if self.dra_devices else "", claimable, channels)
