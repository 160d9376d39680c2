"""Nodes of a parsed file with their places, and the report of what is wrong with them.

YAML and JSON become the same tree. No scalar is interpreted here: the schema that expects a value decides what
``98:1:0``, ``on`` or ``2024-01-01`` is, from the text as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from fakedev.base.errors import printable, shortened

#: Levels of nesting that a document may have.
DEEPEST: Final = 64
#: Values that a document may have; an alias counts each time that it is used.
MAX_VALUES: Final = 500_000

Read = TypeVar("Read")
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))


class Place(NamedTuple):
    """A line of a file; line 0 means the whole file (a missing file, an option)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


#: The place of a default.
DEFAULT: Final = Place("default")


@dataclass(frozen=True)
class Problem:
    """A mistake, and how to correct it."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{Place(self.file, self.line)}: {self.text}"


class ConfigurationError(Exception):
    """A configuration that cannot be used; ``str`` of it has a line for each problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


#: Maximum problems that are reported; then reading stops.
MAX_PROBLEMS: Final = 100


class Report:
    """Collects problems, which forbid the configuration, and notes, which do not.

    :ivar folder: an absolute path, where relative paths of the document begin.
    """

    def __init__(self, folder: str = "") -> None:
        self.folder = folder
        self._problems: dict[Problem, None] = {}
        self._notes: dict[str, None] = {}
        self._files: dict[str, None] = {}

    def problem(self, place: Place, text: str) -> None:
        """Adds a problem, on one line; an equal one is kept once.

        :raises ConfigurationError: when there are too many to go on: hints at what is meant cost milliseconds each.
        """
        self._files.setdefault(place.file)
        self._problems.setdefault(Problem(place.file, place.line, shortened(printable(text))))
        if len(self._problems) >= MAX_PROBLEMS:
            more = Problem(place.file, place.line, f"there may be more: these are the first {MAX_PROBLEMS} problems")
            raise ConfigurationError((*self.sorted_problems(), more))

    def tried(self, place: Place, prefix: str, read: Callable[..., Read], *arguments: Any, **named: Any) -> Read | None:
        """What a function returns; None when it raises a ValueError, which is reported after ``prefix``."""
        try:
            return read(*arguments, **named)
        except ValueError as error:
            self.problem(place, f"{prefix}{error}")
            return None

    def note(self, place: Place, text: str) -> None:
        """Adds a note."""
        self._notes.setdefault(f"{place}: {shortened(printable(text))}")

    def extend(self, other: Report) -> None:
        """Adds all problems and notes of another report."""
        for problem in other.sorted_problems():
            self.problem(Place(problem.file, problem.line), problem.text)
        self._notes.update(other._notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, in the order in which they were added."""
        return tuple(self._notes)

    def sorted_problems(self) -> tuple[Problem, ...]:
        """All problems: files in the order of their first problem, then by line."""
        order = {file: number for number, file in enumerate(self._files)}
        return tuple(sorted(self._problems, key=lambda problem: (order[problem.file], problem.line)))

    def raise_if_any(self) -> None:
        """
        :raises ConfigurationError: when there are problems.
        """
        if self._problems:
            raise ConfigurationError(self.sorted_problems())


class Scalar(NamedTuple):
    """A value as it was written.

    :param quoted: it was in quotes, so it is a text.
    :param json: it is from JSON, where a text must be in quotes.
    :param origin: where it comes from if not from its place: ``environment SEED``.
    :param is_null: it means no value.
    """

    place: Place
    text: str
    quoted: bool = False
    json: bool = False
    origin: str = ""
    is_null: bool = False


def scalar_of(place: Place, text: str, quoted: bool = False, json: bool = False, origin: str = "") -> Scalar:
    """A value; without quotes some texts are null, and with an origin an empty text is."""
    is_null = not quoted and (not text if origin else text in _NULLS)
    return Scalar(place, text, quoted, json, origin, is_null)


@dataclass(frozen=True)
class Listing:
    """A list.

    :param weight: how many values it holds, itself counted, for the limit of a document in which aliases repeat them.
    :param depth: its levels, for the same.
    """

    place: Place
    items: tuple[Node, ...]
    weight: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Table:
    """A mapping, in the order written; weight and depth as of a list."""

    place: Place
    entries: tuple[tuple[Scalar, Node], ...]
    weight: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def get(self, key: str) -> Node | None:
        return next((value for name, value in self.entries if name.text == key), None)


Node = Scalar | Listing | Table


def entries_of(node: Node | None) -> tuple[tuple[Scalar, Node], ...]:
    """The entries of a mapping; none of anything else."""
    return node.entries if isinstance(node, Table) else ()


#: Puts variables into the text of a value: text -> text, origin. Raises ValueError.
Expand = Callable[[str], tuple[str, str]]


class SyntaxProblem(Exception):
    """Text that is not a document; the rest of it cannot be read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class NodeBuilder:
    """Builds the nodes of one document and enforces the limits.

    :param expand: None: texts are left as they are.
    :param lines: False: all nodes have one place, without a line (an option, a default).
    """

    def __init__(
        self, file: str, report: Report, expand: Expand | None = None, *, json: bool = False, lines: bool = True
    ) -> None:
        self._report = report
        self._expand = expand
        self._json = json
        self._lines = lines
        self._written = 0
        self._place = Place(file)

    def place(self, line: int) -> Place:
        if self._lines and self._place.line != line:
            self._place = Place(self._place.file, line)
        return self._place

    def check_level(self, level: int, line: int) -> None:
        """
        :raises SyntaxProblem: when a list or mapping is too deep.
        """
        if level > DEEPEST:
            raise SyntaxProblem(line, f"is nested deeper than {DEEPEST} levels")

    def key(self, text: str, line: int) -> Scalar:
        """A key: no variables in it."""
        self._count(line)
        return Scalar(self.place(line), text, True, self._json)

    def scalar(self, text: str, line: int, *, quoted: bool) -> Scalar:
        """A value, with its variables replaced."""
        self._count(line)
        place = self.place(line)
        origin = ""
        if self._expand is not None and "$" in text:
            try:
                text, origin = self._expand(text)
            except ValueError as error:
                self._report.problem(place, str(error))
            else:
                # A number in quotes is a text, but a variable in quotes may hold a number.
                quoted = quoted and not origin
        if not text.isascii() or "\0" in text:
            text = self._checked(text, place)
        return scalar_of(place, text, quoted, self._json and not origin, origin)

    def listing(self, items: list[Node], line: int) -> Listing:
        return Listing(self.place(line), tuple(items), self._weight(items, line), _depth(items))

    def table(self, entries: list[tuple[Scalar, Node]], line: int) -> Table:
        """A mapping; keys that are given twice are problems."""
        first: dict[str, Scalar] = {}
        kept = []
        for key, value in entries:
            if key.text in first:
                at = first[key.text].place.line
                self._report.problem(key.place, f"{key.text!r} is given twice (first in line {at}): remove one")
            else:
                first[key.text] = key
                kept.append((key, value))
        values = [value for _, value in kept]
        return Table(self.place(line), tuple(kept), self._weight(values, line), _depth(values))

    def _checked(self, text: str, place: Place) -> str:
        if not _NO_TEXT.search(text):
            return text
        self._report.problem(place, "has a NUL character or half a surrogate pair in a text")
        return ""

    def _count(self, line: int) -> None:
        self._written += 1
        if self._written > MAX_VALUES:
            raise _too_many(line)

    def _weight(self, children: list[Node], line: int) -> int:
        weight = 1
        for child in children:
            weight += 1 if isinstance(child, Scalar) else child.weight
        if weight > MAX_VALUES:
            raise _too_many(line)
        self._count(line)
        return weight


def depth_of(node: Node) -> int:
    """The levels of lists and mappings of a node; 0 for a scalar."""
    return 0 if isinstance(node, Scalar) else node.depth


def _depth(children: list[Node]) -> int:
    return 1 + max(map(depth_of, children), default=0)


def _too_many(line: int) -> SyntaxProblem:
    return SyntaxProblem(line, f"has more than {MAX_VALUES} values (aliases count as often as they are used)")
