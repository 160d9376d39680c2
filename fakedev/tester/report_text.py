"""Statistics as text: titles underlined with =, histograms of #."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.statistics import PARTS, Statistics
from fakedev.tester.tallies import ALL, TALLY_POINTS, ByName, Count, Tallies

#: Maximum length of a bar, in characters.
MAX_BAR = 60
_NOTHING = "(none)"
_NAMELESS = "(no name)"


def statistics_text(title: str, statistics: Statistics, now: float, waiting: int = 0) -> str:
    """The requests.

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
    lines = [*titled(title), *(f"{name:24}{value}" for name, value in rows), ""]
    lines += [*titled("Times in seconds"), f"{'':14}" + "".join(f"{point:>12}" for point in POINTS)]
    lines += [
        f"{part:14}" + "".join(f"{point_of(statistics.timings[part], point):12.6f}" for point in POINTS)
        for part in PARTS
    ]
    errors = [f"{count.value:8}  {text}" for text, count in statistics.errors.items()] or [_NOTHING]
    return "\n".join([*lines, "", *titled("Errors"), *errors, ""])


def progress_text(statistics: Statistics, now: float) -> str:
    """The progress of a run, in one line."""
    total = statistics.timings["total"]
    return (
        f"{now - statistics.begin:.0f} s: {statistics.successes} good, {statistics.failed} failed, "
        f"{statistics.outstanding} under way, {statistics.rate_now(now):.1f}/s now, {statistics.rate(now):.1f}/s, "
        f"total p50 {total.quantile(0.5):.3f} s, p99 {total.quantile(0.99):.3f} s"
    )


def nodes_text(statistics: Statistics, which: range = ALL) -> str:
    """The distribution of answers over nodes, and over the devices and pods of each node."""
    lines = [*titled("Requests by node"), *_bars(statistics.nodes, which), ""]
    lines += [*titled("Run times by node, in seconds"), *_runs(statistics.nodes, which), ""]
    for name, tally in statistics.nodes.items(which):
        ranges = [(range_text(bound), count) for bound, count in tally.run_ranges()]
        lines += [*titled(f"Run times of {name or _NAMELESS}"), *bar_lines(ranges), ""]
        lines += [*titled(f"Devices of {name or _NAMELESS}"), *_count_bars(tally.devices), ""]
        lines += [*titled(f"Pods of {name or _NAMELESS}"), *_count_bars(tally.pods), ""]
    return "\n".join(lines)


def pods_text(statistics: Statistics, which: range = ALL) -> str:
    """The distribution of answers over pods."""
    lines = [*titled("Requests by pod"), *_bars(statistics.pods, which), ""]
    return "\n".join([*lines, *titled("Run times by pod, in seconds"), *_runs(statistics.pods, which), ""])


def more_text(count: int, which: range) -> str:
    """The hint at further entries; empty if all are shown."""
    return f"{count - which.stop} more: offset={which.stop}" if count > which.stop else ""


def findings_text(findings: Iterable[Finding]) -> str:
    """A line for each expectation."""
    lines = []
    for finding in findings:
        measured = "nothing was measured" if finding.measured is None else measured_text(finding)
        lines.append(f"{'met    ' if finding.is_met else 'NOT MET'}  {finding.expectation.text}  ({measured})")
    return "\n".join([*titled("Expectations"), *lines, ""]) if lines else ""


def measured_text(finding: Finding) -> str:
    """The measured value, in the unit of the expectation."""
    measured, subject = finding.measured or 0.0, finding.expectation.subject
    if finding.expectation.is_share:
        return f"{measured:.3%}"
    if subject == "rate":
        return f"{measured:.6g}/s"
    return f"{measured:.6g} s" if "." in subject else f"{measured:.0f}"


def titled(title: str) -> list[str]:
    """A title, underlined."""
    return [title, "=" * len(title)]


def _bars(tallies: Tallies, which: range) -> list[str]:
    counts = [(name or _NAMELESS, tally.answers) for name, tally in tallies.items(which)]
    return bar_lines(counts, sum(tally.answers for tally in tallies.values()), more_text(len(tallies), which))


def _count_bars(counts: ByName[Count]) -> list[str]:
    return bar_lines([(name or _NAMELESS, count.value) for name, count in counts.items()])


def range_text(bound: float) -> str:
    """The text for a range of run times with an upper bound in seconds."""
    return f"up to {bound:g} s" if math.isfinite(bound) else "longer"


def bar_lines(counts: list[tuple[str, int]], total: int = 0, more: str = "", aligned: str = "<") -> list[str]:
    """Bars of counts.

    :param total: the sum of all counts, also of hidden ones; 0 for the sum of these.
    :param aligned: the side of the names, < or >.
    """
    total = total or sum(count for _, count in counts)
    width = max((len(name) for name, _ in counts), default=0)
    lines = []
    for name, count in counts:
        bar = "#" * round(MAX_BAR * count / total)
        lines.append(f"{name:{aligned}{width}} | {bar}{' ' if bar else ''}{100 * count / total:.1f}% ({count})")
    return [*(lines or [_NOTHING]), *([more] if more else [])]


def _runs(tallies: Tallies, which: range) -> list[str]:
    shown = list(tallies.items(which))
    width = max((len(name or _NAMELESS) for name, _ in shown), default=0)
    lines = [f"{'':{width}}" + "".join(f"{word:>12}" for word in (*TALLY_POINTS, "failures"))]
    for name, tally in shown:
        numbers = "".join(f"{point_of(tally.run, point):12.6f}" for point in TALLY_POINTS)
        error = f"  {tally.last_error}" if tally.last_error else ""
        lines.append(f"{name or _NAMELESS:{width}}{numbers}{tally.failures:12}{error}")
    return lines if len(lines) > 1 else [_NOTHING]
