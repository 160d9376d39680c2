"""The types that hold other types: lists, mappings, one of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fakedev.config.schema.nodes import Listing, Node, Table
from fakedev.config.schema.problems import Report
from fakedev.config.schema.schema import INVALID, Section, Type, joined, kind_of, named


@dataclass(frozen=True)
class ListOf(Type):
    """A list of one type; a value that is no list is a problem."""

    item: Type
    least: int = 0
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or f"list of {_plural(self.item.words)}")

    def takes(self, node: Node) -> bool:
        return isinstance(node, Listing)

    def read(self, node: Node, where: str, report: Report) -> Any:
        if not isinstance(node, Listing):
            report.problem(node.place, f"{named(where)}must be a {self.words}, not {kind_of(node)}: put [ ] around it")
            return INVALID
        if len(node.items) < self.least:
            report.problem(node.place, f"{named(where)}needs at least {self.least} in its list")
        values = [self.item.read(item, joined(where, str(number)), report) for number, item in enumerate(node.items)]
        return tuple(value for value in values if value is not INVALID) if INVALID in values else tuple(values)

    def schema(self) -> dict[str, Any]:
        result: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            result["minItems"] = self.least
        return result

    def sections(self) -> Iterable[Section]:
        return self.item.sections()


@dataclass(frozen=True)
class MapOf(Type):
    """A mapping from names of one's own to values of one type.

    :param check: raises ValueError for a name that cannot be used.
    """

    value: Type
    check: Callable[[str], object] | None = None
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or f"mapping of names to {_plural(self.value.words)}")

    def takes(self, node: Node) -> bool:
        return isinstance(node, Table)

    def read(self, node: Node, where: str, report: Report) -> Any:
        if not isinstance(node, Table):
            report.problem(node.place, f"{named(where)}must be a {self.words}, not {kind_of(node)}")
            return INVALID
        result = {}
        for key, child in node.entries:
            if self.check is not None:
                try:
                    self.check(key.text)
                except ValueError as error:
                    report.problem(key.place, f"{named(where)}{error}")
                    continue
            value = self.value.read(child, joined(where, key.text), report)
            if value is not INVALID:
                result[key.text] = value
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.schema()}

    def sections(self) -> Iterable[Section]:
        return self.value.sections()


@dataclass(frozen=True)
class OneOf(Type):
    """One of several types, told apart by their shape."""

    types: tuple[Type, ...]
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or " or ".join(kind.words for kind in self.types))

    def takes(self, node: Node) -> bool:
        return any(kind.takes(node) for kind in self.types)

    def read(self, node: Node, where: str, report: Report) -> Any:
        for kind in self.types:
            if kind.takes(node):
                return kind.read(node, where, report)
        report.problem(node.place, f"{named(where)}must be a {self.words}, not {kind_of(node)}")
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema() for kind in self.types]}

    def sections(self) -> Iterable[Section]:
        for kind in self.types:
            yield from kind.sections()


def _plural(words: str) -> str:
    return words if words.endswith("s") else f"{words}s"
