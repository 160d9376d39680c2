"""The configuration in force, as ``--print-config`` shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fakedev.base.names import without_variables
from fakedev.base.units import format_duration
from fakedev.config.configuration import Configuration
from fakedev.schema.places import Listing, Node, Scalar
from fakedev.schema.sections import Key, Values
from fakedev.schema.types import Duration

_PLAIN: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|[0-9]+[a-z]+|[A-Za-z_./][A-Za-z0-9_./@-]*")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_HIDDEN: Final = "********"


def effective_text(configuration: Configuration) -> str:
    """The configuration as a file with all values; secrets are hidden."""
    return "\n".join(_section(configuration.source, "")) + "\n"


def _section(values: Values, indent: str) -> Iterator[str]:
    for key in values.section.keys:
        yield from _key(key, values, indent)


def _key(key: Key, values: Values, indent: str) -> Iterator[str]:
    value = values[key.name]
    origin = values.origin_of(key.name)
    if isinstance(value, Values):
        yield f"{indent}{key.name}:"
        yield from _section(value, indent + "  ")
    elif isinstance(value, tuple) and value and all(isinstance(item, Values) for item in value):
        yield f"{indent}{key.name}:"
        for item in value:
            lines = list(_section(item, indent + "    "))
            first = next(number for number, line in enumerate(lines) if not line.lstrip().startswith("#"))
            lines.insert(0, f"{indent}  - {lines.pop(first).lstrip()}")
            yield from lines
    elif value is None or (not values.given(key.name) and key.default is None):
        yield f"{indent}# {key.name}: {key.default_words or 'none'}  # {origin}"
    elif key.secret and value:
        hidden = f'"{_HIDDEN}"'
        hidden = f"[{', '.join([hidden] * len(value))}]" if isinstance(value, tuple) else hidden
        yield f"{indent}{key.name}: {hidden}  # {origin}"
    elif values.given(key.name):
        yield f"{indent}{key.name}: {_written(values.nodes[key.name])}  # {origin}"
    else:
        yield f"{indent}{key.name}: {default_text(key)}  # {origin}"


def _written(node: Node) -> str:
    """A node in flow style."""
    if isinstance(node, Scalar):
        return "null" if node.is_null else _text(node.text)
    if isinstance(node, Listing):
        return f"[{', '.join(_written(item) for item in node.items)}]"
    return f"{{{', '.join(f'{_text(key.text, in_value=False)}: {_written(value)}' for key, value in node.entries)}}}"


def default_text(key: Key) -> str:
    """A key's default as it would be written."""
    value: Any = key.plain_default
    if isinstance(key.type, Duration):
        return "none" if key.type.none and value == 0 else format_duration(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, tuple):
        return "[]"
    return _text(f"{value:g}" if isinstance(value, float) else str(value))


def _text(text: str, *, in_value: bool = True) -> str:
    """A text as YAML reads it back: plain where that is safe, else in double quotes."""
    if in_value:
        text = without_variables(text)
    if _PLAIN.fullmatch(text) and text.lower() != "null":
        return text
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08x}"
