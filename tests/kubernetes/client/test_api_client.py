"""Requests to the API server: when they may be sent, what is sent again, what waits, what is reported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from fakedev.base.backoff import Backoff
from fakedev.kubernetes.client.api_client import EVENTS_FLOW, ApiClient, RequestQueue
from fakedev.kubernetes.client.api_paths import Target, node_path, parse_path, pod_path, role_rule, verb_of
from fakedev.runtime.http_client import ApiError, error_of_answer, error_of_status
from fakedev.runtime.tls_settings import ApiServer
from tests.support.deferreds import assert_no_result, failure_result_of, success_result_of
from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.memory_reactor import LinkedReactor


def places(queue: RequestQueue, flow: str, number: int, gone: list[str]) -> None:
    """Requests of a flow, each over as soon as it is sent; ``gone`` has the flows in the order of sending."""

    def send(_: object) -> None:
        gone.append(flow)
        queue.leave()

    for _ in range(number):
        queue.place(flow).addCallback(send)


def test_flows_take_turns() -> None:
    clock, gone = Clock(), list[str]()
    queue = RequestQueue(clock, 1, 16)
    places(queue, "a", 4, gone)
    places(queue, "b", 2, gone)
    clock.pump([1.0] * 6)
    assert "".join(gone) == "aababa"  # the first one went before there was another flow


def test_events_come_last() -> None:
    """Of many changes at once schedulers see the nodes before people see their Events."""
    clock, gone = Clock(), list[str]()
    queue = RequestQueue(clock, 1, 16)
    places(queue, "nodes", 1, gone)
    places(queue, EVENTS_FLOW, 2, gone)
    places(queue, "nodes", 2, gone)
    clock.pump([1.0] * 5)
    assert gone == ["nodes"] * 3 + [EVENTS_FLOW] * 2


def test_a_request_that_is_sent_again_goes_first() -> None:
    """So that the patches of one node keep their order."""
    clock, gone = Clock(), list[str]()
    queue = RequestQueue(clock, 1, 1)
    queue.place("a")
    for name in ("second", "third"):
        queue.place("a").addCallback(lambda _, name=name: (gone.append(name), queue.leave()))
    queue.place("a", first=True).addCallback(lambda _: (gone.append("again"), queue.leave()))
    queue.leave()
    clock.pump([1.0] * 4)
    assert gone == ["again", "second", "third"]


def test_no_more_than_so_many_are_in_flight() -> None:
    queue = RequestQueue(Clock(), 100, 3, burst=5)
    sent = [queue.place("a") for _ in range(5)]
    assert [each.called for each in sent] == [True, True, True, False, False]
    queue.leave()
    assert sent[3].called


def test_no_more_than_so_many_wait() -> None:
    queue = RequestQueue(Clock(), 1, 1, most_waiting=2)
    for _ in range(3):
        queue.place("a")
    with pytest.raises(ApiError, match="2 requests wait"):
        queue.place("a")


def test_a_long_time_is_one_burst() -> None:
    clock = Clock()
    queue = RequestQueue(clock, 5, 100, burst=5)
    clock.advance(1000)
    sent = [queue.place("a") for _ in range(20)]
    assert sum(each.called for each in sent) == 5
    clock.advance(1)
    assert sum(each.called for each in sent) == 10


def test_waits_double_up_to_a_limit() -> None:
    longest, shortest = Backoff(0.2, 30.0), Backoff(0.2, 30.0, lambda: 0.0)
    waits = [longest.next_seconds() for _ in range(12)]
    assert waits[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert waits[-1] == 30.0
    assert [shortest.next_seconds() for _ in range(12)] == pytest.approx([wait / 2 for wait in waits])
    longest.reset()
    assert longest.next_seconds() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("retry_after", "seconds"), [("", None), ("7", 7.0), ("999999", 300.0), ("-1", None), ("soon", None), ("٣", None)]
)
def test_how_long_to_wait(retry_after: str, seconds: float | None) -> None:
    """In whole seconds, 5 minutes at most; anything else is not understood."""
    assert error_of_answer(429, retry_after, b"Too many requests\n").retry_after_seconds == seconds


def test_a_text_is_an_error_too() -> None:
    """API priority and fairness answers 429 in plain text."""
    error = error_of_answer(429, "1", b"Too many requests, please try again later.\n")
    assert (error.reason, error.message) == ("TooManyRequests", "Too many requests, please try again later.")


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[]", b"1", b'{"code": "x", "reason": [], "details": 3}', b"{}"])
def test_anything_may_be_in_an_answer(body: bytes) -> None:
    """The code of HTTP stays; the text is one line."""
    error = error_of_answer(500, "", body)
    assert error.code == 500
    assert "\n" not in str(error)


def test_a_long_message_is_shortened() -> None:
    body = orjson.dumps({"code": 422, "reason": "Invalid", "message": "x\n" * 10_000})
    error = error_of_answer(422, "", body)
    assert len(error.message) < 1100
    assert error.message.isprintable()


def test_an_expired_version() -> None:
    assert error_of_status({"code": 410, "reason": "Gone"}).is_expired
    assert error_of_status({"reason": "Expired"}).is_expired
    assert not error_of_status({"code": 500}).is_expired


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/nodes", Target("", "v1", "nodes")),
        ("/api/v1/nodes/dgx-0/status", Target("", "v1", "nodes", "", "dgx-0", "status")),
        ("/api/v1/namespaces/gpus/pods/a", Target("", "v1", "pods", "gpus", "a")),
        ("/api/v1/namespaces/gpus", Target("", "v1", "namespaces", "", "gpus")),
        ("/apis/resource.k8s.io/v1/resourceslices", Target("resource.k8s.io", "v1", "resourceslices")),
        (
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
            Target("coordination.k8s.io", "v1", "leases", "a", "b"),
        ),
    ],
)
def test_paths_are_read_and_made(path: str, target: Target) -> None:
    assert parse_path(path) == target
    assert target.path == path


def test_names_are_quoted() -> None:
    assert node_path("../x?y") == "/api/v1/nodes/..%2Fx%3Fy"
    assert pod_path("a", "b", "eviction") == "/api/v1/namespaces/a/pods/b/eviction"


def test_verbs_and_rules() -> None:
    pods = Target("", "v1", "pods", "gpus")
    assert [verb_of("GET", pods), verb_of("GET", pods, is_watch=True)] == ["list", "watch"]
    assert verb_of("GET", Target("", "v1", "pods", "gpus", "a")) == "get"
    assert role_rule("create", Target("", "v1", "pods", "gpus", "a", "eviction")) == (
        'the API server forbids to create pods/eviction "a": add to the ClusterRole: '
        '- {apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"]}'
    )


NODES = "/api/v1/nodes"


@pytest.fixture
def api(api: ClusterApi) -> ClusterApi:
    """A cluster with one node."""
    api.add(node("dgx-0"))
    return api


def make_client(server: ApiServer, reactor: LinkedReactor, **options: Any) -> ApiClient:
    """A client without chance."""
    return ApiClient(server, reactor, random=lambda: 1.0, **options)


def test_an_object_is_read(client: ApiClient, reactor: LinkedReactor) -> None:
    asked = client.request("GET", f"{NODES}/dgx-0")
    reactor.settle()
    assert success_result_of(asked)["metadata"]["name"] == "dgx-0"
    assert client.statistics.requests == {("get", "nodes", 200): 1}
    assert client.statistics.is_connected


def test_one_patch_of_the_status_carries_labels_too(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor
) -> None:
    patch = {"metadata": {"labels": {"nvidia.com/gpu.count": "8"}}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    asked = client.merge_patch(f"{NODES}/dgx-0/status", patch)
    reactor.settle()
    success_result_of(asked)
    found = api.get("nodes", "dgx-0")
    assert found["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"
    assert found["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert found["status"]["capacity"]["cpu"] == "32"
    assert api.requests == {("patch", "nodes/status", 200): 1}


def test_a_wrong_quantity_fails_with_its_field(client: ApiClient, reactor: LinkedReactor) -> None:
    asked = client.merge_patch(f"{NODES}/dgx-0/status", {"status": {"capacity": {"nvidia.com/gpu": "1.5"}}})
    reactor.settle()
    error = failure_result_of(asked, ApiError).value
    assert error.code == 422
    assert "status.capacity[nvidia.com/gpu]" in error.message
    assert error.details["causes"][0]["field"] == "status.capacity[nvidia.com/gpu]"
    assert client.statistics.requests == {("patch", "nodes/status", 422): 1}


def test_what_the_server_forbids_is_a_line_for_the_role(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor
) -> None:
    failure = api.forbid("patch", "nodes/status")
    for _ in range(3):
        asked = client.merge_patch(f"{NODES}/dgx-0/status", {})
        reactor.settle()
        assert failure_result_of(asked, ApiError).value.code == 403
    (text,) = client.open_problems.texts
    rule = '- {apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"]}'
    assert text.startswith(f'the API server forbids to patch nodes/status "dgx-0": add to the ClusterRole: {rule}')
    api.works(failure)
    asked = client.merge_patch(f"{NODES}/dgx-0/status", {})
    reactor.settle()
    success_result_of(asked)
    assert client.open_problems.texts == ()


def test_the_rest_goes_on_when_something_is_forbidden(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor
) -> None:
    """A missing rule for events is no reason not to read nodes."""
    api.forbid("create", "events")
    failed = client.request("POST", "/api/v1/namespaces/default/events", body={"metadata": {"name": "a"}})
    asked = client.request("GET", NODES)
    reactor.settle()
    assert "add to the ClusterRole" in client.open_problems.texts[0]
    failure_result_of(failed, ApiError)
    success_result_of(asked)


class TestBusyServers:
    def test_all_requests_of_the_flow_wait_as_told(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        api.fail(429, "patch", retry_after_seconds=7)
        first = client.merge_patch(f"{NODES}/dgx-0", {}, flow="nodes")
        reactor.settle()
        second = client.merge_patch(f"{NODES}/dgx-0", {}, flow="nodes")
        other = client.request("GET", NODES, flow="lease")
        reactor.pass_seconds(6.9)
        assert_no_result(first)
        assert_no_result(second)
        success_result_of(other)
        assert "busy (429)" in client.open_problems.texts[0]
        reactor.pass_seconds(0.2)
        success_result_of(first)
        success_result_of(second)
        assert client.open_problems.texts == ()

    def test_waits_double_when_the_server_does_not_say(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """After 0.2, 0.4 and 0.8 s, the longest that chance gives."""
        api.fail(503, times=3)
        asked = client.request("GET", NODES)
        reactor.pass_seconds(1.3)
        assert_no_result(asked)
        reactor.pass_seconds(0.2)
        success_result_of(asked)

    def test_a_request_that_always_fails_is_given_up(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """500 concerns this request alone: others are answered meanwhile."""
        api.fail(500, "patch", times=-1)
        asked = client.merge_patch(f"{NODES}/dgx-0", {})
        reactor.settle()
        other = client.request("GET", NODES)
        reactor.settle()
        success_result_of(other)
        reactor.pass_seconds(60)
        assert failure_result_of(asked, ApiError).value.code == 500
        assert api.requests["patch", "nodes", 500] == 6

    def test_a_disruption_budget_is_no_busy_server(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """429 for an eviction: the caller decides, and nothing waits."""
        api.add(pod("a"))
        api.fail(429, "create", "pods/eviction", times=-1, retry_after_seconds=10)
        path = "/api/v1/namespaces/default/pods/a/eviction"
        asked = client.request("POST", path, body={"apiVersion": "policy/v1", "kind": "Eviction"})
        reactor.settle()
        assert failure_result_of(asked, ApiError).value.code == 429
        other = client.request("GET", NODES)
        reactor.settle()
        success_result_of(other)


class TestLostServers:
    def test_requests_wait_for_a_server_that_is_down(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        api.stop()
        asked = [client.request("GET", NODES) for _ in range(50)]
        reactor.pass_seconds(25.5)
        # 0, 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4
        assert client.statistics.requests == {("list", "nodes", 0): 16 + 7}
        assert not client.statistics.is_connected
        (text,) = client.open_problems.texts
        assert text == f"cannot connect to {api.url}: no program listens there; it is tried again"
        api.start()
        reactor.pass_seconds(30)
        for each in asked:
            success_result_of(each)
        assert client.open_problems.texts == ()
        assert client.statistics.is_connected

    def test_a_closed_kept_connection_is_no_trouble(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """The server closes a connection while a request is on its way: the request goes over another one."""
        api.fail(0)
        asked = client.merge_patch(f"{NODES}/dgx-0", {})
        reactor.settle()
        success_result_of(asked)
        assert client.open_problems.texts == ()

    def test_a_slow_answer_is_given_up(self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
        api.be_slow(40)
        asked = client.request("GET", NODES)
        reactor.pass_seconds(30.1)
        assert "does not answer in time" in client.open_problems.texts[0]
        api.works()
        reactor.pass_seconds(1)
        success_result_of(asked)

    def test_a_single_attempt_fails_at_once(self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
        api.stop()
        asked = client.request("GET", NODES, attempts=1)
        reactor.settle()
        assert failure_result_of(asked, ApiError).value.reason == "NoConnection"


def test_cancelled_requests_are_forgotten(api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
    api.be_slow(1000)
    asked = [client.request("GET", NODES) for _ in range(40)]
    reactor.settle()
    assert (client.queue.in_flight, client.queue.waiting) == (16, 24)
    for each in reversed(asked):
        each.cancel()
    reactor.settle()
    assert (client.queue.in_flight, client.queue.waiting) == (0, 0)
    for each in asked:
        failure_result_of(each, CancelledError)


def test_requests_keep_to_the_rate(api: ClusterApi, reactor: LinkedReactor) -> None:
    """A burst of two seconds' requests, then so many a second."""
    client = make_client(api.server, reactor, requests_per_second=10)
    asked = [client.request("GET", NODES) for _ in range(40)]
    reactor.settle()
    assert api.requests.total() == 20
    reactor.pass_seconds(1)
    assert 29 <= api.requests.total() <= 30
    reactor.pass_seconds(1.2)
    for each in asked:
        success_result_of(each)


def test_a_renewed_token_is_used(api: ClusterApi, reactor: LinkedReactor, tmp_path: Path) -> None:
    """The kubelet writes a new one before the old one ends."""
    file = tmp_path / "token"
    file.write_text("one\n")
    api.require_token("one")
    client = make_client(ApiServer(api.url, token_file=str(file)), reactor)
    asked = client.request("GET", NODES)
    reactor.settle()
    success_result_of(asked)
    file.write_text("two\n")
    api.require_token("two")
    asked = client.request("GET", NODES)
    reactor.settle()
    success_result_of(asked)


def test_a_token_is_read_again_when_it_is_refused(api: ClusterApi, reactor: LinkedReactor, tmp_path: Path) -> None:
    """Also when its file seems not to have changed: not every file system has fine times."""
    file = tmp_path / "token"
    file.write_text("one")
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    api.require_token("one")
    client = make_client(ApiServer(api.url, token_file=str(file)), reactor)
    success_result_of(_settled(client.request("GET", NODES), reactor))
    file.write_text("two")
    os.utime(file, ns=times)
    api.require_token("two")
    success_result_of(_settled(client.request("GET", NODES), reactor))
    assert client.statistics.requests == {("list", "nodes", 200): 2, ("list", "nodes", 401): 1}


def _settled(asked: Deferred[Any], reactor: LinkedReactor) -> Deferred[Any]:
    reactor.settle()
    return asked


def test_a_wrong_token_is_told(api: ClusterApi, reactor: LinkedReactor) -> None:
    api.require_token("right")
    client = make_client(ApiServer(api.url, token="wrong"), reactor)
    asked = client.request("GET", NODES)
    reactor.settle()
    assert failure_result_of(asked, ApiError).value.code == 401
    assert "refuses the token" in client.open_problems.texts[0]
    assert client.statistics.requests == {("list", "nodes", 401): 1}


def test_an_endless_answer_is_refused(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fakedev.kubernetes.client.api_client.MOST_BODY_BYTES", 1000)
    api.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x" * 5000}})
    asked = client.request("GET", "/api/v1/configmaps")
    reactor.settle()
    assert failure_result_of(asked, ApiError).value.reason == "TooLarge"
