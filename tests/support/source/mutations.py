"""Configurations with one wrong value each: every place of a tree gets values of every other shape."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

#: One of each shape that a value may have, and numbers at the edges.
VALUES: Final[tuple[Any, ...]] = (
    None, "", "x", "x" * 5000, "\u0000", [], [[]], [None], [{}], {}, {"": ""}, {"x": {"y": [1]}}, {"file": "x"},
    0, -1, 1, 0.5, 10**30, math.nan, math.inf, True, False, "0", "-1", "1e999", "$", "${X}", "/", "none", "all",
)  # fmt: skip

Path = tuple[str | int, ...]


def mutations(tree: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Path, int, str]]:
    """Texts of the tree with another value at one place, or with one more key that the schema knows.

    :returns: the place, the number of the value, and the text, in YAML.
    """
    for path in _places(tree, schema, ()):
        for number, value in enumerate(VALUES):
            changed = copy.deepcopy(tree)
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = value
            yield path, number, as_yaml(changed)


def as_yaml(tree: Any) -> str:
    """A tree as JSON, with YAML's spelling of what JSON does not have."""
    return json.dumps(tree).replace("NaN", ".nan").replace("Infinity", ".inf")


def _places(tree: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if isinstance(tree, dict):
        known = dict.fromkeys([*tree, *_properties(schema)])
        for key in known:
            yield (*path, key)
            if key in tree:
                yield from _places(tree[key], _below(schema, key), (*path, key))
    elif isinstance(tree, list):
        for place, item in enumerate(tree):
            yield (*path, place)
            yield from _places(item, _below(schema, place), (*path, place))


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _alternatives(each)


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each for one in _alternatives(schema) for key, each in one.get("properties", {}).items()}


def _below(schema: Mapping[str, Any], step: str | int) -> Mapping[str, Any]:
    if isinstance(step, str):
        found = _properties(schema).get(step)
        others = [one["additionalProperties"] for one in _alternatives(schema) if "additionalProperties" in one]
    else:
        found = None
        others = [one["items"] for one in _alternatives(schema) if "items" in one]
    found = found or next((other for other in others if isinstance(other, dict)), {})
    return found if isinstance(found, dict) else {}
