"""What users of fake-gpu-operator read in a cluster: topologies, ConfigMaps, labels and annotations of nodes."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace

import pytest

from fakedev.config.load import load
from fakedev.config.schema.documents import read_document
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import Report
from fakedev.kube.devices import NodeDevices
from fakedev.kube.operator_objects import (
    cluster_topology,
    config_map_name,
    mig_mapping,
    node_topology,
    operator_annotations,
    operator_labels,
    topology_config_map,
)
from fakedev.kube.topology import GpuUse
from fakedev.spec.fleet import PoolSpec
from fakedev.spec.kubernetes import InCluster, MigStrategy

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
    return NodeDevices.of(1, pool, pool.nodes[0])


def test_a_node() -> None:
    """Its board, its GPUs with the ids that pages show, and who uses them."""
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
    """Its pools, each once, with the label that names them and the strategy."""
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
    """Where instances begin on the board, in eighths of it."""
    text = FLEET.replace("[3g.40gb, 1g.10gb]", profiles)
    pool = load(None, Files(environ={}), text=text).fleet.pools[0]
    assert sorted(each["position"] for each in mig_mapping(devices_of(pool))[0]) == positions
