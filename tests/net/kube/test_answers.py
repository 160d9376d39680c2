"""What errors of the API say, and what paths name."""

from __future__ import annotations

import orjson
import pytest

from fakedev.net.kube.api_error import error_of_answer, error_of_status
from fakedev.net.kube.paths import Target, node_path, parse_path, pod_path, role_rule, verb_of


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
    """And has no line ends."""
    body = orjson.dumps({"code": 422, "reason": "Invalid", "message": "x\n" * 10_000})
    error = error_of_answer(422, "", body)
    assert len(error.message) < 1100
    assert error.message.isprintable()


def test_an_expired_version() -> None:
    """As a code, or as a word."""
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
    """Both ways."""
    assert parse_path(path) == target
    assert target.path == path


def test_names_are_quoted() -> None:
    """A name cannot lead to another object."""
    assert node_path("../x?y") == "/api/v1/nodes/..%2Fx%3Fy"
    assert pod_path("a", "b", "eviction") == "/api/v1/namespaces/a/pods/b/eviction"


def test_verbs_and_rules() -> None:
    """As roles name them."""
    pods = Target("", "v1", "pods", "gpus")
    assert [verb_of("GET", pods), verb_of("GET", pods, is_watch=True)] == ["list", "watch"]
    assert verb_of("GET", Target("", "v1", "pods", "gpus", "a")) == "get"
    assert role_rule("create", Target("", "v1", "pods", "gpus", "a", "eviction")) == (
        'the API server forbids to create pods/eviction "a": add to the ClusterRole: '
        '- {apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"]}'
    )
