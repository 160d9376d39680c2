"""Several fakedev on one cluster: one writes for each shard, the others wait and say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import LABEL, POOLS, FollowedCluster

GPU = "nvidia.com/gpu"
#: The first and the second half of a fleet.
SHARDS = [POOLS.replace("seed: 7", f"seed: 7\n  shard: {number}/2") for number in (0, 1)]


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each application in memory is a process of its own: its name in a lease has another number."""
    numbers = iter(range(100, 200))
    monkeypatch.setattr("fakedev.app.kubernetes.os.getpid", lambda: next(numbers))


def first_of(folder: Path, text: str = POOLS) -> FollowedCluster:
    """A cluster of four nodes with an application that follows it."""
    cluster = FollowedCluster(folder, text=text)
    for name in "abcd":
        cluster.api.add(node(name, {LABEL: "h100"}))
    cluster.start()
    cluster.tick(3)
    return cluster


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
    """Two fakedev with the same shard."""

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
        first.api.add(pod("train", "a", {GPU: "2"}))
        first.tick(2)
        held, gone = first.held("a"), holder_of(first)
        second = beside(first, tmp_path)
        before = first.api.requests.copy()
        first.stop()  # takes 4 s
        second.tick(2)
        assert second.ready == ""
        assert holder_of(second) not in ("", gone)
        assert second.held("a") == held
        assert not any(verb == "patch" for verb, _, _ in second.api.requests_since(before))

    def test_it_takes_over_when_the_first_dies(self, tmp_path: Path) -> None:
        """After the 30 s of the lease."""
        cluster = FollowedCluster(tmp_path)
        dead = {"holderIdentity": "dead", "leaseDurationSeconds": 30, "renewTime": "2026-11-22T10:00:00.000000Z"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": dead}
        cluster.api.add({**lease, "metadata": {"name": "fakedev-0-of-1", "namespace": "default"}})
        cluster.api.add(node("a", {LABEL: "h100"}))
        cluster.start()
        cluster.tick(25)
        assert "dead holds the lease" in cluster.ready
        cluster.tick(15)
        assert cluster.ready == ""
        assert cluster.counts("a") == ("8", "8")

    def test_a_lease_that_is_lost(self, tmp_path: Path) -> None:
        """While the server is away it is given up; nothing else ends, and it is acquired again afterwards."""
        cluster = first_of(tmp_path)
        cluster.api.add(pod("train", "a", {GPU: "2"}))
        cluster.tick(2)
        cluster.api.stop()
        cluster.tick(60)
        assert cluster.metric("fakedev_kubernetes_leader") == 0
        assert len(cluster.held("a")["train", "main"]) == 2
        cluster.api.start()
        cluster.tick(70)
        assert cluster.metric("fakedev_kubernetes_leader") == 1
        assert cluster.ready == ""
        assert len(cluster.app.fleet.workloads.by_id) == 1
        cluster.say("fault xid code=48 devices=a/3")
        cluster.tick(2)
        assert cluster.counts("a") == ("8", "7")


class TestShards:
    """A fleet in several processes."""

    def test_each_node_belongs_to_one(self, tmp_path: Path) -> None:
        """Both write their own nodes, and each node is patched once."""
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

    def test_another_number_of_shards_is_a_mistake(self, tmp_path: Path) -> None:
        """The error names the lease, its holder, both numbers and the remedy; the cluster is left to the other one."""
        first = first_of(tmp_path)
        second = beside(first, tmp_path, SHARDS[1])
        assert second.ready == (
            f"{holder_of(first)} holds the lease default/fakedev-0-of-1, of a fleet in 1 shards, and this one is of a "
            "fleet in 2: stop it, give both the same number of shards, or use another namespace"
        )
        assert [each["metadata"]["name"] for each in first.api.items("leases")] == ["fakedev-0-of-1"]


def test_the_end(tmp_path: Path) -> None:
    """SIGTERM: streams end, the lease is given back, nothing is unlabelled, no workload's end is written anywhere."""
    cluster = first_of(tmp_path)
    cluster.api.add(pod("train", "a", {GPU: "2"}))
    cluster.tick(2)
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
        cluster.say("fault lost devices=a/3")
        cluster.tick(3)
    cluster.stop()
