"""Usage over a simulated day beside published distributions: the table of doc/simulation.md.

Run as a script it writes the table again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fakedev.config.load import load
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from tests.support.documents.sections import between
from tests.support.paths import DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "simulation.md"
BEGIN: Final = "<!-- days: begin -->\n"
END: Final = "<!-- days: end -->\n"
HEAD: Final = (
    "| | mean | median | p75 | p90 | p99 | zero | 10 to 80 % | minute to minute |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
#: What was published, in the columns of the table.
PAI: Final = "| published: PAI, instances (6,500 GPUs, two months) | 10.5 % | 1.5 % | | | | | | |\n"
GENTD26: Final = "| published: GenTD26, minute (22.8 h) | 7.0 % | 0 % | 9.5 % | 24.7 % | 78.6 % | 67 % | | 0.33 |\n"
_NODES, _MINUTES = 192, 1440
#: Usage below this is none, in percent.
_ZERO = 0.5


class Day(NamedTuple):
    """Usage in percent: of each device in each minute, shape (minutes, devices), and the means of the devices."""

    minutes: Floats
    devices: Floats


def day_of(profile: str, nodes: int = _NODES) -> Day:
    """A day of nodes with 8 H100s."""
    pool = f"{{name: dgx, nodes: {nodes}, device: h100, devices-per-node: 8, profile: {profile}, identity: dcgm}}"
    text = f"version: 1\nfleet: {{seed: 7, epoch: 0, tick: 60s, pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}\n"
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    seen = []
    for _ in range(_MINUTES):
        fleet.advance()
        seen.append(100.0 * fleet.usage_ratio)
    minutes = np.array(seen)
    return Day(minutes, minutes.mean(axis=0))


def correlation(minutes: Floats) -> float:
    """The median of the devices' correlation from minute to minute; devices that never change have none."""
    around = minutes - minutes.mean(axis=0)
    squares = (around**2).sum(axis=0)
    changing = squares > 0
    products = (around[1:] * around[:-1]).sum(axis=0)
    return float(np.median(products[changing] / squares[changing]))


def row(what: str, values: Floats, minutes: Floats | None = None) -> str:
    """A row of the table.

    :param minutes: by device, for the correlation; None: there is none.
    """
    shown = [f"{value:.1f} %" for value in (values.mean(), *np.quantile(values, [0.5, 0.75, 0.9, 0.99]))]
    shown += [f"{100 * share:.0f} %" for share in (np.mean(values < _ZERO), np.mean((values > 10) & (values < 80)))]
    shown.append("" if minutes is None else f"{correlation(minutes):.2f}")
    return f"| {what} | {' | '.join(shown)} |\n".replace("|  |", "| |")


def table() -> str:
    """The table: each published distribution, and what is like it here."""
    cluster, notebook, research = day_of("cluster"), day_of("notebook"), day_of("research")
    return HEAD + "".join((
        PAI, row("`cluster`, device-day", cluster.devices),
        row("`cluster`, minute", cluster.minutes.ravel(), cluster.minutes),
        GENTD26, row("`notebook`, minute", notebook.minutes.ravel(), notebook.minutes),
        row("`research`, minute", research.minutes.ravel(), research.minutes),
    ))  # fmt: skip


def main() -> None:
    """Write the table."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(between(text, BEGIN, END, table()), encoding="utf-8")


if __name__ == "__main__":
    main()
