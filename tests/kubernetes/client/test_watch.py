"""Watches: the list, the changes, streams that end, a server that is away, refuses, or sends what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.watch import Watch
from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.memory_reactor import LinkedReactor
from tests.support.logged_errors import LoggedErrors

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


class Recorder:
    """Keeps what a watch tells, and the names of the objects that there are."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.known: set[str] = set()

    def listed(self, items: list[Any]) -> None:
        """All objects."""
        self.known = {item["metadata"]["name"] for item in items}
        self.told.append(("listed", sorted(self.known)))

    def changed(self, item: Any) -> None:
        """One of them."""
        self.known.add(item["metadata"]["name"])
        self.told.append(("changed", item["metadata"]["name"]))

    def deleted(self, item: Any) -> None:
        """One is gone."""
        self.known.discard(item["metadata"]["name"])
        self.told.append(("deleted", item["metadata"]["name"]))

    def lost(self, reason: str) -> None:
        """The cluster is not seen."""
        self.told.append(("lost", reason))

    @property
    def words(self) -> list[str]:
        """What was told, without the objects."""
        return [word for word, _ in self.told]


@pytest.fixture
def api(api: ClusterApi) -> ClusterApi:
    """A cluster with two pods, ``a`` and ``b``, on a node each."""
    api.add(pod("a", "dgx-0"))
    api.add(pod("b", "dgx-1"))
    return api


@pytest.fixture
def seen() -> Recorder:
    """What the watch tells."""
    return Recorder()


@pytest.fixture
def watch(client: ApiClient, reactor: LinkedReactor, seen: Recorder) -> Watch:
    """A watch of pods that has begun."""
    watch = Watch(client, PODS, seen, lost=seen.lost)
    watch.start()
    reactor.settle()
    return watch


def test_a_list_then_changes(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    api.add(pod("c", "dgx-0"))
    api.modify("pods", "a", {"status": {"phase": "Succeeded"}})
    api.remove("pods", "b")
    reactor.settle()
    assert seen.told == [("listed", ["a", "b"]), ("changed", "c"), ("changed", "a"), ("deleted", "b")]
    assert watch.is_current


def test_nothing_is_requested_while_nothing_changes(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, watch: Watch
) -> None:
    """The steady state: only the stream is begun again, every 5 minutes."""
    before = api.requests.copy()
    reactor.pass_seconds(299, 1)
    assert not api.requests_since(before)
    reactor.pass_seconds(2, 1)
    assert api.requests_since(before) == {("watch", "pods", 200): 1}
    assert client.statistics.watch_restarts == {("pods", "ended"): 1}


def test_long_lists_come_in_pages(client: ApiClient, api: ClusterApi, reactor: LinkedReactor, seen: Recorder) -> None:
    """100 objects each; changes between two pages are not lost."""
    for number in range(600):
        api.add(node(f"dgx-{number}"))
    watch = Watch(client, NODES, seen, lost=seen.lost)
    watch.start()
    while not api.requests["list", "nodes", 200]:
        reactor.advance(0)
    api.add(node("late"))
    reactor.settle()
    assert api.requests["list", "nodes", 200] == 6
    assert seen.words == ["listed", "changed"]
    assert len(seen.known) == 601


def test_selectors_are_the_servers_work(
    client: ApiClient, api: ClusterApi, reactor: LinkedReactor, seen: Recorder
) -> None:
    """A node whose label is removed is deleted for the watch."""
    api.add(node("ours", {"fakedev/pool": "dgx"}))
    api.add(node("other"))
    Watch(client, NODES, seen, query={"labelSelector": "fakedev/pool"}, lost=seen.lost).start()
    reactor.settle()
    api.modify("nodes", "other", {"metadata": {"labels": {"x": "y"}}})
    api.modify("nodes", "ours", {"metadata": {"labels": {"fakedev/pool": None}}})
    reactor.settle()
    assert seen.told == [("listed", ["ours"]), ("deleted", "ours")]


def test_only_what_is_needed_is_kept(client: ApiClient, reactor: LinkedReactor, api: ClusterApi) -> None:
    class Names(Recorder):
        def listed(self, items: list[Any]) -> None:
            self.told.append(("listed", items))

        def changed(self, item: Any) -> None:
            self.told.append(("changed", item))

    def read(item: dict[str, Any]) -> str | None:
        name = item["metadata"]["name"]
        return None if name == "a" else name

    seen = Names()
    Watch(client, PODS, seen, read=read, lost=seen.lost).start()
    reactor.settle()
    api.modify("pods", "a", {"metadata": {"labels": {"x": "y"}}})
    api.modify("pods", "b", {"metadata": {"labels": {"x": "y"}}})
    reactor.settle()
    assert seen.told == [("listed", ["b"]), ("changed", "b")]


def test_an_ended_stream_goes_on(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    reactor.pass_seconds(20)
    api.end_streams()
    api.add(pod("c"))
    reactor.settle()
    assert seen.told == [("listed", ["a", "b"]), ("changed", "c")]
    assert client.statistics.watch_restarts == {("pods", "ended"): 1}


def test_streams_that_end_at_once_are_not_begun_without_end(
    api: ClusterApi, reactor: LinkedReactor, watch: Watch
) -> None:
    for _ in range(200):
        api.end_streams()
        reactor.pass_seconds(0.1)
    # Within 20 s: after 0.2, 0.4, 0.8, 1.6, 3.2, 6.4 s.
    assert api.requests["watch", "pods", 200] <= 9


def test_a_bookmark_moves_the_version(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    """After it older history is not needed: no 410 although much has changed elsewhere."""
    for number in range(5):
        api.add(node(f"dgx-{number}"))
    api.expire(is_told=False)
    api.bookmark()
    reactor.pass_seconds(15)
    api.end_streams()
    reactor.pass_seconds(1)
    assert seen.words == ["listed"]
    assert client.statistics.watch_restarts == {("pods", "ended"): 1}
    assert reactor.seconds() - client.statistics.last_event_seconds["pods"] == pytest.approx(16, abs=0.1)


def test_an_expired_version_within_the_stream(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    """410 as an event: list anew, without a time in which the cluster is not seen."""
    api.expire()
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "listed"]
    assert client.statistics.watch_restarts == {("pods", "expired"): 1}
    api.add(pod("c"))
    reactor.settle()
    assert seen.told[-1] == ("changed", "c")


def test_an_expired_version_as_an_answer(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    api.fail(410, "watch")
    reactor.pass_seconds(15)
    api.end_streams()
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "listed"]
    assert client.statistics.watch_restarts["pods", "expired"] == 1


def test_a_broken_stream_goes_on(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    api.cut_streams()
    reactor.settle()
    api.add(pod("c"))
    reactor.pass_seconds(1)
    assert seen.told == [("listed", ["a", "b"]), ("changed", "c")]


def test_a_silent_stream_is_given_up(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    """The server's machine is gone without a word: it should have ended the stream after 300 s."""
    (stream,) = api._rest.streams
    for call in reactor.getDelayedCalls():
        if call.func == stream.end:
            call.cancel()
    reactor.pass_seconds(331, 1)
    assert client.statistics.watch_restarts == {("pods", "silent"): 1}
    api.add(pod("c"))
    reactor.pass_seconds(1)
    assert seen.told[-1] == ("changed", "c")


@pytest.mark.parametrize("garbage", [b"no json\n", b'{"type": "ADDED"}\n', b"[]\n", b'{"type": 1, "object": null}\n'])
def test_what_is_no_event_leads_to_a_new_list(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch, garbage: bytes
) -> None:
    api.send_raw(garbage)
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "lost", "listed"]
    assert client.statistics.watch_restarts == {("pods", "garbled"): 1}


def test_an_endless_event_is_refused(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fakedev.runtime.http_client.MOST_LINE_BYTES", 1000)
    for _ in range(20):
        api.send_raw(b"x" * 100)
        reactor.settle()
    reactor.pass_seconds(1)
    assert client.statistics.watch_restarts == {("pods", "garbled"): 1}


def test_events_in_pieces(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    line = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"slow","resourceVersion":"500"}}}\n'
    for byte in line:
        api.send_raw(bytes([byte]))
        reactor.settle()
    assert seen.told[-1] == ("changed", "slow")


def test_a_server_that_is_down(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    api.stop()
    reactor.pass_seconds(100)
    assert seen.words == ["listed", "lost"]
    assert "no program listens there" in seen.told[1][1]
    assert not watch.is_current
    api.remove("pods", "a")
    api.start()
    reactor.pass_seconds(31)
    assert seen.told[2:] == [("listed", ["b"])]
    assert watch.is_current


def test_a_server_that_is_down_at_the_start(api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
    api.stop()
    watches = [Recorder() for _ in range(4)]
    for each in watches:
        Watch(client, PODS, each, lost=each.lost).start()
    reactor.pass_seconds(60)
    assert [each.words for each in watches] == [["lost"]] * 4
    assert client.statistics.requests["list", "pods", 0] <= 12
    api.start()
    reactor.pass_seconds(31)
    assert [each.words for each in watches] == [["lost", "listed"]] * 4


def test_what_is_forbidden_is_tried_again(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder
) -> None:
    """With a line for the role; when the rule is there, the watch goes on by itself."""
    failure = api.forbid("list", "pods")
    Watch(client, PODS, seen, lost=seen.lost).start()
    reactor.pass_seconds(100)
    assert seen.words == ["lost"]
    assert api.requests["list", "pods", 403] <= 12
    assert '- {apiGroups: [""], resources: ["pods"], verbs: ["list"]}' in client.open_problems.texts[0]
    api.works(failure)
    reactor.pass_seconds(31)
    assert seen.words == ["lost", "listed"]
    assert client.open_problems.texts == ()


def test_a_watch_that_is_forbidden_lists_ever_more_rarely(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, seen: Recorder
) -> None:
    api.forbid("watch", "pods")
    Watch(client, PODS, seen, lost=seen.lost).start()
    reactor.pass_seconds(100)
    assert api.requests["list", "pods", 200] <= 12
    assert 'verbs: ["watch"]' in client.open_problems.texts[0]


def test_a_busy_server_is_left_alone_as_long_as_it_says(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder
) -> None:
    api.fail(429, "list", retry_after_seconds=9)
    Watch(client, PODS, seen, lost=seen.lost).start()
    reactor.pass_seconds(8.9)
    assert api.requests.total() == 1
    reactor.pass_seconds(0.5)
    assert seen.words == ["lost", "listed"]


def test_a_stream_that_cannot_be_begun_at_first_needs_no_list(
    api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    """A list of everything is the last thing that a busy server needs; but not for ever."""
    reactor.pass_seconds(20)
    api.fail(503, "watch", times=4)
    api.end_streams()
    api.add(pod("c"))
    reactor.pass_seconds(10)
    assert seen.told == [("listed", ["a", "b"]), ("changed", "c")]
    failure = api.fail(503, "watch", times=-1)
    api.end_streams()
    reactor.pass_seconds(60)
    assert seen.words[:4] == ["listed", "changed", "lost", "listed"]
    api.works(failure)
    reactor.pass_seconds(31)
    assert watch.is_current


def test_an_error_within_the_stream_leads_to_a_new_list(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, seen: Recorder, watch: Watch
) -> None:
    api.fail_streams(500, "etcd does not support this")
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "lost", "listed"]
    assert client.statistics.watch_restarts == {("pods", "refused"): 1}


def test_a_mistake_of_the_handler_does_not_end_the_watch(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, logged_errors: LoggedErrors
) -> None:
    class Broken(Recorder):
        def changed(self, item: Any) -> None:
            super().changed(item)
            raise RuntimeError("a mistake")

    seen = Broken()
    Watch(client, PODS, seen, lost=seen.lost).start()
    reactor.settle()
    api.add(pod("c"))
    api.add(pod("d"))
    reactor.settle()
    assert seen.words == ["listed", "changed", "changed"]
    assert len(logged_errors.take(RuntimeError)) == 2


def test_an_object_that_cannot_be_read_is_left_out(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, seen: Recorder, logged_errors: LoggedErrors
) -> None:
    def read(item: dict[str, Any]) -> dict[str, Any]:
        if item["metadata"]["name"] in ("a", "c"):
            raise KeyError("a mistake")
        return item

    Watch(client, PODS, seen, read=read, lost=seen.lost).start()
    reactor.settle()
    api.add(pod("c"))
    api.add(pod("d"))
    reactor.settle()
    assert seen.told == [("listed", ["b"]), ("changed", "d")]
    assert len(logged_errors.take(KeyError)) == 2


@pytest.mark.parametrize("word", ["listed", "changed", "lost"])
def test_the_handler_may_stop_the_watch(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    seen = Recorder()
    monkeypatch.setattr(seen, word, lambda _: (seen.told.append((word, "")), watch.stop()))
    watch = Watch(client, PODS, seen, lost=seen.lost)
    watch.start()
    reactor.settle()
    api.add(pod("c"))
    reactor.settle()
    api.stop()
    reactor.pass_seconds(40)
    api.start()
    reactor.pass_seconds(40)
    assert seen.words[-1] == word
    assert not watch.is_current
    assert api.watches == 0


def test_a_stopped_watch_is_silent(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    watch.stop()
    reactor.settle()
    api.add(pod("c"))
    reactor.pass_seconds(100)
    assert seen.words == ["listed"]
    assert api.watches == 0
