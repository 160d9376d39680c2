"""What a section of the configuration says, key by key, and where it says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakedev.config.schema.nodes import Node, Scalar
from fakedev.config.schema.problems import Place

if TYPE_CHECKING:
    from fakedev.config.schema.schema import Section


@dataclass(frozen=True)
class Values(Mapping[str, Any]):
    """The values of a section: all its keys are there, with their defaults where nothing was said.

    :param place: where the section is.
    :param said: key to value.
    :param nodes: what was written, for the keys that were.
    """

    section: Section = field(repr=False)
    place: Place
    said: Mapping[str, Any]
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.said[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.said)

    def __len__(self) -> int:
        return len(self.said)

    def given(self, key: str) -> bool:
        """Whether the key was written, rightly or wrongly."""
        return key in self.nodes

    def place_of(self, key: str) -> Place:
        """Where the key's value is; where the section is when it was not written."""
        return self.nodes[key].place if key in self.nodes else self.place

    def origin_of(self, key: str) -> str:
        """Where the value comes from, in words."""
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
    """A value as plain lists and mappings, without what nothing was said of."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value


def was_read(value: object, node: Node | None = None) -> bool:
    """Whether all that was written is in a value: what could not be read was reported, and left out.

    :param node: what was written; a section knows that itself.
    """
    if isinstance(value, tuple):
        items = getattr(node, "items", ())
        return 0 < len(value) == len(items) and all(map(was_read, value, items))
    if not isinstance(value, Values):
        return value is not None and (not isinstance(value, Mapping) or len(value) > 0)
    if any(key.required and value[key.name] is None for key in value.section.keys):
        return False
    return all(was_read(value[key], written) for key, written in value.nodes.items())
