"""A cluster of simulated nodes, followed by the whole application: nodes, pods, faults, and what goes wrong."""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from fakedev.fleet.events import ChangeNodes, Where
from fakedev.fleet.fleet import Fleet
from fakedev.kubernetes.controller import STEPS_AT_ONCE, FleetNodes, Inbox
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, FollowedCluster


def test_nodes_get_gpus_and_labels(cluster: FollowedCluster) -> None:
    """Nodes with the label have eight GPUs and the labels of GPU feature discovery; others are never touched."""
    cluster.add(node("other"), ticks=2)
    for name in ("a", "b"):
        item = cluster.node(name)
        assert item["status"]["capacity"][GPU] == item["status"]["allocatable"][GPU] == "8"
        assert item["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert GPU not in cluster.node("other")["status"]["capacity"]
    assert list(cluster.node("other")["metadata"]["labels"]) == ["kubernetes.io/hostname"]
    assert [each.name for each in cluster.app.fleet.roster.shown] == ["a", "b"]
    assert cluster.held("a") == {}
    whole = cluster.app.get("/metrics").body.decode()
    assert whole.count("DCGM_FI_DEV_GPU_UTIL{") == 16


def test_one_request_a_node_and_none_afterwards(cluster: FollowedCluster) -> None:
    assert cluster.api.requests["patch", "nodes/status", 200] == 2
    before = cluster.api.requests.copy()
    cluster.tick(60)
    requested = cluster.api.requests_since(before)
    assert {key for key in requested if key[1] != "leases"} == set()


def test_a_pod_has_its_devices_and_its_load(cluster: FollowedCluster) -> None:
    """From the next tick after it was bound its name is on two GPUs; they work once it is Running."""
    cluster.add(pod("train", "a", {GPU: "2"}, phase="Pending"), ticks=2)
    rows = [row for row in cluster.rows("a") if row.get("pod")]
    assert [(row["pod"], row["namespace"], row["container"]) for row in rows] == [("train", "default", "main")] * 2
    first = cluster.app.fleet.roster.node("a").first  # type: ignore[union-attr]
    units = [first + int(row["gpu"]) for row in rows]
    assert all(cluster.app.fleet.usage_ratio[unit] == 0 for unit in units)
    cluster.modify("pods", "train", {"status": {"phase": "Running"}}, ticks=3)
    assert all(0.8 <= cluster.app.fleet.usage_ratio[unit] <= 1.0 for unit in units)
    cluster.modify("pods", "train", {"status": {"phase": "Succeeded"}}, ticks=2)
    assert cluster.held("a") == {}


@pytest.mark.slow
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

    class Nodes(dict[str, Where]):
        def items(self) -> Any:
            looks.append(len(looks))
            return super().items()

    nodes = FleetNodes(cluster.app.fleet, cluster.reactor)
    wanted = Nodes(a=("h100", ()), b=("h100", ()))
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
    monkeypatch.setattr("fakedev.kubernetes.controller._PODS_IN_A_TICK", 2)
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
