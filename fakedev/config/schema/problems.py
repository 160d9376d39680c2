"""What is wrong with a configuration, and where: gathered, then told all at once."""

from __future__ import annotations

from collections.abc import Iterable
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
