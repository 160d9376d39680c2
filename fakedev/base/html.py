"""Reports as one HTML page: tables, lists, and plots as SVG (lines over time, and a distribution)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from fakedev.base.errors import printable
from fakedev.base.histograms import QuantileSketch

_WIDTH, _HEIGHT = 860, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 34, 44
_SPAN_X = _WIDTH - _LEFT - _RIGHT
_SPAN_Y = _HEIGHT - _TOP - _BOTTOM
#: Bars of a distribution.
_MAX_BARS = 60

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 1.5em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto }
th, td { padding: .15em .8em; text-align: left; border-bottom: 1px solid #8884 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.met { color: #2e9c5a } .not-met { color: #d64545; font-weight: bold }
.bar { display: inline-block; height: .7em; background: #3b7dd8; vertical-align: baseline }
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

    :param points: (x, y), x increasing; the line is broken where y is None.
    """

    name: str
    colour: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Scale:
    """An axis from 0 to ``maximum``, with marks."""

    maximum: float
    marks: tuple[float, ...]


def line_plot(title: str, series: Sequence[Series]) -> str:
    """Lines over the seconds since the start; both axes begin at 0."""
    across = nice_scale(max((x for curve in series for x, _ in curve.points), default=0.0))
    up = nice_scale(max((y for curve in series for _, y in curve.points if y is not None), default=0.0))
    parts = [_axes(title, across, up, "seconds since the start")]
    for place, curve in enumerate(series):
        for stretch in _stretches(curve.points):
            points = " ".join(f"{_x(x, across.maximum):.1f},{_y(y, up.maximum):.1f}" for x, y in stretch)
            if len(stretch) == 1:
                x, y = stretch[0]
                circle = f'cx="{_x(x, across.maximum):.1f}" cy="{_y(y, up.maximum):.1f}" r="2"'
                parts.append(f'<circle {circle} fill="{curve.colour}"/>')
            else:
                parts.append(f'<polyline stroke="{curve.colour}" points="{points}"/>')
        x = _LEFT + _SPAN_X - 110 * (len(series) - place)
        parts.append(f'<rect x="{x}" y="14" width="14" height="10" fill="{curve.colour}"/>')
        parts.append(f'<text x="{x + 19}" y="23">{escape(curve.name)}</text>')
    return _document(title, parts)


def distribution_plot(title: str, sketch: QuantileSketch) -> str:
    """The distribution of durations: bars over the logarithm of seconds."""
    values = [(max(seconds, 1e-6), count) for seconds, count in sketch.buckets()]
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
        y = _y(count, up.maximum)
        box = f'x="{_LEFT + place * width:.1f}" y="{y:.1f}" width="{width - 1:.1f}"'
        parts.append(f'<rect {box} height="{_TOP + _SPAN_Y - y:.1f}" fill="#3b7dd8"/>')
    return _document(title, parts)


def nice_scale(maximum: float) -> Scale:
    """An axis from 0 to a round number not below ``maximum``, with four to ten marks."""
    if not maximum > 0:
        return Scale(1.0, (0.0, 1.0))
    raw = maximum / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= raw * (1 - 1e-9))
    count = math.ceil(maximum / step - 1e-9)
    return Scale(count * step, tuple(place * step for place in range(count + 1)))


def _axes(title: str, across: Scale, up: Scale, x_label: str) -> str:
    parts = [_frame(title, up, x_label)]
    for mark in across.marks:
        x = _x(mark, across.maximum)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_TOP + _SPAN_Y}"/>')
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{mark:g}</text>')
    return "\n".join(parts)


def _frame(title: str, up: Scale, x_label: str) -> str:
    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>']
    for mark in up.marks:
        y = _y(mark, up.maximum)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _SPAN_X}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
    parts.append(f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{_SPAN_X}" height="{_SPAN_Y}"/>')
    middle = _LEFT + _SPAN_X / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    return "\n".join(parts)


def _document(title: str, parts: Sequence[str]) -> str:
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return "\n".join([f'<svg role="img" {size}>', f"<title>{escape(title)}</title>", *parts, "</svg>"])


def _x(value: float, maximum: float) -> float:
    return _LEFT + _SPAN_X * value / maximum


def _y(value: float, maximum: float) -> float:
    return _TOP + _SPAN_Y * (1 - value / maximum)


def _stretches(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """The parts of a line without breaks."""
    stretches = groupby(points, key=lambda point: point[1] is None)
    return [[(x, y) for x, y in stretch if y is not None] for is_break, stretch in stretches if not is_break]


class Markup(str):
    """A text that is HTML already; all others are escaped."""


def mark(text: str, is_met: bool) -> Markup:
    """A text in the colour of a requirement that is met, or is not."""
    return Markup(f'<span class="{"met" if is_met else "not-met"}">{_escaped(text)}</span>')


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table with numbers aligned to the right.

    :param head: the titles of the columns; no row of titles when all are empty.
    """
    lines = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows] or ["<tr><td>none</td></tr>"]
    titles = "".join(f"<th>{_escaped(word)}</th>" for word in head)
    return ["<table>", *([f"<tr>{titles}</tr>"] if any(head) else []), *lines, "</table>"]


def bullets(lines: Iterable[str]) -> list[str]:
    return ["<ul>", *(f"<li>{_escaped(line)}</li>" for line in lines), "</ul>"]


def _cell(value: object) -> str:
    text = str(value)
    is_number = isinstance(value, int | float) or text.rstrip(" %").replace(".", "", 1).isdigit()
    return f"<td{' class=n' if is_number else ''}>{_escaped(value)}</td>"


def _escaped(value: object) -> str:
    return value if isinstance(value, Markup) else escape(printable(str(value)))


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
