"""A small declarative schema: sections of keys, each with a type, a default and a sentence; and what they read.

The same definitions read a document, describe themselves as JSON Schema, and fill the reference table of the
documentation.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache, cached_property
from typing import Any, ClassVar, Final, TypeVar

from fakedev.base.errors import nearest_name
from fakedev.schema.places import DEFAULT, Listing, Node, NodeBuilder, Place, Report, Scalar, SyntaxProblem, Table
from fakedev.schema.reader import parse_json

Frozen = TypeVar("Frozen")


@dataclass(frozen=True)
class Values(Mapping[str, Any]):
    """The values of a section: all its keys, with defaults for those that are not written.

    :param place: where the section is.
    :param values_by_key: the values.
    :param nodes: the nodes of the keys that are written.
    """

    section: Section = field(repr=False)
    place: Place
    values_by_key: Mapping[str, Any]
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def build(self, kind: type[Frozen], **others: object) -> Frozen:
        """A frozen value: fields named in ``others`` have these values, all other fields the values of their keys.

        A key without a value leaves its field the default; one of a required key, which was reported, is blank.
        """
        return kind(**{**self.fields_of(kind), **others})

    def fields_of(self, kind: type) -> dict[str, Any]:
        """The values of keys by the fields of a dataclass that hold them."""
        found = {}
        for key, name in self.section.fields_of(kind).items():
            value = self.values_by_key[key]
            if value is None:
                value = self.section.blanks.get(key)
            if value is not None:
                found[name] = value
        return found

    def given(self, key: str) -> bool:
        """Whether the key is written, with a right value or a wrong one."""
        return key in self.nodes

    def place_of(self, key: str) -> Place:
        """Where the key's value is; the section's place when it is not written."""
        return self.nodes[key].place if key in self.nodes else self.place

    def origin_of(self, key: str) -> str:
        """Where the value comes from: ``default``, a place, or ``environment NAME``."""
        if key not in self.nodes:
            return "default"
        node = self.nodes[key]
        if isinstance(node, Scalar) and node.origin:
            return node.origin
        return str(node.place)

    def items_of(self, key: str) -> tuple[Node, ...]:
        """The nodes of a list's items; empty when the key has no list."""
        return getattr(self.nodes.get(key), "items", ())


def plain(value: object) -> object:
    """A value as plain lists and mappings, without keys that have no value."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def was_read(value: object, node: Node | None = None) -> bool:
    """Whether a value holds all that was written: what could not be read was reported and left out.

    :param node: what was written; None for a section, which has its nodes.
    """
    if isinstance(value, tuple):
        items = getattr(node, "items", ())
        return 0 < len(value) == len(items) and all(map(was_read, value, items))
    if not isinstance(value, Values):
        return value is not None and (not isinstance(value, Mapping) or len(value) > 0)
    if any(key.required and value[key.name] is None for key in value.section.keys):
        return False
    return all(was_read(value[key], written) for key, written in value.nodes.items())


#: The value of a node that could not be read; the problem has been reported.
INVALID: Final = object()


class Type(ABC):
    """The type of a value."""

    #: How messages and the documentation call it: ``whole number``.
    words = ""
    #: The value of a required key that is missing or wrong.
    blank: ClassVar[object] = None
    #: The units in which it may be written, for the documentation.
    units: ClassVar[str] = ""

    @property
    def described(self) -> str:
        """The words with their bounds, for the documentation."""
        return self.words

    @abstractmethod
    def takes(self, node: Node) -> bool:
        """Whether a node has the shape of this type, right or wrong inside."""

    @abstractmethod
    def read(self, node: Node, where: str, report: Report) -> Any:
        """The plain value of a node; INVALID when a problem was reported."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """This type as JSON Schema."""


@dataclass(frozen=True)
class Key:
    """A key of a section.

    :param doc: one or two sentences: what it is for.
    :param default: the value when the key is not written.
    :param default_words: how the documentation shows the default; empty: as it would be written.
    :param default_yaml: the default as it would be written, for lists of sections.
    :param unit: of the number, for the documentation; empty: the type's unit.
    :param secret: never printed.
    :param alias: another name that it may be written with; empty for none.
    :param optional: a section that is None when it is not written, although all its keys have defaults.
    :param field: of the frozen value that holds it; empty: the one of its name.
    """

    name: str
    type: Type
    doc: str
    default: Any = None
    required: bool = False
    unit: str = ""
    default_words: str = ""
    default_yaml: str = ""
    secret: bool = False
    field: str = ""
    optional: bool = False
    alias: str = ""

    @cached_property
    def has_plain_default(self) -> bool:
        """Whether ``default`` is the value when the key is not written, and that is allowed."""
        if self.required or self.default_yaml:
            return False
        return self.optional or not isinstance(self.type, Section) or any(key.required for key in self.type.keys)

    @property
    def plain_default(self) -> Any:
        """The default, or the value of a member of an enumeration."""
        return self.default.value if isinstance(self.default, Enum) else self.default

    @property
    def shown_unit(self) -> str:
        """The unit, or the units of the type."""
        return self.unit or self.type.units

    def default_at(self, place: Place) -> Any:
        """The value when the key is not written; a section whose keys all have defaults has those."""
        if self.default_yaml:
            return self.type.read(self.default_node, self.name, Report())
        if self.optional:
            return None
        if isinstance(self.type, Section) and not any(key.required for key in (self, *self.type.keys)):
            return self.type.empty(place)
        return self.default

    @property
    def default_node(self) -> Node:
        """The default as if the user had written it."""
        return _parsed(self.default_yaml)


@dataclass(frozen=True)
class Section(Type):
    """A mapping with known keys.

    :param title: its title in the documentation.
    :param shorthand: the key that gets a value which is given in place of the section.
    :param any_case: keys match in any letter case, and unknown ones are only noted (the original's JSON).
    :param mark: the key that distinguishes it from other mappings in the same place.
    """

    title: str
    keys: tuple[Key, ...]
    doc: str = ""
    shorthand: str = ""
    any_case: bool = False
    mark: str = ""
    words: str = field(default="mapping", init=False)

    def takes(self, node: Node) -> bool:
        if isinstance(node, Table):
            # A misspelled mark counts too, so that its problem is reported.
            near = [key.text for key, _ in node.entries if difflib.get_close_matches(self.mark, [key.text], 1, 0.8)]
            return not self.mark or bool(near)
        return bool(self.shorthand) and isinstance(node, Scalar) and not node.is_null

    def read(self, node: Node, where: str, report: Report) -> Any:
        if isinstance(node, Scalar) and node.is_null:
            node = Table(node.place, ())
        if self.shorthand and isinstance(node, Scalar):
            node = Table(node.place, ((Scalar(node.place, self.shorthand), node),))
        if not isinstance(node, Table):
            report.problem(node.place, f"{named(where)}must be a mapping of {self._known()}, not {kind_of(node)}")
            return INVALID
        nodes = self._nodes(node, where, report)
        values = {
            key.name: key.default
            if key.name not in nodes and key.has_plain_default
            else self._value(key, nodes.get(key.name), node.place, where, report)
            for key in self.keys
        }
        return Values(self, node.place, values, nodes)

    def empty(self, place: Place) -> Values:
        """The section with all its defaults."""
        return Values(self, place, {key.name: key.default_at(place) for key in self.keys})

    def key(self, name: str) -> Key:
        """A key by its name."""
        return next(key for key in self.keys if key.name == name)

    def fields_of(self, kind: type) -> Mapping[str, str]:
        """The fields of a dataclass that hold values of keys, by the names of the keys."""
        if kind not in self._fields:
            names = {each.name for each in fields(kind)}
            own = {key.name: key.field or key.name.replace("-", "_") for key in self.keys}
            self._fields[kind] = {key: field for key, field in own.items() if field in names}
        return self._fields[kind]

    def schema(self) -> dict[str, Any]:
        properties = {}
        for key in self.keys:
            described = dict(key.type.schema())
            described["description"] = key.doc + (f" Unit: {key.shown_unit}." if key.shown_unit else "")
            if isinstance(key.plain_default, str | int | float | bool):
                described["default"] = key.plain_default
            properties[key.name] = described
            if key.alias:
                properties[key.alias] = {"description": f"The same as {key.name}."}
        table: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
        required = [key.name for key in self.keys if key.required]
        if required:
            table["required"] = required
        if not self.shorthand:
            return table
        return {"anyOf": [dict(self.key(self.shorthand).type.schema()), table]}

    @cached_property
    def blanks(self) -> Mapping[str, object]:
        """The values of required keys that are missing or wrong, where their types have some."""
        return {key.name: key.type.blank for key in self.keys if key.required}

    @cached_property
    def _fields(self) -> dict[type, dict[str, str]]:
        return {}

    @cached_property
    def _names(self) -> Mapping[str, str]:
        names = {key.alias: key.name for key in self.keys if key.alias} | {key.name: key.name for key in self.keys}
        return {written.casefold() if self.any_case else written: name for written, name in names.items()}

    def _nodes(self, table: Table, where: str, report: Report) -> dict[str, Node]:
        """The nodes of what is written, by the names of the keys."""
        nodes: dict[str, Node] = {}
        for written, node in table.entries:
            name = self._names.get(written.text.casefold() if self.any_case else written.text)
            if name is None:
                self._unknown(written, where, report)
            elif name in nodes:
                report.problem(written.place, f"{named(where)}{written.text!r} is given twice: remove one")
            elif not (isinstance(node, Scalar) and node.is_null):
                nodes[name] = node
        return nodes

    def _unknown(self, written: Scalar, where: str, report: Report) -> None:
        names = [key.name for key in self.keys]
        hint = did_you_mean(written.text, names) or f"known here: {self._known()}"
        if self.any_case:
            report.note(written.place, f"{named(where)}unknown key {written.text!r} is not used; {hint}")
        else:
            report.problem(written.place, f"{named(where)}unknown key {written.text!r}; {hint}")

    def _value(self, key: Key, node: Node | None, place: Place, where: str, report: Report) -> Any:
        if node is not None:
            value = key.type.read(node, joined(where, key.name), report)
            return key.default_at(place) if value is INVALID else value
        if key.required:
            report.problem(place, f"{named(where)}{key.name!r} is missing: {key.doc}")
        return key.default_at(place)

    def _known(self) -> str:
        return ", ".join(key.name for key in self.keys)


@cache
def _parsed(default_yaml: str) -> Node:
    builder = NodeBuilder(DEFAULT.file, Report(), lines=False)
    try:
        return parse_json(default_yaml, builder)
    except SyntaxProblem:
        from fakedev.schema.yaml_reader import parse_yaml  # noqa: PLC0415 - drop-ins need none, and must start fast

        return parse_yaml(default_yaml, builder)


def did_you_mean(name: str, names: Iterable[str], before: str = "") -> str:
    """``did you mean 'power'?`` after ``before``, for the nearest known name; empty when none is near."""
    nearest = nearest_name(name, names)
    return f"{before}did you mean {nearest!r}?" if nearest else ""


def joined(where: str, name: str) -> str:
    """A dotted path with one more step."""
    return f"{where}.{name}" if where else name


def kind_of(node: Node) -> str:
    """A node in words, for ``must be this, not that``."""
    if isinstance(node, Listing):
        return "a list"
    if isinstance(node, Table):
        return "a mapping"
    if node.is_null:
        return "nothing"
    return f"{shortened(node.text)!r}" + (" in quotes" if node.quoted and not node.json else "")


def shortened(text: str) -> str:
    """A user's text, short enough for a message."""
    return text if len(text) <= 60 else text[:60] + "..."


def named(where: str) -> str:
    """A dotted path as the beginning of a message."""
    return f"{where}: " if where else ""
