"""Faults of a followed cluster's nodes: what schedulers, kubelets and people see of them, and how they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.kube.api_server import pod
from tests.support.kube.followed import GPU, FollowedCluster, followed


def journal(cluster: FollowedCluster) -> list[dict[str, Any]]:
    """The entries of the fleet's journal."""
    found: list[dict[str, Any]] = cluster.app.json("/api/v1/journal")["journal"]
    return found


def starts(cluster: FollowedCluster) -> list[dict[str, Any]]:
    """The entries of workloads that have started."""
    return [each for each in journal(cluster) if each["kind"] == "start"]


def ready(cluster: FollowedCluster, name: str = "a") -> str:
    """The status of a node's condition Ready."""
    conditions = cluster.node(name)["status"]["conditions"]
    return next(str(condition["status"]) for condition in conditions if condition["type"] == "Ready")


def loads(cluster: FollowedCluster, pod_name: str) -> list[int]:
    """The utilization of a pod's devices in percent."""
    return [int(row["value"]) for row in cluster.rows("a") if row.get("pod") == pod_name]


class TestDevices:
    def test_an_xid_that_matters(self, cluster: FollowedCluster) -> None:
        """Allocatable falls in the tick of the fault, and an Event at the node names device and XID."""
        uuid = cluster.rows("a")[3]["UUID"]
        cluster.say("fault xid code=79 devices=a/3", ticks=1)
        assert cluster.counts("a") == ("8", "7")
        assert cluster.counts("b") == ("8", "8")
        assert cluster.events("a") == [("a", "DeviceUnhealthy", f"{uuid}: XID 79")]

    def test_recovery_as_the_vendor_does_it(self, tmp_path: Path) -> None:
        """recovery: vendor: after the reset it stays unhealthy, until its plugin is started again."""
        cluster = followed(tmp_path, "a", "b", more=", recovery: vendor")
        cluster.say("fault xid code=48 devices=a/3", ticks=2)
        cluster.say("fault reset devices=a/3", ticks=5)
        assert cluster.counts("a") == ("8", "7")
        cluster.say("fault plugin-down devices=a/* duration=2", ticks=1)
        assert cluster.counts("a") == ("8", "0")
        cluster.tick(4)
        assert cluster.counts("a") == ("8", "8")
        assert "DeviceHealthy" in cluster.reasons("a")

    @pytest.mark.slow
    def test_work_idles_until_its_device_is_well(self, cluster: FollowedCluster) -> None:
        """The pod does nothing on its other device either; when the lost one is back it works again on both."""
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=3)
        devices = cluster.held("a")
        index = next(row["gpu"] for row in cluster.rows("a") if row.get("pod"))
        begun = len(starts(cluster))
        cluster.say(f"fault lost devices=a/{index}", ticks=60)
        assert loads(cluster, "train") == [0]
        assert len(starts(cluster)) <= begun + 3  # it does not begin and end in each tick
        cluster.say("clear all", ticks=3)
        assert min(loads(cluster, "train")) >= 75
        assert cluster.held("a") == devices

    @pytest.mark.slow
    def test_work_of_a_node_that_was_down(self, cluster: FollowedCluster) -> None:
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=3)
        begun = len(starts(cluster))
        cluster.say("fault node-down devices=a/*", ticks=60)
        assert len(starts(cluster)) <= begun + 3
        cluster.say("clear all", ticks=4)
        assert min(loads(cluster, "train")) >= 75

    def test_work_that_fails_on_healthy_devices(self, cluster: FollowedCluster) -> None:
        """A container that an XID of its own has ended is started again after 10 s, as by a kubelet."""
        cluster.add(pod("train", "a", {GPU: "1"}), ticks=3)
        index = next(row["gpu"] for row in cluster.rows("a") if row.get("pod"))
        cluster.say(f"fault xid code=31 devices=a/{index}", ticks=3)
        assert loads(cluster, "train") == [0]
        cluster.tick(12)
        assert loads(cluster, "train")[0] >= 75

    def test_new_pods_get_healthy_devices(self, cluster: FollowedCluster) -> None:
        cluster.say("fault xid code=48 devices=a/0,a/1", ticks=2)
        cluster.api.add(pod("train", "a", {GPU: "6"}, phase="Pending"))
        cluster.add(pod("late", "a", {GPU: "2"}, phase="Pending"), ticks=2)
        assert {row["gpu"] for row in cluster.rows("a") if row.get("pod")} == set("234567")
        assert cluster.reasons("late") == ["UnexpectedAdmissionError"]
        cluster.say("fault reset devices=a/0,a/1", ticks=2)
        assert {row["gpu"] for row in cluster.rows("a") if row.get("pod") == "late"} == {"0", "1"}


class TestStruckPods:
    def test_evict(self, tmp_path: Path) -> None:
        cluster = followed(tmp_path, "a", "b", more=", pods: {struck: evict}")
        for name in ("struck", "other"):
            cluster.add(pod(name, "a", {GPU: "4"}), ticks=1)
        cluster.tick(1)
        index = next(row["gpu"] for row in cluster.rows("a") if row.get("pod") == "struck")
        cluster.say(f"fault xid code=48 devices=a/{index}", ticks=1)
        cluster.say(f"fault lost devices=a/{index}", ticks=40)
        assert [each["metadata"]["name"] for each in cluster.api.items("pods")] == ["other"]
        assert sum(count for key, count in cluster.api.requests.items() if key[1] == "pods/eviction") == 1
        assert "Evicting" in cluster.reasons("struck")
        assert set(cluster.held("a")) == {("other", "main")}
        assert len(cluster.app.fleet.workloads.by_id) == 1

    @pytest.mark.slow
    def test_a_disruption_budget(self, tmp_path: Path) -> None:
        """429 says that the pod may not go now: it is tried again every 30 s while its device is unhealthy."""
        cluster = followed(tmp_path, "a", "b", more=", pods: {struck: evict}")
        cluster.add(pod("train", "a", {GPU: "8"}), ticks=2)
        budget = cluster.api.fail(429, "create", "pods/eviction", times=-1)
        cluster.say("fault xid code=48 devices=a/3", ticks=70)
        assert cluster.api.requests["create", "pods/eviction", 429] == 3
        cluster.api.works(budget)
        cluster.tick(30)
        assert cluster.api.items("pods") == []

    @pytest.mark.slow
    def test_a_device_that_is_well_again(self, tmp_path: Path) -> None:
        cluster = followed(tmp_path, "a", "b", more=", pods: {struck: evict}")
        cluster.add(pod("train", "a", {GPU: "8"}), ticks=2)
        cluster.api.fail(429, "create", "pods/eviction")
        cluster.say("fault xid code=48 devices=a/3", ticks=2)
        cluster.say("fault reset devices=a/3", ticks=60)
        assert len(cluster.api.items("pods")) == 1


class TestNodes:
    """Faults of whole nodes, each with an entry of the journal and an Event at the node, at its begin and its end."""

    def test_plugin_down(self, cluster: FollowedCluster) -> None:
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=2)
        cluster.say("fault plugin-down devices=a/*", ticks=2)
        assert cluster.counts("a") == ("8", "0")
        assert len(cluster.held("a")["train", "main"]) == 2
        assert cluster.node("a")["spec"].get("taints") is None
        cluster.say("clear all", ticks=2)
        assert cluster.counts("a") == ("8", "8")
        assert cluster.reasons("a") == ["DevicePluginDown", "DevicePluginUp"]
        self.check_journal(cluster, "plugin-down")

    def test_kubelet_restart(self, cluster: FollowedCluster) -> None:
        """The node is not ready while its kubelet starts; allocations stay."""
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=2)
        before = cluster.held("a")
        cluster.say("fault kubelet-restart devices=a/* duration=5", ticks=2)
        assert ready(cluster) == "False"
        cluster.tick(6)
        assert ready(cluster) == "True"
        assert cluster.held("a") == before
        assert "KubeletRestarted" in cluster.reasons("a")
        self.check_journal(cluster, "kubelet-restart")

    def test_node_down(self, cluster: FollowedCluster) -> None:
        """Ready is Unknown, a taint keeps pods away; back again both are as before, and so are other taints."""
        taint = {"key": "team", "effect": "NoSchedule", "value": "ml"}
        cluster.modify("nodes", "a", {"spec": {"taints": [taint]}}, ticks=2)
        cluster.say("fault node-down devices=a/*", ticks=2)
        assert ready(cluster) == "Unknown"
        taints = cluster.node("a")["spec"]["taints"]
        assert taint in taints
        assert {"key": "fakedev/node-down", "effect": "NoSchedule"} in taints
        assert ready(cluster, "b") == "True"
        cluster.say("clear all", ticks=3)
        assert ready(cluster) == "True"
        assert cluster.node("a")["spec"]["taints"] == [taint]
        assert cluster.reasons("a") == ["NodeDown", "NodeUp"]
        self.check_journal(cluster, "node-down")

    @pytest.mark.slow
    def test_a_fault_costs_one_request_for_each_part(self, cluster: FollowedCluster) -> None:
        before = cluster.api.requests.copy()
        cluster.say("fault node-down devices=a/*", ticks=2)
        made = {key: count for key, count in cluster.api.requests_since(before).items() if key[1] != "leases"}
        assert made == {
            ("patch", "nodes", 200): 1, ("patch", "nodes/status", 200): 1, ("create", "events", 201): 1,
        }  # fmt: skip
        before = cluster.api.requests.copy()
        cluster.tick(60)
        assert {key[1] for key in cluster.api.requests_since(before)} <= {"leases"}

    def check_journal(self, cluster: FollowedCluster, kind: str) -> None:
        """The fault began and was over, at the node a."""
        entries = [each for each in journal(cluster) if kind in str(each)]
        assert len(entries) >= 2, entries
