"""/api/v1/openapi.json: the API as OpenAPI 3.1, made from the declarations of paths and fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fakedev import __version__
from fakedev.net.api.find import MAX_CHARACTERS
from fakedev.net.api.openapi_answers import Schema, answer_of, answer_schemas, named_schema, refusals_of
from fakedev.net.api.tester import MAX_PER_SECOND
from fakedev.net.fleet.ticker import MAX_TICKS
from fakedev.net.http.items import MAX_ITEMS, MAX_OFFSET
from fakedev.net.tester.pages import MAX_SHOWN
from fakedev.spec import web_paths
from fakedev.spec.fault_fields import FAULT_FIELDS
from fakedev.spec.fault_kinds import KINDS
from fakedev.spec.fields import LONGEST_TEXT, Field, FieldKind
from fakedev.spec.fleet import MAX_SPEED
from fakedev.spec.web_paths import API, COLLECTIONS, RELOAD, WEB_PATHS, WebPath
from fakedev.spec.workload_fields import WORKLOAD_FIELDS

_TEXT: Final[Schema] = {"type": "string"}
_ADVANCE: Final[Schema] = {
    "type": ["string", "number"], "exclusiveMinimum": 0, "minLength": 1,
    "description": f"a duration, as 90s; or seconds: 1 to {MAX_TICKS} ticks",
}  # fmt: skip
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
#: Keys after the ``?`` that are not just a text; ``sort`` has those of its collection, ``limit`` the most items of one.
_QUERY: Final[Mapping[str, Schema]] = {
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
#: The paths to which POST adds an item, with that of the item.
_MADE: Final = {web_paths.WORKLOADS: web_paths.WORKLOAD, web_paths.FAULTS: web_paths.FAULT}
#: What fields hold beside these: null is the same as a missing field.
_NULL: Final = "null"


def describe_api() -> dict[str, Any]:
    """The description, as plain values."""
    described = [path for path in WEB_PATHS if path.template.startswith(f"{API}/") or path is RELOAD]
    bodies = _bodies()
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
                **answer_schemas(),
            },
        },
    }  # fmt: skip


def _bodies() -> Mapping[tuple[str, WebPath], Schema]:
    """The bodies of requests, by method and path."""
    speed = {"type": "number", "minimum": 0, "maximum": MAX_SPEED, "description": "simulated seconds per second"}
    rate = {"type": "number", "minimum": 0, "maximum": MAX_PER_SECOND, "description": "requests per second"}
    load: Schema = {"reset": {"type": "boolean"}, "parallel": {"type": "integer"}, "rate": rate}
    return {
        ("POST", web_paths.WORKLOADS): named_schema("Workload"),
        ("POST", web_paths.FAULTS): named_schema("Fault"),
        ("POST", web_paths.CLOCK): _object({"advance": _ADVANCE}, "advance"),
        ("PATCH", web_paths.CLOCK): _object({"speed": speed, "advance": {"type": _NULL}}) | {"minProperties": 1},
        ("POST", web_paths.LOAD): _object({**load, "plan": _TEXT}) | {"minProperties": 1},
    }


#: Bodies that every fleet takes, by method and path.
_EXAMPLES: Final[Mapping[tuple[str, WebPath], Schema]] = {
    ("POST", web_paths.WORKLOADS): {"name": "train", "devices": "all", "profile": "95:2:0"},
    ("POST", web_paths.FAULTS): {"kind": "fan", "devices": "all", "duration": "5m"},
    ("POST", web_paths.CLOCK): {"advance": "10m"},
    ("PATCH", web_paths.CLOCK): {"speed": 60},
    ("POST", web_paths.LOAD): {"reset": True},
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
                {"name": each, "in": "query", "required": each in _REQUIRED, "schema": _query(path, each)}
                for each in path.query
            ]
        body = bodies.get((method, path))
        if body is not None:
            content = {"schema": body, "example": _EXAMPLES[method, path]}
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        item = _MADE.get(path) if method == "POST" else None
        answer = answer_of(method, path)
        if item is not None:
            # From what was made to what shows it and ends it.
            answer["links"] = {
                each.lower(): {"operationId": _operation(each, item), "parameters": {"ID": "$response.body#/id"}}
                for each in item.methods
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


def _object(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object", "properties": properties, "additionalProperties": False, "required": list(required),
    }  # fmt: skip


def _operation(method: str, path: WebPath) -> str:
    """The name of an operation, as ``getDevicesNodeIndex``."""
    words = re.split("[^A-Za-z]+", path.template.removeprefix(API))
    return method.lower() + "".join(word.capitalize() for word in words)
