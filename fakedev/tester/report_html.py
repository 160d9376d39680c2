"""Statistics as a page: one file with plots, which loads nothing from anywhere. Everything is escaped.

Plots as SVG, written by hand: lines over time, and a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from fakedev.tester.expectation import POINTS, Finding, point_of
from fakedev.tester.quantiles import Histogram
from fakedev.tester.report_text import measured_text, more_text, range_text
from fakedev.tester.statistics import ALL, PARTS, ByName, NodeTally, Statistics, Tally

_WIDTH, _HEIGHT = 860, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 34, 44
_SPAN_X = _WIDTH - _LEFT - _RIGHT
_SPAN_Y = _HEIGHT - _TOP - _BOTTOM
#: Bars of a distribution, at most.
_MAX_BARS = 60

#: Styles of what is drawn here, to be put into the page once.
PLOT_STYLE = """
svg { max-width: 100%; height: auto; display: block; margin: 1em 0 }
svg text { font: 12px system-ui, sans-serif; fill: currentColor }
svg .title { font-size: 14px; font-weight: bold }
svg .grid { stroke: currentColor; stroke-opacity: .15 }
svg .frame { fill: none; stroke: currentColor; stroke-opacity: .5 }
svg polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round }
"""


@dataclass(frozen=True)
class Series:
    """One line.

    :param points: (x, y), x rising; y None: there is nothing to show there, and the line is broken.
    """

    name: str
    colour: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Scale:
    """A range of numbers and the places of their marks."""

    most: float
    marks: tuple[float, ...]


def line_plot(title: str, series: Sequence[Series], x_label: str = "seconds since the start") -> str:
    """Lines over x; both axes begin at 0."""
    across = nice_scale(max((x for each in series for x, _ in each.points), default=0.0))
    up = nice_scale(max((y for each in series for _, y in each.points if y is not None), default=0.0))
    parts = [_axes(title, across, up, x_label)]
    for place, each in enumerate(series):
        for stretch in _stretches(each.points):
            points = " ".join(f"{_x(x, across.most):.1f},{_y(y, up.most):.1f}" for x, y in stretch)
            if len(stretch) == 1:
                x, y = stretch[0]
                circle = f'cx="{_x(x, across.most):.1f}" cy="{_y(y, up.most):.1f}" r="2"'
                parts.append(f'<circle {circle} fill="{each.colour}"/>')
            else:
                parts.append(f'<polyline stroke="{each.colour}" points="{points}"/>')
        x = _LEFT + _SPAN_X - 110 * (len(series) - place)
        parts.append(f'<rect x="{x}" y="14" width="14" height="10" fill="{each.colour}"/>')
        parts.append(f'<text x="{x + 19}" y="23">{escape(each.name)}</text>')
    return _document(title, parts)


def distribution_plot(title: str, histogram: Histogram) -> str:
    """How often which duration was measured: bars over seconds, each as wide as its share of the logarithm."""
    values = [(max(seconds, 1e-6), count) for seconds, count in histogram.buckets()]
    if not values:
        return _document(title, [_axes(title, nice_scale(0), nice_scale(0), "seconds")])
    low, high = math.log10(values[0][0]), math.log10(values[-1][0])
    if high - low < 0.02:
        low, high = low - 0.05, high + 0.05
    counts = [0] * _MAX_BARS
    for seconds, count in values:
        counts[min(_MAX_BARS - 1, int((math.log10(seconds) - low) / (high - low) * _MAX_BARS))] += count
    up = nice_scale(max(counts))
    parts = [_frame(title, up, "seconds (logarithmic)")]
    for place in range(7):
        x = _LEFT + _SPAN_X * place / 6
        value = 10 ** (low + (high - low) * place / 6)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{value:.3g}</text>')
    width = _SPAN_X / _MAX_BARS
    for place, count in enumerate(counts):
        y = _y(count, up.most)
        box = f'x="{_LEFT + place * width:.1f}" y="{y:.1f}" width="{width - 1:.1f}"'
        parts.append(f'<rect {box} height="{_TOP + _SPAN_Y - y:.1f}" fill="#3b7dd8"/>')
    return _document(title, parts)


def nice_scale(most: float) -> Scale:
    """A range from 0 to a round number that holds ``most``, with four to ten marks."""
    if not most > 0:
        return Scale(1.0, (0.0, 1.0))
    raw = most / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= raw * (1 - 1e-9))
    count = math.ceil(most / step - 1e-9)
    return Scale(count * step, tuple(place * step for place in range(count + 1)))


def _axes(title: str, across: Scale, up: Scale, x_label: str) -> str:
    parts = [_frame(title, up, x_label)]
    for mark in across.marks:
        x = _x(mark, across.most)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_TOP + _SPAN_Y}"/>')
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{mark:g}</text>')
    return "\n".join(parts)


def _frame(title: str, up: Scale, x_label: str) -> str:
    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>']
    for mark in up.marks:
        y = _y(mark, up.most)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _SPAN_X}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
    parts.append(f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{_SPAN_X}" height="{_SPAN_Y}"/>')
    middle = _LEFT + _SPAN_X / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    return "\n".join(parts)


def _document(title: str, parts: Sequence[str]) -> str:
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return "\n".join([f'<svg role="img" {size}>', f"<title>{escape(title)}</title>", *parts, "</svg>"])


def _x(value: float, most: float) -> float:
    return _LEFT + _SPAN_X * value / most


def _y(value: float, most: float) -> float:
    return _TOP + _SPAN_Y * (1 - value / most)


def _stretches(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """The stretches of points that are not interrupted."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is not None:
            found[-1].append((x, y))
        elif found[-1]:
            found.append([])
    return [stretch for stretch in found if stretch]

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
    # Should a text ever come through unescaped: no script runs here, and nothing is loaded.
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
    """All about the requests themselves, with plots.

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
    """What came of each expectation; nothing when there are none."""
    if not findings:
        return []
    rows = []
    for finding in findings:
        measured = "nothing was measured" if finding.measured is None else measured_text(finding)
        mark = '<span class="met">met</span>' if finding.is_met else '<span class="not-met">not met</span>'
        cells = f"<td>{escape(finding.expectation.text)}</td><td>{escape(measured)}</td>"
        rows.append(f"<tr><td>{mark}</td>{cells}</tr>")
    return ["<h2>Expectations</h2>", "<table>", *rows, "</table>"]


def tallies_html(what: str, tallies: ByName[Tally] | ByName[NodeTally], which: range = ALL) -> list[str]:
    """Nodes, devices or pods: how the answers spread over them, and their run times."""
    total = sum(tally.answers for tally in tallies.values())
    points = ("min", "mean", "p50", "p99", "max")
    head = (what, "answers", "share", "", "failures", *(f"run {point}" for point in points), "last error")
    rows = []
    for name, tally in tallies.items(which):
        share = tally.answers / total
        cells = [_cell(name), _cell(tally.answers), f'<td class="n">{100 * share:.1f}%</td>']
        cells.append(f'<td><span class="bar" style="width:{100 * share:.0f}px"></span></td>')
        cells.append(_cell(tally.failures))
        cells += [f'<td class="n">{point_of(tally.run, point):.6f}</td>' for point in points]
        cells.append(_cell(tally.last_error))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    more = more_text(len(tallies), which)
    return [f"<h2>By {escape(what)}</h2>", "<table>", _head(head), *rows, "</table>", f"<p>{more}</p>" if more else ""]


def node_spread_html(statistics: Statistics, which: range = ALL) -> list[str]:
    """How the answers of each node spread over run times, its devices and its pods."""
    rows = []
    for name, tally in statistics.nodes.items(which):
        rows += [(name, f"run time {range_text(bound)}", count) for bound, count in tally.run_ranges()]
        rows += [(name, f"device {device}", count.value) for device, count in tally.devices.items()]
        rows += [(name, f"pod {pod}", count.value) for pod, count in tally.pods.items()]
    return ["<h2>Run times, devices and pods of nodes</h2>", *table(("node", "what", "answers"), rows)]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table; numbers and texts of numbers stand to the right."""
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
    # The last step is not over: its counts are of a shorter time.
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
