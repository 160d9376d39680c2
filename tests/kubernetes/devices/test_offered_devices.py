"""The slots of nodes: ids, resources, replicas, instances by the strategies for MIG."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from fakedev.fleet.spec.fleet_spec import DeviceSpec
from fakedev.fleet.spec.offers import InCluster, MigStrategy
from fakedev.kubernetes.devices.offered_devices import Slot
from tests.kubernetes.objects import node, node_of, typed
from tests.kubernetes.objects import pool as pool_of_boards
from tests.support.fleet.divided_devices import parts_of

SINGLE, MIXED = MigStrategy.SINGLE, MigStrategy.MIXED


def test_boards() -> None:
    """One slot for each board, with its UUID, in order, on its NUMA node."""
    devices = node("h100")
    assert [slot.id for slot in devices.slots] == [f"GPU-{board['uuid']}" for board in devices.boards]
    assert {slot.resource for slot in devices.slots} == {"nvidia.com/gpu"}
    assert [slot.numa_node for slot in devices.slots] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert devices.slots[3].word("dgx-0") == "dgx-0/3"


@pytest.mark.parametrize(
    ("device", "resource"),
    [
        ("amd-mi300x", "amd.com/gpu"), ("intel-flex-170", "gpu.intel.com/i915"),
        ("intel-arc-pro-b60", "gpu.intel.com/xe"), ("gaudi3", "habana.ai/gaudi"),
        ("trainium2", "aws.amazon.com/neuron"), ("tpu-v5e", "google.com/tpu"),
        ("910b", "huawei.com/Ascend910"),
    ],
)  # fmt: skip
def test_other_vendors(device: str, resource: str) -> None:
    devices = node(device, 2)
    assert [(slot.resource, slot.id) for slot in devices.slots] == [(resource, each["uuid"]) for each in devices.boards]


def test_an_unknown_vendor() -> None:
    """It never looks like NVIDIA's: nothing is offered until the pool names the resource, and the node says so."""
    board = typed("h100", vendor="Acme")
    assert node(board).slots == ()
    assert node(board).problem.endswith("give its pool resource: DOMAIN/NAME")
    named = replace(pool_of_boards(board, 2), in_cluster=InCluster(resource="acme.com/board"))
    assert [slot.resource for slot in node_of(named).slots] == ["acme.com/board"] * 2


def test_partitions() -> None:
    """A partition of an AMD board is one more device of the usual kind, without any strategy."""
    slots = node_of(pool_of_boards("amd-mi300x", 1, devices={0: DeviceSpec(0, parts=parts_of("7g.40gb"))})).slots
    assert [(slot.resource, slot.part) for slot in slots] == [("amd.com/gpu", 0)]
    assert not slots[0].id.startswith("MIG-")


@pytest.mark.parametrize(("is_renamed", "resource"), [(False, "nvidia.com/gpu"), (True, "nvidia.com/gpu.shared")])
def test_replicas(is_renamed: bool, resource: str) -> None:
    """Each board as often as it is shared: the device is the same, the numbers differ."""
    devices = node("t4", 2, replicas=3, is_renamed=is_renamed)
    first = devices.slots[0].device_id
    assert [slot.id for slot in devices.slots[:3]] == [f"{first}::0", f"{first}::1", f"{first}::2"]
    assert len({slot.id for slot in devices.slots}) == 6
    assert sorted(Counter(slot.device_id for slot in devices.slots).values()) == [3, 3]
    assert {slot.resource for slot in devices.slots} == {resource}


def test_mixed() -> None:
    slots = node("a100", 2, "3g.20gb", "1g.5gb+me", strategy=MIXED).slots
    assert Counter(slot.resource for slot in slots) == {"nvidia.com/mig-3g.20gb": 2, "nvidia.com/mig-1g.5gb.me": 2}
    assert [slot.word("n") for slot in slots] == ["n/0/0", "n/0/1", "n/1/0", "n/1/1"]
    assert all(slot.id.startswith("MIG-") for slot in slots)
    undivided = pool_of_boards("a100", 2, strategy=MIXED, devices={0: DeviceSpec(0, parts=parts_of("7g.40gb"))})
    assert [slot.resource for slot in node_of(undivided).slots] == ["nvidia.com/mig-7g.40gb", "nvidia.com/gpu"]


def test_none() -> None:
    assert [slot.part for slot in node("a100", 2, "3g.20gb").slots] == [None, None]


class TestSingle:
    """The strategy single: instances of one profile on all boards, as plain GPUs."""

    def test_instances(self) -> None:
        slots = node("a100", 2, "3g.20gb", "3g.20gb", strategy=SINGLE).slots
        assert Counter(slot.resource for slot in slots) == {"nvidia.com/gpu": 4}
        assert [(slot.index, slot.part) for slot in slots] == [(0, 0), (0, 1), (1, 0), (1, 1)]

    def test_without_mig(self) -> None:
        devices = node("a100", 2, strategy=SINGLE)
        assert (devices.mig_problem, len(devices.slots)) == ("", 2)

    def test_other_numbers(self) -> None:
        devices = {1: DeviceSpec(1, parts=parts_of("3g.20gb"))}
        found = node_of(pool_of_boards("a100", 2, "3g.20gb", "3g.20gb", strategy=SINGLE, devices=devices))
        assert (found.mig_problem, len(found.slots)) == ("", 3)

    @pytest.mark.parametrize(
        ("mig", "second", "why"),
        [
            (("3g.20gb", "1g.5gb"), None, "several profiles: 1g.5gb, 3g.20gb"),
            (("3g.20gb",), DeviceSpec(1, parts=parts_of("7g.40gb")), "several profiles"),
            ((), DeviceSpec(1, parts=parts_of("7g.40gb")), "some are not"),
            ((), DeviceSpec(1, facts={"mig_mode": "1"}), "no instances"),
        ],
    )
    def test_invalid(self, mig: tuple[str, ...], second: DeviceSpec | None, why: str) -> None:
        """Unequal boards, or empty ones: NVIDIA's plugin refuses to start, and so there is nothing."""
        devices = {1: second} if second else {}
        found = node_of(pool_of_boards("a100", 2, *mig, strategy=SINGLE, devices=devices))
        assert why in found.mig_problem
        assert found.slots == ()


def test_empty_board() -> None:
    spec = pool_of_boards(typed("a100", mig_mode="1"), 2, strategy=MIXED)
    assert node_of(spec).slots == ()


def test_same_again() -> None:
    assert node("h100").slots == node("h100").slots
    assert isinstance(node("h100").slots[0], Slot)
