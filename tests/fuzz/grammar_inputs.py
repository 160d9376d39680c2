"""Inputs that the grammars themselves make: messages of the line ports, requests of the API, and configurations.

Each is right in its form; its values are right, wrong, or right for something else. So they reach the rules behind the
parsers, where changed bytes of an example seldom arrive.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from fakedev.fleet.spec.fault_kinds import KINDS as FAULT_KINDS
from fakedev.fleet.spec.quantities import KNOWN_QUANTITIES
from fakedev.fleet.verbs import WORKLOAD_VERBS
from fakedev.lines.grammar import Argument, Kind, Verb
from fakedev.web import paths
from tests.fuzz.seeds import TEXTS
from tests.support.paths import ROOT

_NUMBERS: Final = (0, 1, 2, 7, 79, -1, 1.5, 100, 65_535, 1e9, 2**53, 1e308, 0.001)
_NAMES: Final = ("x", "w1", "f1", "train", "sleep", "other", "all", "a/0", "a/*", "b/[0-1]", "power", "")
_FAULTS, _QUANTITIES = tuple(FAULT_KINDS), tuple(KNOWN_QUANTITIES)
#: How deep a made configuration is, and how many keys and items each level may have.
_MOST_DEPTH, _MOST_KEYS, _MOST_ITEMS = 8, 6, 3


def _text(chance: random.Random) -> str:
    texts = chance.choice((TEXTS, TEXTS, _NAMES, _NAMES, _FAULTS, _QUANTITIES))
    return chance.choice(texts)


def _value(argument: Argument, chance: random.Random) -> object:
    """A value of the argument's kind; now and then of another kind."""
    kind = argument.kind if chance.random() < 0.9 else chance.choice(list(Kind))
    count = chance.choice((0, 1, 1, 2, 3, 40))
    number = chance.choice(_NUMBERS)
    if kind in (Kind.WHOLE, Kind.NUMBER):
        return number
    if kind in (Kind.LIST, Kind.WORDS):
        return [_text(chance) for _ in range(count)]
    if "MAPPING" in kind.name:
        return {_text(chance): chance.choice((number, _text(chance))) for _ in range(count)}
    if kind is Kind.SERIES and chance.random() < 0.5:
        return [chance.choice(([number, 1, 2], {"load": number, "seconds": 1}, _text(chance))) for _ in range(count)]
    return _text(chance)


def _in_words(name: str, value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}={key}:{text}" for key, text in value.items()]
    return [f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"]


def message(verbs: Sequence[Verb], chance: random.Random) -> bytes:
    """A message of a port: one to three lines, in words or in JSON."""
    lines = []
    is_json = chance.random() < 0.5
    for _ in range(chance.choice((1, 1, 2, 3))):
        verb = chance.choice(verbs)
        given = [argument for argument in verb.arguments if chance.random() < (0.95 if argument.required else 0.4)]
        values = {each: _value(each, chance) for each in given}
        flags = [flag.name for flag in verb.flags if chance.random() < 0.3]
        if is_json:
            fields = {"op": verb.name, **{each.name: value for each, value in values.items()}}
            lines.append(json.dumps(fields | dict.fromkeys(flags, True) | {"id": chance.choice(_NUMBERS)}))
        else:
            words = [word for each, value in values.items() for word in _in_words(each.name_in_words, value)]
            lines.append(" ".join([chance.choice((verb.name, *verb.aliases)), *words, *flags]))
    return "\n".join([*lines, ""]).encode()


def request(chance: random.Random) -> bytes:
    """A request to a path that the API has, with its queries, or a body of a workload's or fault's fields."""
    path = chance.choice(paths.WEB_PATHS)
    parts = {part: chance.choice(("a", "0", "1", "w1", "x", "sleep")) for part in path.template.split("/")}
    query = "&".join(f"{key}={_text(chance)}" for key in path.query if chance.random() < 0.5).replace(" ", "+")
    method = chance.choice((*path.methods, "HEAD"))
    head = f"{method} {path.at(**{k: v for k, v in parts.items() if k.isupper()})}{'?' * bool(query)}{query} HTTP/1.1"
    body = ""
    if method in ("POST", "PATCH"):
        fields = [argument for verb in WORKLOAD_VERBS if verb.name in ("run", "fault") for argument in verb.arguments]
        chosen = chance.sample(fields, chance.randint(0, min(12, len(fields))))
        body = json.dumps({each.name: _value(each, chance) for each in chosen})
    typed = f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n" if body else ""
    return f"{head}\r\nHost: localhost:9400\r\n{typed}\r\n{body}".encode()


@cache
def _schema() -> dict[str, object]:
    schema: dict[str, object] = json.loads((ROOT / "fakedev" / "config" / "fakedev.schema.json").read_text("utf-8"))
    return schema


def configuration(chance: random.Random) -> bytes:
    """A configuration whose keys and kinds of values are those of the schema, in JSON, which is YAML too."""
    made = _of_schema(_schema(), chance, 0)
    assert isinstance(made, dict)
    pools = {"name": "p", "nodes": "a", "device": "h100", "devices-per-node": 2, "identity": "dcgm"}
    made.setdefault("fleet", {}).setdefault("pools", [pools])
    return json.dumps(made).encode()


def _of_schema(schema: dict, chance: random.Random, depth: int) -> object:  # type: ignore[type-arg]
    if "anyOf" in schema:
        return _of_schema(chance.choice(schema["anyOf"]), chance, depth)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "default" in schema and chance.random() < 0.3:
        return schema["default"]
    kinds = schema.get("type", "string")
    kind = kinds if isinstance(kinds, str) else chance.choice(kinds)
    if kind == "object":
        known = schema.get("properties") or {_text(chance): {} for _ in range(2)}
        most = 0 if depth >= _MOST_DEPTH else min(_MOST_KEYS, len(known))
        names = {*schema.get("required", ()), *chance.sample(sorted(known), chance.randint(0, most))}
        return {name: _of_schema(known.get(name, {}), chance, depth + 1) for name in sorted(names)}
    if kind == "array":
        return [_of_schema(schema.get("items", {}), chance, depth + 1) for _ in range(chance.randint(0, _MOST_ITEMS))]
    if kind == "boolean":
        return chance.random() < 0.5
    if kind in ("integer", "number"):
        least, most = schema.get("minimum", -1), schema.get("maximum", 100)
        return chance.choice((least, most, min(max(chance.choice(_NUMBERS), least), most), chance.choice(_NUMBERS)))
    return _text(chance)


def messages(verbs: Sequence[Verb]) -> Callable[[random.Random], bytes]:
    """What makes messages with these verbs."""
    return lambda chance: message(verbs, chance)
