"""Requests to the API server: what is sent again, what waits, what is reported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.spec.api_server import ApiServer
from tests.support.deferreds import assert_no_result, failure_result_of, success_result_of
from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.memory_reactor import LinkedReactor

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
    """GET gives the object."""
    asked = client.request("GET", f"{NODES}/dgx-0")
    reactor.settle()
    assert success_result_of(asked)["metadata"]["name"] == "dgx-0"
    assert client.statistics.requests == {("get", "nodes", 200): 1}
    assert client.statistics.is_connected


def test_one_patch_of_the_status_carries_labels_too(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor
) -> None:
    """One request a node, as issue 18 asks."""
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
    """422 is not sent again."""
    asked = client.merge_patch(f"{NODES}/dgx-0/status", {"status": {"capacity": {"nvidia.com/gpu": "1.5"}}})
    reactor.settle()
    error = failure_result_of(asked, ApiError).value
    assert error.code == 422
    assert "status.capacity[nvidia.com/gpu]" in error.message
    assert error.details["causes"][0]["field"] == "status.capacity[nvidia.com/gpu]"
    assert client.statistics.requests == {("patch", "nodes/status", 422): 1}


def test_a_changed_object_is_a_conflict(api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
    """409, only with a resource version."""
    old = api.get("nodes", "dgx-0")
    api.modify("nodes", "dgx-0", {"metadata": {"labels": {"a": "b"}}})
    asked = client.request("PUT", f"{NODES}/dgx-0", body=old)
    reactor.settle()
    assert failure_result_of(asked, ApiError).value.code == 409


def test_what_the_server_forbids_is_a_line_for_the_role(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor
) -> None:
    """403 is reported once, until it works again."""
    failure = api.forbid("patch", "nodes/status")
    for _ in range(3):
        asked = client.merge_patch(f"{NODES}/dgx-0/status", {})
        reactor.settle()
        assert failure_result_of(asked, ApiError).value.code == 403
    (text,) = client.troubles.texts
    rule = '- {apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"]}'
    assert text.startswith(f'the API server forbids to patch nodes/status "dgx-0": add to the ClusterRole: {rule}')
    api.works(failure)
    asked = client.merge_patch(f"{NODES}/dgx-0/status", {})
    reactor.settle()
    success_result_of(asked)
    assert client.troubles.texts == ()


def test_the_rest_goes_on_when_something_is_forbidden(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor
) -> None:
    """A missing rule for events is no reason not to read nodes."""
    api.forbid("create", "events")
    failed = client.request("POST", "/api/v1/namespaces/default/events", body={"metadata": {"name": "a"}})
    asked = client.request("GET", NODES)
    reactor.settle()
    assert "add to the ClusterRole" in client.troubles.texts[0]
    failure_result_of(failed, ApiError)
    success_result_of(asked)


class TestBusyServers:
    """429, 503, 500."""

    def test_all_requests_of_the_flow_wait_as_told(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """429 with Retry-After; another flow goes on."""
        api.fail(429, "patch", retry_after_seconds=7)
        first = client.merge_patch(f"{NODES}/dgx-0", {}, flow="nodes")
        reactor.settle()
        second = client.merge_patch(f"{NODES}/dgx-0", {}, flow="nodes")
        other = client.request("GET", NODES, flow="lease")
        reactor.pass_seconds(6.9)
        assert_no_result(first)
        assert_no_result(second)
        success_result_of(other)
        assert "busy (429)" in client.troubles.texts[0]
        reactor.pass_seconds(0.2)
        success_result_of(first)
        success_result_of(second)
        assert client.troubles.texts == ()

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
    """No answer."""

    def test_requests_wait_for_a_server_that_is_down(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """All of them, while one after the other is tried; all are answered later."""
        api.stop()
        asked = [client.request("GET", NODES) for _ in range(50)]
        reactor.pass_seconds(25.5)
        # 0, 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4
        assert client.statistics.requests == {("list", "nodes", 0): 16 + 7}
        assert not client.statistics.is_connected
        (text,) = client.troubles.texts
        assert text == f"cannot connect to {api.url}: no program listens there; it is tried again"
        api.start()
        reactor.pass_seconds(30)
        for each in asked:
            success_result_of(each)
        assert client.troubles.texts == ()
        assert client.statistics.is_connected

    def test_a_closed_kept_connection_is_no_trouble(
        self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor
    ) -> None:
        """The server closes a connection while a request is on its way: the request goes over another one."""
        api.fail(0)
        asked = client.merge_patch(f"{NODES}/dgx-0", {})
        reactor.settle()
        success_result_of(asked)
        assert client.troubles.texts == ()

    def test_a_slow_answer_is_given_up(self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
        """After 30 s, and it is tried again."""
        api.be_slow(40)
        asked = client.request("GET", NODES)
        reactor.pass_seconds(30.1)
        assert "does not answer in time" in client.troubles.texts[0]
        api.works()
        reactor.pass_seconds(1)
        success_result_of(asked)

    def test_a_single_attempt_fails_at_once(self, api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
        """For callers with attempts of their own."""
        api.stop()
        asked = client.request("GET", NODES, attempts=1)
        reactor.settle()
        assert failure_result_of(asked, ApiError).value.reason == "NoConnection"


def test_cancelled_requests_are_forgotten(api: ClusterApi, client: ApiClient, reactor: LinkedReactor) -> None:
    """On their way, and while they wait."""
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
    """A burst of one second's requests, then so many a second."""
    client = make_client(api.server, reactor, requests_per_second=10)
    asked = [client.request("GET", NODES) for _ in range(40)]
    reactor.settle()
    assert api.requests.total() == 10
    reactor.pass_seconds(2)
    assert 29 <= api.requests.total() <= 30
    reactor.pass_seconds(1.2)
    for each in asked:
        success_result_of(each)


def test_a_request_of_another_flow_does_not_wait_behind_thousands(api: ClusterApi, reactor: LinkedReactor) -> None:
    """The lease is renewed while all nodes are patched."""
    client = make_client(api.server, reactor, requests_per_second=10)
    for _ in range(2000):
        client.request("GET", NODES, flow="nodes").addErrback(lambda _: None)
    asked = client.request("GET", NODES, flow="lease")
    reactor.pass_seconds(1)
    success_result_of(asked)
    client.stop()


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
    """401 is not repeated with the same token."""
    api.require_token("right")
    client = make_client(ApiServer(api.url, token="wrong"), reactor)
    asked = client.request("GET", NODES)
    reactor.settle()
    assert failure_result_of(asked, ApiError).value.code == 401
    assert "refuses the token" in client.troubles.texts[0]
    assert client.statistics.requests == {("list", "nodes", 401): 1}


def test_an_endless_answer_is_refused(
    api: ClusterApi, client: ApiClient, reactor: LinkedReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer fills the memory."""
    monkeypatch.setattr("fakedev.net.kube.api_client.MOST_BODY_BYTES", 1000)
    api.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x" * 5000}})
    asked = client.request("GET", "/api/v1/configmaps")
    reactor.settle()
    assert failure_result_of(asked, ApiError).value.reason == "TooLarge"
