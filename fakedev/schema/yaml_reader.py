"""YAML to nodes with places, from the parser's events: no resolver guesses what a value is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from fakedev.schema.places import DEEPEST, Listing, Node, NodeBuilder, Scalar, SyntaxProblem, Table, depth_of

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS: Final = ("!", "tag:yaml.org,2002:str")
_MERGE: Final = "<<"


def parse_yaml(text: str, builder: NodeBuilder) -> Node:
    """The one document of a text; an empty one is a scalar without a value.

    :raises SyntaxProblem: at the first thing that is not YAML, or is YAML that is not read here.
    """
    loader = None
    try:
        loader = _LOADER(text)
        return _document(loader.get_event, builder)
    except yaml.MarkedYAMLError as error:
        raise _problem(error) from None
    except yaml.YAMLError as error:
        raise SyntaxProblem(1, f"is not YAML: {str(error).splitlines()[0]}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _document(next_event: Callable[[], Any], builder: NodeBuilder) -> Node:
    next_event()  # the stream's start
    event = next_event()
    if isinstance(event, yaml.StreamEndEvent):
        return builder.scalar("", 1, quoted=False)
    node = _Composer(next_event, builder).node(next_event(), 1)
    next_event()  # the document's end
    event = next_event()
    if not isinstance(event, yaml.StreamEndEvent):
        raise SyntaxProblem(_line(event), "has a second document (---): one file holds one configuration")
    return node


class _Composer:
    """Builds the nodes of one document."""

    def __init__(self, next_event: Callable[[], Any], builder: NodeBuilder) -> None:
        self._next_event = next_event
        self._builder = builder
        self._anchors: dict[str, Node] = {}

    def node(self, event: Any, level: int) -> Node:
        """The node that begins with ``event``."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, level)
        line = _line(event)
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise SyntaxProblem(line, f"has the tag {event.tag}: tags are not read here, remove it")
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            quoted = bool(event.style) or event.tag is not None
            node = self._builder.scalar(event.value, line, quoted=quoted)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._builder.check_level(level, line)
            node = self._builder.listing(list(self._items(level)), line)
        else:
            self._builder.check_level(level, line)
            node = self._builder.table(self._entries(level), line)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _items(self, level: int) -> Iterator[Node]:
        while not isinstance(event := self._next_event(), yaml.SequenceEndEvent):
            yield self.node(event, level + 1)

    def _entries(self, level: int) -> list[tuple[Scalar, Node]]:
        entries: list[tuple[Scalar, Node]] = []
        merged: list[tuple[Scalar, Node]] = []
        while not isinstance(event := self._next_event(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise SyntaxProblem(_line(event), "has a key that is no plain text")
            key = self._builder.key(event.value, _line(event))
            value = self.node(self._next_event(), level + 1)
            if key.text == _MERGE and not event.style:
                merged.extend(self._merged(value))
            else:
                entries.append((key, value))
        own = {key.text for key, _ in entries}
        for key, value in merged:
            if key.text not in own:
                own.add(key.text)
                entries.append((key, value))
        return entries

    @staticmethod
    def _merged(value: Node) -> Iterator[tuple[Scalar, Node]]:
        """The entries that ``<<`` adds, from a mapping or a list of mappings."""
        tables = value.items if isinstance(value, Listing) else (value,)
        for table in tables:
            if not isinstance(table, Table):
                raise SyntaxProblem(value.place.line, "has something other than mappings after <<")
            yield from table.entries

    def _alias(self, event: Any, level: int) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise SyntaxProblem(_line(event), f"has the alias *{event.anchor} with no anchor &{event.anchor} before it")
        if level + depth_of(node) > DEEPEST:
            raise SyntaxProblem(_line(event), f"is nested deeper than {DEEPEST} levels")
        return node


def _problem(error: yaml.MarkedYAMLError) -> SyntaxProblem:
    """The parser's error, with a hint for frequent mistakes."""
    mark = error.problem_mark or error.context_mark
    context = error.context or ""
    text = f"is not YAML: {error.problem}" + (f" ({context})" if context else "")
    if "alias" in context:
        text += ": a text that begins with * goes in quotes"
    elif "cannot start any token" in str(error.problem):
        text += ": YAML is indented with blanks, not tabs, and a text with @, ` or % in front goes in quotes"
    return SyntaxProblem(mark.line + 1 if mark else 1, text)


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1
