"""Line charts as SVG: panels above each other that share their time, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

_WIDTH, _LEFT, _RIGHT = 900, 92, 26
_TOP, _PANEL, _GAP, _BOTTOM = 54, 112, 20, 50
_SPAN = _WIDTH - _LEFT - _RIGHT
_STYLE = """
  text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 14px; fill: #333 }
  .title { font-size: 17px; font-weight: bold; fill: #111 }
  .label { font-weight: bold }
  .note { font-size: 13px; fill: #a33 }
  .grid { stroke: #e4e4e4 }
  .frame { fill: none; stroke: #999 }
  .limit { stroke: #c44; stroke-dasharray: 7 4 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  .shade { fill: #fbe3d2 }
"""


@dataclass(frozen=True)
class Panel:
    """One quantity over the time.

    :param label: of its axis, with the unit.
    :param ticks: numbers on the axis; the first and the last are its ends.
    :param limit: (value, what it is) of a dashed line.
    :param note: a remark, at the lower right.
    """

    label: str
    values: Sequence[float]
    ticks: Sequence[float]
    colour: str
    limit: tuple[float, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """Panels over minutes, or hours.

    :param step_seconds: between two values.
    :param shaded: for each value, whether its time is shaded in all panels.
    :param shade_means: what the shade means.
    :param unit_seconds: 60 or 3600: ``minutes`` is then the number of hours.
    """

    title: str
    panels: Sequence[Panel]
    minutes: int
    step_seconds: float = 1.0
    shaded: Sequence[bool] = field(default=())
    shade_means: str = ""
    unit_seconds: int = 60

    def svg(self) -> str:
        """The chart as a document."""
        height = _TOP + len(self.panels) * (_PANEL + _GAP) - _GAP + _BOTTOM
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
            f'<text class="title" x="{_LEFT}" y="26">{escape(self.title)}</text>',
        ]
        if self.shade_means:
            parts.append(f'<rect class="shade" x="{_LEFT}" y="34" width="22" height="13"/>')
            parts.append(f'<text x="{_LEFT + 29}" y="46">{escape(self.shade_means)}</text>')
        for number, panel in enumerate(self.panels):
            parts += self._panel(panel, _TOP + number * (_PANEL + _GAP))
        bottom = height - _BOTTOM
        for minute in range(self.minutes + 1):
            x = self._x(minute * self.unit_seconds / self.step_seconds)
            parts.append(f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{minute}</text>')
        middle = _LEFT + _SPAN / 2
        unit = "minutes" if self.unit_seconds == 60 else "hours of the day, UTC"
        place = f'x="{middle:.0f}" y="{bottom + 40}"'
        parts.append(f'<text class="label" {place} text-anchor="middle">time ({unit})</text>')
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _x(self, number: float) -> float:
        return _LEFT + _SPAN * number * self.step_seconds / (self.minutes * self.unit_seconds)

    def _panel(self, panel: Panel, top: int) -> list[str]:
        low, high = panel.ticks[0], panel.ticks[-1]

        def y_of(value: float) -> float:
            return top + _PANEL * (high - value) / (high - low)

        parts = [
            f'<rect class="shade" x="{self._x(begin):.1f}" y="{top}" width="{self._x(end) - self._x(begin):.1f}" '
            f'height="{_PANEL}"/>'
            for begin, end in _stretches(self.shaded)
        ]
        for minute in range(1, self.minutes):
            x = self._x(minute * self.unit_seconds / self.step_seconds)
            parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + _PANEL}"/>')
        for tick in panel.ticks:
            y = y_of(tick)
            parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{tick:g}</text>')
        parts.append(f'<rect class="frame" x="{_LEFT}" y="{top}" width="{_SPAN}" height="{_PANEL}"/>')
        points = " ".join(f"{self._x(n):.1f},{y_of(value):.1f}" for n, value in enumerate(panel.values))
        parts.append(f'<polyline class="line" stroke="{panel.colour}" points="{points}"/>')
        if panel.limit:
            value, meaning = panel.limit
            y = y_of(value)
            parts.append(f'<line class="limit" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
            parts.append(_note(y + 16, meaning))
        if panel.note:
            parts.append(_note(top + _PANEL - 8, panel.note))
        parts.append(
            f'<text class="label" text-anchor="middle" transform="translate(24 {top + _PANEL / 2:.0f}) rotate(-90)">'
            f"{escape(panel.label)}</text>"
        )
        return parts


def _note(y: float, text: str) -> str:
    return f'<text class="note" x="{_WIDTH - _RIGHT - 6}" y="{y:.1f}" text-anchor="end">{escape(text)}</text>'


def _stretches(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """(first, last) of each run of true flags; a value covers the step before it."""
    found: list[tuple[int, int]] = []
    for number, flag in enumerate(flags):
        if flag and number and flags[number - 1]:
            found[-1] = (found[-1][0], number)
        elif flag:
            found.append((max(number - 1, 0), number))
    return found
