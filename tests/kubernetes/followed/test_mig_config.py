"""The label ``nvidia.com/mig.config`` divides the boards of a node, in the states of NVIDIA's MIG manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakedev.fleet.events import Event
from fakedev.kubernetes.controller import STEPS_AT_ONCE, Inbox
from fakedev.kubernetes.devices.mig_config import APPLIED, CLIENTS, MIG_CONFIG, MIG_STATE, PAUSED
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster, followed, slices_of

MIXED = ", mig-strategy: mixed"
ONE = "nvidia.com/mig-1g.10gb"
#: A family with rows of instances.
MEMORY = "DCGM_FI_DEV_FB_USED"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    return followed(tmp_path, "a", pool=MIXED)


def ask(cluster: FollowedCluster, value: str | None, ticks: int = 5) -> list[str]:
    """Set the label of the node; the states that follow, at once and after each tick, each once."""
    cluster.modify("nodes", "a", {"metadata": {"labels": {MIG_CONFIG: value}}}, ticks=0)
    cluster.reactor.settle()
    found: list[str] = []
    for _ in range(ticks):
        cluster.tick(1 if found else 0)
        state = label(cluster, MIG_STATE)
        found += [state] if found[-1:] != [state] else []
    return found


def holding(cluster: FollowedCluster) -> list[dict[str, str]]:
    """The rows of instances with a pod, without their values."""
    rows = [row for row in cluster.rows("a", MEMORY) if row.get("pod")]
    return [{name: text for name, text in row.items() if name != "value"} for row in rows]


def label(cluster: FollowedCluster, name: str) -> str:
    return str(cluster.node("a")["metadata"]["labels"].get(name, ""))


def test_boards_are_divided_and_made_whole(cluster: FollowedCluster) -> None:
    """Nothing is allocatable meanwhile, and the operator's clients are paused; pages, labels and resources follow."""
    assert label(cluster, MIG_STATE) == ""
    cluster.modify("nodes", "a", {"metadata": {"labels": {MIG_CONFIG: "all-1g.10gb"}}}, ticks=1)
    assert label(cluster, MIG_STATE) == "pending"
    assert {label(cluster, client) for client in CLIENTS} == {PAUSED}
    assert cluster.counts("a") == ("8", "0")
    cluster.tick(3)
    assert label(cluster, MIG_STATE) == "success"
    assert {label(cluster, client) for client in CLIENTS} == {"true"}
    assert cluster.counts("a") == (None, None)
    assert cluster.counts("a", ONE) == ("56", "56")
    assert label(cluster, f"{ONE}.count") == "56"
    assert len(cluster.rows("a", MEMORY)) == 56
    cluster.add(pod("one", "a", {ONE: "1"}), ticks=2)
    assert [row["GPU_I_PROFILE"] for row in holding(cluster)] == ["1g.10gb"]
    cluster.remove("pods", "one", ticks=2)
    assert ask(cluster, "all-disabled") == ["pending", "success"]
    assert cluster.counts("a", ONE) == (None, None)
    assert cluster.counts("a") == ("8", "8")


def test_what_is_asked_twice_is_a_success_at_once(cluster: FollowedCluster) -> None:
    assert ask(cluster, "all-disabled") == ["success"]
    assert ask(cluster, "all-balanced") == ["pending", "success"]
    counts = {each: cluster.counts("a", f"nvidia.com/mig-{each}")[0] for each in ("1g.10gb", "2g.20gb", "3g.40gb")}
    assert counts == {"1g.10gb": "16", "2g.20gb": "8", "3g.40gb": "8"}
    assert ask(cluster, None) == ["success"]
    assert cluster.counts("a", ONE)[0] == "16"


def test_an_unknown_configuration_fails(cluster: FollowedCluster) -> None:
    """Nothing changes, and an Event has the configurations that there are; the next label is followed."""
    assert ask(cluster, "all-1g.5gb") == ["failed"]
    assert cluster.counts("a") == ("8", "8")
    ((_, _, text),) = [event for event in cluster.events("a") if event[1] == "MigConfigFailed"]
    assert text.startswith("label nvidia.com/mig.config=all-1g.5gb: ")
    assert "'all-1g.5gb' for h100-sxm5-80gb; did you " in text
    assert ask(cluster, "all-3g.40gb") == ["pending", "success"]


def test_boards_with_pods_are_not_divided(cluster: FollowedCluster) -> None:
    """It fails until the label changes, as the MIG manager looks at it no sooner."""
    cluster.add(pod("train", "a", {GPU: "2"}), ticks=2)
    before = cluster.held("a")
    assert ask(cluster, "all-1g.10gb") == ["pending", "failed"]
    assert cluster.counts("a") == ("8", "8")
    assert cluster.held("a") == before
    ((_, _, text),) = [event for event in cluster.events("a") if event[1] == "MigConfigFailed"]
    assert text == "label nvidia.com/mig.config=all-1g.10gb: pods have boards that it divides: [0, 1]"
    cluster.remove("pods", "train", ticks=2)
    assert ask(cluster, "all-1g.10gb") == ["failed"]
    assert ask(cluster, "all-1g.20gb") == ["pending", "success"]


@pytest.mark.slow
def test_a_restart_keeps_what_was_divided(cluster: FollowedCluster) -> None:
    """Also with pods on it, which keep their instances; and a label that changed meanwhile is followed."""
    ask(cluster, "all-1g.10gb")
    cluster.add(pod("one", "a", {ONE: "2"}), ticks=2)
    before = holding(cluster)
    requests = cluster.api.requests.copy()
    cluster.start_again()
    cluster.tick(3)
    assert holding(cluster) == before
    assert cluster.counts("a", ONE) == ("56", "56")
    assert label(cluster, MIG_STATE) == "success"
    assert ("patch", "nodes/status", 200) not in cluster.api.requests_since(requests)
    cluster.stop()
    cluster.api.remove("pods", "one")
    cluster.modify("nodes", "a", {"metadata": {"labels": {MIG_CONFIG: "all-disabled"}}}, ticks=0)
    cluster.start()
    cluster.tick(5)
    assert cluster.counts("a") == ("8", "8")


@pytest.mark.slow
def test_other_nodes_of_the_pool_stay_as_they_are(tmp_path: Path) -> None:
    """Pages of nodes in their order, the record's replay and the history of the whole boards do not change."""
    cluster = followed(tmp_path, "a", "b", "c", pool=MIXED)
    cluster.modify("nodes", "b", {"metadata": {"labels": {MIG_CONFIG: "all-1g.10gb"}}}, ticks=5)
    assert [each.name for each in cluster.app.fleet.roster.shown] == ["a", "b", "c"]
    assert [len(cluster.rows(each, MEMORY)) for each in "abc"] == [8, 56, 8]
    cluster.add(node("d", {LABEL: "h100", MIG_CONFIG: "all-1g.10gb"}), ticks=6)
    assert [len(cluster.rows(each, MEMORY)) for each in "abcd"] == [8, 56, 8, 56]
    assert len([pool for pool in cluster.app.fleet.spec.pools if pool.layout]) == 1


CONFIGS = """, mig-configs: {
  half: [
    {devices: [0, 1, 2, 3], mig-enabled: true, mig-devices: {1g.10gb: 2, 3g.40gb: 1}},
    {devices: all, device-filter: ["0x27b810DE"], mig-enabled: false}],
  first: [{devices: [0], device-filter: "0x233010DE", mig-enabled: false}],
  full: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 2}}],
  wrong: [{devices: all, mig-enabled: true, mig-devices: {1g.10: 1}}]}"""


@pytest.mark.slow
def test_configurations_of_ones_own(tmp_path: Path) -> None:
    """In the form of mig-parted's files: boards that are not named stay as they are, also over a restart."""
    cluster = followed(tmp_path, "a", pool=MIXED, more=CONFIGS)

    def counts() -> list[str | None]:
        return [cluster.counts("a", each)[0] for each in (GPU, ONE, "nvidia.com/mig-3g.40gb")]

    assert ask(cluster, "half") == ["pending", "success"]
    assert counts() == ["4", "8", "4"]
    assert ask(cluster, "first") == ["pending", "success"]
    assert counts() == ["5", "6", "3"]
    cluster.start_again()
    cluster.tick(3)
    assert counts() == ["5", "6", "3"]
    annotation = cluster.node("a")["metadata"]["annotations"][APPLIED]
    assert annotation.split(";")[:2] == ["off", "3g.40gb@4,1g.10gb@0,1g.10gb@1"]
    assert [ask(cluster, each) for each in ("full", "wrong", "all-disabled")] == [["failed"]] * 3
    texts = [text for _, reason, text in cluster.events("a") if reason == "MigConfigFailed"]
    words = "=full: they take 14 compute slices", "=wrong: no profile '1g.10'", "=all-disabled: no configuration"
    begins = [f"label {MIG_CONFIG}{word}" for word in words]
    assert [text[: len(begin)] for text, begin in zip(texts, begins, strict=True)] == begins
    assert counts() == ["5", "6", "3"]


@pytest.mark.parametrize("text", ["9g.10gb@0", "1g.10gb", "off;off", "3g.40gb@0,4g.40gb@0", ";" * 7 + "1g.10gb@x"])
def test_an_annotation_that_somebody_else_wrote(tmp_path: Path, text: str) -> None:
    """The node is as its pool says."""
    cluster = FollowedCluster(tmp_path, pool=MIXED)
    cluster.api.add(node("a", {LABEL: "h100"}))
    cluster.api.modify("nodes", "a", {"metadata": {"annotations": {APPLIED: text}}})
    cluster.start()
    cluster.tick(2)
    assert cluster.counts("a") == ("8", "8")


@pytest.mark.slow
def test_many_nodes_are_divided_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the reactor divides more than some nodes, and the fleet changes in few events."""
    names = [f"n{number:02}" for number in range(2 * STEPS_AT_ONCE)]
    cluster = followed(tmp_path, *names, pool=MIXED, ticks=4)
    made: list[int] = []
    init, take = ClusterNode.__init__, Inbox.take

    def counted(self: ClusterNode, *arguments: Any) -> None:
        made[-1] += 1
        init(self, *arguments)

    def taken(self: Inbox) -> None:
        made.append(0)
        take(self)

    monkeypatch.setattr(ClusterNode, "__init__", counted)
    monkeypatch.setattr(Inbox, "take", taken)
    events: list[Event] = []
    fleet, apply = cluster.app.fleet, cluster.app.fleet.apply
    monkeypatch.setattr(fleet, "apply", lambda event, *more: (events.append(event), apply(event, *more))[1])
    for name in names:
        cluster.api.modify("nodes", name, {"metadata": {"labels": {MIG_CONFIG: "all-1g.10gb"}}})
    cluster.tick(8)
    assert {cluster.counts(name, ONE) for name in names} == {("56", "56")}
    assert sum(made) == len(names)
    assert max(made) <= STEPS_AT_ONCE
    assert 1 <= len(events) <= 3


def test_slices_follow(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", pool=MIXED, more=", resources: dra")
    assert ask(cluster, "all-3g.40gb", ticks=8) == ["pending", "success"]
    names = [device["name"] for slice_ in slices_of(cluster) for device in slice_["spec"]["devices"]]
    assert names[:2] == ["gpu-0-mig-3g40gb-9-0", "gpu-0-mig-3g40gb-9-4"]
    assert len(names) == 16


def test_boards_without_mig_ignore_the_label(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", text=POOLS.replace("device: h100", "device: l4"))
    assert ask(cluster, "all-1g.10gb") == [""]




