"""Objects NodeResourceTopology: what each NUMA node of a simulated node has, and what is left of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.logger import LogEvent, formatEvent

from fakedev.kubernetes.client.api_paths import Need
from tests.kubernetes.followed.test_operator_in_cluster import CONFIGURATION, LABEL
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, FollowedCluster, followed
from tests.support.kube.permissions import not_allowed

OBJECTS = "noderesourcetopologies"
#: As docs/fake-nrt.md of fake-gpu-operator has it, with all keys.
TOPOLOGY = """
nodePools:
  plain: {gpuProduct: NVIDIA-A100-SXM4-40GB, gpuCount: 2, gpuMemory: 40960}
  numa:
    gpu: {backend: fake, profile: a100}
    numa:
      zones: 3
      gpusPerZone: [6, 2, 0]
      topologyManagerPolicy: restricted
      topologyManagerScope: pod
      memPerZone: 64Gi
      distances: {self: 10, remote: 30}
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
"""


def found(cluster: FollowedCluster, name: str) -> Any:
    """The object of a node; None when it has none."""
    return next((each for each in cluster.api.items(OBJECTS) if each["metadata"]["name"] == name), None)


def devices(cluster: FollowedCluster, name: str) -> list[tuple[str, str, str]]:
    """Capacity, allocatable and available of the boards of each NUMA node."""
    zones = [{each["name"]: each for each in zone["resources"]}[GPU] for zone in found(cluster, name)["zones"]]
    return [(zone["capacity"], zone["allocatable"], zone["available"]) for zone in zones]


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """Two nodes of eight boards at two NUMA nodes, as servers with an H100 have them."""
    return followed(tmp_path, "a", "b", ticks=4, more=", node-topologies: true")


def test_what_a_node_has(cluster: FollowedCluster) -> None:
    """Boards where they are, equal shares of all else; it goes with the node, in any case."""
    item = found(cluster, "a")
    assert item["metadata"]["ownerReferences"][0]["uid"] == cluster.node("a")["metadata"]["uid"]
    assert [zone["name"] for zone in item["zones"]] == ["node-0", "node-1"]
    assert [[cost["value"] for cost in zone["costs"]] for zone in item["zones"]] == [[10, 21], [21, 10]]
    assert devices(cluster, "a") == [("4", "4", "4")] * 2
    cpu, memory = (cluster.node("a")["status"]["allocatable"][name] for name in ("cpu", "memory"))
    halves = {each["name"]: each["available"] for each in item["zones"][1]["resources"]}
    assert (int(halves["cpu"]) * 2, halves["memory"]) == (int(cpu), f"{int(memory.removesuffix('Gi')) // 2}Gi")
    assert not_allowed(cluster.api.requests, Need.ALWAYS, Need.TOPOLOGIES) == []


def test_what_is_left(cluster: FollowedCluster) -> None:
    """Boards that pods have, and boards that have failed, are not: each at its NUMA node, and of no other node."""
    cluster.add(pod("train", "a", {GPU: "3"}), ticks=3)
    cluster.say("fault lost devices=a/7", ticks=3)
    first, second = devices(cluster, "a")
    assert [first[:2], second[:2]] == [("4", "4"), ("4", "3")]
    assert int(first[2]) + int(second[2]) == 8 - 3 - 1
    assert devices(cluster, "b") == [("4", "4", "4")] * 2
    cluster.remove("pods", "train", 3)
    assert devices(cluster, "a") == [("4", "4", "4"), ("4", "3", "3")]


def test_a_change_by_somebody_else_and_a_node_that_leaves(cluster: FollowedCluster) -> None:
    """Only what changes is written. A node without the label has none."""
    before = [request for request in cluster.api.requests if OBJECTS in str(request)]
    cluster.tick(5)
    assert [request for request in cluster.api.requests if OBJECTS in str(request)] == before
    cluster.modify("nodes", "b", {"metadata": {"labels": {"fakedev/pool": None}}}, 6)
    assert [each["metadata"]["name"] for each in cluster.api.items(OBJECTS)] == ["a"]


@pytest.mark.slow
def test_a_cluster_without_the_definition(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """One line says so for all nodes; they are written when the definition is there."""
    names = [f"n{number:02}" for number in range(20)]
    cluster = FollowedCluster(tmp_path, more=", node-topologies: true")
    for name in names:
        cluster.api.add(node(name, {"fakedev/pool": "h100"}))
    missing = [cluster.api.fail(404, verb, OBJECTS, times=-1) for verb in ("patch", "create")]
    cluster.start()
    cluster.tick(6)
    (line,) = [line for line in map(formatEvent, log_events) if "NodeResourceTopology" in line]
    assert "etc/kubernetes/components/node-topologies" in line
    for failure in missing:
        cluster.api.works(failure)
    cluster.tick(40)
    assert len(cluster.api.items(OBJECTS)) == 20


def test_pools_of_fake_gpu_operator(tmp_path: Path) -> None:
    """A pool with ``numa`` has them as its file says; a pool without has none."""
    file = tmp_path / "topology.yml"
    file.write_text(TOPOLOGY, encoding="utf-8")
    text = CONFIGURATION.replace("{topology}", str(file)).replace("operator}}", "operator, node-topologies: true}}")
    cluster = FollowedCluster(tmp_path, text=text)
    cluster.api.add(node("one", {LABEL: "plain"}))
    cluster.api.add(node("two", {LABEL: "numa"}))
    cluster.start()
    cluster.tick(4)
    assert found(cluster, "one") is None
    item = found(cluster, "two")
    assert {each["name"]: each["value"] for each in item["attributes"]} == {
        "topologyManagerPolicy": "restricted", "topologyManagerScope": "pod",
    }  # fmt: skip
    assert item["topologyPolicies"] == ["RestrictedPodLevel"]
    assert [zone["costs"][0]["value"] for zone in item["zones"]] == [10, 30, 30]
    assert devices(cluster, "two") == [("6", "6", "6"), ("2", "2", "2"), ("0", "0", "0")]
    assert {each["available"] for zone in item["zones"] for each in zone["resources"] if each["name"] == "memory"} == {
        "64Gi"
    }
