"""What a replay would come to with other boards, other limits, other places: waits, energy, throttling, costs."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fakedev.replay.compare import Measured
from fakedev.replay.schedule import Plan

_HOUR: Final = 3600.0
_KWH: Final = 3.6e6


class Prices(NamedTuple):
    """What a board costs for each hour that it is there, used or not, and a kWh of its energy, in any currency."""

    board_hour: float
    kwh: float


def prices_of(text: str) -> Prices:
    """Prices from ``BOARD_HOUR:KWH``.

    :raises ValueError: for another text.
    """
    try:
        board_hour, kwh = map(float, text.split(":"))
    except ValueError:
        board_hour = kwh = -1.0
    if not (0 <= board_hour <= 1e6 and 0 <= kwh <= 1e6):
        raise ValueError(f"{text[:40]!r} is no BOARD_HOUR:KWH, as 2.50:0.30, each from 0 to 1000000")
    return Prices(board_hour, kwh)


def outcome(name: str, plan: Plan, measured: Measured, span_seconds: float, prices: Prices | None) -> dict[str, str]:
    """The row of a replay in a table.

    :param name: what it has of its own.
    :param span_seconds: of the replay.
    """
    came = [placed for placed in plan.placement.placed if placed.job.submit_seconds < span_seconds]
    # A job that still waits has waited until the end: without it, the more wait the shorter the waits would look.
    waits = [min(placed.start_seconds, span_seconds) - placed.job.submit_seconds for placed in came]
    begun = sum(placed.start_seconds < span_seconds for placed in came)
    boards = sum(node.devices for node in plan.trace.nodes)
    kwh = measured.energy_joules / _KWH
    mean_wait, most_wait = (np.mean(waits), np.quantile(waits, 0.95)) if waits else (0.0, 0.0)
    row = {
        "": name,
        "BOARDS": f"{boards:,}",
        "HOURS": f"{span_seconds / _HOUR:,.2f}",
        "JOBS": f"{begun:,}",
        "STILL WAIT": f"{len(came) - begun:,}",
        "NO PLACE": f"{len(plan.placement.never):,}",
        "WAIT, MEAN": f"{mean_wait:,.0f} s",
        "WAIT, 95 %": f"{most_wait:,.0f} s",
        "IN USE": f"{100 * float(measured.taken.mean()) / boards:.1f} %",
        "ENERGY": f"{kwh:,.2f} kWh",
        "THROTTLED": f"{measured.throttled_seconds / _HOUR:,.2f} h",
    }
    if prices is not None:
        row["COST"] = f"{boards * span_seconds / _HOUR * prices.board_hour + kwh * prices.kwh:,.2f}"
    return row
