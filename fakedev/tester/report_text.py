"""Statistics as text for people: titles underlined with =, histograms of #."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.statistics import ALL, PARTS, ByName, Count, NodeTally, Statistics, Tally

#: The widest bar of a histogram, in characters.
WIDEST_BAR = 60
_NOTHING = "(none)"
_NAMELESS = "(no name)"


def statistics_text(title: str, statistics: Statistics, now: float, waiting: int = 0) -> str:
    """All about the requests themselves.

    :param waiting: arrivals that wait now.
    """
    kinds = ", ".join(f"{count} {outcome.value}" for outcome, count in statistics.failures.items() if count)
    before = statistics.outstanding - statistics.pending
    rows = [
        ("seconds", f"{now - statistics.begin:.3f}"),
        ("requests per second", f"{statistics.rate(now):.6f}, now {statistics.rate_now(now):.6f}"),
        ("started", str(statistics.started_count)),
        ("outstanding", f"{statistics.outstanding}" + (f", {before} of them since before the reset" if before else "")),
        ("completed", str(statistics.completed)),
        ("successes", str(statistics.successes)),
        ("failures", f"{statistics.failed}" + (f": {kinds}" if kinds else "")),
        ("withdrawn", str(statistics.withdrawn)),
        ("late, dropped, waiting", f"{statistics.late}, {statistics.dropped}, {waiting}"),
        ("reconnects", str(statistics.reconnects)),
    ]
    lines = [*_titled(title), *(f"{name:24}{value}" for name, value in rows), ""]
    lines += [*_titled("Times in seconds"), f"{'':14}" + "".join(f"{point:>12}" for point in POINTS)]
    lines += [
        f"{part:14}" + "".join(f"{point_of(statistics.timings[part], point):12.6f}" for point in POINTS)
        for part in PARTS
    ]
    return "\n".join([*lines, "", *errors_lines(statistics), ""])


def progress_text(statistics: Statistics, now: float) -> str:
    """How it goes, in a line."""
    total = statistics.timings["total"]
    return (
        f"{now - statistics.begin:.0f} s: {statistics.successes} good, {statistics.failed} failed, "
        f"{statistics.outstanding} under way, {statistics.rate_now(now):.1f}/s now, {statistics.rate(now):.1f}/s, "
        f"total p50 {total.quantile(0.5):.3f} s, p99 {total.quantile(0.99):.3f} s"
    )


def errors_lines(statistics: Statistics) -> list[str]:
    """The error texts, with how often each came."""
    lines = [f"{count.value:8}  {text}" for text, count in statistics.errors.items()]
    return [*_titled("Errors"), *(lines or [_NOTHING])]


def nodes_text(statistics: Statistics, which: range = ALL) -> str:
    """How the answers spread over nodes, and those of each node over its devices and pods."""
    lines = [*_titled("Requests by node"), *_bars(statistics.nodes, which), ""]
    lines += [*_titled("Run times by node, in seconds"), *_runs(statistics.nodes, which), ""]
    for name, tally in statistics.nodes.items(which):
        lines += [*_titled(f"Run times of {name or _NAMELESS}"), *_run_bars(tally), ""]
        lines += [*_titled(f"Devices of {name or _NAMELESS}"), *_count_bars(tally.devices), ""]
        lines += [*_titled(f"Pods of {name or _NAMELESS}"), *_count_bars(tally.pods), ""]
    return "\n".join(lines)


def pods_text(statistics: Statistics, which: range = ALL) -> str:
    """How the answers spread over pods."""
    lines = [*_titled("Requests by pod"), *_bars(statistics.pods, which), ""]
    return "\n".join([*lines, *_titled("Run times by pod, in seconds"), *_runs(statistics.pods, which), ""])


def more_text(count: int, which: range) -> str:
    """What is told when there are more than those that are shown; nothing when there are not."""
    return f"{count - which.stop} more: offset={which.stop}" if count > which.stop else ""


def findings_text(findings: Iterable[Finding]) -> str:
    """A line for each expectation."""
    lines = []
    for finding in findings:
        measured = "nothing was measured" if finding.measured is None else measured_text(finding)
        lines.append(f"{'met    ' if finding.is_met else 'NOT MET'}  {finding.expectation.text}  ({measured})")
    return "\n".join([*_titled("Expectations"), *lines, ""]) if lines else ""


def measured_text(finding: Finding) -> str:
    """What was measured, in the unit of the expectation."""
    measured, subject = finding.measured or 0.0, finding.expectation.subject
    if finding.expectation.is_share:
        return f"{measured:.3%}"
    if subject == "rate":
        return f"{measured:.6g}/s"
    return f"{measured:.6g} s" if "." in subject else f"{measured:.0f}"


def _titled(title: str) -> list[str]:
    return [title, "=" * len(title)]


def _bars(tallies: ByName[Tally] | ByName[NodeTally], which: range) -> list[str]:
    counts = [(name or _NAMELESS, tally.answers) for name, tally in tallies.items(which)]
    return _bar_lines(counts, sum(tally.answers for tally in tallies.values()), more_text(len(tallies), which))


def _count_bars(counts: ByName[Count]) -> list[str]:
    return _bar_lines([(name or _NAMELESS, count.value) for name, count in counts.items()])


def _run_bars(tally: Tally) -> list[str]:
    return _bar_lines([(range_text(bound), count) for bound, count in tally.run_ranges()])


def range_text(bound: float) -> str:
    """The words for run times up to a bound in seconds, and longer than the one before."""
    return f"up to {bound:g} s" if math.isfinite(bound) else "longer"


def _bar_lines(counts: list[tuple[str, int]], total: int = 0, more: str = "") -> list[str]:
    """
    :param total: what all have, those that are not shown too; 0: what these have.
    """
    total = total or sum(count for _, count in counts)
    width = max((len(name) for name, _ in counts), default=0)
    lines = []
    for name, count in counts:
        bar = "#" * round(WIDEST_BAR * count / total)
        lines.append(f"{name:{width}} | {bar}{' ' if bar else ''}{100 * count / total:.1f}% ({count})")
    return [*(lines or [_NOTHING]), *([more] if more else [])]


def _runs(tallies: ByName[Tally] | ByName[NodeTally], which: range) -> list[str]:
    points = ("min", "mean", "p50", "p99", "max")
    shown = list(tallies.items(which))
    width = max((len(name or _NAMELESS) for name, _ in shown), default=0)
    lines = [f"{'':{width}}" + "".join(f"{word:>12}" for word in (*points, "failures"))]
    for name, tally in shown:
        numbers = "".join(f"{point_of(tally.run, point):12.6f}" for point in points)
        error = f"  {tally.last_error}" if tally.last_error else ""
        lines.append(f"{name or _NAMELESS:{width}}{numbers}{tally.failures:12}{error}")
    return lines if len(lines) > 1 else [_NOTHING]
