"""Problems of the files of a trace: each with file and line, told together, and lines that may be left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

#: The most problems that are told; the reading ends there.
MOST_PROBLEMS: Final = 20


class TraceProblems(ValueError):
    """A file that cannot be used; ``str`` of it is a line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass
class Lenience:
    """How many lines with a problem may be left out, of all files together.

    :ivar left_out: the problems of the lines that were.
    """

    most: int = 0
    left_out: list[str] = field(default_factory=list)

    def takes(self, problem: str) -> bool:
        """Whether one more line may be left out."""
        if len(self.left_out) >= self.most:
            return False
        self.left_out.append(problem)
        return True


class FileProblems:
    """The problems of one file.

    :param shown: how they name the file.
    """

    def __init__(self, shown: str, lenience: Lenience) -> None:
        self.shown = shown
        self._lenience = lenience
        self._found: list[str] = []

    def add(self, line: int, text: str) -> None:
        """Note what makes the file useless."""
        self._found.append(f"{self.shown}:{line}: {text}")

    def note(self, line: int, text: str) -> None:
        """Note what makes a line useless, unless it may be left out.

        :raises TraceProblems: when there are too many.
        """
        if self._lenience.takes(f"{self.shown}:{line}: {text}"):
            return
        self.add(line, text)
        if len(self._found) >= MOST_PROBLEMS:
            raise TraceProblems([*self._found, f"{self.shown}: further lines were not read"])

    def end(self) -> None:
        """Nothing more is read.

        :raises TraceProblems: when there are any.
        """
        if self._found:
            raise TraceProblems(self._found)
