"""Several fakedev on one cluster: one writes for each shard, the others wait and say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster, followed

#: The first and the second half of a fleet.
SHARDS = [POOLS.replace("seed: 7", f"seed: 7\n  shard: {number}/2") for number in (0, 1)]


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each application in memory is a process of its own: its name in a lease has another number."""
    numbers = iter(range(100, 200))
    monkeypatch.setattr("fakedev.kubernetes.part.os.getpid", lambda: next(numbers))


def first_of(folder: Path, text: str = POOLS) -> FollowedCluster:
    """A cluster of four nodes with an application that follows it."""
    return followed(folder, *"abcd", ticks=3, text=text)


def beside(first: FollowedCluster, folder: Path, text: str = POOLS) -> FollowedCluster:
    """Another application on the same cluster."""
    other = FollowedCluster(folder, text=text, beside=first)
    other.start()
    other.tick(3)
    return other


def holder_of(cluster: FollowedCluster, name: str = "fakedev-0-of-1") -> str:
    """Who holds a lease."""
    return str(cluster.api.get("leases", name)["spec"].get("holderIdentity") or "")


class TestOneShard:
    def test_the_second_waits_and_says_so(self, tmp_path: Path) -> None:
        """It watches and writes nothing; its pages are there, without the cluster's nodes."""
        first = first_of(tmp_path)
        watches = first.api.watches
        second = beside(first, tmp_path)
        assert second.ready == (
            f"{holder_of(first)} holds the lease default/fakedev-0-of-1: this one waits until it is free"
        )
        assert second.metric("fakedev_kubernetes_leader") == 0
        assert first.metric("fakedev_kubernetes_leader") == 1
        assert first.ready == ""
        assert first.api.watches == watches
        assert second.page("a") == "status 404"

    def test_it_takes_over_when_the_first_stops(self, tmp_path: Path) -> None:
        """At once, for the lease is given back; nothing is patched, for all is as it was."""
        first = first_of(tmp_path)
        first.add(pod("train", "a", {GPU: "2"}), ticks=2)
        held, gone = first.held("a"), holder_of(first)
        second = beside(first, tmp_path)
        before = first.api.requests.copy()
        first.stop()  # takes 4 s
        second.tick(2)
        assert second.ready == ""
        assert holder_of(second) not in ("", gone)
        assert second.held("a") == held
        assert not any(verb == "patch" for verb, _, _ in second.api.requests_since(before))



class TestShards:
    def test_each_node_belongs_to_one(self, tmp_path: Path) -> None:
        first = first_of(tmp_path, SHARDS[0])
        second = beside(first, tmp_path, SHARDS[1])
        second.tick(3)
        assert first.ready == second.ready == ""
        shown = [{name for name in "abcd" if one.page(name) != "status 404"} for one in (first, second)]
        assert shown[0] | shown[1] == set("abcd")
        assert not shown[0] & shown[1]
        assert first.api.requests["patch", "nodes/status", 200] == 4
        assert all(first.counts(name) == ("8", "8") for name in "abcd")
        assert {each["metadata"]["name"] for each in first.api.items("leases")} == {"fakedev-0-of-2", "fakedev-1-of-2"}

def test_the_end(tmp_path: Path) -> None:
    """SIGTERM: streams end, the lease is given back, nothing is unlabelled, no workload's end is written anywhere."""
    cluster = first_of(tmp_path)
    cluster.add(pod("train", "a", {GPU: "2"}), ticks=2)
    nodes, pods = cluster.api.items("nodes"), cluster.api.items("pods")
    before = cluster.api.requests.copy()
    assert cluster.api.watches == 2
    cluster.stop()
    assert cluster.api.watches == 0
    assert cluster.api.items("nodes") == nodes
    assert cluster.api.items("pods") == pods
    assert holder_of(cluster) == ""
    made = cluster.api.requests_since(before)
    assert dict(made) == {("update", "leases", 200): made["update", "leases", 200]}
    cluster.reactor.pass_seconds(60, 1.0)
    assert cluster.api.requests_since(before) == made


@pytest.mark.parametrize("is_later", [False, True])
def test_the_end_while_the_server_is_away(tmp_path: Path, is_later: bool) -> None:
    """It does not wait for a server that does not answer."""
    cluster = FollowedCluster(tmp_path)
    cluster.api.add(node("a", {LABEL: "h100"}))
    if not is_later:
        cluster.api.stop()
    cluster.start()
    cluster.tick(3)
    if is_later:
        cluster.api.stop()
        cluster.say("fault lost devices=a/3", ticks=3)
    cluster.stop()
