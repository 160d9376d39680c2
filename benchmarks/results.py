"""What benchmarks find, and how it is written down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Target:
    """What a figure should be.

    :param most: whether it should be at most the limit, else at least.
    """

    limit: float
    most: bool = True
    unit: str = ""

    def is_met(self, value: float) -> bool:
        """Whether the figure is good."""
        return value <= self.limit if self.most else value >= self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.most else '>='} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Row:
    """One line of a table: what was measured, its figures as text, and the one that has a target."""

    name: str
    figures: Sequence[str]
    judged: float | None = None
    target: Target | None = None

    @property
    def verdict(self) -> str:
        """How the figure stands to its target."""
        if self.target is None or self.judged is None:
            return ""
        return f"{self.target}: {'met' if self.target.is_met(self.judged) else '**missed**'}"


@dataclass
class Section:
    """A table with its explanation."""

    title: str
    text: str
    columns: Sequence[str]
    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, *figures: str, judged: float | None = None, target: Target | None = None) -> None:
        """One more row."""
        self.rows.append(Row(name, figures, judged, target))

    def markdown(self, *, with_method: bool = True) -> str:
        """The section as a part of a page.

        :param with_method: whether it says how it was measured; else its first sentence alone, and when that was.
        """
        columns = ["", *self.columns, "target"]
        lines = [f"## {self.title}", "", self.text.strip() if with_method else without_method(self.text), ""]
        lines += [_table_line(columns), _table_line(["---"] * len(columns))]
        lines += [_table_line([row.name, *row.figures, row.verdict]) for row in self.rows]
        return "\n".join(lines) + "\n"


def without_method(text: str) -> str:
    """The first sentence of a section's text, and the paragraph that says when it was measured."""
    first, *others = text.strip().split("\n\n")
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z*`])", first, maxsplit=1)[0]
    kept = [" ".join(sentence.split())]
    return "\n\n".join(kept + [other for other in others if other.startswith("Measured on")])


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def ms(seconds: float) -> str:
    """Seconds as milliseconds."""
    milliseconds = seconds * 1000
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"


def middle(rounds: Sequence[dict[str, float]], key: str) -> float:
    """The median of one figure over the rounds."""
    return median(each[key] for each in rounds)
