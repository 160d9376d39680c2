"""The report of a run, in the form that a file's name asks for.

Statistics as plain values: what JSON and CSV show, under the names of doc/tester.md.
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

from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.quantiles import Histogram
from fakedev.tester.report_html import findings_html, node_spread_html, page, statistics_html, tallies_html
from fakedev.tester.report_text import findings_text, nodes_text, pods_text, statistics_text
from fakedev.tester.statistics import ALL, PARTS, ByName, Count, NodeTally, Statistics, Tally

#: Points that are told of a single node, device or pod.
_TALLY_POINTS = ("min", "mean", "p50", "p99", "max")


def statistics_values(statistics: Statistics, now: float, waiting: int = 0, which: range = ALL) -> dict[str, Any]:
    """All of the statistics.

    :param waiting: arrivals that wait now.
    :param which: the places of those nodes, devices and pods that are told of.
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
        "nodes": node_values(statistics, which),
        "devices": tally_values("device", statistics.devices, which),
        "pods": tally_values("pod", statistics.pods, which),
        "errors": [{"text": text, "count": count.value} for text, count in statistics.errors.items()],
    }


def totals(statistics: Statistics) -> dict[str, int]:
    """How many nodes, devices and pods there are."""
    return {"nodes": len(statistics.nodes), "devices": len(statistics.devices), "pods": len(statistics.pods)}


def node_values(statistics: Statistics, which: range = ALL) -> list[dict[str, Any]]:
    """Nodes with their devices and pods."""
    return [
        {**_tally("node", name, tally), "devices": _counts(tally.devices), "pods": _counts(tally.pods)}
        for name, tally in statistics.nodes.items(which)
    ]


def tally_values(what: str, tallies: ByName[Tally] | ByName[NodeTally], which: range = ALL) -> list[dict[str, Any]]:
    """Devices, or pods."""
    return [_tally(what, name, tally) for name, tally in tallies.items(which)]


def finding_values(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """What came of each expectation."""
    return [
        {
            "expectation": finding.expectation.text,
            "measured": None if finding.measured is None else _rounded(finding.measured),
            "met": finding.is_met,
        }
        for finding in findings
    ]


def csv_text(plans: Mapping[str, dict[str, Any]]) -> str:
    """Values of statistics as CSV, a row for each number: plan, name, key, value.

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
        # The words in front also keep a name from being a formula for a spreadsheet.
        for tally in values[f"{what}s"]:
            name = f"{what} {tally[what]}"
            yield name, "answers", tally["answers"]
            yield name, "failures", tally["failures"]
            yield from ((name, f"run-{point}", value) for point, value in tally["run"].items())
    yield from ((f"error {error['text']}", "count", error["count"]) for error in values["errors"])


def _tally(what: str, name: str, tally: Tally) -> dict[str, Any]:
    return {
        what: name,
        "answers": tally.answers,
        "failures": tally.failures,
        "last-error": tally.last_error,
        "run": _points(tally.run),
        "run-histogram": [[bound if math.isfinite(bound) else None, count] for bound, count in tally.run_ranges()],
    }


def _points(histogram: Histogram) -> dict[str, float]:
    return {point: _rounded(point_of(histogram, point)) for point in _TALLY_POINTS}


def _counts(counts: ByName[Count]) -> dict[str, int]:
    return {name: count.value for name, count in counts.items()}


def _rounded(value: float) -> float:
    """To the microsecond: what is measured across a socket is no finer."""
    return round(value, 6)


@dataclass(frozen=True)
class Report:
    """All that is told of a run.

    :param title: what was run.
    :param now: when it ended.
    :param waiting: arrivals that waited then.
    :param plans: statistics by the name of the plan.
    :param total: those of all plans together, which may be those of the only one.
    """

    title: str
    now: float
    total: Statistics
    plans: Mapping[str, Statistics]
    findings: Sequence[Finding] = ()
    waiting: int = 0

    def text(self) -> str:
        """For people, on a terminal."""
        parts = [statistics_text(self.title, self.total, self.now, self.waiting)]
        parts += [nodes_text(self.total), pods_text(self.total)]
        parts += [statistics_text(f"Plan {name}", each, self.now) for name, each in self._parts()]
        parts.append(findings_text(self.findings))
        return "\n".join(part for part in parts if part)

    def json(self) -> str:
        """For programs."""
        values = {
            "title": self.title,
            "statistics": statistics_values(self.total, self.now, self.waiting),
            "plans": {name: statistics_values(each, self.now) for name, each in self.plans.items()},
            "expectations": finding_values(self.findings),
        }
        return json.dumps(values, indent=2) + "\n"

    def csv(self) -> str:
        """For spreadsheets: a row for each number of each plan."""
        return csv_text({name: statistics_values(each, self.now) for name, each in self.plans.items()})

    def html(self) -> str:
        """For browsers: one file."""
        body = [*findings_html(self.findings), *statistics_html(self.total, self.now, self.waiting)]
        body += [*tallies_html("node", self.total.nodes), *tallies_html("device", self.total.devices)]
        body += [*node_spread_html(self.total), *tallies_html("pod", self.total.pods)]
        for name, each in self._parts():
            body += [f"<h1>Plan {escape(name)}</h1>", *statistics_html(each, self.now)]
        return page(self.title, body)

    def as_file(self, path: str) -> str:
        """As the end of a file's name asks for: one of FORMS."""
        return FORMS[os.path.splitext(path)[1]](self)

    def _parts(self) -> Sequence[tuple[str, Statistics]]:
        """The plans, when there are several."""
        return list(self.plans.items()) if len(self.plans) > 1 else []


#: The forms of a report, by the end of a file's name.
FORMS: Final[dict[str, Callable[[Report], str]]] = {
    ".txt": Report.text,
    ".json": Report.json,
    ".csv": Report.csv,
    ".html": Report.html,
}
