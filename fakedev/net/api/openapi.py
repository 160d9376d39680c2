"""/api/v1/openapi.json: the API as OpenAPI 3.1, made from the declarations of paths and fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fakedev import __version__
from fakedev.net.http.items import MAX_ITEMS
from fakedev.spec import web_paths
from fakedev.spec.fault_fields import FAULT_FIELDS
from fakedev.spec.fault_kinds import KINDS
from fakedev.spec.fields import LONGEST_TEXT, Field, FieldKind
from fakedev.spec.fleet import MAX_SPEED
from fakedev.spec.web_paths import API, COLLECTIONS, RELOAD, STREAM, WEB_PATHS, WebPath
from fakedev.spec.workload_fields import WORKLOAD_FIELDS

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_DURATION: Final[Schema] = {"type": ["string", "number"], "minimum": 0, "description": "a duration, as 90s; or seconds"}
#: The parts of paths in capitals.
_PARTS: Final[Mapping[str, Schema]] = {
    "ID": {**_TEXT, "description": "an id; of workloads also a name"},
    "NODE": {**_TEXT, "description": "the name of a node"},
    "INDEX": {"type": "integer", "minimum": 0, "description": "the number of a device on its node"},
    "PART": {"type": "integer", "minimum": 0, "description": "the number of a part of the device"},
    "NUMBER": {"type": "integer", "minimum": 0, "description": "the number of a link of the device"},
    "NAME": {**_TEXT, "description": "the name of a queue"},
    "PLAN": {**_TEXT, "description": "the name of a plan"},
}
#: Keys after the ``?`` that are not just a text; ``sort`` has those of its collection.
_QUERY: Final[Mapping[str, Schema]] = {
    "limit": {"type": "integer", "minimum": 0, "maximum": MAX_ITEMS, "default": MAX_ITEMS},
    "offset": {"type": "integer", "minimum": 0, "default": 0},
    "seconds": {"type": "integer", "minimum": 0, "maximum": 10**6},
}
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
#: What fields hold beside these: null is the same as a missing field.
_NULL: Final = "null"


def describe_api() -> dict[str, Any]:
    """The description, as plain values."""
    described = [path for path in WEB_PATHS if path.template.startswith(f"{API}/") or path is RELOAD]
    error, bodies = dict.fromkeys(("code", "message", "where"), _TEXT), _bodies()
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
        "paths": {path.braced: _path(path, bodies) for path in described},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Workload": _object(_properties(WORKLOAD_FIELDS.values()), "name", "devices"),
                "Fault": _object(_properties(FAULT_FIELDS.values()) | {"kind": {**_TEXT, "enum": list(KINDS)}}, "kind"),
                "Error": _object({"error": _object(error, *error)}, "error"),
            },
        },
    }  # fmt: skip


def _bodies() -> Mapping[tuple[str, WebPath], Schema]:
    """The bodies of requests, by method and path."""
    speed = {"type": "number", "minimum": 0, "maximum": MAX_SPEED, "description": "simulated seconds per second"}
    load: Schema = {"reset": {"type": "boolean"}, "parallel": {"type": "integer"}, "rate": {"type": "number"}}
    return {
        ("POST", web_paths.WORKLOADS): _named_schema("Workload"),
        ("POST", web_paths.FAULTS): _named_schema("Fault"),
        ("POST", web_paths.CLOCK): _object({"advance": _DURATION}, "advance"),
        ("PATCH", web_paths.CLOCK): _object({"speed": speed, "advance": {"type": _NULL}}) | {"minProperties": 1},
        ("POST", web_paths.LOAD): _object({**load, "plan": _TEXT}) | {"minProperties": 1},
    }


def _path(path: WebPath, bodies: Mapping[tuple[str, WebPath], Schema]) -> dict[str, Any]:
    names = [part for part in path.template.split("/") if part.isupper()]
    described: dict[str, Any] = {"summary": path.summary}
    if names:
        described["parameters"] = [
            {"name": each, "in": "path", "required": True, "schema": _PARTS[each]} for each in names
        ]
    for method in path.methods:
        operation: dict[str, Any] = {"operationId": _operation(method, path)}
        if method == "GET" and path.query:
            operation["parameters"] = [
                {"name": each, "in": "query", "schema": _query(path, each)} for each in path.query
            ]
        body = bodies.get((method, path))
        if body is not None:
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        is_made = method == "POST" and path in (web_paths.WORKLOADS, web_paths.FAULTS)
        operation["responses"] = {"201" if is_made else "200": _answer(method, path), "default": _refusal(path)}
        described[method.lower()] = operation
    return described


def _answer(method: str, path: WebPath) -> dict[str, Any]:
    if path is STREAM:
        return {"description": "events fleet and tick", "content": {"text/event-stream": {"schema": _TEXT}}}
    schema: Schema = {"type": "object"}
    if method == "GET" and path in COLLECTIONS:
        key = path.template.rpartition("/")[2]
        total = {"type": "integer", "description": "how many there are, or how many the search found"}
        schema |= {"properties": {key: {"type": "array", "items": {}}, "total": total}, "required": [key, "total"]}
    return {"description": path.summary, "content": {"application/json": {"schema": schema}}}


def _refusal(path: WebPath) -> dict[str, Any]:
    if path is RELOAD:
        return {"description": "the reasons, a line each", "content": {"text/plain": {"schema": _TEXT}}}
    return {"description": "the reason", "content": {"application/json": {"schema": _named_schema("Error")}}}


def _query(path: WebPath, name: str) -> Schema:
    if name == "sort":
        return {**_TEXT, "enum": [f"{sign}{key}" for key in path.sort for sign in ("", "-")]}
    if name == "search":
        return {**_TEXT, "description": f"a part of: {path.search}"}
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


def _object(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object", "properties": properties, "additionalProperties": False, "required": list(required),
    }  # fmt: skip


def _named_schema(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(method: str, path: WebPath) -> str:
    """The name of an operation, as ``getDevicesNodeIndex``."""
    words = re.split("[^A-Za-z]+", path.template.removeprefix(API))
    return method.lower() + "".join(word.capitalize() for word in words)
