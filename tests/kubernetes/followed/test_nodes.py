"""Nodes of a followed cluster: pools, labels, shared and divided devices, and nodes that are not simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster, followed

OPERATOR_LABEL = "run.ai/simulated-gpu-node-pool"
#: Two pools of the cluster, and one with a node of its own.
THREE = POOLS.replace(
    "pools: [",
    "pools: [{{name: own, nodes: [login], device: t4, devices-per-node: 1, identity: dcgm@4.8.2}}, "
    "{{name: a100, nodes: cluster, device: a100-80gb, devices-per-node: 4, identity: dcgm@4.8.2}}, ",
)
#: Boards in two instances of one profile, and boards in two of two.
SINGLE = ", device: a100-80gb, devices-per-node: 2, mig: [3g.40gb, 3g.40gb], mig-strategy: single"
MIXED = ", device: a100-80gb, devices-per-node: 2, mig: [4g.40gb, 2g.20gb, 1g.10gb], mig-strategy: mixed"
DIVIDED = POOLS.replace(", device: h100, devices-per-node: 8", "")


class TestPools:
    def test_several_pools(self, tmp_path: Path) -> None:
        """Each node has the devices of its pool; the pool with nodes of its own goes on beside them."""
        cluster = followed(tmp_path, "a", "b", text=THREE, labels={"b": "a100"})
        assert (cluster.counts("a"), cluster.counts("b")) == (("8", "8"), ("4", "4"))
        assert cluster.node("b")["metadata"]["labels"]["nvidia.com/gpu.product"].startswith("NVIDIA-A100")
        assert {len(cluster.rows(name)) for name in ("a", "b", "login")} == {8, 4, 1}

    def test_the_label_of_fake_gpu_operator(self, tmp_path: Path) -> None:
        cluster = followed(tmp_path)
        cluster.api.add(node("a", {OPERATOR_LABEL: "h100"}))
        cluster.add(node("b", {OPERATOR_LABEL: "h100", LABEL: "h100"}), ticks=2)
        assert cluster.counts("a") == cluster.counts("b") == ("8", "8")

    def test_mistakes_are_told_where_they_are(self, tmp_path: Path) -> None:
        """Each with an Event at the node that has the label; nothing is written to it, and others are simulated."""
        cluster = followed(tmp_path, "good", text=THREE)
        cluster.api.add(node("two", {OPERATOR_LABEL: "a100", LABEL: "h100"}))
        cluster.api.add(node("unknown", {LABEL: "h1000"}))
        cluster.api.add(node("fixed", {LABEL: "own"}))
        cluster.add(node("login", {LABEL: "h100"}), ticks=3)
        told = {name: text for name, reason, text in cluster.events() if reason == "NotSimulated"}
        assert told["two"] == (
            "two pools: fakedev/pool=h100 and run.ai/simulated-gpu-node-pool=a100: remove one of the labels"
        )
        assert told["unknown"] == (
            "label fakedev/pool: there is no pool 'h1000' with nodes: cluster; did you mean h100?"
        )
        assert "there is no pool 'own' with nodes: cluster" in told["fixed"]
        assert told["login"] == "the pool own of the configuration has a node login already: rename one of them"
        assert len(cluster.events()) == 4
        assert cluster.metric("fakedev_kubernetes_refused_nodes") == 4
        assert all(GPU not in cluster.node(name)["status"]["capacity"] for name in told)
        assert cluster.counts("good") == ("8", "8")

    def test_a_label_that_changes(self, tmp_path: Path) -> None:
        """The node gets the devices of the other pool, and its pods theirs there; their work did not fail."""
        cluster = followed(tmp_path, "a", text=THREE)
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=3)
        cluster.modify("nodes", "a", {"metadata": {"labels": {LABEL: "a100"}}}, ticks=4)
        assert cluster.counts("a") == ("4", "4")
        assert len(cluster.rows("a")) == 4
        ids = {row["UUID"] for row in cluster.rows("a")}
        assert set(cluster.held("a")["train", "main"]) < ids
        assert min(int(row["value"]) for row in cluster.rows("a") if row.get("pod")) >= 75
        cluster.modify("nodes", "a", {"metadata": {"labels": {LABEL: None}}}, ticks=3)
        assert cluster.page("a") == "status 404"
        assert not cluster.app.fleet.workloads.by_id

    def test_a_fault_goes_with_its_node(self, tmp_path: Path) -> None:
        """A node that is deleted and made again at once while its GPU is lost has a new GPU, as after some time."""
        cluster = followed(tmp_path, "a")
        cluster.say("fault lost devices=a/3", ticks=2)
        cluster.api.remove("nodes", "a")
        cluster.add(node("a", {LABEL: "h100"}), ticks=4)
        assert cluster.counts("a") == ("8", "8")


class TestSharing:
    def test_two_pods_on_one_gpu(self, tmp_path: Path) -> None:
        """Four replicas of each GPU; the ninth pod shares one, which works for both.

        dcgm's row has the pod that came first; the page of workloads, and identities that show all, have both.
        """
        cluster = followed(tmp_path, "a", pool=", sharing: {replicas: 4}")
        assert cluster.counts("a") == ("32", "32")
        labels = cluster.node("a")["metadata"]["labels"]
        assert labels["nvidia.com/gpu.product"].endswith("-SHARED")
        assert labels["nvidia.com/gpu.replicas"] == "4"
        for number in range(9):
            cluster.api.add(pod(f"p{number}", "a", {GPU: "1"}, annotations={"fakedev/profile": "10:0:1h"}))
        cluster.tick(4)
        rows = {row["gpu"]: (row["pod"], row["value"]) for row in cluster.rows("a")}
        # The least shared first: after eight pods each GPU has one.
        assert rows["0"] == ("p0", "20")
        assert rows["7"] == ("p7", "10")
        page = cluster.get("/workloads/metrics").body.decode()
        assert all(f'pod="p{number}"' in page for number in range(9))
        fleet = cluster.app.fleet
        (shared, *others) = fleet.labels.shared_facts(fleet.roster.node("a"))  # type: ignore[arg-type]
        assert {facts["pod"] for facts in shared} == {"p0", "p8"}
        assert all(len(facts) == 1 for facts in others)


class TestInstances:
    """MIG: pods on instances, whose rows have GPU_I_ID and GPU_I_PROFILE."""

    def test_single(self, tmp_path: Path) -> None:
        cluster = followed(tmp_path, "a", text=DIVIDED, pool=SINGLE)
        assert cluster.counts("a") == ("4", "4")
        assert cluster.node("a")["metadata"]["labels"]["nvidia.com/gpu.product"].endswith("-MIG-3g.40gb")
        cluster.add(pod("train", "a", {GPU: "1"}), ticks=2)
        (row,) = [row for row in cluster.rows("a", "DCGM_FI_DEV_FB_USED") if row.get("pod")]
        assert (row["GPU_I_PROFILE"], row["pod"]) == ("3g.40gb", "train")

    def test_mixed(self, tmp_path: Path) -> None:
        cluster = followed(tmp_path, "a", text=DIVIDED, pool=MIXED)
        names = ("4g.40gb", "2g.20gb", "1g.10gb")
        resources = {name: cluster.counts("a", f"nvidia.com/mig-{name}")[0] for name in names}
        assert resources == {"4g.40gb": "2", "2g.20gb": "2", "1g.10gb": "2"}
        assert cluster.counts("a") in ((None, None), ("0", "0"))
        for name in ("4g.40gb", "1g.10gb"):
            cluster.api.add(pod(f"on-{name}", "a", {f"nvidia.com/mig-{name}": "1"}))
        cluster.tick(2)
        rows = [row for row in cluster.rows("a", "DCGM_FI_DEV_FB_USED") if row.get("pod")]
        assert {(row["pod"], row["GPU_I_PROFILE"]) for row in rows} == {
            ("on-4g.40gb", "4g.40gb"), ("on-1g.10gb", "1g.10gb"),
        }  # fmt: skip

    def test_a_strategy_that_cannot_be_followed(self, tmp_path: Path) -> None:
        """Instances of several profiles with single: as with the real plugin no resource; an Event says why."""
        cluster = followed(tmp_path, "a", text=DIVIDED, pool=MIXED.replace("mixed", "single"))
        assert cluster.counts("a") == (None, None)
        (event,) = cluster.events("a")
        assert event[1] == "InvalidMigStrategy"
        assert "instances of several profiles: 1g.10gb, 2g.20gb, 4g.40gb" in event[2]


class TestCoexistence:
    def test_real_gpu_nodes_are_never_touched(self, tmp_path: Path) -> None:
        """Not one request is about a node without the label; what its plugin wrote stays."""
        cluster = FollowedCluster(tmp_path)
        real = node("real", {"nvidia.com/gpu.product": "Tesla-T4"}, has_kubelet=True)
        real["status"]["capacity"][GPU] = real["status"]["allocatable"][GPU] = "4"
        before = cluster.api.add(real)
        cluster.api.add(node("a", {LABEL: "h100"}))
        cluster.start()
        cluster.tick(5)
        assert cluster.api.get("nodes", "real") == before
        assert cluster.counts("a") == ("8", "8")

    def test_a_real_gpu_node_with_the_label(self, tmp_path: Path) -> None:
        cluster = FollowedCluster(tmp_path)
        real = node("real", {LABEL: "h100", "nvidia.com/gpu.product": "Tesla-T4"})
        real["status"]["capacity"][GPU] = real["status"]["allocatable"][GPU] = "4"
        cluster.api.add(real)
        cluster.start()
        cluster.tick(5)
        assert cluster.counts("real") == ("4", "4")
        assert cluster.node("real")["metadata"]["labels"]["nvidia.com/gpu.product"] == "Tesla-T4"
        told = [text for _, reason, text in cluster.events("real") if reason == "NotWritten"]
        assert "capacity nvidia.com/gpu is '4' and not '8': left, as others wrote it" in told
        cluster.modify("nodes", "real", {"metadata": {"annotations": {"x": "y"}}}, ticks=2)
        assert len(told) == len([text for _, reason, text in cluster.events("real") if reason == "NotWritten"])

    def test_a_node_that_kwok_has_not_filled_yet(self, tmp_path: Path) -> None:
        """It is left alone until it has processors and memory, which KWOK gives only to nodes without resources."""
        cluster = followed(tmp_path)
        item = node("new", {LABEL: "h100"})
        item["status"] = {}
        cluster.add(item, ticks=3)
        assert cluster.api.requests["patch", "nodes/status", 200] == 0
        quantities = {"cpu": "32", "memory": "256Gi", "pods": "110"}
        cluster.modify("nodes", "new", {"status": {"capacity": quantities, "allocatable": quantities}}, ticks=2)
        assert cluster.counts("new") == ("8", "8")


@pytest.mark.slow
def test_a_thousand_nodes_take_a_request_each(tmp_path: Path) -> None:
    """8,000 GPUs; all are ready within 60 s at 50 requests a second, and then nothing is requested."""
    cluster = FollowedCluster(tmp_path)
    for number in range(1000):
        cluster.api.add(node(f"n{number:04}", {LABEL: "h100"}))
    cluster.start()
    ticks = 0
    while cluster.api.requests["patch", "nodes/status", 200] < 1000 and ticks < 60:
        cluster.tick(1)
        ticks += 1
    assert all(item["status"]["allocatable"].get(GPU) == "8" for item in cluster.api.items("nodes"))
    cluster.tick(3)
    patches = {key: count for key, count in cluster.api.requests.items() if key[0] not in ("list", "watch")}
    assert patches["patch", "nodes/status", 200] == 1000
    assert {key for key in patches if key[1] != "leases"} == {("patch", "nodes/status", 200)}
    before = cluster.api.requests.copy()
    cluster.start_again()
    cluster.tick(20)
    assert not any(verb == "patch" for verb, _, _ in cluster.api.requests_since(before))
