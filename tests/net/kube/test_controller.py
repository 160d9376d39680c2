"""A cluster of simulated nodes, followed by the whole application: nodes, pods, faults, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from fakedev.kube.cluster_node import ClusterNode
from fakedev.net.kube.fleet_nodes import FleetNodes
from fakedev.net.kube.inbox import STEPS_AT_ONCE, Inbox
from fakedev.sim.events import ChangeNodes
from fakedev.sim.fleet import Fleet
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import LABEL, FollowedCluster

GPU = "nvidia.com/gpu"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FollowedCluster]:
    """A cluster with two nodes of the pool and one of others; the application runs."""
    followed = FollowedCluster(tmp_path)
    followed.api.add(node("a", {LABEL: "h100"}))
    followed.api.add(node("b", {LABEL: "h100"}))
    followed.api.add(node("other"))
    followed.start()
    followed.tick(2)
    yield followed


def pods_of(page: str) -> dict[str, tuple[str, str, str]]:
    """The pod, namespace and container of each GPU that has one, by its index."""
    rows = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{gpu="(\d+)",.*\} ', page, re.MULTILINE)
    found = {}
    for line in page.splitlines():
        match = re.match(r'DCGM_FI_DEV_GPU_UTIL\{gpu="(\d+)"(.*)\} ', line)
        if match and 'pod="' in match[2] and 'pod=""' not in match[2]:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            found[match[1]] = (labels["pod"], labels["namespace"], labels["container"])
    assert len(rows) == 8
    return found


def test_nodes_get_gpus_and_labels(cluster: FollowedCluster) -> None:
    """Nodes with the label have eight GPUs and the labels of GPU feature discovery; others are never touched."""
    for name in ("a", "b"):
        item = cluster.node(name)
        assert item["status"]["capacity"][GPU] == item["status"]["allocatable"][GPU] == "8"
        assert item["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert GPU not in cluster.node("other")["status"]["capacity"]
    assert list(cluster.node("other")["metadata"]["labels"]) == ["kubernetes.io/hostname"]
    assert [each.name for each in cluster.app.fleet.roster.shown] == ["a", "b"]
    assert pods_of(cluster.page("a")) == {}
    whole = cluster.app.get("/metrics").body.decode()
    assert whole.count("DCGM_FI_DEV_GPU_UTIL{") == 16


def test_one_request_a_node_and_none_afterwards(cluster: FollowedCluster) -> None:
    """A node takes one patch; while nothing changes, nothing is requested."""
    assert cluster.api.requests["patch", "nodes/status", 200] == 2
    before = cluster.api.requests.copy()
    cluster.tick(60)
    requested = cluster.api.requests_since(before)
    assert {key for key in requested if key[1] != "leases"} == set()


def test_a_pod_has_its_devices_and_its_load(cluster: FollowedCluster) -> None:
    """From the next tick after it was bound its name is on two GPUs; they work once it is Running."""
    cluster.api.add(pod("train", "a", {GPU: "2"}, phase="Pending"))
    cluster.tick(2)
    held = pods_of(cluster.page("a"))
    assert set(held.values()) == {("train", "default", "main")}
    assert len(held) == 2
    first = cluster.app.fleet.roster.node("a").first  # type: ignore[union-attr]
    units = [first + int(index) for index in held]
    assert all(cluster.app.fleet.usage_ratio[unit] == 0 for unit in units)
    cluster.api.modify("pods", "train", {"status": {"phase": "Running"}}, "default")
    cluster.tick(3)
    assert all(0.8 <= cluster.app.fleet.usage_ratio[unit] <= 1.0 for unit in units)
    cluster.api.modify("pods", "train", {"status": {"phase": "Succeeded"}}, "default")
    cluster.tick(2)
    assert pods_of(cluster.page("a")) == {}


def test_nodes_come_and_go(cluster: FollowedCluster) -> None:
    """The fleet has the nodes that the cluster has."""
    cluster.api.remove("nodes", "a")
    cluster.api.add(node("c", {LABEL: "h100"}))
    cluster.tick(3)
    assert [each.name for each in cluster.app.fleet.roster.shown] == ["b", "c"]
    assert cluster.node("c")["status"]["capacity"][GPU] == "8"
    assert cluster.page("a") == "status 404"


def test_a_fault_is_seen_by_the_scheduler_and_recovers(cluster: FollowedCluster) -> None:
    """A lost GPU lowers allocatable in the next tick, capacity stays; an Event tells; clearing it brings it back."""
    cluster.say("fault lost devices=a/3")
    cluster.tick(1)
    cluster.tick(1)
    status = cluster.node("a")["status"]
    assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("8", "7")
    reasons = [event["reason"] for event in cluster.api.items("events")]
    assert "DeviceUnhealthy" in reasons
    cluster.say("clear all")
    cluster.tick(3)
    assert cluster.node("a")["status"]["allocatable"][GPU] == "8"
    assert "DeviceHealthy" in [event["reason"] for event in cluster.api.items("events")]


def test_a_node_without_its_plugin(cluster: FollowedCluster) -> None:
    """The cluster can give none of its devices; pods and pages go on."""
    cluster.api.add(pod("train", "a", {GPU: "8"}))
    cluster.tick(2)
    cluster.say("fault plugin-down devices=a/*")
    cluster.tick(2)
    assert cluster.node("a")["status"]["allocatable"][GPU] == "0"
    assert len(pods_of(cluster.page("a"))) == 8
    cluster.say("clear all")
    cluster.tick(2)
    assert cluster.node("a")["status"]["allocatable"][GPU] == "8"


def test_an_unknown_pool_is_told(cluster: FollowedCluster) -> None:
    """In the log with the label and the pools that there are; other nodes are not disturbed."""
    cluster.api.add(node("c", {LABEL: "h1000"}))
    cluster.tick(2)
    assert "fakedev_kubernetes_refused_nodes 1.0" in cluster.app.get("/-/metrics").body.decode()
    assert [each.name for each in cluster.app.fleet.roster.shown] == ["a", "b"]


def test_the_server_is_away_for_a_while(cluster: FollowedCluster) -> None:
    """The fleet and its pages go on; afterwards all is as the cluster has it: nothing twice, nothing lost."""
    cluster.api.add(pod("train", "a", {GPU: "2"}))
    cluster.tick(2)
    cluster.api.stop()
    cluster.tick(40)
    assert cluster.app.get("/readyz").status == 503
    assert set(pods_of(cluster.page("a")).values()) == {("train", "default", "main")}
    cluster.api.remove("pods", "train", "default")
    cluster.api.add(pod("next", "a", {GPU: "3"}))
    cluster.api.start()
    cluster.tick(70)
    assert cluster.app.get("/readyz").status == 200
    held = pods_of(cluster.page("a"))
    assert set(held.values()) == {("next", "default", "main")}
    assert len(held) == 3
    assert len(cluster.app.fleet.workloads.by_id) == 1


def test_a_large_cluster_is_taken_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the reactor takes more than some nodes of a list, and the fleet changes its nodes once."""
    followed = FollowedCluster(tmp_path)
    names = [f"n{number:02}" for number in range(60)]
    for name in names:
        followed.api.add(node(name, {LABEL: "h100"}))
        followed.api.add(pod(f"p-{name}", name, {GPU: "2"}))
    calls: list[tuple[str, Any]] = []
    _calls(monkeypatch, Inbox, "take", calls)
    _calls(monkeypatch, ClusterNode, "__init__", calls)
    events: list[tuple[str, Any]] = []
    _calls(monkeypatch, Fleet, "apply", events)
    followed.start()
    followed.tick(3)
    made = [len(list(group)) for name, group in groupby(calls, itemgetter(0)) if name == "__init__"]
    assert made == [STEPS_AT_ONCE] * 3
    assert [each.name for each in followed.app.fleet.roster.shown] == names
    assert len(followed.app.fleet.workloads.by_id) == 60
    assert followed.api.requests["patch", "nodes/status", 200] == 60
    assert sum(isinstance(event, ChangeNodes) for _, event in events) == 1


def test_nodes_are_compared_only_when_they_have_changed(cluster: FollowedCluster) -> None:
    """Heartbeats, pods and ticks change nothing of which nodes the fleet has: to compare all of them takes long."""
    looks: list[int] = []

    class Nodes(dict[str, str]):
        def items(self) -> Any:
            looks.append(len(looks))
            return super().items()

    nodes = FleetNodes(cluster.app.fleet, cluster.reactor)
    wanted = Nodes(a="h100", b="h100")
    for _ in range(5):
        nodes.want(wanted)
        nodes.ticked()
    assert len(looks) == 1
    cluster.api.add(node("c", {LABEL: "h100"}))  # the fleet has another node than this one knows
    cluster.tick(2)
    nodes.ticked()
    assert len(looks) == 2


def _calls(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, noted: list[Any]) -> None:
    """Note each call of a method by the method's name and its first argument."""
    method = getattr(kind, name)

    def called(self: Any, *arguments: Any, **options: Any) -> Any:
        noted.append((name, arguments[0] if arguments else None))
        return method(self, *arguments, **options)

    monkeypatch.setattr(kind, name, called)


def test_many_pods_begin_over_some_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no tick starts thousands of workloads; none is forgotten."""
    monkeypatch.setattr("fakedev.net.kube.controller._PODS_IN_A_TICK", 2)
    followed = FollowedCluster(tmp_path)
    followed.api.add(node("a", {LABEL: "h100"}))
    for number in range(5):
        followed.api.add(pod(f"train-{number}", "a", {GPU: "1"}))
    followed.start()
    counts = []
    for _ in range(6):
        followed.tick(1)
        counts.append(len(followed.app.fleet.workloads.by_id))
    assert max(after - before for before, after in pairwise([0, *counts])) == 2
    assert counts[-1] == 5
