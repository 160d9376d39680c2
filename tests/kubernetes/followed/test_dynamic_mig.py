"""Partitionable devices: claims divide the boards of a node, and their ends make them whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakedev.kubernetes.devices.mig_config import MIG_CONFIG, MIG_STATE
from tests.kubernetes.followed.test_claims import add_claim, claiming, rows
from tests.support.kube.followed import CLAIMS, FollowedCluster, followed, slices_of, taints

DYNAMIC = ", resources: dra, dynamic-mig: true"
#: Instances of an H100: at the first eighth, and at the second half.
SMALL, HALF = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    return followed(tmp_path, "a", more=DYNAMIC)


def claimed(cluster: FollowedCluster, name: str, device: str) -> None:
    """A running pod with a claim of its own."""
    item = cluster.api.add(claiming(name, f"{name}-gpu"))
    add_claim(cluster, f"{name}-gpu", {"gpu": device}, item)


def profiles(cluster: FollowedCluster) -> list[tuple[str, str, str]]:
    """Board, profile and pod of the instances on the page that have a pod."""
    found = {(row["gpu"], row.get("GPU_I_PROFILE", ""), row["pod"]) for row in rows(cluster)}
    return sorted(found)


def test_slices_have_all_instances(cluster: FollowedCluster) -> None:
    """A slice has the counters of all boards, and one of each board its devices, as of NVIDIA's driver."""
    counters, *boards = [each["spec"] for each in slices_of(cluster)]
    assert [each["name"] for each in counters["sharedCounters"]] == [f"gpu-{index}-counter-set" for index in range(8)]
    assert {each["pool"]["resourceSliceCount"] for each in (counters, *boards)} == {9}
    devices = {each["name"]: each for each in boards[0]["devices"]}
    assert next(iter(devices)) == "gpu-0"
    assert len(devices) == 1 + 7 + 7 + 4 + 3 + 2 + 1 + 1
    (taken,) = devices[HALF]["consumesCounters"]
    assert taken["counterSet"] == "gpu-0-counter-set"
    values = {name: value["value"] for name, value in taken["counters"].items()}
    assert values == {
        "multiprocessors": "60", "copy-engines": "3", "decoders": "3", "encoders": "0", "jpeg-engines": "3",
        "ofa-engines": "0", "memory": "40448Mi",
        "memory-slice-4": "1", "memory-slice-5": "1", "memory-slice-6": "1", "memory-slice-7": "1",
    }  # fmt: skip
    assert "uuid" not in devices[HALF]["attributes"]
    assert devices["gpu-0"]["consumesCounters"][0]["counters"] == counters["sharedCounters"][0]["counters"]


@pytest.mark.slow
def test_what_a_claim_gets_is_made_and_goes_with_it(cluster: FollowedCluster) -> None:
    """Work of another claim on the board goes on although the number of its instance changes."""
    before = slices_of(cluster)
    claimed(cluster, "half", HALF)
    cluster.tick(4)
    assert profiles(cluster) == [("0", "3g.40gb", "half")]
    (first,) = cluster.app.fleet.workloads.running()
    claimed(cluster, "small", SMALL)
    cluster.tick(4)
    assert profiles(cluster) == [("0", "1g.10gb", "small"), ("0", "3g.40gb", "half")]
    assert first in cluster.app.fleet.workloads.running()
    (row, *_) = rows(cluster, pod="small")
    assert row["dra_device_name"] == SMALL
    assert re.fullmatch("MIG-[0-9a-f-]{36}", row["dra_mig_device_uuid"])
    cluster.remove("pods", "small", ticks=0)
    cluster.remove(CLAIMS, "small-gpu", ticks=4)
    assert profiles(cluster) == [("0", "3g.40gb", "half")]
    assert first in cluster.app.fleet.workloads.running()
    cluster.remove("pods", "half", ticks=0)
    cluster.remove(CLAIMS, "half-gpu", ticks=4)
    assert cluster.app.fleet.spec.pools[0].nodes[0].name == "a"
    assert [pool.layout for pool in cluster.app.fleet.spec.pools if pool.nodes] == [()]
    assert slices_of(cluster) == before


@pytest.mark.slow
def test_a_whole_board_and_a_restart(cluster: FollowedCluster) -> None:
    """The next fakedev has the boards divided at once."""
    claimed(cluster, "whole", "gpu-1")
    claimed(cluster, "half", HALF)
    cluster.tick(4)
    before = profiles(cluster)
    assert before == [("0", "3g.40gb", "half"), ("1", "", "whole")]
    cluster.start_again()
    cluster.tick(3)
    assert profiles(cluster) == before


@pytest.mark.slow
def test_a_fault_taints_all_devices_of_a_board(cluster: FollowedCluster) -> None:
    """And all slices of the pool get the next generation, that of the counters too."""
    cluster.say("fault xid code=79 devices=a/3", ticks=2)
    found = taints(cluster)
    assert {name.split("-")[1] for name in found} == {"3"}
    assert len(found) == 26
    assert {each["spec"]["pool"]["generation"] for each in slices_of(cluster)} == {2}


@pytest.mark.slow
def test_work_on_an_instance_comes_back_with_its_board(cluster: FollowedCluster) -> None:
    """The health is that of the board; the pod works in the tick after its fault, not after a back-off."""
    claimed(cluster, "half", HALF)
    cluster.tick(4)
    cluster.say("fault xid code=79 devices=a/0 duration=100s", ticks=80)
    assert profiles(cluster) == []
    cluster.tick(24)
    assert profiles(cluster) == [("0", "3g.40gb", "half")]
    (workload,) = cluster.app.fleet.workloads.by_id.values()
    assert workload.spec.activities.highest > 0


@pytest.mark.slow
def test_a_pod_with_an_instance_is_evicted(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", more=DYNAMIC + ", pods: {struck: evict}")
    claimed(cluster, "half", HALF)
    cluster.tick(4)
    cluster.say("fault xid code=79 devices=a/0", ticks=3)
    assert "Evicting" in cluster.reasons("half")


def test_the_label_of_the_mig_manager_fails(cluster: FollowedCluster) -> None:
    cluster.modify("nodes", "a", {"metadata": {"labels": {MIG_CONFIG: "all-1g.10gb"}}}, ticks=3)
    assert cluster.node("a")["metadata"]["labels"][MIG_STATE] == "failed"
    assert any("claims divide its boards (dynamic-mig)" in text for _, _, text in cluster.events("a"))
