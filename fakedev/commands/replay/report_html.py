"""The report of a replay as one HTML page, which loads nothing else: trace and replay side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.spec.errors import printable
from fakedev.tester.report_html import page
from fakedev.tester.svg_plots import PLOT_STYLE, Series, line_plot
from fakedev.traces.compare import Comparison
from fakedev.traces.measure import Measured
from fakedev.traces.replay import Plan
from fakedev.traces.trace import taken_over_time

_STYLE: Final = f"<style>{PLOT_STYLE} .missed {{ font-weight: bold; color: #c0392b }}</style>"
_TRACE_COLOUR, _REPLAY_COLOUR = "#e2731b", "#2c7fd6"
#: Points of a line; of more ticks, some are left out.
_MOST_POINTS: Final = 800
_WORDS: Final = {True: "met", False: "missed", None: "told"}


def report_html(name: str, plan: Plan, measured: Measured, comparisons: Sequence[Comparison]) -> str:
    """The page.

    :param name: of the format.
    """
    head = "".join(f"<th>{each}</th>" for each in ("What", "Trace", "Replay", "Bound", "Verdict"))
    rows = [_row(each) for each in comparisons]
    ticks = len(measured.running)
    instants = np.arange(1, ticks + 1, dtype=np.float64) * measured.tick_seconds
    running, taken = taken_over_time(plan.trace.jobs, instants)
    places = np.unique(np.linspace(0, max(ticks - 1, 0), min(ticks, _MOST_POINTS)).astype(np.int64))
    body = [
        _STYLE, "<h2>Comparisons</h2>", f"<table><tr>{head}</tr>", *rows, "</table>", "<h2>Over time</h2>",
        _plot("Jobs that run", instants, places, ("trace", running), ("replay", measured.running)),
        _plot("GPUs", instants, places, ("trace: shares", taken),
              ("replay: boards", measured.taken)),
        *_unplaced(plan),
    ]  # fmt: skip
    return page(f"Replay of a trace: {printable(name)}", body)


def _row(comparison: Comparison) -> str:
    what, trace, replay, bound, is_met = comparison
    cells = "".join(f"<td>{escape(printable(each))}</td>" for each in (what, trace, replay, bound))
    return f'<tr>{cells}<td class="{_WORDS[is_met]}">{_WORDS[is_met]}</td></tr>'


def _plot(
    title: str, instants: NDArray[np.float64], places: NDArray[np.int64],
    *lines: tuple[str, NDArray[np.int64] | NDArray[np.float64]],
) -> str:  # fmt: skip
    series = [
        Series(name, colour, [(float(instants[place]), float(values[place])) for place in places])
        for (name, values), colour in zip(lines, (_TRACE_COLOUR, _REPLAY_COLOUR), strict=True)
    ]
    return line_plot(title, series)


def _unplaced(plan: Plan) -> list[str]:
    """The jobs that found no place, or had to wait for one."""
    lines = [f"{job.name}: no place" for job in plan.placement.never]
    lines += [f"{each.job.name}: {each.delay_seconds:,.0f} s later" for each in plan.placement.delayed]
    if not lines:
        return []
    return ["<h2>Without a place</h2><ul>", *(f"<li>{escape(printable(each))}</li>" for each in lines), "</ul>"]
