"""The device plugin of one resource, as the kubelet calls it (v1beta1.DevicePlugin)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NoReturn

import grpc

from fakedev.kube.node_view import ViewedSlot
from fakedev.node.kubelet_apis import DEVICE_PLUGIN
from fakedev.node.nvml_folder import Provision

_MESSAGES: Final = DEVICE_PLUGIN.messages
#: Between the id of a shared device and the number of its replica.
_REPLICA: Final = "::"
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_SHOWN_IDS: Final = 5

#: Chooses of the available ids: (resource, available, must, count); raises LookupError when it cannot.
Prefer = Callable[[str, Sequence[str], Sequence[str], int], Sequence[str]]


def socket_name(resource: str) -> str:
    """The file of a resource's socket: ``nvidia-gpu.sock`` for ``nvidia.com/gpu``."""
    return resource.replace(".com/", "-").replace("/", "-") + ".sock"


class DevicePlugin:
    """Answers the kubelet. Its calls come in threads of gRPC, changes from the program's.

    :param prefer: what chooses devices; when it cannot, they are taken in their order.
    :param allocated: called with the ids that a container gets.
    :param provision: what each container gets besides the names of its devices.
    """

    def __init__(
        self,
        resource: str,
        node: str,
        prefer: Prefer,
        allocated: Callable[[Collection[str]], None],
        provision: Provision,
    ) -> None:
        self.resource = resource
        self._node = node
        self._provision = provision
        self._prefer = prefer
        self._allocated = allocated
        self._condition = threading.Condition()
        self._slots: tuple[ViewedSlot, ...] = ()
        self._places: dict[str, int] = {}
        self._list = _MESSAGES["ListAndWatchResponse"]()
        self._version = 0
        self._watchers = 0

    @property
    def is_watched(self) -> bool:
        """Whether a kubelet watches the list."""
        return self._watchers > 0

    def change(self, slots: Sequence[ViewedSlot]) -> None:
        """These are the devices now; whoever watches gets the whole list, if it is another one."""
        if tuple(slots) == self._slots:
            return
        with self._condition:
            self._slots = tuple(slots)
            self._places = {slot.id: place for place, slot in enumerate(slots)}
            self._list = _MESSAGES["ListAndWatchResponse"](devices=[_device(slot) for slot in slots])
            self._version += 1
            self._condition.notify_all()

    def get_device_plugin_options(self, request: Any, context: grpc.ServicerContext) -> Any:
        """What the kubelet may call."""
        return _MESSAGES["DevicePluginOptions"](get_preferred_allocation_available=True)

    def list_and_watch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """The whole list now, and after each change, until the kubelet or the server ends it."""
        seen = -1
        with self._condition:
            self._watchers += 1
        try:
            if not context.add_callback(self._wake):
                return  # it was cancelled meanwhile
            while True:
                with self._condition:
                    while self._version == seen and context.is_active():
                        self._condition.wait()
                    if not context.is_active():
                        return
                    seen, shown = self._version, self._list
                yield shown
        finally:
            with self._condition:
                self._watchers -= 1

    def get_preferred_allocation(self, request: Any, context: grpc.ServicerContext) -> Any:
        """A hint for the kubelet: which of the available devices a container should get."""
        answer = _MESSAGES["PreferredAllocationResponse"]()
        for wanted in request.containers:
            available, must = list(wanted.available), list(wanted.must_include)
            self._check(available + must, context)
            try:
                ids = self._prefer(self.resource, available, must, wanted.size)
            except LookupError:
                in_order = sorted({*available} - {*must}, key=self._places.__getitem__)
                ids = (must + in_order)[: wanted.size]
            answer.containers.add(ids=ids)
        return answer

    def allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        """What each container with devices gets: environment and mounts. PodResources names the pod, not this."""
        for wanted in request.containers:
            self._check(wanted.ids, context)
        answer = _MESSAGES["AllocateResponse"]()
        for wanted in request.containers:
            devices = ",".join(dict.fromkeys(each.partition(_REPLICA)[0] for each in wanted.ids))
            envs = {**self._provision.envs, "FAKEDEV_DEVICES": devices}
            if self.resource.startswith("nvidia.com/"):
                envs[_VISIBLE] = devices
            mounts = [{**each._asdict(), "read_only": True} for each in self._provision.mounts]
            answer.containers.add(envs=envs, mounts=mounts)
            self._allocated(list(wanted.ids))
        return answer

    def pre_start_container(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Nothing; the kubelet does not call it, because the options do not ask for it."""
        return _MESSAGES["PreStartContainerResponse"]()

    def _check(self, ids: Collection[str], context: grpc.ServicerContext) -> None:
        unknown = [each for each in ids if each not in self._places]
        if unknown:
            more = f" and {len(unknown) - _SHOWN_IDS} more" if len(unknown) > _SHOWN_IDS else ""
            _refuse(
                context,
                f"{self.resource} on {self._node} has no device {', '.join(unknown[:_SHOWN_IDS])}{more}; "
                f"it has {len(self._places)} others",
            )

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()


def _refuse(context: grpc.ServicerContext, text: str) -> NoReturn:
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
    raise AssertionError  # abort() raises


def _device(slot: ViewedSlot) -> Any:
    device = _MESSAGES["Device"](ID=slot.id, health="Unhealthy" if slot.unhealthy else "Healthy")
    if slot.numa_node is not None:
        device.topology.nodes.add(ID=slot.numa_node)
    return device
