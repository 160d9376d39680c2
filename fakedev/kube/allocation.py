"""Which container has which device on a node, where no kubelet says it.

The rules are those of the kubelet's device manager (kubernetes/kubernetes, pkg/kubelet/cm/devicemanager/manager.go):
containers get their devices in order, init containers first; what an init container had is used again by later init
containers and by the main ones; a sidecar keeps its devices, and nobody else of its pod has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fakedev.kube.devices import NodeDevices, Slot
from fakedev.kube.placement import preferred
from fakedev.kube.pods import Container, ContainerKind, Pod

#: Container to its slots.
PodSlots = Mapping[str, tuple[Slot, ...]]
_NOTHING: Final[PodSlots] = {}


class NotEnough(Exception):
    """A node has not as many devices as a container wants.

    :ivar free: of the resource: healthy, and of nobody else.
    """

    def __init__(self, node: str, container: str, resource: str, wanted: int, free: int) -> None:
        of_container = f"container {container} wants {wanted} of {resource}"
        super().__init__(f"{of_container}, and node {node} has {free} free and healthy")
        self.container, self.resource, self.wanted, self.free = container, resource, wanted, free


class NodeAllocation:
    """The devices of the pods of one node.

    :ivar devices: of the node.
    """

    def __init__(self, devices: NodeDevices) -> None:
        self.devices = devices
        self._by_id = {slot.id: slot for slot in devices.slots}
        self._by_resource: dict[str, list[Slot]] = {}
        self._by_device: dict[str, list[Slot]] = {}
        for slot in devices.slots:
            self._by_resource.setdefault(slot.resource, []).append(slot)
            self._by_device.setdefault(slot.device_id, []).append(slot)
        self._domains = {name.partition("/")[0] for name in self._by_resource} | {"nvidia.com"}
        self._pods: dict[str, PodSlots] = {}
        # Slot to the pods that have it: a claim may be shared by several pods.
        self._holders: dict[str, set[str]] = {}

    def admit(self, pod: Pod, unhealthy: Collection[str]) -> PodSlots:
        """Give a pod its devices; those that it has if it has any already.

        Resources of other domains, as network cards, are left to others.

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
        self._keep(pod.uid, given)
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
            if resource.partition("/")[0] not in self._domains:
                continue
            slots = self._by_resource.get(resource, [])
            again = [slot for slot in slots if slot.id in reusable]
            must = preferred(self.devices, again, (), wanted)
            free = [
                slot
                for slot in slots
                if slot.id not in own and slot.id not in self._holders and slot.device_id not in unhealthy
            ]
            if len(must) + len(free) < wanted:
                name = self.devices.name
                raise NotEnough(name, container.name, resource, wanted, len(again) + len(free))
            found += preferred(self.devices, free, must, wanted)
        return tuple(found)

    def adopt(self, uid: str, containers: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Take over what a kubelet or a claim says of a pod, in place of what was known.

        :param containers: container to ids of slots; the id of a device stands for all its replicas.
        :returns: the ids that are none of this node.
        """
        self.release(uid)
        unknown: list[str] = []
        taken: dict[str, tuple[Slot, ...]] = {}
        for container, ids in containers.items():
            slots: dict[str, Slot] = {}
            for each in ids:
                of_id = [self._by_id[each]] if each in self._by_id else self._by_device.get(each, [])
                slots |= {slot.id: slot for slot in of_id}
                if not of_id:
                    unknown.append(each)
            if slots:
                taken[container] = tuple(slots.values())
        self._keep(uid, taken)
        return tuple(unknown)

    def _keep(self, uid: str, given: PodSlots) -> None:
        self._pods[uid] = given
        for slots in given.values():
            for slot in slots:
                self._holders.setdefault(slot.id, set()).add(uid)

    def release(self, uid: str) -> None:
        """Take all devices of a pod back, if it has any."""
        for slots in self._pods.pop(uid, _NOTHING).values():
            for slot in slots:
                holders = self._holders.get(slot.id, set())
                holders.discard(uid)
                if not holders:
                    self._holders.pop(slot.id, None)

    def slots_of(self, uid: str) -> PodSlots:
        """The slots of each container of a pod; empty if it has none."""
        return self._pods.get(uid, _NOTHING)

    @property
    def uids(self) -> Collection[str]:
        """The pods that were admitted or adopted, also those without devices."""
        return self._pods.keys()

    def pods_on(self, device_ids: Collection[str]) -> list[str]:
        """The pods that have any of some devices, in the order in which they came."""
        found = {
            uid
            for device in device_ids
            for slot in self._by_device.get(device, ())
            for uid in self._holders.get(slot.id, ())
        }
        return [uid for uid in self._pods if uid in found]

    def free_count(self, resource: str, unhealthy: Collection[str] = ()) -> int:
        """How many slots of a resource nobody has, without the unhealthy ones."""
        slots = self._by_resource.get(resource, ())
        return sum(slot.id not in self._holders and slot.device_id not in unhealthy for slot in slots)
