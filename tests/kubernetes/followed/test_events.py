"""What people in the cluster see of fakedev's doings, and that it does not fight with another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, FollowedCluster, followed


def test_a_node_that_loses_its_label_is_cleaned(tmp_path: Path) -> None:
    """The scheduler must not place pods on GPUs that are gone; what others wrote stays."""
    cluster = followed(tmp_path, "a", ticks=3)
    assert cluster.node("a")["status"]["capacity"][GPU] == "8"
    cluster.modify("nodes", "a", {"metadata": {"labels": {LABEL: None, "mine": "yes"}}}, ticks=3)
    item = cluster.node("a")
    assert GPU not in item["status"]["capacity"]
    assert set(item["metadata"]["labels"]) == {"kubernetes.io/hostname", "mine"}
    assert "fakedev/wrote" not in item["metadata"]["annotations"]
    before = cluster.api.requests.copy()
    cluster.tick(20)
    assert {key for key in cluster.api.requests_since(before) if key[1] != "leases"} == set()
    cluster.modify("nodes", "a", {"metadata": {"labels": {LABEL: "h100"}}}, ticks=3)
    assert cluster.node("a")["status"]["capacity"][GPU] == "8"


def test_a_node_that_never_was_ours_is_left_alone(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", ticks=3)
    other = node("b")
    other["metadata"]["annotations"]["fakedev/wrote"] = '{"labels":{"x":"y"}}'
    other["metadata"]["labels"]["x"] = "y"
    cluster.add(other, ticks=3)
    assert cluster.node("b")["metadata"]["labels"]["x"] == "y"


@pytest.mark.slow
def test_two_that_do_not_know_of_each_other(tmp_path: Path) -> None:
    """Leases in different namespaces: they do not patch a node without end, and say so until one stops."""
    cluster = followed(tmp_path, "a", ticks=3)
    (tmp_path / "other").mkdir()
    other = FollowedCluster(
        tmp_path / "other", ", sharing: {replicas: 2}", ", namespace: other", beside=cluster,
    )  # fmt: skip
    other.start()
    cluster.tick(10)
    before = cluster.api.requests["patch", "nodes/status", 200]
    cluster.tick(180)
    assert cluster.api.requests["patch", "nodes/status", 200] - before <= 20
    text = b"another fakedev patches node a too: give both the same namespace"
    assert text in cluster.get("/readyz").body
    other.stop()
    cluster.tick(240)
    assert cluster.get("/readyz").status == 200
    assert cluster.node("a")["status"]["capacity"][GPU] == "8"


def test_an_event_is_not_repeated_by_a_restart(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", ticks=3)
    cluster.add(pod("train", "a", {GPU: "1"}, annotations={"fakedev/kind": "tensro"}), ticks=2)
    assert cluster.reasons("train") == ["UnreadableAnnotation"]
    cluster.start_again()
    cluster.tick(3)
    assert cluster.reasons("train") == ["UnreadableAnnotation"]


def test_work_that_fails_is_told_at_the_pod(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "a", ticks=3)
    cluster.add(pod("large", "a", {GPU: "1"}, annotations={"fakedev/memory": "400GiB"}), ticks=5)
    ((_, reason, text),) = cluster.events("large")
    assert reason == "WorkFailed"
    assert "container main: " in text
    assert "it is tried again" in text


def test_a_server_that_is_silent_is_in_the_log(tmp_path: Path) -> None:
    events: list[LogEvent] = []
    globalLogPublisher.addObserver(events.append)
    try:
        cluster = FollowedCluster(tmp_path)
        cluster.api.be_slow(3600)
        cluster.start()
        cluster.tick(60)
    finally:
        globalLogPublisher.removeObserver(events.append)
    lines = [formatEvent(event) for event in events]
    assert sum("the API server has not answered within 10 s" in line for line in lines) == 1
