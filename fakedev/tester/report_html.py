"""Statistics as one HTML page with plots, which loads nothing else. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.report_text import measured_text, more_text, range_text
from fakedev.tester.statistics import PARTS, Statistics
from fakedev.tester.svg_plots import PLOT_STYLE, Series, distribution_plot, line_plot
from fakedev.tester.tallies import ALL, TALLY_POINTS, Tallies

_GOOD, _BAD, _PLAIN, _FAINT = "#2e9c5a", "#d64545", "#3b7dd8", "#e0902f"
_STYLE = (
    """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 1.5em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto }
th, td { padding: .15em .8em; text-align: left; border-bottom: 1px solid #8884 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.met { color: #2e9c5a } .not-met { color: #d64545; font-weight: bold }
.bar { display: inline-block; height: .7em; background: #3b7dd8; vertical-align: baseline }
"""
    + PLOT_STYLE
)


def page(title: str, body: Iterable[str]) -> str:
    """A whole page.

    :param body: its parts, as HTML.
    """
    # Defence in depth against an unescaped text: no script runs, and nothing is loaded.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return "\n".join([
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *body,
        "</body></html>",
        "",
    ])  # fmt: skip


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
    rows = []
    for finding in findings:
        measured = "nothing was measured" if finding.measured is None else measured_text(finding)
        mark = '<span class="met">met</span>' if finding.is_met else '<span class="not-met">not met</span>'
        cells = f"<td>{escape(finding.expectation.text)}</td><td>{escape(measured)}</td>"
        rows.append(f"<tr><td>{mark}</td>{cells}</tr>")
    return ["<h2>Expectations</h2>", "<table>", *rows, "</table>"]


def tallies_html(what: str, tallies: Tallies, which: range = ALL) -> list[str]:
    """The distribution of answers over nodes, devices or pods, and their run times."""
    total = sum(tally.answers for tally in tallies.values())
    head = (what, "answers", "share", "", "failures", *(f"run {point}" for point in TALLY_POINTS), "last error")
    rows = []
    for name, tally in tallies.items(which):
        share = tally.answers / total
        cells = [_cell(name), _cell(tally.answers), f'<td class="n">{100 * share:.1f}%</td>']
        cells.append(f'<td><span class="bar" style="width:{100 * share:.0f}px"></span></td>')
        cells.append(_cell(tally.failures))
        cells += [f'<td class="n">{point_of(tally.run, point):.6f}</td>' for point in TALLY_POINTS]
        cells.append(_cell(tally.last_error))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    more = more_text(len(tallies), which)
    return [f"<h2>By {escape(what)}</h2>", "<table>", _head(head), *rows, "</table>", f"<p>{more}</p>" if more else ""]


def node_spread_html(statistics: Statistics, which: range = ALL) -> list[str]:
    """The distribution of each node's answers over run times, devices and pods."""
    rows = []
    for name, tally in statistics.nodes.items(which):
        rows += [(name, f"run time {range_text(bound)}", count) for bound, count in tally.run_ranges()]
        rows += [(name, f"device {device}", count.value) for device, count in tally.devices.items()]
        rows += [(name, f"pod {pod}", count.value) for pod, count in tally.pods.items()]
    return ["<h2>Run times, devices and pods of nodes</h2>", *table(("node", "what", "answers"), rows)]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table with numbers aligned to the right."""
    body = [f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows]
    return ["<table>", _head(head) if any(head) else "", *(body or ["<tr><td>none</td></tr>"]), "</table>"]


def _head(words: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<th>{escape(word)}</th>" for word in words) + "</tr>"


def _cell(value: object) -> str:
    text = str(value)
    is_number = isinstance(value, int | float) or text.replace(".", "", 1).isdigit()
    return f"<td{' class=n' if is_number else ''}>{escape(text)}</td>"


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
