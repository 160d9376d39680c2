"""The report of a run as text, JSON, CSV or HTML, in the format of a file's suffix.

- JSON and CSV: plain values under the names of doc/tester.md.
- Text: titles underlined with =, histograms of #; also in the words and rows of the original test client, which
  scripts read.
- HTML: one page with plots, which loads nothing else. Every text is escaped.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from fakedev.base.html import Markup, Series, distribution_plot, line_plot, mark, page, table
from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.plan import REPORT_SUFFIXES
from fakedev.tester.statistics import ALL, PARTS, TALLY_POINTS, ByName, Count, NodeTally, Statistics, Tallies, Tally


def statistics_values(statistics: Statistics, now: float, waiting: int = 0, which: range = ALL) -> dict[str, Any]:
    """All values of the statistics.

    :param waiting: arrivals that wait now.
    :param which: the indexes of the wanted nodes, devices and pods.
    """
    return {
        "seconds": _rounded(now - statistics.begin),
        "started": statistics.started_count,
        "outstanding": statistics.outstanding,
        "pending": statistics.pending,
        "completed": statistics.completed,
        "successes": statistics.successes,
        "failures": {
            "total": statistics.failed,
            **{outcome.value: count for outcome, count in statistics.failures.items()},
        },
        "withdrawn": statistics.withdrawn,
        "waiting": waiting,
        "late": statistics.late,
        "dropped": statistics.dropped,
        "reconnects": statistics.reconnects,
        "rate": _rounded(statistics.rate(now)),
        "rate-now": _rounded(statistics.rate_now(now)),
        "times": {
            part: {point: _rounded(point_of(statistics.timings[part], point)) for point in POINTS} for part in PARTS
        },
        "totals": totals(statistics),
        "nodes": tally_values("node", statistics.nodes, which),
        "devices": tally_values("device", statistics.devices, which),
        "pods": tally_values("pod", statistics.pods, which),
        "errors": [{"text": text, "count": count.value} for text, count in statistics.errors.items()],
    }


def totals(statistics: Statistics) -> dict[str, int]:
    """The numbers of nodes, devices and pods."""
    return {"nodes": len(statistics.nodes), "devices": len(statistics.devices), "pods": len(statistics.pods)}


def tally_values(what: str, tallies: Tallies, which: range = ALL) -> list[dict[str, Any]]:
    """Nodes, devices or pods, sorted by name."""
    return [tally_value(what, name, tally) for name, tally in tallies.items(which)]


def tally_value(what: str, name: str, tally: Tally) -> dict[str, Any]:
    """A node with its devices and pods, a device, or a pod.

    :param what: the key of its name.
    """
    value = {
        what: name,
        "answers": tally.answers,
        "failures": tally.failures,
        "last-error": tally.last_error,
        "run": {point: _rounded(point_of(tally.run, point)) for point in TALLY_POINTS},
        "run-histogram": [[bound if math.isfinite(bound) else None, count] for bound, count in tally.run_ranges()],
    }
    if isinstance(tally, NodeTally):
        value |= {"devices": _counts(tally.devices), "pods": _counts(tally.pods)}
    return value


def finding_values(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The result of each expectation."""
    return [
        {
            "expectation": finding.expectation.text,
            "measured": None if finding.measured is None else _rounded(finding.measured),
            "met": finding.is_met,
        }
        for finding in findings
    ]


def csv_text(plans: Mapping[str, dict[str, Any]]) -> str:
    """Statistics as CSV, one row for each number: plan, name, key, value.

    :param plans: :func:`statistics_values` by the name of the plan.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("plan", "name", "key", "value"))
    for plan, values in plans.items():
        writer.writerows((plan, *row) for row in _rows(values))
    return out.getvalue()


def _rows(values: Mapping[str, Any]) -> Iterable[tuple[str, str, Any]]:
    for key, value in values.items():
        if not isinstance(value, dict | list):
            yield "", key, value
    yield from (("failures", key, value) for key, value in values["failures"].items())
    yield from (("totals", key, value) for key, value in values["totals"].items())
    for part, points in values["times"].items():
        yield from ((part, point, value) for point, value in points.items())
    for what in ("node", "device", "pod"):
        # The prefix also prevents that a spreadsheet reads a name as a formula.
        for tally in values[f"{what}s"]:
            name = f"{what} {tally[what]}"
            yield name, "answers", tally["answers"]
            yield name, "failures", tally["failures"]
            yield from ((name, f"run-{point}", value) for point, value in tally["run"].items())
    yield from ((f"error {error['text']}", "count", error["count"]) for error in values["errors"])


def _counts(counts: ByName[Count]) -> dict[str, int]:
    return {name: count.value for name, count in counts.items()}


def _rounded(value: float) -> float:
    """To the microsecond: a measurement across a socket is not more precise."""
    return round(value, 6)


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
    lines = [
        f"{'met    ' if finding.is_met else 'NOT MET'}  {finding.expectation.text}  ({measured_text(finding)})"
        for finding in findings
    ]
    return "\n".join([*titled("Expectations"), *lines, ""]) if lines else ""


def measured_text(finding: Finding) -> str:
    """The measured value, in the unit of the expectation."""
    measured, subject = finding.measured, finding.expectation.subject
    if measured is None:
        return "nothing was measured"
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


_GOOD, _BAD, _PLAIN, _FAINT = "#2e9c5a", "#d64545", "#3b7dd8", "#e0902f"


def statistics_html(statistics: Statistics, now: float, waiting: int = 0) -> list[str]:
    """The requests, with plots.

    :param waiting: arrivals that wait now.
    """
    kinds = [(f"failures: {outcome.value}", count) for outcome, count in statistics.failures.items() if count]
    rows: list[tuple[str, object]] = [
        ("seconds", f"{now - statistics.begin:.3f}"),
        ("requests per second, over the run", f"{statistics.rate(now):.6f}"),
        ("requests per second, now", f"{statistics.rate_now(now):.6f}"),
        ("started", statistics.started_count),
        ("outstanding", statistics.outstanding),
        ("successes", statistics.successes),
        ("failures", statistics.failed),
        *kinds,
        ("withdrawn", statistics.withdrawn),
        ("late", statistics.late),
        ("dropped", statistics.dropped),
        ("waiting", waiting),
        ("reconnects", statistics.reconnects),
    ]
    times = [(part, *(f"{point_of(statistics.timings[part], point):.6f}" for point in POINTS)) for part in PARTS]
    errors = [(count.value, text) for text, count in statistics.errors.items()]
    return [
        *table(("", ""), rows),
        *_plots(statistics, now),
        "<h2>Times in seconds</h2>",
        *table(("", *POINTS), times),
        "<h2>Errors</h2>",
        *table(("times", "text"), errors),
    ]


def findings_html(findings: Sequence[Finding]) -> list[str]:
    """The results of the expectations; nothing if there are none."""
    if not findings:
        return []
    rows = [
        (
            mark("met" if finding.is_met else "not met", finding.is_met),
            finding.expectation.text,
            measured_text(finding),
        )
        for finding in findings
    ]
    return ["<h2>Expectations</h2>", *table(("", "", ""), rows)]


def tallies_html(what: str, tallies: Tallies, which: range = ALL) -> list[str]:
    """The distribution of answers over nodes, devices or pods, and their run times."""
    total = sum(tally.answers for tally in tallies.values())
    head = (what, "answers", "share", "", "failures", *(f"run {point}" for point in TALLY_POINTS), "last error")
    rows = [
        (
            name,
            tally.answers,
            f"{100 * tally.answers / total:.1f}%",
            Markup(f'<span class="bar" style="width:{100 * tally.answers / total:.0f}px"></span>'),
            tally.failures,
            *(f"{point_of(tally.run, point):.6f}" for point in TALLY_POINTS),
            tally.last_error,
        )
        for name, tally in tallies.items(which)
    ]
    more = more_text(len(tallies), which)
    return [f"<h2>By {escape(what)}</h2>", *table(head, rows), f"<p>{more}</p>" if more else ""]


def node_spread_html(statistics: Statistics, which: range = ALL) -> list[str]:
    """The distribution of each node's answers over run times, devices and pods."""
    rows = []
    for name, tally in statistics.nodes.items(which):
        rows += [(name, f"run time {range_text(bound)}", count) for bound, count in tally.run_ranges()]
        rows += [(name, f"device {device}", count.value) for device, count in tally.devices.items()]
        rows += [(name, f"pod {pod}", count.value) for pod, count in tally.pods.items()]
    return ["<h2>Run times, devices and pods of nodes</h2>", *table(("node", "what", "answers"), rows)]


def _plots(statistics: Statistics, now: float) -> list[str]:
    width = statistics.timeline.step_seconds
    steps = list(statistics.timeline.steps(now))
    # The last step is not complete.
    whole = steps[:-1] or steps
    middle = [(begin + width / 2, step) for begin, step in whole]
    good: list[tuple[float, float | None]] = [(x, step.successes / width) for x, step in middle]
    bad: list[tuple[float, float | None]] = [(x, step.failures / width) for x, step in middle]
    outstanding: list[tuple[float, float | None]] = [(x, float(step.outstanding)) for x, step in middle]
    half, most = (
        [(x, step.total.quantile(share) if step.total.count else None) for x, step in middle] for share in (0.5, 0.99)
    )
    return [
        line_plot("Requests per second", [Series("successes", _GOOD, good), Series("failures", _BAD, bad)]),
        line_plot("Total time in seconds", [Series("p50", _PLAIN, half), Series("p99", _FAINT, most)]),
        line_plot("Requests under way", [Series("most", _PLAIN, outstanding)]),
        distribution_plot("Requests by total time", statistics.timings["total"]),
    ]


@dataclass(frozen=True)
class Report:
    """The report of a run.

    :param now: the end of the run.
    :param total: statistics of all plans together, or of the only plan.
    :param plans: statistics by the name of the plan.
    :param waiting: arrivals that waited at the end.
    """

    title: str
    now: float
    total: Statistics
    plans: Mapping[str, Statistics]
    findings: Sequence[Finding] = ()
    waiting: int = 0

    def text(self) -> str:
        """For a terminal."""
        parts = [statistics_text(self.title, self.total, self.now, self.waiting)]
        parts += [nodes_text(self.total), pods_text(self.total)]
        parts += [statistics_text(f"Plan {name}", statistics, self.now) for name, statistics in self._parts()]
        parts.append(findings_text(self.findings))
        return "\n".join(part for part in parts if part)

    def json(self) -> str:
        """For programs."""
        values = {
            "title": self.title,
            "statistics": statistics_values(self.total, self.now, self.waiting),
            "plans": {name: statistics_values(plan, self.now) for name, plan in self.plans.items()},
            "expectations": finding_values(self.findings),
        }
        return json.dumps(values, indent=2) + "\n"

    def csv(self) -> str:
        """For spreadsheets: a row for each number of each plan."""
        return csv_text({name: statistics_values(plan, self.now) for name, plan in self.plans.items()})

    def html(self) -> str:
        """For browsers, as one file."""
        body = [*findings_html(self.findings), *statistics_html(self.total, self.now, self.waiting)]
        body += [*tallies_html("node", self.total.nodes), *tallies_html("device", self.total.devices)]
        body += [*node_spread_html(self.total), *tallies_html("pod", self.total.pods)]
        for name, statistics in self._parts():
            body += [f"<h1>Plan {escape(name)}</h1>", *statistics_html(statistics, self.now)]
        return page(self.title, body)

    def as_file(self, path: str) -> str:
        """In the format of a file's suffix, one of REPORT_SUFFIXES."""
        return _FORMS[os.path.splitext(path)[1]](self)

    def _parts(self) -> Sequence[tuple[str, Statistics]]:
        """The plans, if there are several."""
        return list(self.plans.items()) if len(self.plans) > 1 else []


#: The formats of a report by the suffix of a file.
_FORMS: Final[dict[str, Callable[[Report], str]]] = dict(
    zip(REPORT_SUFFIXES, (Report.text, Report.json, Report.csv, Report.html), strict=True)
)


#: The parts of the times: their names, and the decimals of their seconds.
_TIMINGS: Final = (("run", "backend run time", 1), ("wait", "queue wait time", 1),
                   ("communication", "communication overhead", 3))  # fmt: skip


def original_statistics_text(
    statistics: Statistics, now: float, parallel: int, completed: int, rejected: int
) -> str:
    """/stats.

    :param parallel: requests that may be in flight.
    :param completed, rejected: HTTP queries.
    """
    lines = [
        *_headline("Overall request / reply statistics"),
        f"Sending {parallel} requests in parallel.",
        "",
        f"{statistics.pending} pending, {statistics.failed} failed and {statistics.successes} successful requests "
        f"in {now - statistics.begin:.1f} seconds.",
    ]
    if statistics.successes:
        lines += [f"= {statistics.rate(now):.2f} successfully completed requests / second.", ""]
        lines += ["Max / average / min timings (in seconds, for successful requests):"]
        for part, name, decimals in _TIMINGS:
            sketch = statistics.success_timings[part]
            times = " / ".join(f"{value:.{decimals}f}" for value in (sketch.maximum, sketch.mean, sketch.minimum))
            lines.append(f"- {times} - {name}")
    return "\n".join([*lines, "", f"HTTP queries: {completed} completed, {rejected} rejected in total.", ""])


def original_nodes_text(statistics: Statistics, which: range = ALL) -> str:
    """/nodes."""
    lines = _headline("Backend / worker node statistics")
    nodes = [(name or _NAMELESS, tally) for name, tally in statistics.nodes.items(which)]
    failed = sum(tally.failures for tally in statistics.nodes.values())
    good = sum(tally.answers for tally in statistics.nodes.values()) - failed
    lines += _table("Node", "Success replies:", [(name, tally.answers - tally.failures) for name, tally in nodes], good)
    lines += _table("Node", "Failure replies:", [(name, tally.failures) for name, tally in nodes], failed)
    for name, tally in nodes:
        lines += ["", *titled(f"Node: {name}"), "", *_table("Device", "Completed requests:", _successes(tally.devices))]
        errors = [f"- {count.value}: {text}" for text, count in tally.errors.items()]
        lines += ["Node errors (count / description):", *errors, ""] if errors else []
    return "\n".join(lines)


def original_pods_text(statistics: Statistics, which: range = ALL) -> str:
    """/pods."""
    lines = _headline("Per-node backend / worker pod statistics")
    for name, tally in statistics.nodes.items(which):
        lines += ["", *titled(f"Node: {name or _NAMELESS}"), ""]
        lines += _table("Pod", "Completed requests:", _successes(tally.pods))
    return "\n".join(lines)


def _headline(title: str) -> list[str]:
    return ["", "", *titled(title), ""]


def _successes(counts: ByName[Count]) -> list[tuple[str, int]]:
    return [(name or _NAMELESS, count.value - count.failures) for name, count in counts.items()]


def _table(name: str, counted: str, counts: Sequence[tuple[str, int]], total: int = 0) -> list[str]:
    """A bar for each name that has some, under a heading; nothing when none has.

    :param total: see :func:`fakedev.tester.report.bar_lines`.
    """
    shown = [count for count in counts if count[1]]
    if not shown:
        return []
    width = max(len(label) for label, _ in shown)
    heading = [f"{name:>{width}} | {counted}", f"{'-' * (width + 1)}+{'-' * (len(counted) + 1)}"]
    return [*heading, *bar_lines(shown, total, aligned=">"), ""]
