"""Statistics as plain values for JSON and CSV, under the names of doc/tester.md."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.statistics import PARTS, Statistics
from fakedev.tester.tallies import ALL, TALLY_POINTS, ByName, Count, NodeTally, Tallies, Tally


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
