"""The report of a replay as one HTML page, which loads nothing else: trace and replay side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.base.errors import printable
from fakedev.base.html import Series, bullets, line_plot, mark, page, table
from fakedev.replay.compare import Comparison, Measured
from fakedev.replay.schedule import Plan
from fakedev.replay.trace import taken_over_time

_TRACE_COLOUR, _REPLAY_COLOUR = "#e2731b", "#2c7fd6"
#: Points of a line; of more ticks, some are left out.
_MOST_POINTS: Final = 800


def report_html(name: str, plan: Plan, measured: Measured, comparisons: Sequence[Comparison]) -> str:
    """The page.

    :param name: of the format.
    """
    rows = [
        (what, trace, replay, bound, "" if is_met is None else mark("met" if is_met else "missed", is_met))
        for what, trace, replay, bound, is_met in comparisons
    ]
    ticks = len(measured.running)
    instants = np.arange(1, ticks + 1, dtype=np.float64) * measured.tick_seconds
    running, taken = taken_over_time(plan.trace.jobs, instants)
    places = np.unique(np.linspace(0, max(ticks - 1, 0), min(ticks, _MOST_POINTS)).astype(np.int64))
    body = [
        "<h2>Comparisons</h2>", *table(("What", "Trace", "Replay", "Bound", "Verdict"), rows), "<h2>Over time</h2>",
        _plot("Jobs that run", instants, places, ("trace", running), ("replay", measured.running)),
        _plot("GPUs", instants, places, ("trace: shares", taken),
              ("replay: boards", measured.taken)),
    ]  # fmt: skip
    lines = [f"{job.name}: no place" for job in plan.placement.never]
    lines += [f"{placed.job.name}: {placed.delay_seconds:,.0f} s later" for placed in plan.placement.delayed]
    body += ["<h2>Without a place</h2>", *bullets(lines)] if lines else []
    return page(f"Replay of a trace: {printable(name)}", body)


def _plot(
    title: str, instants: NDArray[np.float64], places: NDArray[np.int64],
    *lines: tuple[str, NDArray[np.int64] | NDArray[np.float64]],
) -> str:  # fmt: skip
    series = [
        Series(name, colour, [(float(instants[place]), float(values[place])) for place in places])
        for (name, values), colour in zip(lines, (_TRACE_COLOUR, _REPLAY_COLOUR), strict=True)
    ]
    return line_plot(title, series)
