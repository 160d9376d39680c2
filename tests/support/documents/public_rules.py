"""What makes published alert rules for dcgm-exporter fire, or why nothing can, in doc/alert-rules.md.

``tests/data/public-rules.tsv`` has their expressions and durations, each once, from some 40 public repositories and
guides that a search found in November 2026, and no text of theirs; with the cause that made each fire in trials of
``fakedev faults --for`` (H100, with a counters file that has every field that they name).
``PYTHONPATH=. python -m tests.support.documents.public_rules`` writes the section of the document.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.support.documents.sections import with_section
from tests.support.paths import DATA, DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "alert-rules.md"
FILE: Final = DATA / "public-rules.tsv"
_HEAD: Final = "## Published rules for dcgm-exporter\n"


class Published(NamedTuple):
    """A rule.

    :ivar waits: its duration, empty for none.
    :ivar cause: the fault, as words of ``fakedev fault``, or the work (``an idle board``) that makes it fire.
    :ivar defect: what is wrong with a rule that nothing makes fire, or that says something else than its name.
    """

    expression: str
    waits: str
    cause: str
    defect: str

    @property
    def needs_fault(self) -> bool:
        return bool(self.cause) and not self.cause.startswith(("a ", "an "))


def published() -> Sequence[Published]:
    """All rules of the file."""
    with FILE.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [Published(*row) for row in rows]


def section(rules: Sequence[Published]) -> str:
    """The section of the document."""
    by_fault = [rule for rule in rules if rule.needs_fault]
    by_work = [rule for rule in rules if rule.cause and not rule.needs_fault]
    causes = Counter(each.cause for each in by_fault).most_common()
    lines = [
        _HEAD,
        f"{len(rules)} different rules of some 40 public repositories and guides, found by a search in November 2026 "
        "(`tests/data/public-rules.tsv` has their expressions, durations and causes), tried on H100 with a counters",
        "file that has every field they name: 18 faults, an idle, a busy and a full board; rules that look back or "
        "wait for longer, with all faults; what was left also with a pod that only holds memory, little work, links "
        f"that flap and a node that has lost all boards. {len(by_fault)} fire by a fault, {len(by_work)} by work",
        f"alone, {len(rules) - len(by_fault) - len(by_work)} by none of these.",
        "By " + ", ".join(f"`{cause}` {count}" for cause, count in causes) + ".",
        "What does not fire, or not for what it says:",
        "",
        "| expression | for | |",
        "|---|---|---|",
        *(f"| `{_escaped(rule.expression)}` | {rule.waits or '-'} | {rule.defect} |" for rule in rules if rule.defect),
    ]
    return "\n".join(lines) + "\n"


def _escaped(expression: str) -> str:
    return expression.replace("|", "\\|")


def with_own_section(document: str) -> str:
    """A document with the section in its place."""
    return with_section(document, _HEAD, section(published()))


if __name__ == "__main__":
    DOCUMENT.write_text(with_own_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
