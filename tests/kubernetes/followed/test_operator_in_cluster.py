"""Users of fake-gpu-operator in a cluster, in memory: its ConfigMaps, labels, devices of others, topology server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import application
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, FollowedCluster
from tests.support.kube.store import StatusError

LABEL = "run.ai/simulated-gpu-node-pool"
#: As the component's ConfigMap has it, with other devices.
TOPOLOGY = """
nodePools:
  default:
    gpuProduct: NVIDIA-A100-SXM4-40GB
    gpuCount: 2
    gpuMemory: 40960
    otherDevices: [{name: rdma/hca, count: 4}]
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
"""
CONFIGURATION = """
fleet: {{seed: 7, pools: [{{name: dgx, nodes: cluster, device: h100}}]}}
topology: {topology}
web: ["127.0.0.1:9400"]
workloads: {{listen: ["127.0.0.1:9500"]}}
kubernetes: {{kubeconfig: {kubeconfig}, nodes: {{label: fakedev/pool}}, compatibility: fake-gpu-operator}}
"""


def followed(folder: Path, topology: str = TOPOLOGY, label: str = LABEL) -> FollowedCluster:
    """A cluster with a node ``a`` of the operator's, and the application with a topology."""
    file = folder / "topology.yml"
    file.write_text(topology, encoding="utf-8")
    made = FollowedCluster(folder, text=CONFIGURATION.replace("{topology}", str(file)))
    made.api.add(node("a", {label: "default"}))
    made.start()
    made.tick(3)
    return made


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """A cluster with the node ``a``."""
    return followed(tmp_path)


def config_map(cluster: FollowedCluster, name: str = "a") -> Any:
    """The ConfigMap of a node; None when there is none."""
    try:
        return cluster.api.get("configmaps", f"topology-{name}", "default")
    except StatusError:
        return None


def written(cluster: FollowedCluster, name: str = "a") -> Any:
    """The topology that a node's ConfigMap has."""
    return json.loads(config_map(cluster, name)["data"]["topology.yml"])


def owners(topology: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pod and container of each GPU of a node's topology."""
    found = [gpu["status"]["allocatedBy"] for gpu in topology["gpus"]]
    return [(each["pod"], each["container"]) for each in found]


def reload(cluster: FollowedCluster) -> bytes:
    """Read the files again, and let ticks pass; the answer."""
    peer = cluster.app.http()
    peer.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    cluster.tick(4)
    peer.read()
    return bytes(peer.transport.value())


def test_a_node_of_the_operator(cluster: FollowedCluster) -> None:
    """Its label names the pool of the topology; it has the GPUs, the other devices and the labels of the operator."""
    item = cluster.node("a")
    assert {GPU: "2", "rdma/hca": "4"}.items() <= item["status"]["capacity"].items()
    assert {GPU: "2", "rdma/hca": "4"}.items() <= item["status"]["allocatable"].items()
    assert {
        "run.ai/fake.gpu": "true",
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/mig.strategy": "mixed",
    }.items() <= item["metadata"]["labels"].items()


MIG = """
version: v1
mig-configs:
  selected:
    - devices: ["1"]
      mig-enabled: true
      mig-devices: [{name: 1g.5gb, position: 0, size: 1}, {name: 3g.20gb, position: 4, size: 4}]
"""


@pytest.mark.slow
def test_instances_by_annotation(cluster: FollowedCluster) -> None:
    """As its MIG faker takes them: instances of single boards at their places. A mistake changes nothing."""

    def ask(text: str) -> str:
        cluster.modify("nodes", "a", {"metadata": {"annotations": {"run.ai/mig.config": text}}}, ticks=6)
        return str(cluster.node("a")["metadata"]["labels"]["nvidia.com/mig.config.state"])

    assert ask(MIG) == "success"
    capacity = cluster.node("a")["status"]["capacity"]
    assert [capacity[name] for name in (GPU, "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb")] == ["1", "1", "1"]
    mapping = json.loads(base64.b64decode(cluster.node("a")["metadata"]["annotations"]["run.ai/mig-mapping"]))
    places = {board: sorted(each["position"] for each in found) for board, found in mapping.items() if found}
    assert places == {"1": [0, 4]}
    mistakes = {"position: 4": "position: 5", "3g.20gb": "3g.21gb", '"1"': '"7"', "selected": "all", "version: v1": "["}
    for mistake in (*(MIG.replace(*each) for each in mistakes.items()), MIG + "#" * 20_000):
        assert ask(mistake) == "failed"
        assert cluster.node("a")["status"]["capacity"] == capacity
    assert [reason for _, reason, _ in cluster.events("a")].count("MigConfigFailed") == 6
    assert ask("mig-configs: {selected: [{devices: [1], mig-enabled: false}]}") == "success"
    assert cluster.node("a")["status"]["capacity"][GPU] == "2"


def test_the_config_map_of_a_node(cluster: FollowedCluster) -> None:
    """Named and labelled as the operator does; the node owns it, so that it goes with the node in any case."""
    item = config_map(cluster)
    labels = {"node-topology": "true", "node-name": "a", "app.kubernetes.io/managed-by": "fakedev"}
    assert item["metadata"]["labels"] == labels
    assert item["metadata"]["ownerReferences"][0]["uid"] == cluster.node("a")["metadata"]["uid"]
    found = written(cluster)
    assert (found["gpuProduct"], found["gpuMemory"], found["migStrategy"]) == ("NVIDIA-A100-SXM4-40GB", 40960, "mixed")
    assert found["otherDevices"] == [{"name": "rdma/hca", "count": 4}]
    assert owners(found) == [("", ""), ("", "")]


def test_who_uses_which_gpu(cluster: FollowedCluster) -> None:
    """The ConfigMap, the topology server and the metrics say the same; the pod's UID is that of the cluster."""
    annotations = {"run.ai/simulated-gpu-utilization": "10-30"}
    item = cluster.add(pod("train", "a", {GPU: "1"}, namespace="ml", annotations=annotations), ticks=4)
    found = written(cluster)
    assert sorted(owners(found)) == [("", ""), ("train", "main")]
    (gpu,) = [each for each in found["gpus"] if each["status"]["allocatedBy"]["pod"]]
    assert gpu["status"]["allocatedBy"] == {"namespace": "ml", "pod": "train", "container": "main"}
    (usage,) = gpu["status"]["podGpuUsageStatus"].items()
    assert usage[0] == item["metadata"]["uid"]
    assert usage[1]["utilization"] == {"min": 10, "max": 30}
    assert owners(cluster.app.json("/topology/nodes/a")) == owners(found)
    uuid = gpu["id"]
    (row,) = [
        line
        for line in cluster.page("a").splitlines()
        if line.startswith("DCGM_FI_DEV_GPU_UTIL{") and uuid in line
    ]
    assert 'pod="train"' in row
    assert 10 <= float(row.rsplit(" ", 1)[1]) <= 30
    cluster.api.remove("pods", "train", "ml")
    cluster.tick(4)
    assert owners(written(cluster)) == [("", ""), ("", "")]


@pytest.mark.slow
def test_nothing_is_requested_in_the_steady_state(cluster: FollowedCluster) -> None:
    cluster.add(pod("train", "a", {GPU: "1"}), ticks=5)
    before = cluster.api.requests.copy()
    cluster.tick(60)
    assert {key[1] for key in cluster.api.requests_since(before)} == {"leases"}


def test_a_node_that_goes(cluster: FollowedCluster) -> None:
    """Its ConfigMap is deleted; a node that comes has one; others keep theirs."""
    cluster.add(node("b", {LABEL: "default"}), ticks=4)
    assert config_map(cluster, "b") is not None
    cluster.remove("nodes", "a", ticks=4)
    assert config_map(cluster) is None
    assert config_map(cluster, "b") is not None


def test_config_maps_that_are_refused(cluster: FollowedCluster) -> None:
    """Told as a rule for the Role, and tried again after some time, not with each tick."""
    refused = cluster.api.forbid("patch", "configmaps")
    before = cluster.api.requests.copy()
    cluster.add(pod("train", "a", {GPU: "1"}), ticks=20)
    assert cluster.api.requests_since(before)["patch", "configmaps", 403] == 1
    cluster.api.works(refused)
    cluster.tick(30)
    assert ("train", "main") in owners(written(cluster))


def test_a_node_that_goes_while_its_config_map_is_refused(cluster: FollowedCluster) -> None:
    refused = cluster.api.forbid("delete", "configmaps")
    cluster.remove("nodes", "a", ticks=4)
    assert config_map(cluster) is not None
    cluster.api.works(refused)
    cluster.tick(40)
    assert config_map(cluster) is None


def test_another_label(tmp_path: Path) -> None:
    """The topology's nodePoolLabelKey takes the place of the operator's label; ours is followed beside it."""
    topology = TOPOLOGY.replace(LABEL, "example.com/gpus")
    cluster = followed(tmp_path, topology, label="example.com/gpus")
    cluster.api.add(node("ours", {"fakedev/pool": "default"}))
    cluster.add(node("operators", {LABEL: "default"}), ticks=3)
    assert [each.name for each in cluster.app.fleet.roster.shown] == ["a", "ours"]
    assert cluster.app.json("/topology")["nodePoolLabelKey"] == "example.com/gpus"


def test_a_changed_label(cluster: FollowedCluster, tmp_path: Path) -> None:
    """Needs a restart, and says so; nothing else of that change is used."""
    changed = TOPOLOGY.replace(LABEL, "example.com/gpus").replace("gpuCount: 2", "gpuCount: 4")
    (tmp_path / "topology.yml").write_text(changed, encoding="utf-8")
    answer = reload(cluster)
    assert b"kubernetes: has changed, which needs a restart" in answer
    assert cluster.node("a")["status"]["capacity"][GPU] == "2"


def test_a_changed_topology(cluster: FollowedCluster, tmp_path: Path) -> None:
    """Other devices, another number of GPUs, a further pool: nodes follow without a restart."""
    cluster.api.add(node("b", {LABEL: "new"}))
    changed = TOPOLOGY.replace("count: 4", "count: 6").replace(
        "nodePools:\n", "nodePools:\n  new: {gpuProduct: Tesla-T4, gpuCount: 3}\n"
    )
    (tmp_path / "topology.yml").write_text(changed, encoding="utf-8")
    reload(cluster)
    assert cluster.node("a")["status"]["capacity"]["rdma/hca"] == "6"
    assert cluster.node("b")["status"]["capacity"][GPU] == "3"
    assert len(written(cluster, "b")["gpus"]) == 3
    assert written(cluster)["otherDevices"] == [{"name": "rdma/hca", "count": 6}]
    (tmp_path / "topology.yml").write_text(changed.replace("gpuCount: 2", "gpuCount: 5"), encoding="utf-8")
    reload(cluster)
    assert cluster.node("a")["status"]["capacity"][GPU] == "5"
    assert len(written(cluster)["gpus"]) == 5


def test_instances(tmp_path: Path) -> None:
    """A pool of the configuration with MIG: the mapping and the state of the operator's mig-faker."""
    text = CONFIGURATION.replace("topology: {topology}\n", "").replace("device: h100", "device: h100, mig: [1g.10gb]")
    cluster = FollowedCluster(tmp_path, text=text)
    cluster.api.add(node("a", {LABEL: "dgx"}))
    cluster.start()
    cluster.tick(3)
    metadata = cluster.node("a")["metadata"]
    assert metadata["labels"]["nvidia.com/mig.config.state"] == "success"
    mapping = json.loads(base64.b64decode(metadata["annotations"]["run.ai/mig-mapping"]))
    assert [*mapping["0"][0]] == ["position", "device_uuid", "gpu_instance_id"]
    assert mapping["0"][0]["device_uuid"].startswith("MIG-")


def test_shared_gpus(cluster: FollowedCluster) -> None:
    """gpu-fraction is a share of load and memory; /topology lists all pods of a GPU, and one is its owner."""
    half = {"gpu-fraction": "0.5", "run.ai/simulated-gpu-utilization": "40"}
    cluster.add(pod("one", "a", {GPU: "1"}, annotations=half), ticks=4)
    (gpu,) = [each for each in written(cluster)["gpus"] if each["status"]["allocatedBy"]["pod"]]
    (usage,) = gpu["status"]["podGpuUsageStatus"].values()
    assert usage["utilization"] == {"min": 20, "max": 20}
    assert usage["fbUsed"] == 20480


def test_config_maps_are_a_topology(cluster: FollowedCluster, tmp_path: Path) -> None:
    """What `kubectl get configmap -l node-topology=true -o yaml` prints is served without a cluster: the same GPUs."""
    item = cluster.add(pod("train", "a", {GPU: "1"}), ticks=4)
    kept = {"kind": "List", "apiVersion": "v1", "items": [config_map(cluster)]}
    (tmp_path / "kept.yaml").write_text(json.dumps(kept), encoding="utf-8")
    text = f"topology: {tmp_path / 'kept.yaml'}\nweb: ['127.0.0.1:9400']\nworkloads: {{listen: []}}\n"
    with application(text) as app:
        app.tick(2)
        now, then = app.json("/topology/nodes/a"), written(cluster)
        assert [gpu["id"] for gpu in now["gpus"]] == [gpu["id"] for gpu in then["gpus"]]
        assert owners(now) == owners(then)
        used = [gpu["status"]["podGpuUsageStatus"] for gpu in now["gpus"]]
        assert [list(each) for each in used if each] == [[item["metadata"]["uid"]]]


def test_the_topology_server_of_the_manifests(tmp_path: Path) -> None:
    """Its Service leads to the address with `serve: metrics`, which has the pages of the topology too."""
    text = CONFIGURATION.replace("topology: {topology}\n", "")
    text = text.replace('["127.0.0.1:9400"]', '[{{listen: "127.0.0.1:9400", serve: metrics}}]')
    cluster = FollowedCluster(tmp_path, text=text)
    cluster.api.add(node("a", {LABEL: "dgx"}))
    cluster.start()
    cluster.tick(3)
    assert len(cluster.app.json("/topology/nodes/a")["gpus"]) == 8
    assert cluster.app.json("/topology")["nodePools"]["dgx"]["gpuCount"] == 8
