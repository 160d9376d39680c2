"""Permission to change something over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.application import MemoryApplication, application
from tests.support.wire.http_wire import answers
from tests.support.wire.web_tree import TREE, WITH_TOKEN

ADVANCE = ("POST", "/api/v1/clock", {"advance": "1s"})


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """The application of TREE."""
    with application(TREE) as running:
        yield running


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: localhost:9400\r\n", 200),
        ("Host: 127.0.0.1:9400\r\n", 200),
        ("Host: [::1]:9400\r\n", 200),
        ("Host: localhost:9400\r\nOrigin: http://localhost:9400\r\n", 200),
        ("Host: localhost:9400\r\nOrigin: http://evil.example\r\n", 403),
        ("Host: localhost:9400\r\nOrigin: null\r\n", 403),
        ("Host: rebound.example\r\n", 403),
        ("Host: gpus.example.org\r\n", 403),
    ],
)
def test_origin_and_host(app: MemoryApplication, headers: str, status: int) -> None:
    """Web pages of others change nothing, and read nothing by a name that points here; curl needs nothing."""
    answer = app.ask(*ADVANCE, headers=headers)
    assert answer.status == status
    assert app.json("/api/v1/clock")["tick"] == (1 if status == 200 else 0)
    if status != 200:
        assert json.loads(answer.body)["error"]["code"] == "forbidden"
        assert app.ask("DELETE", "/api/v1/workloads/x", headers=headers).status == 403
        assert app.ask("POST", "/-/reload", b"", headers=headers).status == 403
    is_foreign_host = "localhost" not in headers and "127" not in headers and "::1" not in headers
    for path in ("/api/v1/clock", "/api/v1/stream", "/api/v1/devices/x/0", "/api/v1", "/api/v1/x"):
        for method in ("GET", "HEAD") if path != "/api/v1/stream" else ("HEAD",):
            assert (app.ask(method, path, headers=headers).status == 403) == is_foreign_host
    for path in ("/metrics", "/nodes/a/metrics", "/sd", "/health", "/-/metrics", "/workloads/metrics"):
        assert app.ask("GET", path, headers=headers).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Basic open-sesame\r\n", 401),
        ("Authorization: Bearer open-sesame\r\n", 200),
        ("authorization: bearer open-sesame\r\n", 200),
    ],
)
def test_token(app: MemoryApplication, headers: str, status: int) -> None:
    """Where a token is set every change needs it; the configured name is a good Host there."""
    headers = f"Host: gpus.example.org\r\n{headers}"
    answer = app.ask(*ADVANCE, headers=headers, place=WITH_TOKEN)
    assert answer.status == status
    assert app.json("/api/v1/clock")["tick"] == (1 if status == 200 else 0)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        refused = app.ask("DELETE", "/api/v1/workloads/x", headers=headers, place=WITH_TOKEN)
        assert refused.status == 401
    assert app.get("/metrics", place=WITH_TOKEN).status == 200


def test_a_refused_change_is_not_read(app: MemoryApplication) -> None:
    """The refusal comes before the body."""
    peer = app.http(WITH_TOKEN)
    said = peer.send(b"POST /api/v1/workloads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{")
    assert [answer.status for answer in answers(said)] == [401]
    peer.leave()
