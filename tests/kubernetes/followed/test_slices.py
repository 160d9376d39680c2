"""ResourceSlices of simulated nodes, in memory: devices, taints by faults, generations, owners, and what others do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakedev.kubernetes.devices.resource_slices import HAS_SLICES
from tests.support.kube.api_server import node
from tests.support.kube.followed import (
    DRIVER,
    GPU,
    LABEL,
    POOLS,
    SLICES,
    FollowedCluster,
    followed,
    generation,
    slices_of,
    taints,
)

LARGE = POOLS.replace("devices-per-node: 8", "devices-per-node: 16")


DRA = ", resources: dra"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """A node whose devices are offered by slices alone; the application runs."""
    return followed(tmp_path, "a", more=DRA)


def test_slices_in_the_place_of_capacity(cluster: FollowedCluster) -> None:
    """Each GPU is a device of the node's slice, owned by the node; the node has labels and no extended resources."""
    (found,) = slices_of(cluster)
    item = cluster.node("a")
    assert found["spec"]["driver"] == DRIVER
    assert found["spec"]["pool"] == {"name": "a", "generation": 1, "resourceSliceCount": 1}
    assert [device["name"] for device in found["spec"]["devices"]] == [f"gpu-{index}" for index in range(8)]
    assert found["metadata"]["ownerReferences"][0]["uid"] == item["metadata"]["uid"]
    uuids = [device["attributes"]["uuid"]["string"] for device in found["spec"]["devices"]]
    assert uuids == re.findall(r'^DCGM_FI_DEV_GPU_TEMP\{.*UUID="([^"]+)"', cluster.page("a"), re.MULTILINE)
    assert GPU not in item["status"]["capacity"]
    assert item["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"


def test_both(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", more=", resources: both")
    assert cluster.node("a")["status"]["allocatable"][GPU] == "8"
    assert len(slices_of(cluster)) == 1


@pytest.mark.parametrize(
    ("fault", "taint"),
    [
        ("fault xid code=79 devices=a/3", (f"{DRIVER}/xid", "79", "NoSchedule")),
        ("fault lost devices=a/3", (f"{DRIVER}/xid", "79", "NoSchedule")),
        ("fault hang devices=a/3", (f"{DRIVER}/gpu-lost", "", "NoSchedule")),
    ],
)
def test_a_fault_is_a_taint(cluster: FollowedCluster, fault: str, taint: tuple[str, str, str]) -> None:
    """One request changes the slice, as the next generation; another one takes the taint away."""
    (said,) = cluster.say(fault)
    assert said.startswith("ok"), said
    cluster.tick(2)
    assert taints(cluster) == {"gpu-3": [taint]}
    assert generation(cluster) == 2
    cluster.say("clear all", ticks=2)
    assert taints(cluster) == {}
    assert generation(cluster) == 3
    assert cluster.api.requests["update", SLICES, 200] == 2


def test_the_driver_is_gone(cluster: FollowedCluster) -> None:
    """The fault plugin-down takes the slices away, as the kubelet does when a driver is gone; they come back."""
    cluster.say("fault plugin-down devices=a/*", ticks=2)
    assert slices_of(cluster) == []
    cluster.say("clear all", ticks=2)
    assert len(slices_of(cluster)) == 1


def test_slices_of_a_node_that_goes(cluster: FollowedCluster) -> None:
    """They are deleted; those of a node of the same name that comes later belong to that one."""
    cluster.remove("nodes", "a", ticks=2)
    assert slices_of(cluster) == []
    uid = cluster.api.add(node("a", {LABEL: "h100"}))["metadata"]["uid"]
    cluster.tick(2)
    assert slices_of(cluster)[0]["metadata"]["ownerReferences"][0]["uid"] == uid


def test_a_node_that_was_replaced_while_nobody_looked(cluster: FollowedCluster) -> None:
    """The watch was away: the slices get the new owner, or they would be collected with the old one."""
    cluster.api.stop()
    cluster.api.remove("nodes", "a")
    uid = cluster.api.add(node("a", {LABEL: "h100"}))["metadata"]["uid"]
    cluster.api.expire()
    cluster.api.start()
    cluster.tick(70)
    assert slices_of(cluster)[0]["metadata"]["ownerReferences"][0]["uid"] == uid


@pytest.mark.slow
def test_a_replaced_node_is_healthy(cluster: FollowedCluster) -> None:
    """What was wrong with the boards of the earlier node of that name is gone with it."""
    cluster.say("fault hang devices=a/3", ticks=2)
    cluster.api.stop()
    cluster.api.remove("nodes", "a")
    cluster.api.add(node("a", {LABEL: "h100"}))
    cluster.api.expire()
    cluster.api.start()
    cluster.tick(70)
    assert len(slices_of(cluster)[0]["spec"]["devices"]) == 8
    assert [*taints(cluster)] == []


def test_a_slice_that_somebody_removes_or_changes(cluster: FollowedCluster) -> None:
    (ours,) = slices_of(cluster)
    other = {**ours, "metadata": {"name": "real"}, "spec": {**ours["spec"], "driver": "other.example"}}
    cluster.api.add(other)
    cluster.remove(SLICES, ours["metadata"]["name"], ticks=1)
    (healed,) = [slice_ for slice_ in slices_of(cluster) if slice_["spec"]["driver"] == DRIVER]
    cluster.modify(SLICES, healed["metadata"]["name"], {"spec": {"devices": healed["spec"]["devices"][:2]}}, ticks=1)
    (healed,) = [slice_ for slice_ in slices_of(cluster) if slice_["spec"]["driver"] == DRIVER]
    assert len(healed["spec"]["devices"]) == 8
    assert cluster.api.get(SLICES, "real")["spec"] == other["spec"]


@pytest.mark.slow
@pytest.mark.parametrize("code", [409, 404, 403, 422, 500])
def test_a_slice_that_is_refused(cluster: FollowedCluster, code: int) -> None:
    """Conflicts are read again, other refusals are tried again later; nothing is an internal error."""
    cluster.api.fail(code, "update", SLICES, times=2)
    cluster.say("fault xid code=79 devices=a/3", ticks=70)
    assert taints(cluster) == {"gpu-3": [(f"{DRIVER}/xid", "79", "NoSchedule")]}


def test_reading_again_is_refused(cluster: FollowedCluster) -> None:
    """A conflict, and then the Role lacks get: told as what is missing, and tried again later."""
    cluster.api.fail(409, "update", SLICES)
    refused = cluster.api.forbid("get", SLICES)
    cluster.say("fault xid code=79 devices=a/3", ticks=2)
    cluster.api.works(refused)
    cluster.tick(40)
    assert [*taints(cluster)] == ["gpu-3"]


def test_slices_of_others(cluster: FollowedCluster) -> None:
    """Those of nodes that another fakedev simulates are left alone, whatever happens to them."""
    (ours,) = slices_of(cluster)
    other = {**ours, "metadata": {"name": "z", "labels": ours["metadata"]["labels"]}}
    other["spec"] = {**ours["spec"], "nodeName": "z", "devices": []}
    cluster.api.add(other)
    before = cluster.api.requests.copy()
    cluster.tick(40)
    assert cluster.api.get(SLICES, "z")["spec"]["devices"] == []
    assert {key[1] for key in cluster.api.requests_since(before)} == {"leases"}


@pytest.mark.parametrize("is_allowed", [True, False])
def test_resources_without_slices(cluster: FollowedCluster, tmp_path: Path, is_allowed: bool) -> None:
    """With another `resources` the slices are deleted; where the Role does not allow it, all else goes on."""
    cluster.stop()
    if not is_allowed:
        cluster.api.forbid("delete", SLICES)
    later = FollowedCluster(tmp_path, beside=cluster)
    later.start()
    later.tick(2)
    assert len(slices_of(later)) == (0 if is_allowed else 1)
    assert later.counts("a") == ("8", "8")
    assert HAS_SLICES not in later.node("a")["metadata"]["annotations"]
    assert later.get("/readyz").status == 200
