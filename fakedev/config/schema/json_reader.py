"""JSON to nodes with places: strict as the standard, tabs and all."""

from __future__ import annotations

import json
import math
import re
from typing import Final

from fakedev.config.schema.nodes import Node, NodeBuilder, Scalar, SyntaxProblem

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD: Final = re.compile(r"[A-Za-z0-9_+.-]+")


def parse_json(text: str, builder: NodeBuilder) -> Node:
    """The one JSON value of a text.

    :raises SyntaxProblem: at the first thing that is no JSON.
    """
    reader = _Reader(text, builder)
    node = reader.value(1)
    reader.end()
    return node


class _Reader:
    """Reads one text from left to right; ``_at`` is always behind blanks."""

    def __init__(self, text: str, builder: NodeBuilder) -> None:
        self._text = text
        self._builder = builder
        self._at = 0
        self._line = 1
        self._skip(0)

    def value(self, level: int) -> Node:
        """Any value."""
        start = self._peek()
        if start == "{":
            return self._object(level)
        if start == "[":
            return self._array(level)
        if start == '"':
            line = self._line
            return self._builder.scalar(self._string(), line, quoted=True)
        return self._literal()

    def end(self) -> None:
        """Nothing may follow."""
        if self._at < len(self._text):
            raise self._fault("has something after the end of its JSON value")

    def _object(self, level: int) -> Node:
        line = self._line
        self._builder.check_level(level, line)
        self._skip(1)
        entries: list[tuple[Scalar, Node]] = []
        while not self._closes("}", bool(entries)):
            if self._peek() != '"':
                raise self._fault('expected a name in double quotes, as "Name": ...')
            key_line = self._line
            key = self._builder.key(self._string(), key_line)
            if self._peek() != ":":
                raise self._fault(f"expected a colon after the name {key.text!r}")
            self._skip(1)
            entries.append((key, self.value(level + 1)))
        return self._builder.table(entries, line)

    def _array(self, level: int) -> Node:
        line = self._line
        self._builder.check_level(level, line)
        self._skip(1)
        items: list[Node] = []
        while not self._closes("]", bool(items)):
            items.append(self.value(level + 1))
        return self._builder.listing(items, line)

    def _closes(self, bracket: str, more: bool) -> bool:
        """Whether the bracket closes here; else a comma has been read if one was due."""
        here = self._peek()
        if here == bracket:
            self._skip(1)
            return True
        if more:
            if here != ",":
                raise self._fault(f"expected a comma or {bracket}")
            self._skip(1)
            if self._peek() == bracket:
                raise self._fault(f"has a comma before {bracket}: remove it")
        return False

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._fault("has a text in quotes that does not end on its line")
        try:
            value = json.loads(match[0])
        except ValueError:
            raise self._fault("has an escape in a text that JSON does not know") from None
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self._fault("has half a surrogate pair in a text")
        self._skip(len(match[0]))
        return str(value)

    def _literal(self) -> Node:
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise self._fault("is not JSON: expected a value")
        word = match[0]
        if word not in ("true", "false", "null"):
            if _NUMBER.fullmatch(word) is None:
                raise self._fault(f"{_short(word)} is not JSON: a text goes in quotes, a number is written as 1.5e3")
            if not math.isfinite(float(word)):
                raise self._fault(f"{_short(word)} is too large for a number")
        line = self._line
        self._skip(len(word))
        return self._builder.scalar(word, line, quoted=False)

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise self._fault(
                "is not complete: it ends in the middle of its JSON value" if self._text.strip() else "is empty"
            )
        return self._text[self._at]

    def _skip(self, length: int) -> None:
        """Over a token and the blanks behind it."""
        blank = _BLANK.match(self._text, self._at + length)
        assert blank is not None  # it matches nothing at least
        self._line += blank[0].count("\n")
        self._at = blank.end()

    def _fault(self, text: str) -> SyntaxProblem:
        return SyntaxProblem(self._line, text)


def _short(word: str) -> str:
    return word if len(word) <= 40 else word[:40] + "..."
