"""The answers of a device plugin, without sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest

from fakedev.kubernetes.nodes.node_view import ViewedSlot
from fakedev.node.device_plugin import DevicePlugin, socket_name
from fakedev.node.kubelet import DEVICE_PLUGIN
from fakedev.node.nvml import Mount, Provision
from fakedev.node.service_link import Unanswered
from tests.support.kube.node_service import GPU, SLOTS

#: What each container gets.
PROVISION = Provision({"FAKEDEV_NODE": "a", "NODE_NAME": "a"}, (Mount("/bin/x", "/host/x"),))


class Aborted(Exception):
    """What gRPC raises in a call that is refused."""


class Context:
    """The context of a call."""

    def __init__(self) -> None:
        self.is_open = True
        self.called: list[Callable[[], None]] = []

    def add_callback(self, call: Callable[[], None]) -> bool:
        """See grpc.ServicerContext."""
        self.called.append(call)
        return self.is_open

    def is_active(self) -> bool:
        """See grpc.ServicerContext."""
        return self.is_open

    def abort(self, code: grpc.StatusCode, text: str) -> None:
        """See grpc.ServicerContext."""
        raise Aborted(f"{code.name} {text}")


class Recorded:
    """A plugin, and what it asks and tells."""

    def __init__(
        self, resource: str = GPU, choice: Sequence[str] | None = None, provision: Provision = PROVISION
    ) -> None:
        self.reserved: list[Sequence[str]] = []
        self.claimed: set[str] = set()
        self.asked: list[tuple[str, list[str], list[str], int]] = []
        self._choice = choice
        self.plugin = DevicePlugin(resource, "a", self._prefer, self._reserve, provision)
        self.plugin.change(SLOTS)

    def _prefer(self, resource: str, available: Sequence[str], must: Sequence[str], count: int) -> Sequence[str]:
        self.asked.append((resource, list(available), list(must), count))
        if self._choice is None:
            raise LookupError
        return self._choice

    def _reserve(self, ids: Sequence[str]) -> None:
        if self.claimed & {*ids}:
            raise Unanswered("a claim has it")
        self.reserved.append(ids)

    def answer(self, *containers: list[str]) -> Any:
        """The answer to Allocate."""
        request = DEVICE_PLUGIN.messages["AllocateRequest"]()
        for ids in containers:
            request.containers.add(ids=ids)
        return self.plugin.allocate(request, Context())

    def allocate(self, *containers: list[str]) -> list[dict[str, str]]:
        """The environments."""
        return [dict(container.envs) for container in self.answer(*containers).containers]

    def preferred(self, available: list[str], must: list[str], size: int) -> list[str]:
        """The choice."""
        request = DEVICE_PLUGIN.messages["PreferredAllocationRequest"]()
        request.containers.add(available=available, must_include=must, size=size)
        return list(self.plugin.get_preferred_allocation(request, Context()).containers[0].ids)


def shown(answer: Any) -> list[tuple[str, str, list[int]]]:
    """A list of devices."""
    return [(device.ID, device.health, [node.ID for node in device.topology.nodes]) for device in answer.devices]


def test_the_list_comes_whole_with_each_change() -> None:
    recorded, context = Recorded(), Context()
    lists = recorded.plugin.list_and_watch(None, context)
    assert shown(next(lists)) == [(f"GPU-{n}", "Healthy", [n // 2]) for n in range(4)]
    assert recorded.plugin.is_watched
    recorded.plugin.change((ViewedSlot("GPU-0", None, "XID 79"), ViewedSlot("GPU-1")))
    assert shown(next(lists)) == [("GPU-0", "Unhealthy", []), ("GPU-1", "Healthy", [])]
    recorded.plugin.change([ViewedSlot("GPU-0", None, "XID 79"), ViewedSlot("GPU-1")])  # the same
    context.is_open = False
    assert list(lists) == []
    assert not recorded.plugin.is_watched


def test_a_list_that_waits_ends_with_its_call() -> None:
    recorded, context = Recorded(), Context()
    lists = recorded.plugin.list_and_watch(None, context)
    next(lists)
    waiting = threading.Thread(target=lambda: list(lists), daemon=True)
    waiting.start()
    context.is_open = False
    (ended,) = context.called
    ended()
    waiting.join(10)
    assert not waiting.is_alive()
    assert not recorded.plugin.is_watched


def test_an_allocation() -> None:
    """Each container has its environment; the number of a replica is not part of a device's id.

    The kubelet gives the ids in any order: programs see the boards in theirs.
    """
    recorded = Recorded()
    recorded.plugin.change([ViewedSlot(f"GPU-{n}::{r}") for n in range(2) for r in range(2)])
    first, second = recorded.allocate(["GPU-1::0", "GPU-0::1", "GPU-1::1"], ["GPU-0::0"])
    assert first == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
        "FAKEDEV_DEVICES": "GPU-0,GPU-1",
        "FAKEDEV_NODE": "a",
        "NODE_NAME": "a",
    }
    assert second["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert recorded.reserved == [["GPU-1::0", "GPU-0::1", "GPU-1::1", "GPU-0::0"]]


@pytest.mark.parametrize(
    ("resource", "variables"), [("amd.com/gpu", {"AMD_VISIBLE_DEVICES"}), ("gpu.intel.com/xe", set())]
)
def test_other_vendors(resource: str, variables: set[str]) -> None:
    (environment,) = Recorded(resource).allocate(["GPU-1"])
    assert set(environment) == {"FAKEDEV_DEVICES", "FAKEDEV_NODE", "NODE_NAME", *variables}


@pytest.mark.parametrize(
    ("resource", "command"),
    [("nvidia.com/mig-1g.10gb", ["/bin/nvidia-smi"]), ("amd.com/gpu", ["/bin/amd-smi"]), ("gpu.intel.com/xe", [])],
)
def test_the_command_of_the_maker(resource: str, command: list[str]) -> None:
    """A container gets the command of its boards' maker, and no other one."""
    provision = Provision({}, tuple(Mount(place, place) for place in ("/bin/nvidia-smi", "/bin/amd-smi", "/bin/x")))
    (container,) = Recorded(resource, provision=provision).answer(["GPU-1"]).containers
    assert [mount.container_path for mount in container.mounts] == [*command, "/bin/x"]


def test_unknown_devices_are_refused() -> None:
    """With their names, and nothing is allocated, not even for a container before."""
    recorded = Recorded()
    with pytest.raises(Aborted, match=r"^INVALID_ARGUMENT nvidia.com/gpu on a has no device GPU-9; it has 4 others$"):
        recorded.allocate(["GPU-1"], ["GPU-2", "GPU-9"])
    with pytest.raises(Aborted, match=r"no device x0, x1, x2, x3, x4 and 995 more; it has 4 others$"):
        recorded.allocate([f"x{number}" for number in range(1000)])
    assert recorded.reserved == []


def test_what_a_claim_has_is_refused() -> None:
    """The kubelet fails the pod then; what the service does not decide is refused, too."""
    recorded = Recorded()
    recorded.claimed = {"GPU-2"}
    with pytest.raises(Aborted, match="FAILED_PRECONDITION"):
        recorded.allocate(["GPU-1"], ["GPU-2"])
    assert recorded.allocate(["GPU-1"], ["GPU-3"])


def test_the_service_chooses() -> None:
    recorded = Recorded(choice=["GPU-2", "GPU-0"])
    assert recorded.preferred(["GPU-0", "GPU-1", "GPU-2"], ["GPU-2"], 2) == ["GPU-2", "GPU-0"]
    assert recorded.asked == [(GPU, ["GPU-0", "GPU-1", "GPU-2"], ["GPU-2"], 2)]


def test_a_choice_without_the_service() -> None:
    assert Recorded().preferred(["GPU-3", "GPU-2", "GPU-1", "GPU-0"], ["GPU-2"], 3) == ["GPU-2", "GPU-0", "GPU-1"]


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (GPU, "nvidia-gpu.sock"),
        ("nvidia.com/mig-1g.10gb", "nvidia-mig-1g.10gb.sock"),
        ("nvidia.com/gpu.shared", "nvidia-gpu.shared.sock"),
        ("amd.com/gpu", "amd-gpu.sock"),
        ("gpu.intel.com/xe", "gpu.intel-xe.sock"),
    ],
)
def test_the_names_of_sockets(resource: str, name: str) -> None:
    assert socket_name(resource) == name


def test_mounts() -> None:
    """Each container gets those of the node, for reading alone."""
    for container in Recorded().answer(["GPU-0"], ["GPU-1"]).containers:
        assert [(mount.container_path, mount.host_path, mount.read_only) for mount in container.mounts] == [
            ("/bin/x", "/host/x", True)
        ]
