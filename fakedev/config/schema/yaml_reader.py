"""YAML to nodes with places, from the parser's events: no resolver guesses what a value is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from fakedev.config.schema.nodes import DEEPEST, Growth, Listing, Node, Scalar, SyntaxProblem, Table

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS: Final = ("!", "tag:yaml.org,2002:str")
_MERGE: Final = "<<"


def parse_yaml(text: str, growth: Growth) -> Node:
    """The one document of a text; an empty one is a scalar without a value.

    :raises SyntaxProblem: at the first thing that is no YAML, or is YAML that is not read here.
    """
    events = _Events(text)
    try:
        return _document(events, growth)
    finally:
        events.close()


class _Events:
    """The parser's events, with its complaints as ours."""

    def __init__(self, text: str) -> None:
        self._loader = _LOADER(text)

    def next(self) -> Any:
        """The next event."""
        try:
            return self._loader.get_event()
        except yaml.MarkedYAMLError as error:
            raise _problem(error) from None
        except yaml.YAMLError as error:
            raise SyntaxProblem(1, f"is not YAML: {str(error).splitlines()[0]}") from None

    def close(self) -> None:
        """Frees the parser."""
        self._loader.dispose()


def _document(events: _Events, growth: Growth) -> Node:
    events.next()  # the stream's start
    event = events.next()
    if isinstance(event, yaml.StreamEndEvent):
        return Scalar(growth.place(1), "")
    node = _Composer(events, growth).node(events.next(), 1)
    events.next()  # the document's end
    event = events.next()
    if not isinstance(event, yaml.StreamEndEvent):
        raise SyntaxProblem(_line(event), "has a second document (---): one file holds one configuration")
    return node


class _Composer:
    """Builds the nodes of one document."""

    def __init__(self, events: _Events, growth: Growth) -> None:
        self._events = events
        self._growth = growth
        self._anchors: dict[str, Node] = {}

    def node(self, event: Any, level: int) -> Node:
        """The node that begins with ``event``."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, level)
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise SyntaxProblem(_line(event), f"has the tag {event.tag}: tags are not read here, remove it")
        if isinstance(event, yaml.ScalarEvent):
            node: Node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._growth.entered(level, _line(event))
            node = self._growth.listing(list(self._items(level)), _line(event))
        else:
            self._growth.entered(level, _line(event))
            node = self._growth.table(self._entries(level), _line(event))
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any) -> Scalar:
        quoted = event.style not in (None, "") or event.tag is not None
        return self._growth.scalar(event.value, _line(event), quoted=quoted)

    def _items(self, level: int) -> Iterator[Node]:
        while not isinstance(event := self._events.next(), yaml.SequenceEndEvent):
            yield self.node(event, level + 1)

    def _entries(self, level: int) -> list[tuple[Scalar, Node]]:
        entries: list[tuple[Scalar, Node]] = []
        merged: list[tuple[Scalar, Node]] = []
        while not isinstance(event := self._events.next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise SyntaxProblem(_line(event), "has a key that is no plain text")
            key = self._growth.key(event.value, _line(event))
            value = self.node(self._events.next(), level + 1)
            if key.text == _MERGE and event.style in (None, ""):
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
        """The entries that ``<<`` brings in, from a mapping or a list of them."""
        tables = value.items if isinstance(value, Listing) else (value,)
        for table in tables:
            if not isinstance(table, Table):
                raise SyntaxProblem(value.place.line, "has something other than mappings after <<")
            yield from table.entries

    def _alias(self, event: Any, level: int) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise SyntaxProblem(_line(event), f"has the alias *{event.anchor} with no anchor &{event.anchor} before it")
        if level + node.depth > DEEPEST:
            raise SyntaxProblem(_line(event), f"is nested deeper than {DEEPEST} levels")
        return node


def _problem(error: yaml.MarkedYAMLError) -> SyntaxProblem:
    """The parser's complaint, with a hint where people often stumble."""
    mark = error.problem_mark or error.context_mark
    context = error.context or ""
    text = f"is not YAML: {error.problem}" + (f" ({context})" if context else "")
    if "alias" in context:
        text += ": a text that begins with * goes in quotes"
    elif "cannot start any token" in str(error.problem):
        text += ": YAML is indented with blanks, not tabs, and a text with @, ` or % in front goes in quotes"
    return SyntaxProblem(mark.line + 1 if mark else 1, text)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
