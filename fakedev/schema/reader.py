"""Reads the text of a YAML or JSON file into nodes with places (file and line), and expands variables.

Values may have ``${NAME}`` and ``${NAME:-default}`` in them; ``$$`` is a dollar. YAML is read from the parser's
events: no resolver guesses the type of a value. JSON is as strict as the standard.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Final

from fakedev.schema.files import Files, Unreadable
from fakedev.schema.places import (
    Expand,
    Node,
    NodeBuilder,
    Place,
    Report,
    Scalar,
    SyntaxProblem,
)

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
            raise self._fault("has an escape in a text that JSON does not have") from None
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


#: Characters that neither language allows; found here so that both give the same problem.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_MARK: Final = re.compile(r"\$\$|\$\{([^}]*)\}?")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


def read_document(text: str, file: str, report: Report, expand: Expand | None = None) -> Node | None:
    """The tree of a YAML or JSON text; None when a problem was reported instead.

    :param file: its name, as problems shall show it; one that ends in ``.json`` is JSON.
    :param expand: fills in variables; None leaves texts as they are.
    """
    if not is_clean(text, file, report):
        return None
    try:
        return _parsed(text, file, report, expand)
    except SyntaxProblem as problem:
        report.problem(Place(file, problem.line), str(problem))
        return None


def read_settings(path: str, report: Report, files: Files) -> Node | None:
    """The tree of a file of settings, with its variables; None when a problem was reported instead."""
    try:
        text = files.read(os.path.abspath(path))
    except Unreadable as error:
        report.problem(Place(path, error.line), str(error))
        return None
    return read_document(text, path, report, Variables(files).expand)


def is_clean(text: str, file: str, report: Report) -> bool:
    """Whether a text has only characters that a text file may hold; others are reported."""
    forbidden = _FORBIDDEN.search(text)
    if forbidden is None:
        return True
    line = text.count("\n", 0, forbidden.start()) + 1
    report.problem(Place(file, line), f"has the character U+{ord(forbidden[0]):04X}, which no text file may hold")
    return False


def is_json(text: str, file: str) -> bool:
    """Whether a file is JSON: by its name, or because it begins with a brace."""
    return file.lower().endswith(".json") or text.lstrip().startswith("{")


def _parsed(text: str, file: str, report: Report, expand: Expand | None) -> Node:
    if not is_json(text, file):
        return _yaml(text, file, report, expand)
    own = Report()  # small problems of JSON count only if the whole is JSON
    try:
        node = parse_json(text, NodeBuilder(file, own, expand, json=True))
        report.extend(own)
        return node
    except SyntaxProblem as problem:
        if file.lower().endswith(".json"):
            raise
        try:
            return _yaml(text, file, report, expand)  # {in: flow style}
        except SyntaxProblem:
            raise problem from None


def _yaml(text: str, file: str, report: Report, expand: Expand | None) -> Node:
    from fakedev.schema.yaml_reader import parse_yaml  # noqa: PLC0415 - drop-ins read no YAML, and must start fast

    return parse_yaml(text, NodeBuilder(file, report, expand))


class Variables:
    """Fills environment variables into texts."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def expand(self, text: str) -> tuple[str, str]:
        """The text with its variables filled in, and where they come from (``environment SEED``).

        :raises ValueError: for a variable that is not set and has no default, or is not well written.
        """
        used: list[str] = []
        filled = _MARK.sub(lambda match: self._filled(match, used), text)
        return filled, f"environment {', '.join(used)}" if used else ""

    def _filled(self, match: re.Match[str], used: list[str]) -> str:
        if match[0] == "$$":
            return "$"
        named = _NAME.fullmatch(match[1])
        if named is None or not match[0].endswith("}"):
            forms = "write ${NAME} or ${NAME:-default}, or $$ for a dollar"
            raise ValueError(f"{match[0][:60]!r} is no variable: {forms}")
        name, default = named[1], named[3]
        value = self._files.variable(name)
        used.append(name)
        if value or (value is not None and named[2] is None):
            return value
        if named[2] is None:
            raise ValueError(f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}")
        return default or ""
