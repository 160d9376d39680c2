"""The statistics in the words and rows of the original test client, which scripts read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fakedev.tester.report_text import bar_lines, titled
from fakedev.tester.statistics import Statistics
from fakedev.tester.tallies import ALL, ByName, Count

_NAMELESS: Final = "(no name)"
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
            times = " / ".join(f"{each:.{decimals}f}" for each in (sketch.maximum, sketch.mean, sketch.minimum))
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

    :param total: see :func:`fakedev.tester.report_text.bar_lines`.
    """
    shown = [each for each in counts if each[1]]
    if not shown:
        return []
    width = max(len(each) for each, _ in shown)
    heading = [f"{name:>{width}} | {counted}", f"{'-' * (width + 1)}+{'-' * (len(counted) + 1)}"]
    return [*heading, *bar_lines(shown, total, aligned=">"), ""]
