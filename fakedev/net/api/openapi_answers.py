"""The answers of the API in its OpenAPI description: what every client reads of them; doc/http.md has the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fakedev.spec import web_paths
from fakedev.spec.web_paths import COLLECTIONS, RELOAD, STREAM, WebPath

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
_NUMBER: Final[Schema] = {"type": "number"}
_ANY: Final[Schema] = {"type": "object", "additionalProperties": True}
_TOTAL: Final[Schema] = {**_WHOLE, "description": "how many there are, or how many the search found"}


def _open(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these keys, and perhaps others: generators of clients must be told, or nobody can read those."""
    return {**_ANY, "properties": {**required, **(optional or {})}, "required": list(required)}


_ADVANCE: Final = _open({"first-tick": _WHOLE, "target-tick": _WHOLE, "percent": _NUMBER})
#: The answers with a name of their own.
_NAMED: Final[Mapping[str, Schema]] = {
    "Clock": _open(
        {
            "tick": _WHOLE, "tick-seconds": _NUMBER, "seconds": _NUMBER, "speed": _NUMBER, "epoch-seconds": _NUMBER,
            "due-seconds": _NUMBER, "advance": {"anyOf": [_ADVANCE, {"type": "null"}]},
        },
        {"stopped-before-tick": _WHOLE},
    ),
    "WorkloadState": _open(
        {
            "id": _TEXT, "state": {**_TEXT, "enum": ["starting", "running"]}, "origin": _TEXT, "name": _TEXT,
            "devices": _TEXTS, "device-count": _WHOLE, "load-percent": _NUMBER, "run-seconds": _NUMBER,
            "remaining-seconds": {"type": ["number", "null"]},
        },
        {"notes": _TEXTS},
    ),
    "FaultState": _open({
        "id": _TEXT, "state": {**_TEXT, "enum": ["waiting", "active"]}, "kind": _TEXT, "devices": _TEXTS,
        "device-count": _WHOLE, "active-devices": _WHOLE, "since-seconds": {"type": ["number", "null"]},
        "remaining-seconds": {"type": ["number", "null"]},
    }),
    "Stopped": _open({"stopped": _TEXTS}),
    "Cleared": _open({"cleared": _TEXTS}),
    "Reset": _open({"tick": _WHOLE}),
    "Found": _open({"devices": _TEXTS, "total": _WHOLE}),
}  # fmt: skip
#: The answers of operations that are no collections, by method and path.
_ANSWERS: Final[Mapping[tuple[str, WebPath], str]] = {
    ("GET", web_paths.CLOCK): "Clock",
    ("POST", web_paths.CLOCK): "Clock",
    ("PATCH", web_paths.CLOCK): "Clock",
    ("POST", web_paths.WORKLOADS): "WorkloadState",
    ("GET", web_paths.WORKLOAD): "WorkloadState",
    ("DELETE", web_paths.WORKLOAD): "Stopped",
    ("POST", web_paths.FAULTS): "FaultState",
    ("GET", web_paths.FAULT): "FaultState",
    ("DELETE", web_paths.FAULT): "Cleared",
    ("DELETE", web_paths.FAULTS): "Cleared",
    ("POST", web_paths.RESET): "Reset",
    ("GET", web_paths.FIND): "Found",
}
#: The items of collections; others have none that every item has.
_ITEMS: Final[Mapping[WebPath, Schema]] = {
    web_paths.DEVICES: _open({"device": _TEXT}),
    web_paths.NODES: _open({"node": _TEXT}),
    web_paths.QUEUES: _open({"queue": _TEXT}),
    web_paths.JOURNAL: _open({"tick": _WHOLE, "kind": _TEXT, "text": _TEXT}),
}


def answer_schemas() -> dict[str, Schema]:
    """The schemas of answers, by their names below ``components``."""
    error = dict.fromkeys(("code", "message", "where"), _TEXT)
    closed = {"additionalProperties": False}
    return {**_NAMED, "Error": _open({"error": _open(error) | closed}) | closed}


def named_schema(name: str) -> Schema:
    """A reference to a schema below ``components``."""
    return {"$ref": f"#/components/schemas/{name}"}


def answer_of(method: str, path: WebPath) -> dict[str, Any]:
    """The answer to an operation that is not refused."""
    if path is STREAM:
        return {"description": "events fleet and tick", "content": {"text/event-stream": {"schema": _TEXT}}}
    name = _ANSWERS.get((method, path))
    schema: Schema = _ANY
    if name is not None:
        schema = named_schema(name)
    elif method == "GET" and path in COLLECTIONS:
        schema = _open({path.template.rpartition("/")[2]: {"type": "array", "items": _item(path)}, "total": _TOTAL})
    return {"description": path.summary, "content": {"application/json": {"schema": schema}}}


def refusals_of(path: WebPath) -> dict[str, dict[str, Any]]:
    """The answers to an operation that is refused, by their status.

    Requests with too long a line, headers or body are refused before anything knows that they are for the API.
    """
    unread = {"description": "it is too long: line, headers or body", "content": {"text/plain": {"schema": _TEXT}}}
    refused = {"description": "the reason", "content": {"application/json": {"schema": named_schema("Error")}}}
    if path is RELOAD:
        refused = {"description": "the reasons, a line each", "content": {"text/plain": {"schema": _TEXT}}}
    return {**dict.fromkeys(("413", "414", "431"), unread), "default": refused}


def _item(path: WebPath) -> Schema:
    """What the items of a collection are: as the answer to one of them, where that has a name."""
    states = {web_paths.WORKLOADS: "WorkloadState", web_paths.FAULTS: "FaultState"}
    return named_schema(states[path]) if path in states else _ITEMS.get(path, _ANY)
