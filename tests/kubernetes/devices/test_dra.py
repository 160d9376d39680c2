"""Dynamic resource allocation: devices as NVIDIA's driver describes them, claims of pods, slices of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from fakedev.fleet.spec.workload_spec import Activity, WorkloadSpec
from fakedev.kubernetes.devices.dra import (
    MAX_TEXT,
    Claim,
    ClaimedDevices,
    claimed_devices,
    dra_devices,
    quantity,
    read_claim,
    with_labels,
)
from fakedev.kubernetes.devices.offered_devices import NodeDevices, Slot
from fakedev.kubernetes.devices.resource_slices import MADE_BY, SliceChanges, changes, resource_slices, taint_of
from fakedev.kubernetes.pods import ClaimUse, Pod, read_pod
from tests.support.configurations import loaded

MIXED = "device: h100, devices-per-node: 2, devices: [{index: 1, mig: [1g.10gb, 1g.10gb+me, 1g.20gb, 3g.40gb]}]"


def node_devices(keys: str = "device: h100", node: str = "dgx-0") -> NodeDevices:
    """The devices of a node of a pool with some keys, as the configuration writes them."""
    (pool, *_) = loaded(f"fleet: {{pools: [{{name: p, nodes: [{node}], {keys}}}]}}", {}).fleet.pools
    return NodeDevices(1, pool, pool.nodes[0])


class TestBoards:
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
        assert [dra_device.name for dra_device in dra_devices(devices)] == [f"gpu-{index}" for index in range(8)]
        assert tuple(dra_device.slot for dra_device in dra_devices(devices)) == devices.slots

    def test_what_is_not_known_is_left_out(self) -> None:
        """An attribute without a value would be refused, and so would a version that is none."""
        facts = "labels: {driver_version: unknown, compute_cap: '', numa_node: ''}"
        found = dra_devices(node_devices(f"device: h100, {facts}"))[0].attributes
        assert not found.keys() & {"driverVersion", "cudaComputeCapability", "resource.kubernetes.io/numaNode"}
        assert all(found.values())

    def test_a_long_name_is_cut(self) -> None:
        found = dra_devices(node_devices(f"device: h100, labels: {{product_name: {'x' * 100}}}"))[0].attributes
        assert found["productName"] == {"string": "x" * 64}

    def test_a_known_root_and_a_long_domain(self) -> None:
        keys = "device: h100, devices: [{index: 0, pci: '00000000:9D:00.0', labels: {pcie_root: 'pci0000:97'}}]"
        found = dra_devices(node_devices(keys))[0].attributes
        assert found["resource.kubernetes.io/pciBusID"] == {"string": "0000:9d:00.0"}
        assert found["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:97"}

    @pytest.mark.parametrize("device", ["mi300x", "flex-170"])
    def test_other_vendors_have_another_driver(self, device: str) -> None:
        assert dra_devices(node_devices(f"device: {device}")) == ()


class TestInstances:
    def test_names(self) -> None:
        """GPU, profile, id of the profile, first memory slice; they differ though profiles repeat."""
        names = [dra_device.name for dra_device in dra_devices(node_devices(MIXED))]
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
        found = dra_devices(node_devices("device: h100, devices-per-node: 1, mig: [" + "1g.10gb, " * 7 + "]"))
        slices = [{name for name in each.capacity if name.startswith("memorySlice")} for each in found]
        assert sorted(name for slice_ in slices for name in slice_) == [f"memorySlice{place}" for place in range(7)]
        assert len({each.name for each in found}) == 7

    def test_the_whole_board_as_an_instance(self) -> None:
        (found,) = dra_devices(node_devices("device: a100-sxm4-40gb, devices-per-node: 1, mig: [7g.40gb]"))
        assert found.name == "gpu-0-mig-7g40gb-0-0"
        assert sum(name.startswith("memorySlice") for name in found.capacity) == 8

    def test_the_mode_without_instances(self) -> None:
        keys = "device: h100, devices-per-node: 2, devices: [{index: 0, labels: {mig_mode: '1'}}]"
        assert [dra_device.name for dra_device in dra_devices(node_devices(keys))] == ["gpu-1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (1024, "1Ki"), (81559 * 2**20, "81559Mi"), (40 * 2**30, "40Gi"), (2**60 * 2**10, "1048576Pi")],
)
def test_quantities(value: int, text: str) -> None:
    """As the API server writes them, so that what is compared with its answer is the same."""
    assert quantity(value) == text


NODE = node_devices("device: h100, devices-per-node: 4, devices: [{index: 3, mig: [1g.10gb, 3g.40gb]}]")
SLOTS = {device.name: device.slot for device in dra_devices(NODE)}
INSTANCE = "gpu-3-mig-1g10gb-19-0"


def pod(containers: Mapping[str, list[Any]], uid: str = "u1", **status: Any) -> Pod:
    """A pod on the node: its containers, each with its claims, of claims ``c`` and ``d``, which are named alike."""
    return read_pod({
        "metadata": {"namespace": "ml", "name": "train", "uid": uid},
        "spec": {
            "nodeName": "dgx-0",
            "resourceClaims": [{"name": name, "resourceClaimName": name} for name in ("c", "d")],
            "containers": [
                {"name": name, "resources": {"claims": claims}} for name, claims in containers.items()
            ],
        },
        "status": status,
    })  # fmt: skip


def claim(*results: dict[str, Any] | str, name: str = "c", pods: tuple[str, ...] = ("u1",)) -> Claim:
    """A claim with results: ``REQUEST=DEVICE``, or whole ones."""
    found = []
    for result in results:
        request, _, device = result.partition("=") if isinstance(result, str) else ("", "", "")
        found.append(
            result
            if isinstance(result, dict)
            else {"request": request, "driver": "gpu.nvidia.com", "pool": "dgx-0", "device": device}
        )
    return read_claim({
        "metadata": {"namespace": "ml", "name": name},
        "status": {
            "allocation": {"devices": {"results": found}},
            "reservedFor": [{"resource": "pods", "name": f"pod-{uid}", "uid": uid} for uid in pods],
        },
    })  # fmt: skip


def claimed(of: Pod, *claims: Claim) -> ClaimedDevices:
    """What the pod has."""
    return claimed_devices(of, "dgx-0", dra_devices(NODE), {(each.namespace, each.name): each for each in claims})


def names(found: ClaimedDevices) -> dict[str, list[str]]:
    """The names of the devices of each container."""
    by_slot = {slot: name for name, slot in SLOTS.items()}
    return {container: [by_slot[slot] for slot in slots] for container, slots in found.slots.items()}


class TestWhoHasWhat:
    def test_a_claim_of_several_devices(self) -> None:
        found = claimed(pod({"main": [{"name": "c"}]}), claim("r=gpu-2", "r=gpu-0"))
        assert names(found) == {"main": ["gpu-2", "gpu-0"]}
        assert found.slots["main"][0].word("dgx-0") == "dgx-0/2"
        assert found.problems == ()

    def test_single_requests(self) -> None:
        """Each container has the device of its request; one with alternatives is named by its first part."""
        of = pod({
            "a": [{"name": "c", "request": "one"}], "b": [{"name": "c", "request": "two"}],
            "all": [{"name": "c"}], "none": [],
        })  # fmt: skip
        found = claimed(of, claim("one=gpu-0", f"two/small={INSTANCE}"))
        assert names(found) == {"a": ["gpu-0"], "b": [INSTANCE], "all": ["gpu-0", INSTANCE]}

    def test_several_claims(self) -> None:
        """In the order of the container's claims; a device that two of them have is there once, by the first."""
        of = pod({"main": [{"name": "d"}, {"name": "c"}]})
        found = claimed(of, claim("r=gpu-0", "r=gpu-1"), claim("r=gpu-1", name="d"))
        assert names(found) == {"main": ["gpu-1", "gpu-0"]}
        assert found.labels["main"][SLOTS["gpu-1"]]["dra_claim_name"] == "d"

    def test_pods_share_a_claim(self) -> None:
        """Each that it is reserved for has the device; another one waits."""
        shared = claim("r=gpu-0", pods=("u1", "u2"))
        of = {"main": [{"name": "c"}]}
        for uid, has in (("u1", {"main": ["gpu-0"]}), ("u2", {"main": ["gpu-0"]}), ("u3", {})):
            assert names(claimed(pod(of, uid), shared)) == has

    def test_a_claim_that_is_not_ready(self) -> None:
        of = pod({"main": [{"name": "c"}]})
        assert claimed(of) == claimed(of, claim()) == ClaimedDevices()

    def test_administrators_take_nothing(self) -> None:
        """A result with admin access is for supervision; other drivers are not ours."""
        admin = {"request": "r", "driver": "gpu.nvidia.com", "pool": "dgx-0", "device": "gpu-0", "adminAccess": True}
        other = {"request": "r", "driver": "net.example.com", "pool": "dgx-0", "device": "gpu-0"}
        assert claimed(pod({"main": [{"name": "c"}]}), claim(admin, other)) == ClaimedDevices()

    def test_devices_that_the_node_does_not_have(self) -> None:
        elsewhere = {"request": "r", "driver": "gpu.nvidia.com", "pool": "dgx-7", "device": "gpu-0"}
        found = claimed(pod({"a": [{"name": "c"}], "b": [{"name": "c"}]}), claim("r=gpu-9", elsewhere, "r=gpu-1"))
        assert names(found) == {"a": ["gpu-1"], "b": ["gpu-1"]}
        texts = "claim ml/c: no device dgx-0/gpu-9 on dgx-0", "claim ml/c: no device dgx-7/gpu-0 on dgx-0"
        assert found.problems == tuple(("UnknownDevice", text) for text in texts)


class TestPods:
    def test_a_claim_from_a_template(self) -> None:
        of = pod({"main": [{"name": "c"}]}, resourceClaimStatuses=[{"name": "c", "resourceClaimName": "train-c-x7x2k"}])
        assert names(claimed(of, claim("r=gpu-0", name="train-c-x7x2k"))) == {"main": ["gpu-0"]}

    def test_an_extended_resource(self) -> None:
        """The scheduler's claim satisfies ``nvidia.com/gpu``: the status says which container has which request."""
        limits = {"limits": {"nvidia.com/gpu": "1", "example.com/other": "2"}}
        of = read_pod({
            "metadata": {"namespace": "ml", "name": "train", "uid": "u1"},
            "spec": {
                "nodeName": "dgx-0",
                "initContainers": [{"name": "first", "resources": limits}],
                "containers": [{"name": "main", "resources": limits}, {"name": "side"}],
            },
            "status": {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "train-extended-resources-4f2",
                    "requestMappings": [
                        {
                            "containerName": name,
                            "resourceName": "nvidia.com/gpu",
                            "requestName": f"container-{place}-request-0",
                        }
                        for place, name in enumerate(("first", "main"))
                    ],
                }
            },
        })  # fmt: skip
        assert [container.claims for container in of.containers] == [
            (ClaimUse("", "container-0-request-0"),), (ClaimUse("", "container-1-request-0"),), (),
        ]  # fmt: skip
        assert [each.wants for each in of.containers] == [{"example.com/other": 2}, {"example.com/other": 2}, {}]
        made = claim("container-0-request-0=gpu-0", "container-1-request-0=gpu-2", name="train-extended-resources-4f2")
        assert names(claimed(of, made)) == {"first": ["gpu-0"], "main": ["gpu-2"]}


class TestLabels:
    def test_a_board_and_an_instance(self) -> None:
        labels = claimed(pod({"main": [{"name": "c"}]}), claim("r=gpu-0", f"r={INSTANCE}")).labels["main"]
        common = {
            "dra_claim_name": "c", "dra_claim_namespace": "ml", "dra_driver_name": "gpu.nvidia.com",
            "dra_pool_name": "dgx-0",
        }  # fmt: skip
        assert labels[SLOTS["gpu-0"]] == {**common, "dra_device_name": "gpu-0"}
        assert labels[SLOTS[INSTANCE]] == {
            **common, "dra_device_name": INSTANCE, "dra_mig_profile": "1g.10gb",
            "dra_mig_device_uuid": SLOTS[INSTANCE].id,
        }  # fmt: skip

    def test_workloads(self) -> None:
        """One for each claimed device, for labels are of a whole workload; other devices stay together."""
        labels = claimed(pod({"main": [{"name": "c"}]}), claim("r=gpu-0", "r=gpu-2")).labels["main"]
        words = ("dgx-0/0", "dgx-0/1", "dgx-0/2")
        whole = WorkloadSpec("ml/train/main", words, (Activity(90),), labels=(("pod_uid", "u1"),))
        split = with_labels(whole, "dgx-0", labels)
        assert [each.devices for each in split] == [("dgx-0/1",), ("dgx-0/0",), ("dgx-0/2",)]
        assert {each.name for each in split} == {"ml/train/main"}
        assert [dict(each.labels).get("dra_device_name") for each in split] == [None, "gpu-0", "gpu-2"]
        assert all(dict(each.labels)["pod_uid"] == "u1" for each in split)
        assert with_labels(whole, "dgx-0", {}) == (whole,)


#: The version of the API whose schema is taken; the first with resource.k8s.io/v1 is 1.34.
VERSION = "1.36"
MANY = "device: h100, devices-per-node: 16, mig: [" + "1g.10gb, " * 7 + "]"
POOLS = ["device: h100", "device: t4", "device: v100", MANY, "device: h200, mig: [3g.71gb, 2g.35gb, 1g.18gb]"]


def stored(items: list[dict[str, Any]], revision: int = 1) -> list[dict[str, Any]]:
    """Slices as the API server gives them back: with a resourceVersion, and the time of each taint."""
    found = deepcopy(items)
    for item in found:
        item["metadata"] |= {"resourceVersion": str(revision), "uid": "c0ffee", "generation": 1}
        for device in item["spec"]["devices"]:
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", "2026-01-01T00:00:00Z")
    return found


class TestForm:
    @pytest.mark.parametrize("keys", POOLS)
    @pytest.mark.parametrize("reason", ["", "XID 79", "lost", "unmonitored"])
    def test_the_schema(self, keys: str, reason: str) -> None:
        """Every slice fits the published schema, with any taint, and the limits that are not in it."""
        devices = node_devices(keys)
        unhealthy = {f"GPU-{devices.boards[0]['uuid']}": reason} if reason else {}
        slices = resource_slices(devices, unhealthy, node_uid="6a0f")
        names = [each["name"] for item in slices for each in item["spec"]["devices"]]
        assert len(names) == len(set(names)) > 0
        for item in slices:
            kubernetes_validate.validate(item, VERSION, strict=True)
            assert len(item["spec"]["devices"]) <= 64
            for device in item["spec"]["devices"]:
                assert len(device["attributes"]) + len(device["capacity"]) <= 32
                assert len(device["name"]) <= 63
                texts = [text for value in device["attributes"].values() for text in value.values()]
                assert all(len(str(text)) <= MAX_TEXT for text in texts)

    def test_a_node(self) -> None:
        (item,) = resource_slices(node_devices(), node_uid="6a0f")
        assert item["metadata"] == {
            "name": "dgx-0-gpu.nvidia.com-0",
            "labels": dict(MADE_BY),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "dgx-0", "uid": "6a0f", "controller": True}
            ],
        }
        devices = item["spec"].pop("devices")
        assert [device["name"] for device in devices] == [f"gpu-{index}" for index in range(8)]
        assert item["spec"] == {
            "driver": "gpu.nvidia.com",
            "nodeName": "dgx-0",
            "pool": {"name": "dgx-0", "generation": 1, "resourceSliceCount": 1},
        }

    def test_many_devices(self) -> None:
        """Two slices, each with the number of both, and never more because a device gets a taint."""
        devices = node_devices(MANY)
        for unhealthy in ({}, {f"MIG-{devices.parts[3][2]['part_uuid']}": "XID 48"}):
            slices = resource_slices(devices, unhealthy)
            assert [len(item["spec"]["devices"]) for item in slices] == [64, 48]
            assert {item["spec"]["pool"]["resourceSliceCount"] for item in slices} == {2}

    def test_long_names_of_nodes(self) -> None:
        """Names of objects stay within 253 characters, and differ as those of nodes do."""
        found = {
            resource_slices(node_devices(node="n" * 240 + end))[0]["metadata"]["name"] for end in ("a", "b")
        }  # fmt: skip
        assert len(found) == 2
        assert max(map(len, found)) <= 253

    def test_other_vendors(self) -> None:
        assert resource_slices(node_devices("device: mi300x")) == []


class TestTaints:
    @pytest.mark.parametrize(
        ("reason", "taint"),
        [
            ("XID 79", {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}),
            ("lost", {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}),
            ("hangs", {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}),
            ("unmonitored", {"key": "gpu.nvidia.com/unmonitored", "effect": "None"}),
        ],
    )
    def test_reasons(self, reason: str, taint: dict[str, str]) -> None:
        """A key for each kind of trouble, with the code of an error."""
        assert taint_of(reason) == taint

    def test_which_devices(self) -> None:
        devices = node_devices("device: h100, devices-per-node: 2, mig: [3g.40gb, 1g.10gb]")
        instance = f"MIG-{devices.parts[0][1]['part_uuid']}"
        board = f"GPU-{devices.boards[1]['uuid']}"
        for unhealthy, tainted in (({}, []), ({instance: "XID 48"}, [1]), ({board: "lost"}, [2, 3])):
            (item,) = resource_slices(devices, unhealthy)
            assert [place for place, each in enumerate(item["spec"]["devices"]) if "taints" in each] == tainted


class TestChanges:
    devices = node_devices(MANY)

    @property
    def struck(self) -> dict[str, str]:
        """The first instance has had an error."""
        return {f"MIG-{self.devices.parts[0][0]['part_uuid']}": "XID 79"}

    def test_a_new_node(self) -> None:
        wanted = resource_slices(self.devices)
        assert changes(wanted, []) == SliceChanges(create=tuple(wanted))

    @pytest.mark.parametrize("is_struck", [False, True])
    def test_nothing_changed(self, is_struck: bool) -> None:
        """Nothing is sent, though the API server has added fields and the generation is not the first."""
        wanted = resource_slices(self.devices, self.struck if is_struck else {})
        present = stored(wanted)
        for item in present:
            item["spec"]["pool"]["generation"] = 7
        assert not changes(wanted, present)

    def test_a_fault(self) -> None:
        """All slices of the pool go into the next generation, so that nobody sees a mixture."""
        present = stored(resource_slices(self.devices), revision=5)
        found = changes(resource_slices(self.devices, self.struck), present)
        assert (found.create, found.delete) == ((), ())
        assert [each["spec"]["pool"]["generation"] for each in found.replace] == [2, 2]
        assert [each["metadata"]["resourceVersion"] for each in found.replace] == ["5", "5"]
        assert found.replace[0]["spec"]["devices"][0]["taints"][0]["value"] == "79"
        cleared = changes(resource_slices(self.devices), stored(list(found.replace)))
        assert [each["spec"]["pool"]["generation"] for each in cleared.replace] == [3, 3]
        assert all("taints" not in each for item in cleared.replace for each in item["spec"]["devices"])

    def test_a_taint_keeps_its_time(self) -> None:
        present = stored(resource_slices(self.devices, self.struck))
        other = f"MIG-{self.devices.parts[0][1]['part_uuid']}"
        (first, _) = changes(resource_slices(self.devices, {**self.struck, other: "lost"}), present).replace
        assert [each["taints"][0].get("timeAdded") for each in first["spec"]["devices"][:2]] == [
            "2026-01-01T00:00:00Z", None,
        ]  # fmt: skip

    def test_fewer_devices(self) -> None:
        """The slices that are left are replaced, with their new number; the rest is deleted."""
        present = stored(resource_slices(self.devices))
        found = changes(resource_slices(node_devices("device: h100")), present)
        assert [each["spec"]["pool"] for each in found.replace] == [
            {"name": "dgx-0", "generation": 2, "resourceSliceCount": 1}
        ]
        assert (found.create, found.delete) == ((), ("dgx-0-gpu.nvidia.com-1",))

    def test_a_slice_is_missing(self) -> None:
        wanted = resource_slices(self.devices)
        found = changes(wanted, stored(wanted)[1:])
        assert [each["metadata"]["name"] for each in found.create] == ["dgx-0-gpu.nvidia.com-0"]
        assert {each["spec"]["pool"]["generation"] for each in (*found.create, *found.replace)} == {2}

    def test_two_generations(self) -> None:
        wanted = resource_slices(self.devices)
        present = stored(wanted)
        present[0]["spec"]["pool"]["generation"] = 2
        assert {each["spec"]["pool"]["generation"] for each in changes(wanted, present).replace} == {3}

    def test_a_node_that_is_gone(self) -> None:
        present = stored(resource_slices(self.devices))
        assert changes([], present).delete == ("dgx-0-gpu.nvidia.com-0", "dgx-0-gpu.nvidia.com-1")

    def test_a_real_driver(self) -> None:
        present = stored(resource_slices(self.devices))
        for item in present:
            del item["metadata"]["labels"]
        assert not changes([], present)
