"""What becomes of each expression at an upgrade, and the report of it as Markdown and HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fakedev.base.html import mark, page, table
from fakedev.scenario.scores.upgrade import in_words

UNCHANGED: Final = "unchanged"
SILENT: Final = "silent"
NOT_TRIED: Final = "not tried"
#: The old release does not show its metrics: they belong to other exporters, or to other counters.
NOT_SHOWN: Final = "not shown"
#: What needs no attention.
AS_BEFORE: Final = (UNCHANGED, NOT_SHOWN)
#: It has a result only on the new pages.
_APPEARS: Final = "appears"
#: Exporters round: a ratio to two decimals, and memory to MiB.
_TOLERANCE: Final = 0.03
_NEXT_TO_NOTHING: Final = 0.01
TITLES: Final = ("name", "after the upgrade", "rewritten", "with old names", "changes")


class Measured(NamedTuple):
    """The result of an expression: how many series it has, and their lowest and highest value."""

    series: float
    least: float
    most: float


@dataclass(frozen=True)
class Finding:
    """What becomes of an expression.

    :ivar place: its file and line, or the file of its dashboard.
    :ivar name: of the alert, the recorded series or the panel.
    :ivar changes: of the metrics and labels that it names, in words.
    :ivar rewritten: the expression for the new release; ``proved``: whether that shows or fires as it did,
        ``bridged``: whether the old one does, with the recording rules; None: nothing that was tried shows it.
    :ivar reason: why it was not tried.
    :ivar factor: from old values to new ones; None where they do not differ by one factor.
    """

    place: str
    name: str
    expression: str
    verdict: str
    changes: Sequence[str]
    rewritten: str
    proved: bool | None = None
    bridged: bool | None = None
    reason: str = ""
    factor: float | None = None


def verdict_of_fires(
    before: Collection[int], after: Collection[int], named: Sequence[str], *, is_new: bool = False
) -> str:
    """What becomes of an alert.

    :param before, after: the faults with which it fires, on the pages of the old and of the new release; numbers
        below 0 are alarms without a fault, which nobody misses.
    :param named: what changes of what it names.
    :param is_new: whether the old pages lack a metric that it names, so that it could not fire with them.
    """
    seen = {number for number in before if number >= 0}
    if missed := seen - set(after):
        return f"misses {len(missed)} of {len(seen)}" if after else SILENT
    if set(after) - set(before):
        return _APPEARS if is_new and not before else "false alarms"
    return NOT_TRIED if not before and named else UNCHANGED


def verdict_of_values(
    before: Measured | str | None, after: Measured | str | None, named: Sequence[str], factors: Collection[float]
) -> tuple[str, float | None]:
    """What becomes of a query, and the factor by which its values differ.

    :param factors: of the metrics that it names, by their units.
    """
    if isinstance(before, str) or (before is None and after is None):
        return NOT_TRIED if named else UNCHANGED, None
    if not isinstance(after, Measured):
        return SILENT, None
    if before is None:
        return _APPEARS, None
    if are_alike(before, after):
        return UNCHANGED, None
    if before.series != after.series:
        return f"{after.series:.0f} instead of {before.series:.0f} series", None
    ratio = after.most / before.most if before.most else math.nan
    ratio = next((factor for factor in factors if math.isclose(factor, ratio, rel_tol=_TOLERANCE)), ratio)
    is_scaled = math.isfinite(ratio) and ratio > 0 and _is_close(before.least * ratio, after.least, after.most)
    return (in_words(ratio), ratio) if is_scaled else ("other values", None)


def are_alike(one: Measured | str | None, other: Measured | str | None) -> bool:
    """Whether two results are the same but for what exporters round."""
    if not (isinstance(one, Measured) and isinstance(other, Measured)):
        return False
    scale = max(map(abs, (one.most, one.least)))
    ends = ((one.least, other.least), (one.most, other.most))
    return one.series == other.series and all(_is_close(*pair, scale) for pair in ends)


def _is_close(one: float, other: float, scale: float) -> bool:
    is_same = one == other or (math.isnan(one) and math.isnan(other))
    return is_same or math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_NEXT_TO_NOTHING * abs(scale))


def as_markdown(title: str, findings: Sequence[Finding]) -> str:
    """A page for a repository or a pull request: two tables, and the expressions that replace others."""
    lines = _markdown_table(TITLES, map(cells, findings))
    if files := by_file(findings):
        lines = [*_markdown_table(tuple(files[0]), (tuple(row.values()) for row in files)), "", *lines]
    for each in rewritten_ones(findings):
        lines += ["", f"{each.name} ({each.place}):", "", "```promql", each.rewritten.strip(), "```"]
    return "\n".join([f"# {title}", "", summary(findings), "", *lines, ""])


def _markdown_table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    every = (titles, ("---",) * len(titles), *rows)
    return [" | ".join(["", *(cell.replace("|", "\\|") for cell in row), ""]).strip() for row in every]


def as_html(title: str, findings: Sequence[Finding]) -> str:
    """The same as one page, which loads nothing else."""
    rows = [(name, mark(verdict, verdict in AS_BEFORE), *others) for name, verdict, *others in map(cells, findings)]
    files = by_file(findings)
    body = table(list(map(str.capitalize, files[0])), (list(row.values()) for row in files)) if files else []
    body += table(list(map(str.capitalize, TITLES)), rows)
    changed = [(each.name, each.place, each.expression, each.rewritten) for each in rewritten_ones(findings)]
    if changed:
        body += ["<h2>Expressions</h2>", *table(["Name", "Place", "Now", "Rewritten"], changed)]
    return page(title, [f"<p>{summary(findings)}</p>", *body])


def by_file(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """How many expressions of each file are as they were, or not; none for a single file."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        file, _, line = finding.place.rpartition(":")
        files.setdefault(file if line.isdecimal() else finding.place, []).append(finding)
    if len(files) < 2:
        return []
    return [
        {
            "file": file, "expressions": str(len(of)),
            "change": str(sum(finding.verdict not in (*AS_BEFORE, NOT_TRIED) for finding in of)),
            "not tried": str(sum(finding.verdict == NOT_TRIED for finding in of)),
            "right when rewritten": str(sum(each.proved is True and each.verdict not in AS_BEFORE for each in of)),
        }
        for file, of in files.items()
    ]  # fmt: skip


def rewritten_ones(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Those whose expression is another one for the new release."""
    yield from (finding for finding in findings if finding.rewritten != finding.expression)


def cells(finding: Finding) -> tuple[str, ...]:
    """A row of the table, with a cell for each of TITLES."""
    proofs = (
        "-" if each is None else "as before" if each else "not as before" for each in (finding.proved, finding.bridged)
    )
    changes = "; ".join([*finding.changes, *filter(None, [finding.reason])]) or "-"
    return (finding.name, finding.verdict, *proofs, changes)


def summary(findings: Sequence[Finding]) -> str:
    """How many expressions there are of each verdict."""
    counts = Counter(finding.verdict for finding in findings).most_common()
    return f"{len(findings)} expressions: " + ", ".join(f"{count} {verdict}" for verdict, count in counts)
