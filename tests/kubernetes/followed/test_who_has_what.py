"""Who has which device, across restarts, kills and takeovers of fakedev, and with two mechanisms at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakedev.kubernetes.pods import DEVICES
from tests.kubernetes.followed.test_claims import add_claim, claiming
from tests.support.kube.api_server import pod
from tests.support.kube.followed import GPU, FollowedCluster, followed, slices_of


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each application in memory is a process of its own: its name in a lease has another number."""
    numbers = iter(range(100, 200))
    monkeypatch.setattr("fakedev.kubernetes.part.os.getpid", lambda: next(numbers))


def with_gaps(folder: Path) -> FollowedCluster:
    """A node whose first pod is gone: who places its pods in order would move all others."""
    cluster = followed(folder, "a")
    for name in ("first", "second", "third"):
        cluster.add(pod(name, "a", {GPU: "2"}), ticks=2)
    cluster.remove("pods", "first", ticks=2)
    return cluster


def test_annotations(tmp_path: Path) -> None:
    """The ids of each container, which the device plugin would list; written once."""
    cluster = with_gaps(tmp_path)
    recorded = cluster.api.get("pods", "second")["metadata"]["annotations"][DEVICES]
    assert json.loads(recorded) == {"main": cluster.held("a")["second", "main"]}
    assert cluster.api.requests["patch", "pods/status", 200] == 3


@pytest.mark.slow
def test_a_restart_moves_no_pod(tmp_path: Path) -> None:
    cluster = with_gaps(tmp_path)
    held, requests = cluster.held("a"), cluster.api.requests.copy()
    cluster.start_again()
    cluster.tick(3)
    assert cluster.held("a") == held
    assert ("patch", "pods/status", 200) not in cluster.api.requests_since(requests)


@pytest.mark.slow
def test_a_takeover_moves_no_pod(tmp_path: Path) -> None:
    """Another fakedev, that has slept meanwhile, gives each pod what the first one gave it; and the reverse."""
    first = with_gaps(tmp_path)
    held = first.held("a")
    second = FollowedCluster(tmp_path, beside=first)
    second.start()
    second.tick(1)
    first.stop()
    second.tick(10)
    assert second.held("a") == held
    second.add(pod("fourth", "a", {GPU: "1"}), ticks=2)
    later = second.held("a")
    first.start()
    first.tick(1)
    second.stop()
    first.tick(10)
    assert first.held("a") == later


def test_a_copied_annotation(tmp_path: Path) -> None:
    """A pod that was made from another one's object gets devices of its own, and its annotation says so."""
    cluster = with_gaps(tmp_path)
    copied = cluster.api.get("pods", "second")["metadata"]["annotations"]
    cluster.add(pod("copy", "a", {GPU: "2"}, annotations=copied), ticks=2)
    held = cluster.held("a")
    assert not {*held["copy", "main"]} & {*held["second", "main"]}
    recorded = cluster.api.get("pods", "copy")["metadata"]["annotations"][DEVICES]
    assert json.loads(recorded) == {"main": held["copy", "main"]}


def test_two_mechanisms(tmp_path: Path) -> None:
    """8 boards: two claims and a pod by the device plugin leave each other what they have not."""
    cluster = followed(tmp_path, "a", more=", resources: both")
    for index in (0, 1):
        item = cluster.add(claiming(f"claiming{index}", f"claim{index}"), ticks=0)
        add_claim(cluster, f"claim{index}", {"r": f"gpu-{index}"}, item)
    cluster.tick(2)
    assert cluster.counts("a") == ("8", "6")
    cluster.add(pod("train", "a", {GPU: "5"}), ticks=2)
    held = cluster.held("a")
    assert sorted(map(len, held.values())) == [1, 1, 5]
    assert len({each for ids in held.values() for each in ids}) == 7
    (piece,) = slices_of(cluster)
    free = [each["name"] for each in piece["spec"]["devices"] if "taints" not in each]
    assert len(free) == 3  # the claimed ones, which need no taint, and the one that is left
    late = cluster.add(claiming("late", "claim2"), ticks=0)
    (taken,) = (each["name"] for each in piece["spec"]["devices"] if "taints" in each and each["name"] == "gpu-2")
    add_claim(cluster, "claim2", {"r": taken}, late)
    cluster.tick(2)
    assert cluster.reasons("late") == ["DeviceTaken"]
    assert "has been given to pod default/train by device-plugin" in cluster.events("late")[0][2]
    cluster.remove("pods", "train", ticks=3)
    assert len(cluster.held("a")["late", "main"]) == 1
    assert cluster.counts("a") == ("8", "5")
