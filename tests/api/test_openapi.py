"""The description of the API against OpenAPI 3.1, and against the API itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from fakedev.api.openapi import describe_api
from fakedev.web.paths import API, WEB_PATHS
from tests.support.application import STANDING, MemoryApplication, application


@pytest.fixture(scope="module")
def app() -> Iterator[MemoryApplication]:
    """Four devices."""
    with application(STANDING) as running:
        yield running


@pytest.fixture(scope="module")
def described(app: MemoryApplication) -> dict[str, Any]:
    """The description that the service gives."""
    found: dict[str, Any] = app.json("/api/v1/openapi.json")
    assert found == json.loads(json.dumps(describe_api()))
    return found


@pytest.mark.slow
def test_it_is_openapi(described: dict[str, Any]) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(described)


def test_operations(described: dict[str, Any]) -> None:
    """All paths of the API with all their methods, each with a name of its own."""
    operations = {
        (path.replace("{", "").replace("}", ""), method.upper()): operation["operationId"]
        for path, item in described["paths"].items() for method, operation in item.items()
        if method not in ("summary", "parameters")
    }  # fmt: skip
    paths = [path for path in WEB_PATHS if path.template.startswith(f"{API}/") or path.template == "/-/reload"]
    assert set(operations) == {(path.template, method) for path in paths for method in path.methods}
    assert len(set(operations.values())) == len(operations)
    assert operations["/api/v1/devices/NODE/INDEX", "GET"] == "getDevicesNodeIndex"
    assert operations["/-/reload", "POST"] == "postReload"


def validated(described: dict[str, Any], path: str, method: str, body: object) -> bool:
    content = described["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    schema = {**content, "components": described["components"]}
    return jsonschema_rs.Draft202012Validator(schema).is_valid(body)


@pytest.mark.parametrize(
    ("path", "method", "body"),
    [
        ("workloads", "post", {"name": "w", "devices": "a/0", "profile": "80:5:10"}),
        ("workloads", "post", {
            "name": "w", "devices": ["a/0", "b/*"], "profile": [[80, 5, 10]], "repeat": 0, "run-time-limit": "5m",
            "ttl": 7.5, "limits": {"power_watts": 300}, "labels": {"x": "y"}, "use": {"memory": "40GiB:0:0"},
            "pod": None, "seconds-of": "work",
        }),
        ("workloads", "post", {"name": "w", "devices": "a/0", "profile": "80:5:10", "mode": "fast"}),
        ("workloads", "post", {"devices": "a/0", "profile": "80:5:10"}),
        ("workloads", "post", {"name": 7, "devices": "a/0", "profile": "80:5:10"}),
        ("workloads", "post", {"name": "w", "devices": "a/0", "profile": "80:5:10", "repeat": -1}),
        ("workloads", "post", {"name": "w", "devices": "a/0", "profile": "80:5:10", "seconds-of": "days"}),
        ("faults", "post", {"kind": "power-cap", "devices": "a/*", "watts": 200, "duration": "5m"}),
        ("faults", "post", {"kind": "cold", "devices": "a/*"}),
        ("faults", "post", {"kind": "fan", "devices": "a/*", "probability": 2}),
        ("clock", "post", {"advance": "1s"}),
        ("clock", "post", {"advance": -1}),
        ("clock", "post", {"advance": 1, "speed": 1}),
        ("clock", "patch", {"speed": 0, "advance": None}),
        ("clock", "patch", {"speed": -1}),
        ("clock", "patch", {}),
    ],
)  # fmt: skip
def test_bodies(app: MemoryApplication, described: dict[str, Any], path: str, method: str, body: object) -> None:
    """The description allows what the API accepts, and refuses these that the API refuses."""
    answer = app.ask(method.upper(), f"/api/v1/{path}", body)
    assert answer.status in (200, 201, 400), answer
    assert validated(described, f"/api/v1/{path}", method, body) == (answer.status != 400), answer


@pytest.mark.slow
def test_examples(app: MemoryApplication, described: dict[str, Any]) -> None:
    """The examples of bodies are taken, and the links lead from what they made to what shows it and ends it."""
    for path in ("workloads", "faults", "clock"):
        posted = described["paths"][f"/api/v1/{path}"]["post"]
        example = posted["requestBody"]["content"]["application/json"]["example"]
        answer = app.ask("POST", f"/api/v1/{path}", example)
        assert answer.status in (200, 201), answer
        for method, link in posted["responses"].get("201", {}).get("links", {}).items():
            assert link["parameters"] == {"ID": "$response.body#/id"}
            followed = app.ask(method.upper(), f"/api/v1/{path}/{json.loads(answer.body)['id']}")
            operation = described["paths"][f"/api/v1/{path}/{{ID}}"][method]
            assert operation["operationId"] == link["operationId"]
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert_valid(described, json.loads(followed.body), schema)


def test_answers(app: MemoryApplication, described: dict[str, Any]) -> None:
    """Those of collections, and of an error."""
    for path in ("workloads", "faults", "journal", "devices", "nodes", "queues"):
        (response,) = [described["paths"][f"/api/v1/{path}"]["get"]["responses"]["200"]]
        assert_valid(described, app.json(f"/api/v1/{path}"), response["content"]["application/json"]["schema"])
    error = json.loads(app.get("/api/v1/devices/a/9").body)
    assert_valid(described, error, {"$ref": "#/components/schemas/Error"})


def assert_valid(described: dict[str, Any], value: object, schema: dict[str, Any]) -> None:
    jsonschema_rs.Draft202012Validator({**schema, "components": described["components"]}).validate(value)
