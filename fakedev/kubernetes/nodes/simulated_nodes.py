"""The simulated nodes of a cluster: API objects, devices, wanted state; and why other nodes are not simulated.

Nodes with the label of fakedev may be refused; the reason is here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

from fakedev.base.errors import Refused, did_you_mean
from fakedev.fleet.events import Where, with_layout
from fakedev.fleet.parts.mig import mig_of
from fakedev.fleet.spec.fleet_spec import FleetSpec, Layout, PoolSpec, node_of_cluster, place_by_name
from fakedev.fleet.spec.offers import KubernetesSettings, Resources
from fakedev.kubernetes.devices.dra import CHANNEL_DRIVER, DRIVER, dra_devices
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
    applied_to,
    layout_now,
    layout_of,
    layout_text,
    shape,
)
from fakedev.kubernetes.devices.node_ledger import ContainerIds, Grant, Mechanism, NodeLedger
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
    clean_patches,
    is_rebooted,
    node_patches,
    pool_label,
    seconds_of,
    shared_texts,
)
from fakedev.kubernetes.nodes.node_view import NodeView, ViewedSlot
from fakedev.kubernetes.runai.operator import operator_annotations, operator_labels

#: A node with many instances takes some milliseconds to make: as many more steps of a list.
_HEAVY: Final = 5


class ClusterNode:
    """A node with the label.

    :param item: as the API has it.
    :param seed: of the fleet.
    :param others: further resources of the node, besides its devices; they may be set anew.
    :param base: its pool as the configuration has it, where boards are divided otherwise; None: the same.
    :ivar base, pool: its pool as the configuration has it, and with the boards divided as they are.
    :ivar asked: the value of its label ``nvidia.com/mig.config`` that was seen last.
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
        self.base, self.pool, self.asked, self.mig_state = base or pool, pool, "", ""
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
        # The time of the discovery is that of the node: so it stays when fakedev starts again.
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
        """Follow the label ``nvidia.com/mig.config`` as it is now; why the new state is ``failed``, else empty."""
        name = (self.item["metadata"].get("labels") or {}).get(MIG_CONFIG, "")
        if name in ("", self.asked) or mig_of(self.base.device_type) is None:
            return ""
        self.asked = name
        if self.is_partitionable:
            self.mig_state = FAILED
            return f"label {MIG_CONFIG}={name}: claims divide its boards (dynamic-mig)"
        try:
            self.layout = layout_of(self.devices, name, self._settings.mig_configs)
        except ValueError as problem:
            self.mig_state = FAILED
            return str(problem)
        self.mig_state = PENDING if self._to_divide else SUCCESS
        return ""

    def begin_division(self) -> str:
        """Divide the boards, unless they are in use, once the API has the state ``pending``; as above."""
        if (self.item["metadata"].get("labels") or {}).get(MIG_STATE) != PENDING:
            return ""
        used = sorted({grant.slot.index for grant in self.ledger} & {*self._to_divide})
        self.mig_state = FAILED if used else DIVIDING
        return f"label {MIG_CONFIG}={self.asked}: pods have boards that it divides: {used}" if used else ""

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
        resources: dict[str, list[ViewedSlot]] = {}
        for slot in self._slots if self._settings.resources is not Resources.DRA else ():
            resources.setdefault(slot.resource, []).append(ViewedSlot(slot.id, slot.numa_node, self._why_not(slot)))
        unhealthy = self.health.unhealthy
        claimable = tuple(
            ViewedSlot(each.name, each.slot.numa_node, unhealthy.get(each.slot.id) or unhealthy.get(each.board_id, ""))
            for each in self.dra_devices
        )
        # A kubelet that starts again forgets its plugins. This one goes on, so that they go and come back.
        is_down = self.health.plugin_is_down or self.health.kubelet_is_down or self.is_paused
        channels = tuple(map(ViewedSlot, CHANNEL_DEVICES)) if self.has_channels else ()
        return NodeView(self.name, resources, is_down, DRIVER if self.dra_devices else "", claimable, channels)


class NodeTable:
    """The simulated nodes, by name.

    :param spec: of the fleet, whose pools with ``nodes: cluster`` the label's values name.
    :param has: whether a node is simulated by this process: others are those of other shards.
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
