"""Text to a tree of nodes that know their places: YAML by its events, JSON by a reader of its own.

No scalar is interpreted here: what ``98:1:0``, ``on`` or ``2024-01-01`` is decides the schema that
expects it, from the text as it was written.

What is wrong with a configuration, and where: gathered, then told all at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file; line 0 stands for the whole (a missing file, an option)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


#: The place of what nobody wrote.
DEFAULT: Final = Place("default")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and what would be right."""

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


class Report:
    """Collects problems (which forbid the configuration) and notes (which do not)."""

    def __init__(self) -> None:
        self._problems: dict[Problem, None] = {}
        self._notes: dict[str, None] = {}
        self._files: dict[str, None] = {}

    def problem(self, place: Place, text: str) -> None:
        """Something is wrong at a place; the same said twice is kept once."""
        self._files.setdefault(place.file)
        self._problems.setdefault(Problem(place.file, place.line, text))

    def note(self, place: Place, text: str) -> None:
        """Something at a place is worth knowing."""
        self._notes.setdefault(f"{place}: {text}")

    def extend(self, other: Report) -> None:
        """Takes over what another report has."""
        for problem in other.sorted_problems():
            self.problem(Place(problem.file, problem.line), problem.text)
        self._notes.update(other._notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, in the order they were made."""
        return tuple(self._notes)

    def sorted_problems(self) -> tuple[Problem, ...]:
        """All problems: file by file as they were met, and by line in a file."""
        order = {file: number for number, file in enumerate(self._files)}
        return tuple(sorted(self._problems, key=lambda problem: (order[problem.file], problem.line)))

    def raise_if_any(self) -> None:
        """
        :raises ConfigurationError: when there are problems.
        """
        if self._problems:
            raise ConfigurationError(self.sorted_problems())

#: Levels of nesting a document may have.
DEEPEST: Final = 64
#: Values a document may have, aliases counted as often as they are used.
MAX_VALUES: Final = 200_000

_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))


@dataclass(frozen=True)
class Scalar:
    """A value as it was written.

    :param quoted: it was in quotes: a text, whatever it looks like.
    :param json: it is from JSON, where a text must be in quotes.
    :param origin: where it comes from when not from its place: ``environment SEED``.
    """

    place: Place
    text: str
    quoted: bool = False
    json: bool = False
    origin: str = ""
    weight: int = 1
    depth: int = 0

    @property
    def is_null(self) -> bool:
        """Whether it says that there is no value."""
        if self.quoted:
            return False
        return not self.text if self.origin else self.text in _NULLS


@dataclass(frozen=True)
class Listing:
    """A list."""

    place: Place
    items: tuple[Node, ...]
    weight: int = 1
    depth: int = 1
    origin: str = ""


@dataclass(frozen=True)
class Table:
    """A mapping, in the order written."""

    place: Place
    entries: tuple[tuple[Scalar, Node], ...]
    weight: int = 1
    depth: int = 1
    origin: str = ""

    def get(self, key: str) -> Node | None:
        """The value of a key."""
        return next((value for name, value in self.entries if name.text == key), None)


Node = Scalar | Listing | Table

#: Fills variables into the text of a value: text and quoted -> text, origin. Raises ValueError.
Expand = Callable[[str], tuple[str, str]]


class SyntaxProblem(Exception):
    """Text that is no document; nothing after it can be read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class Growth:
    """Builds nodes and holds them to the limits.

    :param expand: None: texts are taken as they are.
    :param lines: False: all of it is one place without lines (an option, a default).
    """

    def __init__(
        self, file: str, report: Report, expand: Expand | None = None, *, json: bool = False, lines: bool = True
    ) -> None:
        self.file = file
        self._report = report
        self._expand = expand
        self._json = json
        self._lines = lines
        self._written = 0

    def place(self, line: int) -> Place:
        """A line of this document."""
        return Place(self.file, line if self._lines else 0)

    def entered(self, level: int, line: int) -> None:
        """A list or mapping begins, ``level`` deep.

        :raises SyntaxProblem: when that is too deep.
        """
        if level > DEEPEST:
            raise SyntaxProblem(line, f"is nested deeper than {DEEPEST} levels")

    def key(self, text: str, line: int) -> Scalar:
        """A key: no variables in it."""
        self._counted(1, line)
        return Scalar(self.place(line), text, quoted=True, json=self._json)

    def scalar(self, text: str, line: int, *, quoted: bool) -> Scalar:
        """A value, its variables filled in."""
        self._counted(1, line)
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
        if _NO_TEXT.search(text):
            self._report.problem(place, "has a NUL character or half a surrogate pair in a text")
            text = ""
        return Scalar(place, text, quoted, self._json and not origin, origin)

    def listing(self, items: list[Node], line: int) -> Listing:
        """A list."""
        return Listing(self.place(line), tuple(items), self._weight(items, line), _depth(items))

    def table(self, entries: list[tuple[Scalar, Node]], line: int) -> Table:
        """A mapping; keys given twice are problems."""
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

    def _counted(self, more: int, line: int) -> None:
        self._written += more
        self._check(self._written, line)

    def _weight(self, children: list[Node], line: int) -> int:
        weight = 1 + sum(child.weight for child in children)
        self._check(weight, line)
        self._counted(1, line)
        return weight

    @staticmethod
    def _check(weight: int, line: int) -> None:
        if weight > MAX_VALUES:
            raise SyntaxProblem(line, f"has more than {MAX_VALUES} values (aliases count as often as they are used)")


def _depth(children: list[Node]) -> int:
    return 1 + max((child.depth for child in children), default=0)
