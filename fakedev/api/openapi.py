"""/api/v1/openapi.json: the API as OpenAPI 3.1, made from the declarations of paths and fields, with its answers.

Answers have what every client reads of them; doc/http.md has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fakedev import __version__
from fakedev.api.nodes import MAX_CHARACTERS
from fakedev.api.tester import MAX_PER_SECOND
from fakedev.fleet.spec.fault_kinds import FAULT_FIELDS, KINDS
from fakedev.fleet.spec.fleet_spec import MAX_SPEED
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS
from fakedev.fleet.ticker import MAX_TICKS
from fakedev.schema.declare import LONGEST_TEXT, Field, FieldKind
from fakedev.tester.pages import MAX_SHOWN
from fakedev.web import paths
from fakedev.web.items import MAX_ITEMS, MAX_OFFSET
from fakedev.web.paths import API, COLLECTIONS, RELOAD, STREAM, WEB_PATHS, WebPath

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
_NUMBER: Final[Schema] = {"type": "number"}
_ANY: Final[Schema] = {"type": "object", "additionalProperties": True}
_TOTAL: Final[Schema] = {**_WHOLE, "description": "how many there are, or how many the search found"}


def _open(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these keys, and perhaps others: client generators drop keys unless the schema allows them."""
    return {**_ANY, "properties": {**required, **(optional or {})}, "required": list(required)}


_ADVANCED: Final = _open({"first-tick": _WHOLE, "target-tick": _WHOLE, "percent": _NUMBER})
#: The answers with a name of their own.
_NAMED: Final[Mapping[str, Schema]] = {
    "Clock": _open(
        {
            "tick": _WHOLE, "tick-seconds": _NUMBER, "seconds": _NUMBER, "speed": _NUMBER, "epoch-seconds": _NUMBER,
            "due-seconds": _NUMBER, "advance": {"anyOf": [_ADVANCED, {"type": "null"}]},
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
    ("GET", paths.CLOCK): "Clock",
    ("POST", paths.CLOCK): "Clock",
    ("PATCH", paths.CLOCK): "Clock",
    ("POST", paths.WORKLOADS): "WorkloadState",
    ("GET", paths.WORKLOAD): "WorkloadState",
    ("DELETE", paths.WORKLOAD): "Stopped",
    ("POST", paths.FAULTS): "FaultState",
    ("GET", paths.FAULT): "FaultState",
    ("DELETE", paths.FAULT): "Cleared",
    ("DELETE", paths.FAULTS): "Cleared",
    ("POST", paths.RESET): "Reset",
    ("GET", paths.FIND): "Found",
}
#: The items of collections; others have none that every item has.
_ITEMS: Final[Mapping[WebPath, Schema]] = {
    paths.DEVICES: _open({"device": _TEXT}),
    paths.NODES: _open({"node": _TEXT}),
    paths.RACKS: _open({"rack": _TEXT}),
    paths.QUEUES: _open({"queue": _TEXT}),
    paths.JOURNAL: _open({"tick": _WHOLE, "kind": _TEXT, "text": _TEXT}),
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

    Requests with too long a line, headers or body are refused before their path is known.
    """
    unread = {"description": "it is too long: line, headers or body", "content": {"text/plain": {"schema": _TEXT}}}
    refused = {"description": "the reason", "content": {"application/json": {"schema": named_schema("Error")}}}
    if path is RELOAD:
        refused = {"description": "the reasons, a line each", "content": {"text/plain": {"schema": _TEXT}}}
    return {**dict.fromkeys(("413", "414", "431"), unread), "default": refused}


def _item(path: WebPath) -> Schema:
    """What the items of a collection are: as the answer to one of them, where that has a name."""
    states = {paths.WORKLOADS: "WorkloadState", paths.FAULTS: "FaultState"}
    return named_schema(states[path]) if path in states else _ITEMS.get(path, _ANY)


_ADVANCE: Final[Schema] = {
    "type": ["string", "number"], "exclusiveMinimum": 0, "minLength": 1,
    "description": f"a duration, as 90s; or seconds: 1 to {MAX_TICKS} ticks",
}  # fmt: skip
#: The parts of paths in capitals.
_PARTS: Final[Mapping[str, Schema]] = {
    "ID": {**_TEXT, "description": "an id; of workloads also a name"},
    "NODE": {**_TEXT, "description": "the name of a node"},
    "RACK": {**_TEXT, "description": "the name of a rack"},
    "INDEX": {"type": "integer", "minimum": 0, "description": "the number of a device on its node"},
    "PART": {"type": "integer", "minimum": 0, "description": "the number of a part of the device"},
    "NUMBER": {"type": "integer", "minimum": 0, "description": "the number of a link of the device"},
    "NAME": {**_TEXT, "description": "the name of a queue"},
    "PLAN": {**_TEXT, "description": "the name of a plan"},
}
#: Types of query keys that are not plain text; ``sort`` and ``limit`` depend on the collection.
_QUERY: Final[Mapping[str, Schema]] = {
    "name[]": {"type": "array", "items": _TEXT},
    "offset": {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0},
    "seconds": {"type": "integer", "minimum": 0, "maximum": 10**6},
    "text": {**_TEXT, "minLength": 1, "maxLength": MAX_CHARACTERS},
}
#: Keys that are required.
_REQUIRED: Final = frozenset({"text"})
_KINDS: Final[Mapping[FieldKind, Schema]] = {
    FieldKind.TEXT: {**_TEXT, "maxLength": LONGEST_TEXT},
    FieldKind.LIST: {"type": ["string", "array"], "items": _TEXT},
    FieldKind.SERIES: {"type": ["string", "array", "object", "number"]},
    FieldKind.DURATION: {"type": ["string", "number"], "minimum": 0},
    FieldKind.WHOLE: {"type": "integer", "minimum": 0},
    FieldKind.NUMBER: {"type": "number"},
    FieldKind.MAPPING: {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
    FieldKind.SERIES_MAPPING: {"type": "object"},
    FieldKind.TEXT_MAPPING: {"type": "object", "additionalProperties": _TEXT},
}
#: The paths to which POST adds an item, with the path of the item.
_MADE: Final = {paths.WORKLOADS: paths.WORKLOAD, paths.FAULTS: paths.FAULT}
#: Fields may also be null, which is the same as a missing field.
_NULL: Final = "null"


def describe_api() -> dict[str, Any]:
    """The description, as plain values."""
    described = [path for path in WEB_PATHS if path.template.startswith(f"{API}/") or path is RELOAD]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fakedev",
            "version": __version__,
            "summary": "The API of a simulated fleet of GPUs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": {path.braced: _path(path) for path in described},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Workload": _object(_properties(WORKLOAD_FIELDS.values()), "name", "devices"),
                "Fault": _object(_properties(FAULT_FIELDS.values()) | {"kind": {**_TEXT, "enum": list(KINDS)}}, "kind"),
                **answer_schemas(),
            },
        },
    }  # fmt: skip


def _object(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object", "properties": properties, "additionalProperties": False, "required": list(required),
    }  # fmt: skip


_SPEED: Final[Schema] = {
    "type": "number", "minimum": 0, "maximum": MAX_SPEED, "description": "simulated seconds per second",
}  # fmt: skip
_LOAD: Final[Schema] = {
    "reset": {"type": "boolean"}, "parallel": {"type": "integer"},
    "rate": {"type": "number", "minimum": 0, "maximum": MAX_PER_SECOND, "description": "requests per second"},
    "plan": _TEXT,
}  # fmt: skip
#: The bodies of requests, by method and path, each with an example that every fleet takes.
_BODIES: Final[Mapping[tuple[str, WebPath], tuple[Schema, Schema]]] = {
    ("POST", paths.WORKLOADS): (
        named_schema("Workload"), {"name": "train", "devices": "all", "profile": "95:2:0"},
    ),
    ("POST", paths.FAULTS): (named_schema("Fault"), {"kind": "fan", "devices": "all", "duration": "5m"}),
    ("POST", paths.CLOCK): (_object({"advance": _ADVANCE}, "advance"), {"advance": "10m"}),
    ("PATCH", paths.CLOCK): (
        _object({"speed": _SPEED, "advance": {"type": _NULL}}) | {"minProperties": 1}, {"speed": 60},
    ),
    ("POST", paths.LOAD): (_object(_LOAD) | {"minProperties": 1}, {"reset": True}),
}  # fmt: skip


def _path(path: WebPath) -> dict[str, Any]:
    names = [part for part in path.template.split("/") if part.isupper()]
    described: dict[str, Any] = {"summary": path.summary}
    if names:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _PARTS[name]} for name in names
        ]
    for method in path.methods:
        operation: dict[str, Any] = {"operationId": _operation(method, path)}
        if method == "GET" and path.query:
            operation["parameters"] = [
                {"name": each, "in": "query", "required": each in _REQUIRED, "schema": _query(path, each)}
                for each in path.query
            ]
        if (method, path) in _BODIES:
            schema, example = _BODIES[method, path]
            content = {"schema": schema, "example": example}
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        item = _MADE.get(path) if method == "POST" else None
        answer = answer_of(method, path)
        if item is not None:
            # From what was made to what shows it and ends it.
            answer["links"] = {
                method.lower(): {"operationId": _operation(method, item), "parameters": {"ID": "$response.body#/id"}}
                for method in item.methods
            }
        operation["responses"] = {"201" if item else "200": answer, **refusals_of(path)}
        described[method.lower()] = operation
    return described


def _query(path: WebPath, name: str) -> Schema:
    if name == "sort":
        return {**_TEXT, "enum": ["", *(f"{sign}{key}" for key in path.sort for sign in ("", "-"))]}
    if name == "search":
        return {**_TEXT, "description": f"a part of: {path.search}"}
    if name == "limit":
        most = MAX_ITEMS if path in COLLECTIONS else MAX_SHOWN
        return {"type": "integer", "minimum": 0, "maximum": most, "default": most}
    return _QUERY.get(name, _TEXT)


def _properties(fields: Iterable[Field]) -> Schema:
    """Fields by their names, and by the names that they have in words."""
    return {name: _field(field) for field in fields for name in (field.name, field.word) if name}


def _field(field: Field) -> Schema:
    schema: Schema = {**_KINDS[field.kind], "description": field.help}
    kinds = schema["type"]
    schema["type"] = [*([kinds] if isinstance(kinds, str) else kinds), _NULL]
    if field.high:
        schema["maximum"] = field.high
    if field.choices:
        schema["enum"] = [*field.choices, "", None]
    return schema


def _operation(method: str, path: WebPath) -> str:
    """The name of an operation, as ``getDevicesNodeIndex``."""
    words = re.split("[^A-Za-z]+", path.template.removeprefix(API))
    return method.lower() + "".join(word.capitalize() for word in words)
