"""Consumable capacity: several claims have shares of one device, each a part of its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.followed.test_claims import claiming
from tests.support.kube.api_server import pod
from tests.support.kube.followed import CLAIMS, DRIVER, GPU, FollowedCluster, followed, slices_of

POOL = ", sharing: {replicas: 4, consumable: true}"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    return followed(tmp_path, "a", pool=POOL, more=", resources: both")


def claim_share(cluster: FollowedCluster, name: str, memory: str, share: str, device: str = "gpu-2") -> None:
    """A running pod with a claim of a share, as the scheduler allocates it; with an empty id, of all."""
    item: dict[str, Any] = cluster.api.add(claiming(name, f"{name}-gpu"))
    result: dict[str, Any] = {"request": "gpu", "driver": DRIVER, "pool": "a", "device": device}
    if share:
        result |= {"shareID": share, "consumedCapacity": {"memory": memory}}
    cluster.api.add({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {},
        "metadata": {"name": f"{name}-gpu", "namespace": "default"},
    })  # fmt: skip
    reserved = [{"resource": "pods", "name": name, "uid": item["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    cluster.modify(CLAIMS, f"{name}-gpu", {"status": status}, 3)


def used_mib(cluster: FollowedCluster) -> float:
    """The memory that is used on the board."""
    (row,) = [row for row in cluster.rows("a", "DCGM_FI_DEV_FB_USED") if row["gpu"] == "2"]
    return float(row["value"])


def test_the_slices(cluster: FollowedCluster) -> None:
    """A claim that asks for nothing consumes the share of a replica, of what the driver leaves."""
    device = slices_of(cluster)[0]["spec"]["devices"][2]
    assert device["allowMultipleAllocations"] is True
    assert device["capacity"]["memory"] == {
        "value": "81080Mi", "requestPolicy": {"default": "20270Mi", "validRange": {"min": "1Mi", "step": "1Mi"}},
    }  # fmt: skip


def test_two_claims_have_one_board(cluster: FollowedCluster) -> None:
    """Each takes the memory that it consumes; the device plugin gives none of its replicas; a whole claim waits."""
    empty = used_mib(cluster)
    claim_share(cluster, "one", "10Gi", "share-1")
    assert used_mib(cluster) - empty == pytest.approx(10 << 10, rel=0.01)
    claim_share(cluster, "two", "20Gi", "share-2")
    assert used_mib(cluster) - empty == pytest.approx(30 << 10, rel=0.01)
    assert cluster.counts("a") == ("32", "28")
    claim_share(cluster, "all", "", "")
    assert cluster.reasons("all") == ["DeviceTaken"]
    cluster.add(pod("plain", "a", {GPU: "28"}), ticks=2)
    assert cluster.reasons("plain") == []
    cluster.remove("pods", "one", ticks=0)
    cluster.remove(CLAIMS, "one-gpu", ticks=3)
    assert used_mib(cluster) - empty == pytest.approx(20 << 10, rel=0.01)
