"""Watches when something goes wrong: a server that is away, refuses, or sends what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.watch import Watch
from tests.support.kube.api_server import ClusterApi, pod
from tests.support.kube.memory_reactor import LinkedReactor
from tests.support.kube.watched import PODS, Recorder, with_two_pods
from tests.support.logged_errors import LoggedErrors

NODES = "/api/v1/nodes"


@pytest.fixture
def api(api: ClusterApi) -> ClusterApi:
    """A cluster with two pods."""
    return with_two_pods(api)


def test_a_server_that_is_down(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder, watch: Watch
) -> None:
    """The loss is told once; afterwards there is a new list."""
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
    """Several watches together do not make more attempts than one."""
    api.stop()
    watches = [Recorder() for _ in range(4)]
    for each in watches:
        Watch(client, PODS, each, reactor).start()
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
    Watch(client, PODS, seen, reactor).start()
    reactor.pass_seconds(100)
    assert seen.words == ["lost"]
    assert api.requests["list", "pods", 403] <= 12
    assert '- {apiGroups: [""], resources: ["pods"], verbs: ["list"]}' in client.troubles.texts[0]
    api.works(failure)
    reactor.pass_seconds(31)
    assert seen.words == ["lost", "listed"]
    assert client.troubles.texts == ()


def test_a_watch_that_is_forbidden_lists_ever_more_rarely(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, seen: Recorder
) -> None:
    """Lists of thousands of objects are not repeated every moment."""
    api.forbid("watch", "pods")
    Watch(client, PODS, seen, reactor).start()
    reactor.pass_seconds(100)
    assert api.requests["list", "pods", 200] <= 12
    assert 'verbs: ["watch"]' in client.troubles.texts[0]


def test_a_busy_server_is_left_alone_as_long_as_it_says(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, seen: Recorder
) -> None:
    """429 with Retry-After."""
    api.fail(429, "list", retry_after_seconds=9)
    Watch(client, PODS, seen, reactor).start()
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
    """As when etcd is too old for what was asked."""
    api.fail_streams(500, "etcd does not support this")
    reactor.pass_seconds(1)
    assert seen.words == ["listed", "lost", "listed"]
    assert client.statistics.watch_restarts == {("pods", "refused"): 1}


def test_a_mistake_of_the_handler_does_not_end_the_watch(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, logged_errors: LoggedErrors
) -> None:
    """It is logged as a mistake of ours."""

    class Broken(Recorder):
        def changed(self, item: Any) -> None:
            super().changed(item)
            raise RuntimeError("a mistake")

    seen = Broken()
    Watch(client, PODS, seen, reactor).start()
    reactor.settle()
    api.add(pod("c"))
    api.add(pod("d"))
    reactor.settle()
    assert seen.words == ["listed", "changed", "changed"]
    assert len(logged_errors.take(RuntimeError)) == 2


def test_an_object_that_cannot_be_read_is_left_out(
    api: ClusterApi, reactor: LinkedReactor, client: ApiClient, seen: Recorder, logged_errors: LoggedErrors
) -> None:
    """In the list and in the stream; the others are told."""

    def read(item: dict[str, Any]) -> dict[str, Any]:
        if item["metadata"]["name"] in ("a", "c"):
            raise KeyError("a mistake")
        return item

    Watch(client, PODS, seen, reactor, read=read).start()
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
    """From within each of its methods; nothing is told after that."""
    seen = Recorder()
    monkeypatch.setattr(seen, word, lambda _: (seen.told.append((word, "")), watch.stop()))
    watch = Watch(client, PODS, seen, reactor)
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
    """And the server knows that it is over."""
    watch.stop()
    reactor.settle()
    api.add(pod("c"))
    reactor.pass_seconds(100)
    assert seen.words == ["listed"]
    assert api.watches == 0
