"""What ``fakedev conform`` says: as text, JSON and HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from fakedev.base.html import bullets, page, table
from fakedev.exporters.conform import Conformity

#: What the differences of an aspect are called.
KINDS: Final = {
    "family": "families", "labels": "labels", "HELP": "texts (HELP)", "TYPE": "types", "numbers": "formats of numbers",
    "range": "magnitudes", "order": "order", "layout": "layout",
}  # fmt: skip
#: Number of other identities that are named with the best one.
_OTHERS: Final = 3


@dataclass(frozen=True)
class Scored:
    """A comparison.

    :param title: of the page.
    :param identity: its name, as it was asked for; empty for a page of a file.
    :param own: counters of the page that only the user's counters file has.
    """

    title: str
    result: Conformity
    identity: str = ""
    device: str = ""
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The comparisons of a capture, the best first; at least one.

    :param notes: remarks on how they were made.
    """

    capture: str
    scores: tuple[Scored, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Scored:
        """The most similar page."""
        return self.scores[0]

    def text(self) -> str:
        """Lines: the score, remarks, and the differences by kind."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        result = self.best.result
        yield f"{self.best.title} against {self.capture}: {_score(result)}"
        yield from (f"  note: {note}" for note in self.notes)
        if len(self.scores) > 1 and result.differences:
            others = ", ".join(f"{score.title} {score.result.percent:.1f} %" for score in self.scores[1 : _OTHERS + 1])
            yield f"  note: the nearest of {len(self.scores)} identities; next: {others}"
        for aspect, found in result.by_aspect.items():
            yield f"  {KINDS[aspect]}: {len(found)}"
            yield from (f"    {difference}" for difference in found)

    def values(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "capture": self.capture,
            "notes": list(self.notes),
            "scores": [
                {
                    "page": score.title,
                    "percent": round(score.result.percent, 3),
                    "met": score.result.met,
                    "aspects": score.result.aspects,
                    "differences": {
                        aspect: [{"family": one.family, "difference": one.words} for one in found]
                        for aspect, found in score.result.by_aspect.items()
                    },
                }
                for score in self.scores
            ],
        }

    def file(self, path: str) -> str:
        """The report as a file has it: HTML or JSON, by the end of its name."""
        return self.html() if path.endswith(".html") else json.dumps(self.values(), indent=1) + "\n"

    def html(self) -> str:
        """A page that loads nothing else; every text is escaped."""
        body = [f"<p>Against {escape(self.capture)}.</p>", *(f"<p>Note: {escape(note)}</p>" for note in self.notes)]
        body += table(("page", "score"), ((score.title, _score(score.result)) for score in self.scores))
        for aspect, found in self.best.result.by_aspect.items():
            body += [f"<h2>{KINDS[aspect].capitalize()}: {len(found)}</h2>", *bullets(map(str, found))]
        return page(f"fakedev conform: {self.best.title}", body)


def _score(result: Conformity) -> str:
    return f"{result.percent:.1f} % ({result.met} of {result.aspects} aspects)"


