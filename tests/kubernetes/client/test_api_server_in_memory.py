"""The API server of the tests refuses and forgets what the real one does; else tests of others would show nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.runtime.http_client import ApiError
from tests.support.deferreds import assert_no_result, failure_result_of, success_result_of
from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.memory_reactor import LinkedReactor


@pytest.fixture
def api() -> ClusterApi:
    """An empty cluster."""
    api = ClusterApi(LinkedReactor())
    api.start()
    return api


def ask(api: ClusterApi, method: str, path: str, body: object = None, **query: str) -> Any:
    """What a request gives.

    :raises ApiError: when it is refused.
    """
    client = ApiClient(api.server, api.reactor, random=lambda: 1.0)
    asked = client.request(method, path, body=body, query=query)
    api.reactor.settle()
    outcome: list[Any] = []
    asked.addBoth(outcome.append)
    client.stop()
    api.reactor.settle()
    if isinstance(getattr(outcome[0], "value", None), ApiError):
        raise outcome[0].value
    return outcome[0]


def test_an_eviction_deletes_the_pod(api: ClusterApi) -> None:
    api.add(pod("a", "dgx-0"))
    path = "/api/v1/namespaces/default/pods/a/eviction"
    ask(api, "POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}})
    assert api.items("pods") == []
    with pytest.raises(ApiError, match='404 NotFound: pods "a" not found'):
        ask(api, "POST", path, {})


def test_what_is_there_cannot_be_created(api: ClusterApi) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    ask(api, "POST", "/api/v1/namespaces/gpus/configmaps", body)
    with pytest.raises(ApiError, match='409 AlreadyExists: configmaps "a" already exists'):
        ask(api, "POST", "/api/v1/namespaces/gpus/configmaps", body)


def test_a_list_that_went_on_too_long_is_expired(api: ClusterApi) -> None:
    for number in range(3):
        api.add(node(f"n{number}"))
    page = ask(api, "GET", "/api/v1/nodes", limit="2")
    assert [item["metadata"]["name"] for item in page["items"]] == ["n0", "n1"]
    assert "kind" not in page["items"][0]
    api.expire()
    with pytest.raises(ApiError, match="410 Expired"):
        ask(api, "GET", "/api/v1/nodes", **{"limit": "2", "continue": page["metadata"]["continue"]})


def test_two_lists_go_on_apart(api: ClusterApi) -> None:
    for number in range(2):
        api.add(node(f"n{number}"))
        api.add(pod(f"p{number}"))
    pages = {path: ask(api, "GET", path, limit="1") for path in ("/api/v1/nodes", "/api/v1/pods")}
    rest = {
        path: ask(api, "GET", path, **{"limit": "1", "continue": page["metadata"]["continue"]})
        for path, page in pages.items()
    }
    names = {path: [item["metadata"]["name"] for item in page["items"]] for path, page in rest.items()}
    assert names == {"/api/v1/nodes": ["n1"], "/api/v1/pods": ["p1"]}


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (node("n", {"nvidia.com/gpu.product": "NVIDIA H100"}), "metadata.labels"),
        (node("N"), "metadata.name"),
        (
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"},
             "spec": {"devices": [{"name": f"gpu-{number}"} for number in range(129)]}},
            "spec.devices",
        ),
    ],
)  # fmt: skip
def test_objects_are_checked(api: ClusterApi, item: dict[str, Any], field: str) -> None:
    resource = {"Node": "/api/v1/nodes", "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices"}[item["kind"]]
    with pytest.raises(ApiError, match=f"422 Invalid: .* {field}: Invalid value") as caught:
        ask(api, "POST", resource, item)
    assert caught.value.details["causes"][0]["field"] == field


def test_a_patch_of_the_object_leaves_its_status(api: ClusterApi) -> None:
    before = api.add(node("n"))
    client = ApiClient(api.server, api.reactor, random=lambda: 1.0)
    asked = client.merge_patch("/api/v1/nodes/n", {"status": {"capacity": {"nvidia.com/gpu": "8"}}})
    api.reactor.settle()
    assert success_result_of(asked)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert api.get("nodes", "n") == before
    client.stop()


def test_a_watch_list_is_refused_within_the_stream(api: ClusterApi) -> None:
    lines: list[bytes] = []
    client = ApiClient(api.server, api.reactor, random=lambda: 1.0)
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    client.stream("/api/v1/pods", lines.append, query=query, silence_seconds=10)
    api.reactor.settle()
    assert [orjson.loads(line)["object"]["code"] for line in lines] == [500]
    client.stop()


def test_tests_wait_for_an_object(api: ClusterApi) -> None:
    api.add(node("n"))
    is_labelled = api.when("nodes", lambda item: "a" in item["metadata"]["labels"])
    assert_no_result(is_labelled)
    api.modify("nodes", "n", {"metadata": {"labels": {"a": "b"}}})
    api.reactor.settle()
    assert success_result_of(is_labelled)["metadata"]["name"] == "n"
    success_result_of(api.when("nodes", lambda item: True))


def test_what_a_path_does_not_name(api: ClusterApi) -> None:
    with pytest.raises(ApiError, match="404 NotFound: the server could not find the requested resource"):
        ask(api, "GET", "/apis/nothing/v1/things")
    client = ApiClient(api.server, api.reactor, random=lambda: 1.0)
    asked = client.request("GET", "/api/v1/pods", query={"fieldSelector": "spec.colour=red"})
    api.reactor.settle()
    assert failure_result_of(asked, ApiError).value.code == 400
    client.stop()
