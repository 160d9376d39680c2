"""An API server that is away, busy, forgetful or strict: the fleet goes on, and all is as it should be afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.logger import LogEvent, LogLevel, formatEvent

from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, FollowedCluster


def prepared(folder: Path, more: str = "") -> FollowedCluster:
    """A cluster with two nodes and a pod, and an application that is not started yet."""
    cluster = FollowedCluster(folder, more=more)
    for name in ("a", "b"):
        cluster.api.add(node(name, {LABEL: "h100"}))
    cluster.api.add(pod("train", "a", {GPU: "2"}))
    return cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FollowedCluster]:
    """Such a cluster; the application follows it."""
    followed = prepared(tmp_path)
    followed.start()
    followed.tick(3)
    yield followed


def warnings(events: list[LogEvent]) -> list[str]:
    """The texts of warnings and errors that were logged."""
    return [formatEvent(event) for event in events if event["log_level"] in (LogLevel.warn, LogLevel.error)]


def check_all_is_well(cluster: FollowedCluster) -> None:
    """The nodes have their GPUs, the pod its two, once, and nothing is reported."""
    assert cluster.counts("a") == cluster.counts("b") == ("8", "8")
    assert len(cluster.held("a")["train", "main"]) == 2
    assert len(cluster.app.fleet.workloads.by_id) == 1
    assert cluster.ready == ""


class TestAway:
    @pytest.mark.slow
    def test_at_the_start(self, tmp_path: Path, log_events: list[LogEvent]) -> None:
        """Pages and ports are there; the log says it once, /readyz and /-/metrics as long as it is so."""
        cluster = prepared(tmp_path)
        cluster.api.stop()
        cluster.start()
        cluster.tick(120)
        assert "127.0.0.1" in cluster.ready
        assert cluster.get("/metrics").status == 200
        assert cluster.metric("fakedev_kubernetes_connected") == 0
        assert cluster.metric("fakedev_kubernetes_requests_total", code="0") > 3
        assert len([text for text in warnings(log_events) if "it is tried again" in text]) == 1
        cluster.api.start()
        cluster.tick(70)  # the longest pause is 30 s, and the lease is tried again after at most 10 s
        check_all_is_well(cluster)

    @pytest.mark.slow
    def test_later(self, cluster: FollowedCluster, log_events: list[LogEvent]) -> None:
        """Nothing ends; what happened meanwhile is found out by lists, and only what differs is written."""
        cluster.api.stop()
        cluster.tick(60)
        assert len(cluster.held("a")["train", "main"]) == 2
        assert "127.0.0.1" in cluster.ready or "lease" in cluster.ready
        cluster.api.remove("nodes", "b")
        cluster.api.add(node("c", {LABEL: "h100"}))
        cluster.api.add(pod("next", "c", {GPU: "1"}))
        before = cluster.api.requests.copy()
        cluster.api.start()
        cluster.tick(70)
        assert [each.name for each in cluster.app.fleet.roster.shown] == ["a", "c"]
        assert set(cluster.held("c")) == {("next", "main")}
        assert cluster.api.requests_since(before)["patch", "nodes/status", 200] == 1
        assert cluster.ready == ""
        assert len([text for text in warnings(log_events) if "it is tried again" in text]) == 1

    @pytest.mark.slow
    def test_nothing_is_sent_late(self, cluster: FollowedCluster) -> None:
        """What waited for the server is not sent after the lease is another one's: that one writes now."""
        cluster.api.stop()
        cluster.say("fault xid code=48 devices=a/3", ticks=45)
        lease = cluster.api.items("leases")[0]["metadata"]
        taken = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}}
        cluster.api.modify("leases", lease["name"], taken, lease["namespace"])
        before = cluster.api.requests.copy()
        cluster.api.start()
        cluster.tick(70)
        assert {key[0] for key in cluster.api.requests_since(before)} == {"list"}
        assert "other holds the lease" in cluster.ready
        assert cluster.counts("a") == ("8", "8")


class TestStreams:
    @pytest.mark.parametrize("how", ["end_streams", "cut_streams", "expire"])
    def test_what_changed_meanwhile_is_known_afterwards(self, cluster: FollowedCluster, how: str) -> None:
        getattr(cluster.api, how)()
        cluster.api.remove("pods", "train")
        cluster.api.add(pod("train", "a", {GPU: "2"}))
        cluster.add(pod("next", "b", {GPU: "3"}), ticks=40)
        assert len(cluster.held("b")["next", "main"]) == 3
        cluster.remove("pods", "next", ticks=2)
        check_all_is_well(cluster)
        assert cluster.metric("fakedev_kubernetes_watch_restarts_total", resource="pods") >= 1

    def test_a_server_that_is_frozen(self, cluster: FollowedCluster) -> None:
        """It takes requests and answers none: within 5 s fakedev is not ready, and says why."""
        cluster.api.be_slow(600)
        cluster.tick(5)
        assert cluster.ready == "the API server has not answered for 4.5 s"

    def test_silence_is_seen(self, cluster: FollowedCluster) -> None:
        cluster.tick(20)
        assert cluster.metric("fakedev_kubernetes_watch_silence_seconds", resource="pods") >= 20
        cluster.api.bookmark()
        cluster.tick(1)
        assert cluster.metric("fakedev_kubernetes_watch_silence_seconds", resource="pods") <= 1


class TestAnswers:
    @pytest.mark.parametrize("code", [429, 500, 503])
    def test_busy_or_failing(self, tmp_path: Path, code: int, log_events: list[LogEvent]) -> None:
        """It is asked again as late as it says, until all is written; each code is counted."""
        cluster = prepared(tmp_path)
        cluster.api.fail(code, "patch", "nodes/status", times=3, retry_after_seconds=5)
        cluster.start()
        cluster.tick(4)
        assert cluster.api.requests["patch", "nodes/status", 200] <= 1
        cluster.tick(60)
        check_all_is_well(cluster)
        assert cluster.metric("fakedev_kubernetes_requests_total", code=str(code)) == 3
        assert len([text for text in warnings(log_events) if f"({code})" in text]) <= 1

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("verb", "resource", "kind"),
        [
            ("patch", "nodes/status", "ClusterRole"),
            ("list", "pods", "ClusterRole"),
            ("watch", "nodes", "ClusterRole"),
            ("create", "events", "ClusterRole"),
            ("list", "leases", "Role in namespace default"),
            ("create", "pods/eviction", "ClusterRole"),
        ],
    )
    def test_forbidden(
        self, tmp_path: Path, verb: str, resource: str, kind: str, log_events: list[LogEvent]
    ) -> None:
        """The line that the Role lacks is in the log, once, and in /readyz; the rest goes on; given, all is done."""
        group = "coordination.k8s.io" if resource == "leases" else ""
        rule = f'add to the {kind}: - {{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
        cluster = prepared(tmp_path, ", pods: {struck: evict}")
        missing = cluster.api.forbid(verb, resource)
        cluster.start()
        cluster.tick(3)
        cluster.say("fault xid code=48 devices=b/7")
        cluster.add(pod("struck", "b", {GPU: "8"}), ticks=2)
        cluster.say("fault xid code=48 devices=b/0", ticks=100)
        assert rule in cluster.ready
        assert len([text for text in warnings(log_events) if rule in text]) == 1
        assert cluster.metric("fakedev_kubernetes_requests_total", verb=verb, resource=resource, code="403") >= 1
        if resource not in ("leases", "nodes", "nodes/status"):
            assert cluster.counts("b") == ("8", "6")
        if resource in ("nodes/status", "events"):
            assert len(cluster.held("a")["train", "main"]) == 2
        cluster.api.works(missing)
        cluster.tick(100)
        assert cluster.ready == ""
        # The rule is there now: what waited for it is done.
        assert cluster.counts("b")[0] == "8"
        assert len(cluster.held("a")["train", "main"]) == 2
        if resource not in ("leases", "pods"):  # who is known later was not struck
            assert [each["metadata"]["name"] for each in cluster.api.items("pods")] == ["train"]
            assert "DeviceUnhealthy" in cluster.reasons("b")

    def test_forbidden_taints(self, cluster: FollowedCluster) -> None:
        """Without the right to change nodes there is no taint; the status is written all the same."""
        cluster.api.forbid("patch", "nodes")
        cluster.say("fault node-down devices=a/*", ticks=5)
        conditions = {each["type"]: each["status"] for each in cluster.node("a")["status"]["conditions"]}
        assert conditions["Ready"] == "Unknown"
        assert "taints" not in cluster.node("a")["spec"]
        assert 'resources: ["nodes"], verbs: ["patch"]' in cluster.ready

    @pytest.mark.slow
    def test_what_the_server_refuses(self, tmp_path: Path, log_events: list[LogEvent]) -> None:
        """422 names node and field; it is not sent again, whatever else changes there; others are as they were."""
        cluster = prepared(tmp_path)
        why = "Node \"a\" is invalid: status.capacity[nvidia.com/gpu]: Invalid value: \"8\": refused by the test"
        cluster.api.fail(422, "patch", "nodes/status", message=why)
        cluster.start()
        cluster.tick(3)
        cluster.modify("nodes", "a", {"metadata": {"annotations": {"heartbeat": "1"}}}, ticks=100)
        assert cluster.counts("b") == ("8", "8")
        assert cluster.api.requests["patch", "nodes/status", 422] == 1
        told = [text for text in warnings(log_events) if "status.capacity[nvidia.com/gpu]" in text]
        assert len(told) == 1
        assert "node a cannot be patched" in told[0]
        assert "node a cannot be patched" in cluster.ready
        assert cluster.metric("fakedev_kubernetes_refused_patches") == 1
        cluster.say("fault xid code=48 devices=a/3")  # now something else is wanted
        cluster.tick(2)
        assert cluster.counts("a") == ("8", "7")
        assert cluster.ready == ""

    @pytest.mark.slow
    def test_others_are_faster(self, cluster: FollowedCluster) -> None:
        """409: the node is read again, and compared; after three attempts in a row it waits for 30 s."""
        before = cluster.api.requests.copy()
        cluster.api.fail(409, "patch", "nodes", times=-1)
        cluster.say("fault node-down devices=a/*", ticks=25)
        made = cluster.api.requests_since(before)
        assert made["patch", "nodes", 409] == 3
        assert made["list", "nodes", 200] == 2
        cluster.tick(30)
        assert cluster.api.requests_since(before)["patch", "nodes", 409] == 6
        cluster.api.works()
        cluster.tick(40)
        assert cluster.node("a")["spec"]["taints"]

    def test_a_node_that_is_gone_while_it_is_patched(self, cluster: FollowedCluster) -> None:
        """404 is no trouble; one of the same name that comes later is patched."""
        cluster.api.fail(404, "patch", "nodes/status")
        cluster.add(node("c", {LABEL: "h100"}), ticks=2)
        assert cluster.counts("c") == (None, None)
        assert cluster.ready == ""
        cluster.remove("nodes", "c", ticks=2)
        cluster.add(node("c", {LABEL: "h100"}), ticks=2)
        assert cluster.counts("c") == ("8", "8")

    @pytest.mark.slow
    def test_more_events_than_can_wait(self, tmp_path: Path) -> None:
        """While they are forbidden the newest 1,000 wait, and others are counted; one is tried in 30 s, not each."""
        cluster = FollowedCluster(tmp_path)
        for number in range(130):
            cluster.api.add(node(f"n{number:03}", {LABEL: "h100"}))
        missing = cluster.api.forbid("create", "events")
        cluster.start()
        cluster.tick(10)
        cluster.say("fault xid code=48 devices=all", ticks=62)
        assert cluster.metric("fakedev_kubernetes_dropped_events_total") == 130 * 8 - 1000
        assert cluster.api.requests["create", "events", 403] <= 4 + 2
        cluster.api.works(missing)
        cluster.tick(60)
        assert len(cluster.api.items("events")) == 1000
        assert cluster.ready == ""

    @pytest.mark.slow
    def test_nothing_is_asked_while_nothing_changes(self, cluster: FollowedCluster) -> None:
        """In ten minutes only the lease is renewed, and the server ends each watch once or twice."""
        before = cluster.api.requests.copy()
        cluster.tick(600)
        made = cluster.api.requests_since(before)
        assert set(made) == {("update", "leases", 200), ("watch", "nodes", 200), ("watch", "pods", 200)}
        assert 299 <= made["update", "leases", 200] <= 301
        assert made["watch", "pods", 200] <= 2
