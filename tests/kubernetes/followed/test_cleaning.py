"""``fakedev kube clean``: what fakedev wrote to a cluster goes, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from fakedev.kubernetes.cleaning import Cleaning
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.pods import DEVICES
from fakedev.runtime.http_client import ApiError
from tests.support.deferreds import failure_result_of, success_result_of
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, FollowedCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """A cluster that fakedev has written to, with all that it can write; fakedev has stopped.

    One of the nodes is a real one, and of another one somebody has changed a label since.
    """
    more = ", resources: both, compatibility: fake-gpu-operator"
    followed = FollowedCluster(tmp_path, more=more)
    real = node("real", {"nvidia.com/gpu.product": "Tesla-T4"}, has_kubelet=True)
    real["status"]["capacity"][GPU] = real["status"]["allocatable"][GPU] = "4"
    followed.api.add(real)
    for name in ("a", "b"):
        followed.api.add(node(name, {LABEL: "h100"}))
    followed.api.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "default"}})
    followed.start()
    followed.tick(3)
    followed.say("fault node-down devices=a/*", ticks=3)
    followed.stop()
    followed.api.modify("nodes", "b", {"metadata": {"labels": {"nvidia.com/gpu.product": "Changed"}}})
    return followed


class Clean:
    """One cleaning, and what it told."""

    def __init__(self, cluster: FollowedCluster, *, is_dry: bool = False, selector: str = "") -> None:
        self.lines: list[str] = []
        client = ApiClient(cluster.api.server, cluster.reactor, random=lambda: 0.5)
        self.cleaning = Cleaning(client, self.lines.append, is_dry=is_dry, selector=selector)
        self.running: Deferred[Any] = Deferred.fromCoroutine(self.cleaning.clean())
        cluster.reactor.pass_seconds(20)

    @property
    def problems(self) -> list[str]:
        """What the server refused, when the cleaning is over."""
        success_result_of(self.running)
        return self.cleaning.problems


def names(cluster: FollowedCluster, resource: str) -> list[str]:
    """The names of all objects of a resource."""
    return [each["metadata"]["name"] for each in cluster.api.items(resource)]


def test_what_fakedev_wrote_is_removed(cluster: FollowedCluster) -> None:
    """Labels, resources, annotations and taints of nodes, its slices, ConfigMaps and Leases; a line for each."""
    assert names(cluster, "resourceslices")
    assert names(cluster, "configmaps") != ["mine"]
    clean = Clean(cluster)
    assert clean.problems == []
    assert cluster.counts("a") == (None, None)
    item = cluster.node("a")
    assert item["metadata"]["labels"] == {"kubernetes.io/hostname": "a", LABEL: "h100"}
    assert item["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert not item["spec"].get("taints")
    assert names(cluster, "resourceslices") == names(cluster, "leases") == []
    assert names(cluster, "configmaps") == ["mine"]
    assert "node a: cleaned" in clean.lines
    assert len(clean.lines) == clean.cleaning.count
    assert Clean(cluster).lines == []


def test_what_others_wrote_stays(cluster: FollowedCluster) -> None:
    """A real GPU node is as it was, and a label that somebody has changed is theirs."""
    before = cluster.node("real")
    clean = Clean(cluster)
    assert clean.problems == []
    assert cluster.node("real") == before
    assert cluster.node("b")["metadata"]["labels"]["nvidia.com/gpu.product"] == "Changed"
    assert not any("real" in line for line in clean.lines)


def test_a_dry_run(cluster: FollowedCluster) -> None:
    before = cluster.api.requests.copy()
    dry = Clean(cluster, is_dry=True)
    assert {key[0] for key in cluster.api.requests_since(before)} == {"list"}
    assert cluster.counts("a")[0] == "8"
    real = Clean(cluster)
    assert [line.replace("would be ", "") for line in dry.lines] == real.lines


def test_somebody_else_changes_a_node_meanwhile(cluster: FollowedCluster) -> None:
    cluster.api.fail(409, "patch", "nodes", times=3)
    assert Clean(cluster).problems == []
    assert not cluster.node("a")["spec"].get("taints")


def test_somebody_else_changes_it_all_the_time(cluster: FollowedCluster) -> None:
    cluster.api.fail(409, "patch", "nodes", times=-1)
    clean = Clean(cluster)
    (problem,) = clean.problems
    assert problem.startswith("node a: Operation cannot be fulfilled") or problem.startswith("node a: ")
    assert cluster.counts("b") == (None, None)
    assert names(cluster, "leases") == []


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("list", "nodes"), ("patch", "nodes/status"), ("list", "configmaps"), ("delete", "leases")],
)
def test_forbidden(cluster: FollowedCluster, verb: str, resource: str) -> None:
    cluster.api.forbid(verb, resource)
    clean = Clean(cluster)
    (problem,) = clean.problems
    assert f'resources: ["{resource}"], verbs: ["{verb}"]' in problem
    assert names(cluster, "resourceslices") == []
    assert (names(cluster, "leases") == []) == (resource != "leases")
    assert (cluster.counts("b") == (None, None)) == ("nodes" not in resource)


def test_a_server_that_cannot_be_reached(cluster: FollowedCluster) -> None:
    cluster.api.stop()
    clean = Clean(cluster)
    assert "127.0.0.1" in str(failure_result_of(clean.running, ApiError).value)


def test_a_pod_keeps_running(cluster: FollowedCluster) -> None:
    cluster.api.add(pod("train", "a", {GPU: "2"}))
    before = cluster.api.items("pods")
    Clean(cluster)
    assert cluster.api.items("pods") == before


def test_some_nodes(cluster: FollowedCluster) -> None:
    """A selector cleans its nodes, their slices and pods; Leases and ConfigMaps belong to all."""
    cluster.api.modify("nodes", "b", {"metadata": {"labels": {"rack": "2"}}})
    for name in ("a", "b"):
        cluster.api.add(pod(f"of-{name}", name, {GPU: "1"}, annotations={DEVICES: "{}", "mine": "x"}))
    leases, config_maps = names(cluster, "leases"), names(cluster, "configmaps")
    assert Clean(cluster, selector="rack=2").problems == []
    assert {each["spec"]["nodeName"] for each in cluster.api.items("resourceslices")} == {"a"}
    assert "fakedev/wrote" in cluster.node("a")["metadata"]["annotations"]
    assert "fakedev/wrote" not in cluster.node("b")["metadata"].get("annotations", {})
    assert cluster.api.get("pods", "of-b")["metadata"]["annotations"] == {"mine": "x"}
    assert DEVICES in cluster.api.get("pods", "of-a")["metadata"]["annotations"]
    assert (names(cluster, "leases"), names(cluster, "configmaps")) == (leases, config_maps)
