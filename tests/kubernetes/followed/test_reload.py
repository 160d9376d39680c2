"""SIGHUP while a cluster is followed: pools change, nodes and pods follow; what cannot change says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster

FEWER = POOLS.replace("devices-per-node: 8", "devices-per-node: 4")
A100 = POOLS.replace("device: h100, devices-per-node: 8", "device: a100-80gb, devices-per-node: 2")
DIVIDED = A100.replace("device: a100", "mig: [3g.40gb, 3g.40gb], mig-strategy: single, device: a100")
DRIVER = POOLS.replace("devices-per-node: 8", "devices-per-node: 8, driver: 610.57.04")
OTHER = POOLS.replace("name: h100", "name: h200")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FollowedCluster]:
    """A cluster with two nodes and a pod on each; the application runs."""
    followed = FollowedCluster(tmp_path)
    for name in ("a", "b"):
        followed.api.add(node(name, {LABEL: "h100"}))
        followed.api.add(pod(f"on-{name}", name, {GPU: "2"}))
    followed.start()
    followed.tick(3)
    yield followed


def test_fewer_devices(cluster: FollowedCluster) -> None:
    """The nodes offer as many as the pool says now; pods that fit keep their devices, and work on them."""
    held = cluster.held("a")
    assert cluster.reload(FEWER).status == 200
    cluster.tick(16)
    assert cluster.counts("a") == cluster.counts("b") == ("4", "4")
    assert len(cluster.rows("a")) == 4
    assert cluster.held("a") == held
    assert min(int(row["value"]) for row in cluster.rows("a") if row.get("pod")) >= 75
    assert len(cluster.app.fleet.workloads.by_id) == 2


def test_a_pod_that_does_not_fit_any_more(cluster: FollowedCluster) -> None:
    """It has nothing, and an Event says why; there is no workload that the fleet cannot have."""
    cluster.add(pod("large", "a", {GPU: "6"}), ticks=2)
    assert cluster.reload(FEWER).status == 200
    cluster.tick(16)
    assert set(cluster.held("a")) == {("on-a", "main")}
    assert cluster.reasons("large") == ["WorkFailed", "UnexpectedAdmissionError"]
    assert cluster.reload(POOLS).status == 200
    cluster.tick(4)
    assert set(cluster.held("a")) == {("on-a", "main"), ("large", "main")}


@pytest.mark.slow
def test_other_devices(cluster: FollowedCluster) -> None:
    """Another type, then instances of it: labels, resources and rows follow; pods have devices of the new kind."""
    assert cluster.reload(A100).status == 200
    cluster.tick(16)
    assert cluster.node("a")["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert len(cluster.held("a")["on-a", "main"]) == 2
    assert cluster.reload(DIVIDED).status == 200
    cluster.tick(16)
    assert cluster.counts("a") == ("4", "4")
    rows = [row for row in cluster.rows("a", "DCGM_FI_DEV_FB_USED") if row.get("pod")]
    assert {row["GPU_I_PROFILE"] for row in rows} == {"3g.40gb"}
    assert cluster.reload(POOLS).status == 200
    cluster.tick(16)
    assert cluster.counts("a") == ("8", "8")


def test_another_driver(cluster: FollowedCluster) -> None:
    """Labels and rows have its version; pods, their work and the counters of their boards go on."""
    held, energy = cluster.held("a"), cluster.rows("a", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    assert cluster.reload(DRIVER).status == 200
    cluster.tick(16)
    labels = cluster.node("a")["metadata"]["labels"]
    assert labels["nvidia.com/cuda.driver-version.full"] == "610.57.04"
    assert labels["nvidia.com/cuda.runtime-version.full"] == "13.3"
    after = cluster.rows("a", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    assert {row["DCGM_FI_DRIVER_VERSION"] for row in after} == {"610.57.04"}
    assert all(float(row["value"]) > float(before["value"]) for before, row in zip(energy, after, strict=True))
    assert cluster.held("a") == held


def test_a_pool_that_is_gone(cluster: FollowedCluster) -> None:
    """Its nodes are simulated no more, and say why; when it is there again they are at once."""
    assert cluster.reload(OTHER).status == 200
    cluster.tick(3)
    assert cluster.page("a") == "status 404"
    assert not cluster.app.fleet.workloads.by_id
    assert "there is no pool 'h100'" in cluster.events("a")[-1][2]
    assert cluster.reload(POOLS).status == 200
    cluster.tick(3)
    assert len(cluster.held("a")["on-a", "main"]) == 2
    assert cluster.metric("fakedev_kubernetes_refused_nodes") == 0


def test_a_reload_and_a_node_in_one_tick(cluster: FollowedCluster) -> None:
    cluster.api.add(node("c", {LABEL: "h100"}))
    cluster.reactor.settle()
    cluster.ask_reload(FEWER)
    cluster.api.add(node("d", {LABEL: "h100"}))
    cluster.reactor.settle()
    cluster.tick(4)
    for name in "abcd":
        assert len(cluster.rows(name)) == 4
        assert cluster.counts(name) == ("4", "4")


def test_the_connection_cannot_change(cluster: FollowedCluster) -> None:
    """A restart is needed for it; nothing else of the new configuration is used then."""
    answer = cluster.reload(FEWER.replace("{more}", ", recovery: vendor"))
    assert answer.status != 200
    assert b"kubernetes: has changed, which needs a restart" in answer.body
    cluster.tick(2)
    assert cluster.counts("a") == ("8", "8")


def test_without_changes_nothing_is_asked(cluster: FollowedCluster) -> None:
    before = cluster.api.requests.copy()
    assert cluster.reload(POOLS).status == 200
    cluster.tick(8)
    assert {key[1] for key in cluster.api.requests_since(before)} <= {"leases"}
