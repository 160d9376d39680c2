"""Pods of a followed cluster: which devices they have, what the pages show of them, and what they do."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.fleet.spec.fleet_spec import NodeSpec
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, FollowedCluster


def container(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    """A container that wants so many GPUs."""
    return {"name": name, "image": "busybox", "resources": {"limits": {GPU: str(gpus)} if gpus else {}}, **more}


def with_containers(name: str, node_name: str, containers: list[Any], inits: list[Any], phase: str = "Running") -> Any:
    """A pod with these containers."""
    item = pod(name, node_name, phase=phase)
    item["spec"] |= {"containers": containers, "initContainers": inits}
    return item


def load_of(cluster: FollowedCluster, pod_name: str, node_name: str = "a") -> list[int]:
    """The utilization that the devices of a pod show, in percent."""
    return [int(row["value"]) for row in cluster.rows(node_name) if row.get("pod") == pod_name]


class TestDevices:
    def test_the_ids_of_pages_and_of_the_plugin_are_the_same(self, cluster: FollowedCluster) -> None:
        """So a UUID of a row is what a device plugin would list for that GPU, on all pages, for all pods."""
        pool = cluster.app.configuration.fleet.pools[0]
        ids = [slot.id for slot in NodeDevices(7, pool, NodeSpec("a")).slots]
        assert [row["UUID"] for row in cluster.rows("a")] == ids
        cluster.add(pod("train", "a", {GPU: "8"}), ticks=2)
        assert cluster.held("a") == {("train", "main"): ids}
        assert cluster.node("a")["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"

    def test_after_a_restart_everything_is_as_before(self, cluster: FollowedCluster) -> None:
        """The same pods are on the same devices, the nodes need no patch, and no Event is told again."""
        for name, seconds in (("zeta", 10), ("beta", 20), ("alpha", 30)):
            cluster.api.add(pod(name, "a", {GPU: "2"}))
            status = {"startTime": f"2026-11-22T10:00:{seconds}Z"}
            cluster.modify("pods", name, {"status": status}, ticks=1)
        before, labels = cluster.held("a"), cluster.node("a")["metadata"]["labels"]
        assert len(before) == 3
        requests = cluster.api.requests.copy()
        cluster.start_again()
        cluster.tick(3)
        assert cluster.held("a") == before
        assert cluster.node("a")["metadata"]["labels"] == labels
        written = {key for key in cluster.api.requests_since(requests) if key[0] in ("patch", "create", "delete")}
        assert written == set()

    def test_devices_of_init_containers_are_used_again(self, cluster: FollowedCluster) -> None:
        """While it is Pending its init container has its two GPUs; then its main container has the same."""
        inits = [container("load", 2)]
        cluster.add(with_containers("train", "a", [container("main", 3)], inits, "Pending"), ticks=2)
        pending = {each for ids in cluster.held("a").values() for each in ids}
        cluster.modify("pods", "train", {"status": {"phase": "Running"}}, ticks=2)
        held = cluster.held("a")
        assert set(held) == {("train", "main")}
        assert set(held["train", "main"]) == pending
        assert len(pending) == 3

    def test_sidecars_keep_theirs(self, cluster: FollowedCluster) -> None:
        """An init container that goes on has its device beside that of the main container."""
        inits = [container("side", 1, restartPolicy="Always")]
        cluster.add(with_containers("train", "a", [container("main", 1)], inits), ticks=2)
        held = cluster.held("a")
        assert set(held) == {("train", "side"), ("train", "main")}
        assert held["train", "side"] != held["train", "main"]

    def test_more_gpus_than_there_are(self, cluster: FollowedCluster) -> None:
        """An Event at the pod says what is missing; it has nothing, others are as they were."""
        cluster.add(pod("first", "a", {GPU: "6"}), ticks=2)
        cluster.add(pod("second", "a", {GPU: "3"}), ticks=2)
        assert set(cluster.held("a")) == {("first", "main")}
        text = "container main wants 3 of nvidia.com/gpu, and node a has 2 free and healthy"
        assert cluster.events("second") == [("second", "UnexpectedAdmissionError", text)]

    def test_who_lacked_devices_gets_them_when_there_is_room(self, cluster: FollowedCluster) -> None:
        for name in ("first", "second", "third"):
            cluster.add(pod(name, "a", {GPU: "8"}), ticks=1)
        cluster.modify("pods", "first", {"status": {"phase": "Succeeded"}}, ticks=2)
        assert set(cluster.held("a")) == {("second", "main")}
        cluster.remove("pods", "second", ticks=2)
        assert set(cluster.held("a")) == {("third", "main")}
        assert len(cluster.held("a")["third", "main"]) == 8


class TestLives:
    def test_a_pod_that_is_gone_before_the_next_tick_leaves_nothing(self, cluster: FollowedCluster) -> None:
        cluster.api.add(pod("short", "a", {GPU: "2"}, phase="Pending"))
        cluster.reactor.settle()
        cluster.api.modify("pods", "short", {"status": {"phase": "Running"}})
        cluster.reactor.settle()
        cluster.remove("pods", "short", ticks=3)
        assert cluster.held("a") == {}
        assert not cluster.app.fleet.workloads.by_id

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_pods_that_are_over_have_no_devices(self, cluster: FollowedCluster, phase: str) -> None:
        cluster.add(pod("done", "a", {GPU: "8"}, phase=phase), ticks=2)
        assert cluster.held("a") == {}
        cluster.add(pod("next", "a", {GPU: "8"}), ticks=2)
        assert set(cluster.held("a")) == {("next", "main")}
        assert cluster.events("next") == []

    @pytest.mark.slow
    def test_a_name_used_again(self, cluster: FollowedCluster) -> None:
        """Another pod of the same name, seen only in a later list: the old one's work is not counted twice."""
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=2)
        cluster.api.stop()
        cluster.api.remove("pods", "train")
        cluster.api.add(pod("train", "b", {GPU: "3"}))
        cluster.api.start()
        cluster.tick(70)
        assert cluster.held("a") == {}
        assert len(cluster.held("b")["train", "main"]) == 3
        assert len(cluster.app.fleet.workloads.by_id) == 1

    def test_pods_on_nodes_that_come_later(self, cluster: FollowedCluster) -> None:
        cluster.add(pod("train", "c", {GPU: "2"}), ticks=3)
        cluster.add(node("c", {LABEL: "h100"}), ticks=2)
        assert len(cluster.held("c")["train", "main"]) == 2

    def test_nodes_that_leave_with_their_pods(self, cluster: FollowedCluster) -> None:
        """The work ends with the node; when it comes back the pod works again, and did not fail meanwhile."""
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=3)
        cluster.remove("nodes", "a", ticks=2)
        assert cluster.page("a") == "status 404"
        assert not cluster.app.fleet.workloads.by_id
        cluster.add(node("a", {LABEL: "h100"}), ticks=4)
        assert len(cluster.held("a")["train", "main"]) == 2
        assert min(load_of(cluster, "train")) >= 75

    def test_devices_of_others_are_left_alone(self, cluster: FollowedCluster) -> None:
        """Pods of a node that is not simulated, and pods without devices, are no matter."""
        cluster.api.add(node("real"))
        cluster.api.add(pod("on-real", "real", {GPU: "4"}))
        cluster.add(pod("plain", "a"), ticks=3)
        assert cluster.held("a") == {}
        assert cluster.events() == []
        assert cluster.metric("fakedev_kubernetes_pods") == 0


class TestWork:
    @pytest.mark.parametrize(
        ("annotations", "low", "high"),
        [
            ({}, 79, 100),
            ({"run.ai/simulated-gpu-utilization": "10-30"}, 9, 31),
            ({"run.ai/simulated-gpu-utilization": "45"}, 44, 46),
            ({"fakedev/profile": "20:0:1h"}, 19, 21),
        ],
    )
    def test_annotations(self, cluster: FollowedCluster, annotations: dict[str, str], low: int, high: int) -> None:
        """A range, a number, a profile; without one the configuration's 80-100."""
        cluster.api.add(pod("train", "a", {GPU: "2"}, annotations=annotations))
        seen = []
        for _ in range(8):
            cluster.tick(1)
            seen += load_of(cluster, "train")
        assert low <= min(seen[4:]) <= max(seen) <= high, seen

    def test_a_kind_of_work(self, cluster: FollowedCluster) -> None:
        cluster.api.add(pod("t", "a", {GPU: "1"}, annotations={"fakedev/kind": "tensor"}))
        cluster.add(pod("m", "a", {GPU: "1"}, annotations={"fakedev/kind": "memory"}), ticks=4)
        fleet = cluster.app.fleet
        pods = {row["pod"]: int(row["gpu"]) for row in cluster.rows("a") if row.get("pod")}
        first = fleet.roster.node("a").first  # type: ignore[union-attr]
        active = fleet.state.levels["device"].arrays["tensor_active_ratio"]
        assert active[first + pods["t"]] > 0.7
        assert active[first + pods["m"]] < 0.1

    def test_what_cannot_be_read_is_told_at_the_pod(self, cluster: FollowedCluster) -> None:
        """Once, with the annotation and its text; the default is used for it."""
        annotations = {"run.ai/simulated-gpu-utilization": "a lot", "fakedev/kind": "tensro"}
        cluster.add(pod("train", "a", {GPU: "1"}, annotations=annotations), ticks=3)
        told = cluster.events("train")
        assert [reason for _, reason, _ in told] == ["UnreadableAnnotation"] * 2
        assert any("run.ai/simulated-gpu-utilization: 'a lot'" in text for _, _, text in told)
        assert any("'tensro'" in text and "did you mean tensor" in text for _, _, text in told), told
        assert load_of(cluster, "train")[0] >= 75
        cluster.modify("pods", "train", {"metadata": {"labels": {"x": "y"}}}, ticks=2)
        assert cluster.events("train") == told

    def test_an_annotation_that_changes(self, cluster: FollowedCluster) -> None:
        key = "run.ai/simulated-gpu-utilization"
        cluster.add(pod("train", "a", {GPU: "2"}, annotations={key: "10"}), ticks=3)
        before = cluster.held("a")
        cluster.modify("pods", "train", {"metadata": {"annotations": {key: "90"}}}, ticks=3)
        assert cluster.held("a") == before
        assert min(load_of(cluster, "train")) >= 85
        assert len(cluster.app.fleet.workloads.by_id) == 1
