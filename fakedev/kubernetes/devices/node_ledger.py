"""The ledger of a node: who holds which device or part, by which mechanism, since when. Each is held once.

Device plugin, DRA, placement on nodes without a kubelet, the node's status and the labels of pages all read it.

A board that a claim holds is not given to pods by the device plugin, and the reverse; who came first keeps it. Units
of a device plugin exclude each other by their ids, so that replicas of a shared device go to several pods; a claim
excludes all others from its device, from the parts of a board, and from the board of a part.

Where no kubelet allocates, pods get devices by the rules of the kubelet's device manager (kubernetes/kubernetes,
pkg/kubelet/cm/devicemanager/manager.go): containers in order, init containers first; what an init container had is
used again by later init containers and by the main ones; a sidecar keeps its devices, and nobody else of its pod has
them. What a pod was given is recorded in an annotation (:data:`~fakedev.kubernetes.pods.DEVICES`), from which the
next fakedev restores it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from fakedev.kubernetes.devices.allocation import preferred
from fakedev.kubernetes.devices.offered_devices import NodeDevices, Slot, is_nvidia_resource
from fakedev.kubernetes.pods import Container, ContainerKind, Pod

#: Container to its slots.
PodSlots = Mapping[str, tuple[Slot, ...]]
#: Container to the ids of its slots.
ContainerIds = Mapping[str, Sequence[str]]
_NOTHING: Final[PodSlots] = {}
#: The holder of devices that a kubelet is giving to containers, until its report names their pods.
STARTING: Final = "a pod that is starting"


class Mechanism(Enum):
    """How a device came to its holder."""

    DEVICE_PLUGIN = "device-plugin"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Grant:
    """A line of the ledger.

    :param holder: the UID of a pod, ``claim NAMESPACE/NAME``, or :data:`STARTING`.
    :param container: of the pod; empty for a claim.
    :param is_shared: a claim that has a share of it; other claims may have others.
    :param since: when its pod started, or its claim was allocated, as the API writes times; empty: unknown.
    """

    slot: Slot
    holder: str
    container: str
    by: Mechanism
    since: str = ""
    is_shared: bool = False

    def excludes(self, slot: Slot, by: Mechanism, *, is_share: bool = False) -> bool:
        """Whether nobody else may be granted a slot, or a share of it, by a mechanism."""
        if slot.index != self.slot.index:
            return False
        if by is self.by is Mechanism.DEVICE_PLUGIN:
            return slot.id == self.slot.id
        if is_share and self.is_shared and slot.part == self.slot.part:
            return False
        return slot.part == self.slot.part or None in (slot.part, self.slot.part)


class NotEnough(Exception):
    """A node has not as many devices as a container wants.

    :ivar free: of the resource: healthy, and of nobody else.
    :param has_plugin: whether a device plugin gives them at all.
    """

    def __init__(
        self, node: str, container: str, resource: str, wanted: int, free: int, *, has_plugin: bool = True
    ) -> None:
        of_container = f"container {container} wants {wanted} of {resource}"
        of_node = f"{free} free and healthy" if has_plugin else "no device plugin: with resources: dra give it a claim"
        super().__init__(f"{of_container}, and node {node} has {of_node}")
        self.container, self.resource, self.wanted, self.free = container, resource, wanted, free


class NodeLedger:
    """The grants of one node.

    :param has_plugin: whether a device plugin gives devices to pods; else they have what one gave them before.
    :ivar devices: of the node.
    :ivar version: changes with each grant, and with each that ends.
    """

    def __init__(self, devices: NodeDevices, *, has_plugin: bool = True) -> None:
        self.devices, self._has_plugin = devices, has_plugin
        self.version = 0
        self._by_id = {slot.id: slot for slot in devices.slots}
        self._by_resource: dict[str, list[Slot]] = {}
        self._by_device: dict[str, list[Slot]] = {}
        for slot in devices.slots:
            self._by_resource.setdefault(slot.resource, []).append(slot)
            self._by_device.setdefault(slot.device_id, []).append(slot)
        self._places = {slot.id: place for place, slot in enumerate(devices.slots)}
        self._pods: dict[str, PodSlots] = {}
        self._grants: dict[str, tuple[Grant, ...]] = {}
        self._of_boards: dict[int, list[Grant]] = {}

    def __iter__(self) -> Iterator[Grant]:
        """All grants; a slot that several containers of a pod use one after the other has one for each."""
        return (grant for grants in self._grants.values() for grant in grants)

    def holder_of(self, slot: Slot, by: Mechanism, but: str = "", *, is_share: bool = False) -> Grant | None:
        """The grant that keeps a slot from being given by a mechanism; None: it is free.

        :param but: a holder that does not count.
        :param is_share: only a share is wanted.
        """
        grants = (grant for grant in self._of_boards.get(slot.index, ()) if grant.holder != but)
        return next((grant for grant in grants if grant.excludes(slot, by, is_share=is_share)), None)

    def claim_of(self, slot: Slot) -> Grant | None:
        """The claim that keeps a device plugin from giving a slot; None: there is none."""
        by = Mechanism.DEVICE_PLUGIN
        grants = (grant for grant in self._of_boards.get(slot.index, ()) if grant.by is Mechanism.CLAIM)
        return next((grant for grant in grants if grant.excludes(slot, by)), None)

    # -- pods --------------------------------------------------------------------------------------

    def admit(self, pod: Pod, unhealthy: Collection[str]) -> PodSlots:
        """Give a pod its devices; those that it has if it has any already.

        Resources that are not GPUs, like ``nvidia.com/hostdev``, belong to other device plugins and are ignored.

        :param unhealthy: the device ids that are not to be given.
        :raises NotEnough: if there are too few; then the pod has none.
        """
        if pod.uid in self._pods:
            return self._pods[pod.uid]
        given: dict[str, tuple[Slot, ...]] = {}
        own: set[str] = set()
        reusable: set[str] = set()
        for container in pod.containers:
            slots = self._slots_for(container, own, reusable, unhealthy)
            if not slots:
                continue
            given[container.name] = slots
            ids = {slot.id for slot in slots}
            own |= ids
            if container.kind is ContainerKind.INIT:
                reusable |= ids
            else:
                reusable -= ids
        self._keep(pod.uid, given, pod.started)
        return given

    def _slots_for(
        self, container: Container, own: Collection[str], reusable: Collection[str], unhealthy: Collection[str]
    ) -> tuple[Slot, ...]:
        """The slots of one container.

        :param own: ids of slots that the pod has.
        :param reusable: those among them that this container may use.
        """
        found: list[Slot] = []
        for resource, wanted in container.wants.items():
            slots = self._by_resource.get(resource, [])
            if not slots and not is_nvidia_resource(resource):
                continue
            again = [slot for slot in slots if slot.id in reusable]
            must = preferred(self.devices, again, (), wanted)
            free = [
                slot
                for slot in slots
                if self._has_plugin
                and slot.id not in own
                and slot.device_id not in unhealthy
                and self.holder_of(slot, Mechanism.DEVICE_PLUGIN) is None
            ]
            if len(must) + len(free) < wanted:
                number = len(again) + len(free)
                node, has_plugin = self.devices.name, self._has_plugin
                raise NotEnough(node, container.name, resource, wanted, number, has_plugin=has_plugin)
            found += preferred(self.devices, free, must, wanted)
        return tuple(found)

    def restore(self, pod: Pod, containers: ContainerIds) -> bool:
        """Give a pod exactly the devices that were recorded of it; whether that is possible.

        It is not when the node has other devices, somebody else holds one, or the pod wants another number.
        """
        if pod.uid in self._pods:
            return True
        given: dict[str, tuple[Slot, ...]] = {}
        for container in pod.containers:
            slots = [self._by_id.get(device_id) for device_id in containers.get(container.name, ())]
            found = tuple(slot for slot in slots if slot is not None)
            counts = {resource: wanted for resource, wanted in container.wants.items() if resource in self._by_resource}
            for slot in found:
                counts[slot.resource] = counts.get(slot.resource, 0) - 1
            taken = any(self.holder_of(slot, Mechanism.DEVICE_PLUGIN) is not None for slot in found)
            if len(found) < len(slots) or len({*found}) < len(found) or any(counts.values()) or taken:
                return False
            if found:
                given[container.name] = found
        if given:
            self._keep(pod.uid, given, pod.started)
        return bool(given)

    def adopt(self, pod: Pod, containers: ContainerIds) -> tuple[tuple[str, ...], tuple[Grant, ...]]:
        """Take over what a kubelet says of a pod, in place of what was known.

        A kubelet lists the devices of a container in any order, which changes between two answers, and some of them
        twice; here each slot is once, in the order of boards.

        :param containers: container to ids of slots; the id of a device stands for all its replicas.
        :returns: the ids that are none of this node; the grants of others that keep the pod from some of its devices.
        """
        self.release(pod.uid)
        unknown: list[str] = []
        taken: list[Grant] = []
        given: dict[str, tuple[Slot, ...]] = {}
        for container, ids in containers.items():
            slots: dict[str, Slot] = {}
            for device_id in ids:
                of_id = [self._by_id[device_id]] if device_id in self._by_id else self._by_device.get(device_id, [])
                holders = [self.holder_of(slot, Mechanism.DEVICE_PLUGIN, STARTING) for slot in of_id]
                slots |= {slot.id: slot for slot, holder in zip(of_id, holders, strict=True) if holder is None}
                taken += filter(None, holders)
                if not of_id:
                    unknown.append(device_id)
            if slots:
                given[container] = tuple(sorted(slots.values(), key=lambda slot: self._places[slot.id]))
        if given:
            self._keep(pod.uid, given, pod.started)
        return tuple(unknown), tuple(taken)

    def reserve(self, slots: Iterable[Slot]) -> Grant | None:
        """Keep claims from devices that a kubelet is giving to containers, in place of those reserved before.

        Pods do not matter: which of them has a device the kubelet decides.

        :returns: the grant of a claim that has one of them; then nothing changes. None: they are reserved.
        """
        wanted = tuple(dict.fromkeys(slots))
        claimed = next(filter(None, map(self.claim_of, wanted)), None)
        if claimed is None:
            self._end(STARTING)
            self._grant(STARTING, [Grant(slot, STARTING, "", Mechanism.DEVICE_PLUGIN) for slot in wanted])
        return claimed

    def slots_named(self, ids: Iterable[str]) -> list[Slot]:
        """The slots with these ids; ids that the node does not have are left out."""
        return [self._by_id[each_id] for each_id in ids if each_id in self._by_id]

    @property
    def reserved(self) -> Sequence[Slot]:
        """What :meth:`reserve` keeps."""
        return [grant.slot for grant in self._grants.get(STARTING, ())]

    def _keep(self, uid: str, given: PodSlots, since: str) -> None:
        self._pods[uid] = given
        by = Mechanism.DEVICE_PLUGIN
        self._grant(uid, [Grant(slot, uid, name, by, since) for name, slots in given.items() for slot in slots])

    def release(self, uid: str) -> bool:
        """A pod has no devices any more; whether it had any."""
        self._pods.pop(uid, None)
        return self._end(uid)

    def slots_of(self, uid: str) -> PodSlots:
        """The slots of each container of a pod that a device plugin gave it; empty if it has none."""
        return self._pods.get(uid, _NOTHING)

    def ids_of(self, uid: str) -> dict[str, list[str]]:
        """The ids of these slots."""
        return {container: [slot.id for slot in slots] for container, slots in self.slots_of(uid).items()}

    def take_all(self) -> dict[str, dict[str, list[str]]]:
        """End all grants; what pods had, by UID."""
        before = {uid: self.ids_of(uid) for uid, slots in self._pods.items() if slots}
        self._pods.clear()
        for holder in [*self._grants]:
            self._end(holder)
        return before

    # -- claims ------------------------------------------------------------------------------------

    def claim(self, claim: str, slots: Iterable[Slot], since: str = "", *, is_shared: bool = False) -> Grant | None:
        """Grant a claim all its devices of this node, in place of what it has.

        :param is_shared: it has shares of them.
        :returns: the grant of another holder that keeps it from one; then the claim has none. None: it has all.
        """
        wanted = tuple(dict.fromkeys(slots))
        if wanted == tuple(grant.slot for grant in self._grants.get(claim, ())):
            return None
        self._end(claim)
        for slot in wanted:
            holder = self.holder_of(slot, Mechanism.CLAIM, is_share=is_shared)
            if holder is not None:
                return holder
        self._grant(claim, [Grant(slot, claim, "", Mechanism.CLAIM, since, is_shared) for slot in wanted])
        return None

    def unclaim(self, claim: str) -> bool:
        """A claim has no devices of this node any more; whether it had any."""
        return self._end(claim)

    # -- both --------------------------------------------------------------------------------------

    def _grant(self, holder: str, grants: Sequence[Grant]) -> None:
        if grants:
            self._grants[holder] = tuple(grants)
            self.version += 1
        for grant in grants:
            self._of_boards.setdefault(grant.slot.index, []).append(grant)

    def _end(self, holder: str) -> bool:
        grants = self._grants.pop(holder, ())
        for grant in grants:
            self._of_boards[grant.slot.index].remove(grant)
        self.version += bool(grants)
        return bool(grants)


def recorded_text(containers: ContainerIds) -> str:
    """The text of the annotation of a pod with these devices."""
    return json.dumps(containers, separators=(",", ":"), sort_keys=True)


def recorded_ids(text: str) -> ContainerIds:
    """What such a text says; nothing if it is no such text, as everybody may write an annotation."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: ids for name, ids in found.items()
        if isinstance(ids, list) and all(isinstance(device_id, str) for device_id in ids)
    }  # fmt: skip
