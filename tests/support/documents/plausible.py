"""A simulated day of a preset beside what was published of a real cluster: doc/plausibility.md.

Run as a script it writes the page again (``make plausible``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np

from fakedev.config.load import load
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from tests.support.paths import DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "plausibility.md"
QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: Ticks of 10 s in a day, of which one in seven is kept: it is no divisor of anything in the profiles.
TICKS: Final = 8640
KEPT: Final = 7
NODES: Final = 16
#: The largest distance that counts as plausible, as a share of the scale.
BOUND: Final = 0.1


@dataclass(frozen=True)
class Published:
    """What was published of a quantity.

    :param quantity: as the simulation names it; times a factor.
    :param scale: what a distance is a share of, in the unit that is shown.
    :param values: at QUANTILES.
    """

    what: str
    quantity: str
    factor: float
    scale: float
    values: tuple[float, ...]


#: Acme (InternLM, CC BY 4.0), cluster Seren: A100s of 80 GB, every 15 s; power and temperatures are of August 2023, the
#: others of six months. Read from the distributions in data/utilization of its repository.
SEREN: Final = (
    Published("power, W", "power_watts", 1, 400, (61.8, 63.0, 66.2, 96.5, 290.2, 395.1, 407.7, 436.6)),
    Published("usage, %", "usage_ratio", 100, 100, (0, 0, 0, 99, 99, 100, 100, 100)),
    Published("SM active, %", "sm_active_ratio", 100, 100, (0, 0, 0, 50.2, 73.0, 80.9, 85.0, 92.2)),
    Published("SM occupancy, %", "sm_occupancy_ratio", 100, 100, (0, 0, 0, 14.0, 20.4, 23.8, 30.5, 49.0)),
    Published("memory used, %", "memory_used_ratio", 100, 100, (0, 0, 0, 39.3, 60.9, 82.7, 95.9, 98.9)),
    Published("core temperature, C", "temperature_celsius", 1, 50, (27, 28, 31, 39, 53, 61, 65, 69)),
    Published("memory temperature, C", "memory_temperature_celsius", 1, 50, (39, 43, 46, 51, 59, 64, 66, 69)),
)


@cache
def day_of(preset: str, nodes: int = NODES, ticks: int = TICKS) -> dict[str, Floats]:
    """What nodes of 8 A100s of 80 GB show: by quantity, shape (ticks that are kept, devices)."""
    pool = f"{{name: dgx, nodes: {nodes}, device: a100-80gb, devices-per-node: 8, profile: {preset}, identity: dcgm}}"
    text = f"version: 1\nfleet: {{seed: 7, epoch: 0, tick: 10s, pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}\n"
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    seen: dict[str, list[Floats]] = {each.quantity: [] for each in SEREN}
    for tick in range(ticks):
        fleet.advance()
        if tick % KEPT == KEPT - 1:
            for name, kept in seen.items():
                kept.append(getattr(fleet, name))
    return {name: np.array(kept) for name, kept in seen.items()}


def distance(published: Published, day: dict[str, Floats]) -> tuple[Floats, float]:
    """The quantiles of a day, and their mean distance to the published ones as a share of the scale."""
    ours: Floats = np.quantile(published.factor * day[published.quantity], QUANTILES)
    return ours, float(np.abs(ours - np.array(published.values)).mean()) / published.scale


def correlations(day: dict[str, Floats]) -> tuple[float, float]:
    """The median correlation of the power of two boards of a node that trains, and of two of different nodes."""
    nodes = day["power_watts"].reshape(len(day["power_watts"]), -1, 8)
    usage = day["usage_ratio"].reshape(nodes.shape)
    training = np.flatnonzero((usage.min(axis=0) >= 0).all(axis=1) & (usage.mean(axis=0).min(axis=1) > 0.8))
    of_job = [np.corrcoef(nodes[:, node, 0], nodes[:, node, 1])[0, 1] for node in training]
    strangers = [
        np.corrcoef(nodes[:, one, 0], nodes[:, other, 0])[0, 1]
        for one, other in pairwise(training)
    ]
    return float(np.median(of_job)), float(np.median(strangers))


def page() -> str:
    """The page."""
    day = day_of("research")
    head = " | ".join(f"p{100 * each:g}" for each in QUANTILES)
    lines = [
        "# Plausibility\n\n",
        "This page compares a simulated day with what was published of a real cluster. `make plausible` writes it.\n\n",
        f"The simulated one: {NODES} nodes of 8 A100s of 80 GB with the preset `research`, seed 7, ticks of 10 s. ",
        "The real one: Acme's cluster Seren (InternLM, A100s of 80 GB, a value every 15 s; power and temperatures of ",
        "August 2023, the others of six months), as quantiles of the distributions that its repository has.\n\n",
        "*Distance* is the mean difference of the quantiles, as a share of 400 W, 100 % or 50 K. The bound is ",
        f"{BOUND:g}.\n\n",
        f"| | | {head} | distance | |\n|---|---|{'---|' * len(QUANTILES)}---|---|\n",
    ]
    for each in SEREN:
        ours, apart = distance(each, day)
        verdict = "within the bound" if apart <= BOUND else "**off**"
        lines += [
            f"| {each.what} | Seren | {' | '.join(f'{value:g}' for value in each.values)} | | |\n",
            f"| | `research` | {' | '.join(f'{value:.1f}' for value in ours)} | {apart:.3f} | {verdict} |\n",
        ]
    of_job, strangers = correlations(day)
    idle = float((day["usage_ratio"].max(axis=0) <= 0).mean())
    lines += [
        f"\nCorrelation of the power of two boards of one job: {of_job:.2f}; of boards of different jobs: ",
        f"{strangers:.2f}. Boards that are idle all day: {100 * idle:.0f} %. ",
        "Nothing was published to compare these with.\n\n",
        "Usage of presets like PAI's and GenTD26's is in [simulation.md](simulation.md#profiles-by-name).\n\n",
        "What is not like a real cluster: jobs do not end, wait for devices or move between nodes, so that a board ",
        "does the same work all day; memory in use has the few values of the profiles.\n",
    ]
    return "".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(page(), encoding="utf-8")
