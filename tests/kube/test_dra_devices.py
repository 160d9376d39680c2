"""Devices as NVIDIA's DRA driver describes them: names, attributes, capacities."""

from __future__ import annotations

import pytest

from fakedev.kube.devices import Slot
from fakedev.kube.dra_devices import dra_devices, quantity
from tests.support.dra_nodes import node_devices

MIXED = "device: h100, devices-per-node: 2, devices: [{index: 1, mig: [1g.10gb, 1g.10gb+me, 1g.20gb, 3g.40gb]}]"


class TestBoards:
    """Whole GPUs."""

    def test_an_h100(self) -> None:
        """All attributes of the driver; versions are semantic, so they have no leading zeros."""
        devices = node_devices()
        first = dra_devices(devices)[0]
        uuid = f"GPU-{devices.boards[0]['uuid']}"
        assert (first.name, first.profile, first.board_id) == ("gpu-0", "", uuid)
        assert first.slot == Slot("nvidia.com/gpu", uuid, 0, None, 0)
        assert first.attributes == {
            "type": {"string": "gpu"},
            "uuid": {"string": uuid},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "550.163.1"},
            "cudaDriverVersion": {"version": "12.4.0"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:1b"},
            "resource.kubernetes.io/numaNode": {"int": 0},
        }
        assert first.capacity == {"memory": {"value": "81559Mi"}}

    def test_all_of_a_node(self) -> None:
        """In order; their slots are those of a device plugin, so that ids and UUIDs of metrics are the same."""
        devices = node_devices()
        assert [each.name for each in dra_devices(devices)] == [f"gpu-{index}" for index in range(8)]
        assert tuple(each.slot for each in dra_devices(devices)) == devices.slots

    def test_what_is_not_known_is_left_out(self) -> None:
        """An attribute without a value would be refused, and so would a version that is none."""
        facts = "labels: {driver_version: unknown, compute_cap: '', numa_node: ''}"
        found = dra_devices(node_devices(f"device: h100, {facts}"))[0].attributes
        assert not found.keys() & {"driverVersion", "cudaComputeCapability", "resource.kubernetes.io/numaNode"}
        assert all(found.values())

    def test_a_long_name_is_cut(self) -> None:
        """The API takes 64 characters."""
        found = dra_devices(node_devices(f"device: h100, labels: {{product_name: {'x' * 100}}}"))[0].attributes
        assert found["productName"] == {"string": "x" * 64}

    def test_a_known_root_and_a_long_domain(self) -> None:
        """The fact pcie_root wins; the API's address has a domain of four digits."""
        keys = "device: h100, devices: [{index: 0, pci: '00000000:9D:00.0', labels: {pcie_root: 'pci0000:97'}}]"
        found = dra_devices(node_devices(keys))[0].attributes
        assert found["resource.kubernetes.io/pciBusID"] == {"string": "0000:9d:00.0"}
        assert found["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:97"}

    @pytest.mark.parametrize("device", ["mi300x", "flex-170"])
    def test_other_vendors_have_another_driver(self, device: str) -> None:
        """NVIDIA's announces nothing there."""
        assert dra_devices(node_devices(f"device: {device}")) == ()


class TestInstances:
    """GPUs in MIG mode: their instances instead."""

    def test_names(self) -> None:
        """GPU, profile, id of the profile, first memory slice; they differ though profiles repeat."""
        names = [each.name for each in dra_devices(node_devices(MIXED))]
        assert names == [
            "gpu-0", "gpu-1-mig-3g40gb-9-4", "gpu-1-mig-1g20gb-15-0", "gpu-1-mig-1g10gb-19-2",
            "gpu-1-mig-1g10gb-me-20-3",
        ]  # fmt: skip

    def test_an_instance(self) -> None:
        """It has what its GPU has, its parent and its profile; engines and memory slices are capacities."""
        devices = node_devices(MIXED)
        board, instance = dra_devices(devices)[0], dra_devices(devices)[1]
        parent = f"GPU-{devices.boards[1]['uuid']}"
        uuid = f"MIG-{devices.parts[1][0]['part_uuid']}"
        assert instance.slot == Slot("nvidia.com/mig-3g.40gb", uuid, 1, 0, 0)
        assert (instance.board_id, instance.profile) == (parent, "3g.40gb")
        own = {"type": "mig", "uuid": uuid, "parentUUID": parent, "profile": "3g.40gb"}
        assert {name: instance.attributes[name]["string"] for name in own} == own
        assert instance.attributes.keys() - own.keys() == board.attributes.keys() - own.keys()
        assert {name: each["value"] for name, each in instance.capacity.items()} == {
            "multiprocessors": "60", "copyEngines": "3", "decoders": "3", "encoders": "0", "jpegEngines": "3",
            "ofaEngines": "0", "memory": "40448Mi",
            "memorySlice4": "1", "memorySlice5": "1", "memorySlice6": "1", "memorySlice7": "1",
        }  # fmt: skip

    def test_instances_take_memory_slices_of_their_own(self) -> None:
        """Seven small ones of a board have seven slices, and no two the same."""
        found = dra_devices(node_devices("device: h100, devices-per-node: 1, mig: [" + "1g.10gb, " * 7 + "]"))
        slices = [{name for name in each.capacity if name.startswith("memorySlice")} for each in found]
        assert sorted(name for each in slices for name in each) == [f"memorySlice{place}" for place in range(7)]
        assert len({each.name for each in found}) == 7

    def test_the_whole_board_as_an_instance(self) -> None:
        """It has all memory slices."""
        (found,) = dra_devices(node_devices("device: a100-sxm4-40gb, devices-per-node: 1, mig: [7g.40gb]"))
        assert found.name == "gpu-0-mig-7g40gb-0-0"
        assert sum(name.startswith("memorySlice") for name in found.capacity) == 8

    def test_the_mode_without_instances(self) -> None:
        """Such a GPU offers nothing."""
        keys = "device: h100, devices-per-node: 2, devices: [{index: 0, labels: {mig_mode: '1'}}]"
        assert [each.name for each in dra_devices(node_devices(keys))] == ["gpu-1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (1024, "1Ki"), (81559 * 2**20, "81559Mi"), (40 * 2**30, "40Gi"), (2**60 * 2**10, "1048576Pi")],
)
def test_quantities(value: int, text: str) -> None:
    """As the API server writes them, so that what is compared with its answer is the same."""
    assert quantity(value) == text
