"""Topologies of run-ai's fake-gpu-operator: their values, objects, and who uses which GPU."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from fakedev.config.load import load
from fakedev.config.operator_tree import known_boards
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.known_boards import Board, nearest_board
from fakedev.fleet.spec.offers import InCluster, MigStrategy
from fakedev.fleet.spec.profiles import profile_from
from fakedev.fleet.spec.workload_spec import Activities
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from fakedev.kubernetes.runai.operator import (
    GpuUse,
    Topology,
    TopologyGpu,
    TopologyNode,
    cluster_topology,
    config_map_name,
    mig_mapping,
    node_topology,
    numa_nodes,
    operator_annotations,
    operator_labels,
    topology_config_map,
)
from fakedev.kubernetes.runai.operator_port import OperatorTopology, utilization_of
from fakedev.schema.files import Files
from fakedev.schema.places import Report
from fakedev.schema.reader import read_document

KNOWN = known_boards(Files())


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm5-80gb"),
        ("Tesla-T4", "t4-16gb"),
        ("nvidia_l40s", "l40s-48gb"),
    ],
)
def test_the_same_product(product: str, name: str) -> None:
    """Any spelling of a product of the catalog is that board."""
    nearest = nearest_board(Board(product, 1), KNOWN)
    assert (nearest.board.name, nearest.is_same) == (name, True)


@pytest.mark.parametrize(
    ("product", "memory_mib", "name"),
    [
        ("NVIDIA-A100-PCIE-40GB", 40960, "a100-sxm4-40gb"),
        ("NVIDIA-A100-PCIE-80GB", 81920, "a100-sxm4-80gb"),
        ("NVIDIA-H200-141GB-HBM3e", 143360, "h200-sxm-141gb"),
        ("Custom H100", 0, "h100-sxm5-80gb"),
        ("Tesla-V100", 16160, "v100-sxm2-16gb"),
        ("Tesla-V100", 32510, "v100-sxm2-32gb"),
        ("NVIDIA-B200-192GB-HBM3e", 196608, "b200-sxm-180gb"),
        ("NVIDIA-B300-288GB-HBM3e", 294912, "b300-sxm-270gb"),
        ("NVIDIA A100-PCIE-10GB", 10240, "a100-sxm4-40gb"),
        ("GRID A100-12C", 12288, "grid-a100-10c"),
        ("NVIDIA H100-40C", 0, "grid-h100-20c"),
    ],
)
def test_the_same_model(product: str, memory_mib: int, name: str) -> None:
    nearest = nearest_board(Board(product, memory_mib), KNOWN)
    assert (nearest.board.name, nearest.is_model, nearest.is_same) == (name, True, False)


@pytest.mark.parametrize(
    ("product", "memory_mib", "name"),
    [
        ("NVIDIA-R200-288GB-HBM4", 294912, "gb300-277gb"),
        ("NVIDIA RTX A6000", 49140, "a40-48gb"),
        ("NVIDIA R200", 0, "gb300-277gb"),
    ],
)
def test_an_unknown_product(product: str, memory_mib: int, name: str) -> None:
    """It is NVIDIA's board with the nearest memory; with the most, where no memory is given."""
    nearest = nearest_board(Board(product, memory_mib), KNOWN)
    assert (nearest.board.name, nearest.is_model, nearest.is_same) == (name, False, False)


def test_an_unknown_virtual_gpu() -> None:
    """It is another virtual GPU, whatever its board: a guest sees neither power nor heat."""
    nearest = nearest_board(Board("NVIDIA L40S-48Q"), KNOWN)
    assert (nearest.board.name, nearest.is_model) == ("grid-a100-40c", False)


def test_a_profile() -> None:
    assert nearest_board(Board(profile="h100"), KNOWN).board.name == "h100-sxm5-80gb"
    assert nearest_board(Board(profile="a100"), KNOWN).is_model


def test_the_whole_catalog_is_known() -> None:
    assert {board.name for board in KNOWN} >= {"h100-sxm5-80gb", "amd-mi300x", "t4-16gb"}
    assert all(board.memory_mib > 1000 and board.vendor for board in KNOWN)


def test_numa_nodes() -> None:
    assert numa_nodes(8, 2) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert numa_nodes(5, 2) == (0, 0, 0, 1, 1)
    assert numa_nodes(4, 2, [3, 1]) == (0, 0, 0, 1)
    assert numa_nodes(4, 0) == ()
    for per_zone in ([4], [3, 2]):
        with pytest.raises(ValueError, match="2 numbers with the sum 4"):
            numa_nodes(4, 2, per_zone)


def test_names_of_workloads() -> None:
    """Pods that share a GPU under one owner are told apart by a number; a pod on two GPUs keeps its name."""
    one, two = (GpuUse("ns", "p", "c", (0, 10), 100, uid) for uid in ("uid-1", "uid-2"))
    node = TopologyNode("a", Board("x"), (TopologyGpu(uses=(one, two)), TopologyGpu(uses=(one,)), TopologyGpu()))
    assert [(index, name) for index, name, _ in node.workloads()] == [(0, "ns/p/c"), (0, "ns/p/c#2"), (1, "ns/p/c")]
    assert GpuUse(uid="uid-1").name == "uid-1"


FLEET = """
fleet:
  pools:
    - {name: big, nodes: [a, b], device: a100-sxm4-80gb, devices-per-node: 2, mig: [3g.40gb, 1g.10gb]}
    - {name: small, nodes: [t], device: t4, devices-per-node: 1}
    - {name: amd, nodes: [m], device: mi300x, devices-per-node: 1}
"""
POOLS = {pool.name: pool for pool in load(None, Files(environ={}), text=FLEET).fleet.pools}
HALF = GpuUse("ns", "train-0", "main", (10.0, 30.0), 5000.0, "uid-1")


def devices_of(pool: PoolSpec) -> NodeDevices:
    """The devices of the first node of a pool."""
    return NodeDevices(1, pool, pool.nodes[0])


def test_a_node() -> None:
    devices = devices_of(POOLS["small"])
    described = node_topology(devices, {0: [HALF]}, {"rdma/hca": 2})
    assert described == {
        "gpuMemory": 15360,
        "gpuProduct": "Tesla T4",
        "driverVersion": devices.boards[0]["driver_version"],
        "cudaVersion": devices.boards[0]["cuda_version"],
        "migStrategy": "none",
        "otherDevices": [{"name": "rdma/hca", "count": 2}],
        "gpus": [
            {
                "id": devices.slots[0].id,
                "status": {
                    "allocatedBy": {"namespace": "ns", "pod": "train-0", "container": "main"},
                    "podGpuUsageStatus": {
                        "uid-1": {
                            "utilization": {"min": 10, "max": 30},
                            "fbUsed": 5000,
                            "useKnativeUtilization": False,
                        }
                    },
                },
            }
        ],
    }


def test_a_free_node() -> None:
    """Nobody owns a free GPU; NUMA nodes are there where they are known, other devices where there are some."""
    described = node_topology(devices_of(POOLS["big"]), {})
    assert [gpu["status"] for gpu in described["gpus"]] == [
        {"allocatedBy": {"namespace": "", "pod": "", "container": ""}, "podGpuUsageStatus": {}}
    ] * 2
    assert [gpu["numaNode"] for gpu in described["gpus"]] == [3, 3]
    assert "otherDevices" not in described


def test_pods_that_share() -> None:
    """Each pod has an entry, the containers of a pod one together; the first pod owns the GPU."""
    sidecar = replace(HALF, container="sidecar", utilization=(80.0, 90.0), fb_used_mib=1.0)
    other = replace(HALF, pod="other", uid="uid-2")
    (gpu,) = node_topology(devices_of(POOLS["small"]), {0: [HALF, sidecar, other]})["gpus"]
    usage = gpu["status"]["podGpuUsageStatus"]
    assert gpu["status"]["allocatedBy"]["container"] == "main"
    assert usage["uid-1"]["utilization"] == {"min": 90, "max": 100}
    assert usage["uid-1"]["fbUsed"] == 5001
    assert list(usage) == ["uid-1", "uid-2"]


def test_the_cluster() -> None:
    mixed = replace(POOLS["big"], in_cluster=InCluster(mig_strategy=MigStrategy.MIXED))
    others = {"small": {"x/y": 1}, "big": {}}
    described = cluster_topology([POOLS["small"], mixed, POOLS["small"]], "my/pool", others.__getitem__)
    assert described == {
        "nodePools": {
            "small": {
                "gpuMemory": 15360, "gpuProduct": "Tesla T4", "gpuCount": 1,
                "otherDevices": [{"name": "x/y", "count": 1}],
            },
            "big": {"gpuMemory": 81920, "gpuProduct": "NVIDIA A100-SXM4-80GB", "gpuCount": 2, "otherDevices": []},
        },
        "nodePoolLabelKey": "my/pool",
        "migStrategy": "mixed",
    }  # fmt: skip


def test_a_config_map() -> None:
    """Its names and labels are the operator's, and one of ours; its text can be read as JSON and as YAML."""
    described = node_topology(devices_of(POOLS["small"]), {0: [HALF]})
    item = topology_config_map("t", described, "gpu-operator")
    assert item["metadata"] == {
        "name": "topology-t",
        "namespace": "gpu-operator",
        "labels": {"node-topology": "true", "node-name": "t", "app.kubernetes.io/managed-by": "fakedev"},
    }
    text = item["data"]["topology.yml"]
    assert json.loads(text) == described
    report = Report()
    assert read_document(text, "topology.yml", report) is not None
    assert report.sorted_problems() == ()


def test_long_names() -> None:
    """Names that the API would refuse end in a hash, so that two stay two."""
    long = "n" * 250
    assert len(config_map_name(long + "a")) == 253
    assert config_map_name(long + "a") != config_map_name(long + "b")
    labels = topology_config_map(long, {}, "x")["metadata"]["labels"]
    assert len(labels["node-name"]) == 63


def test_labels() -> None:
    """Those that the operator gives beside GPU feature discovery's; a divided node says that it is."""
    assert operator_labels(devices_of(POOLS["small"])) == {
        "run.ai/fake.gpu": "true",
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
    }
    assert operator_labels(devices_of(POOLS["big"]))["nvidia.com/mig.config.state"] == "success"
    assert operator_labels(devices_of(POOLS["amd"])) == {}


def test_the_mig_mapping() -> None:
    """The annotation names the instances of each board with the UUIDs that pages show."""
    devices = devices_of(POOLS["big"])
    annotations = operator_annotations(devices)
    mapping = json.loads(b64decode(annotations["run.ai/mig-mapping"]))
    assert list(mapping) == ["0", "1"]
    for index in range(2):
        known = {f"MIG-{part['part_uuid']}": int(part["mig_id"]) for part in devices.parts[index]}
        assert {each["device_uuid"]: each["gpu_instance_id"] for each in mapping[str(index)]} == known
        assert len({each["position"] for each in mapping[str(index)]}) == 2
    assert operator_annotations(devices_of(POOLS["small"])) == {}


@pytest.mark.parametrize(
    ("profiles", "positions"), [("[7g.80gb]", [0]), ("[3g.40gb, 3g.40gb]", [0, 4]), ("[2g.20gb, 2g.20gb]", [0, 4])]
)
def test_positions(profiles: str, positions: list[int]) -> None:
    text = FLEET.replace("[3g.40gb, 1g.10gb]", profiles)
    pool = load(None, Files(environ={}), text=text).fleet.pools[0]
    assert sorted(each["position"] for each in mig_mapping(devices_of(pool))[0]) == positions


SHARED = """
fleet:
  pools:
    - {name: p, nodes: [a, b], device: a100-80gb, devices-per-node: 2, identity: dcgm}
    - {name: m, nodes: [c], device: a100-80gb, devices-per-node: 1, identity: dcgm, mig: [3g.40gb, 1g.10gb]}
web: []
workloads:
  listen: []
  base:
    - {name: one, devices: a/0, profile: "30:10:0", metrics: {memory: 1000MiB}, pod: one, namespace: n, container: c}
    - {name: two, devices: "a/[0-1]", profile: "50:0:0", pod: two, namespace: n, container: c}
    - {name: nobody, devices: a/1, profile: "50:0:0"}
    - {name: part, devices: c/0/1, profile: "90:0:0", metrics: {memory: 10%}, pod: part, namespace: n, container: c}
"""


def fleet_of(text: str = SHARED) -> Fleet:
    """A fleet whose workloads run."""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    fleet.advance()
    return fleet


def gpus(fleet: Fleet, node: str) -> list[Any]:
    """The GPUs of a node."""
    found = fleet.roster.node(node)
    assert found is not None
    return list(OperatorTopology(fleet, lambda spec: f"uid-{spec.pod}").node(found)["gpus"])


def test_pods_of_a_fleet_that_share() -> None:
    """Each pod has its entry; the first one owns the GPU; work without a pod is nobody's."""
    first, second = gpus(fleet_of(), "a")
    assert first["status"]["allocatedBy"] == {"namespace": "n", "pod": "one", "container": "c"}
    usage = first["status"]["podGpuUsageStatus"]
    assert {uid: each["utilization"] for uid, each in usage.items()} == {
        "uid-one": {"min": 20, "max": 40},
        "uid-two": {"min": 50, "max": 50},
    }
    assert list(second["status"]["podGpuUsageStatus"]) == ["uid-two"]


def test_memory() -> None:
    """What a pod states; what is left of the used memory for those that state none."""
    fleet = fleet_of()
    used = float(fleet.memory_used_bytes[0]) / 2**20
    usage = gpus(fleet, "a")[0]["status"]["podGpuUsageStatus"]
    assert usage["uid-one"]["fbUsed"] == 1000
    assert usage["uid-two"]["fbUsed"] == round(used - 1000) > 0


def test_parts_and_free_nodes() -> None:
    fleet = fleet_of()
    (gpu,) = gpus(fleet, "c")
    assert gpu["status"]["allocatedBy"]["pod"] == "part"
    (usage,) = gpu["status"]["podGpuUsageStatus"].values()
    assert usage["utilization"] == {"min": 13, "max": 13}  # 90 % of a seventh of the engines
    assert usage["fbUsed"] == pytest.approx(float(fleet.memory_used_bytes[4]) / 2**20, rel=0.02)
    assert all(gpu["status"]["podGpuUsageStatus"] == {} for gpu in gpus(fleet, "b"))


def test_one_pool() -> None:
    topology = OperatorTopology(fleet_of())
    topology.follow(Topology(label_key="my/pool"), is_on=True)
    assert list(topology.cluster()["nodePools"]) == ["p", "m"]
    assert list(topology.cluster("m")["nodePools"]) == ["m"]
    assert topology.cluster()["nodePoolLabelKey"] == "my/pool"


def test_utilization() -> None:
    """The lowest and the highest load of a profile, within 0 to 100."""
    assert utilization_of(Activities(profile_from("80:20:10,20:0:5"))) == (20.0, 100.0)
    assert utilization_of(Activities(profile_from("10:10:0"))) == (0.0, 20.0)
    assert utilization_of(Activities(profile_from("sine(50,40,60):5"))) == (5.0, 95.0)
