"""Watches: the list, the changes, and streams that end."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.watch import Watch
from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.memory_reactor import LinkedReactor
from tests.support.kube.watched import PODS, Recorder, with_two_pods

NODES = "/api/v1/nodes"


@pytest.fixture
def api(api: ClusterApi) -> ClusterApi:
    """A cluster with two pods."""
    return with_two_pods(api)


def test_a_list_then_changes(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    """Each change is told in the turn in which it arrives."""
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
    watch = Watch(client, NODES, seen, reactor)
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
    Watch(client, NODES, seen, reactor, label_selector="fakedev/pool").start()
    reactor.settle()
    api.modify("nodes", "other", {"metadata": {"labels": {"x": "y"}}})
    api.modify("nodes", "ours", {"metadata": {"labels": {"fakedev/pool": None}}})
    reactor.settle()
    assert seen.told == [("listed", ["ours"]), ("deleted", "ours")]


def test_pods_of_one_node(client: ApiClient, api: ClusterApi, reactor: LinkedReactor, seen: Recorder) -> None:
    """By the field selector."""
    Watch(client, PODS, seen, reactor, field_selector="spec.nodeName=dgx-1").start()
    reactor.settle()
    assert seen.told == [("listed", ["b"])]


def test_only_what_is_needed_is_kept(client: ApiClient, reactor: LinkedReactor, api: ClusterApi) -> None:
    """``read`` makes a small value of each object, or leaves it out."""

    class Names(Recorder):
        def listed(self, items: list[Any]) -> None:
            self.told.append(("listed", items))

        def changed(self, item: Any) -> None:
            self.told.append(("changed", item))

    def read(item: dict[str, Any]) -> str | None:
        name = item["metadata"]["name"]
        return None if name == "a" else name

    seen = Names()
    Watch(client, PODS, seen, reactor, read=read).start()
    reactor.settle()
    api.modify("pods", "a", {"metadata": {"labels": {"x": "y"}}})
    api.modify("pods", "b", {"metadata": {"labels": {"x": "y"}}})
    reactor.settle()
    assert seen.told == [("listed", ["b"]), ("changed", "b")]


def test_an_ended_stream_goes_on(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    """From the last event: no list, and nothing is missed meanwhile."""
    reactor.pass_seconds(20)
    api.end_streams()
    api.add(pod("c"))
    reactor.settle()
    assert seen.told == [("listed", ["a", "b"]), ("changed", "c")]
    assert client.statistics.watch_restarts == {("pods", "ended"): 1}


def test_streams_that_end_at_once_are_not_begun_without_end(
    api: ClusterApi, reactor: LinkedReactor, watch: Watch
) -> None:
    """The waits double."""
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
    assert client.statistics.seconds_since_event(reactor.seconds())["pods"] == pytest.approx(16, abs=0.1)


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
    """410 as the code of HTTP."""
    api.fail(410, "watch")
    reactor.pass_seconds(15)
    api.end_streams()
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "listed"]
    assert client.statistics.watch_restarts["pods", "expired"] == 1


def test_a_broken_stream_goes_on(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    """A load balancer was restarted: nobody needs a new list."""
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
    """Never a traceback."""
    api.send_raw(garbage)
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "lost", "listed"]
    assert client.statistics.watch_restarts == {("pods", "garbled"): 1}


def test_an_endless_event_is_refused(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event fills the memory."""
    monkeypatch.setattr("fakedev.net.kube.body.MOST_LINE_BYTES", 1000)
    for _ in range(20):
        api.send_raw(b"x" * 100)
        reactor.settle()
    reactor.pass_seconds(1)
    assert client.statistics.watch_restarts == {("pods", "garbled"): 1}


def test_events_in_pieces(api: ClusterApi, reactor: LinkedReactor, seen: Recorder, watch: Watch) -> None:
    """A line may arrive byte by byte."""
    line = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"slow","resourceVersion":"500"}}}\n'
    for byte in line:
        api.send_raw(bytes([byte]))
        reactor.settle()
    assert seen.told[-1] == ("changed", "slow")
