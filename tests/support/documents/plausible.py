"""A simulated week of a living cluster beside what was published of real ones: doc/plausibility.md.

Run as a script it writes the page again (``make plausible``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Final

import numpy as np

from fakedev.config.load import load
from fakedev.fleet.cluster.jobs import Arrivals
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.schema.files import Files
from tests.support.paths import DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "plausibility.md"
QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
TICK_SECONDS: Final = 60
#: A week.
TICKS: Final = 7 * 86_400 // TICK_SECONDS
NODES: Final = 16
#: Correlations are of so many ticks, in which a board has one job.
WINDOW: Final = 120
#: The largest distance that counts as plausible, as a share of the scale.
BOUND: Final = 0.1
#: The largest mean difference of the decimal logarithms of lengths.
BOUND_OF_LENGTHS: Final = 0.2

#: GenTD26 (Alibaba, cluster-trace-v2026-GenAI): duty cycles of 110 pods of a service that makes images, a value a
#: minute for 22.8 h from 9:12 in the morning of its users; means of all pods by hour, medians of autocorrelations.
GENTD26: Final = (0.0, 0.0, 0.0, 0.0, 9.6, 24.8, 32.1, 79.8)
LAGS: Final = (1, 10, 60, 240)
GENTD26_CORRELATIONS: Final = (0.343, 0.286, 0.229, 0.124)
GENTD26_HOURS: Final = (
    3.6, 11.8, 15.4, 12.1, 6.3, 13.6, 16.3, 18.6, 15.6, 12.4, 5.7, 4.1, 4.0, 4.5, 3.0, 2.6, 2.0, 1.0, 1.7, 1.4, 1.6,
    1.0,
)
#: Services like it. 27 boards: a request every 104 s for each at the busiest time, of 35 s at 42 % usage after 5 s of
#: loading. As about an eighth of the real pods, 5 boards have requests of 80 s at 97 %.
IMAGES: Final = ", ".join(
    f"""{{name: {name}, boards: 1, least: {boards}, most: {boards}, requests: {requests}, night: 0.03, prompt-tokens: 5,
    prefill-tokens: 1, output-tokens: {tokens}, running: 1, seconds-per-token: 0.35, profile: "{usage}",
    intensity: "60:10", kind: training, metrics: {{memory: 52%}}}}"""
    for name, boards, requests, tokens, usage in (("images", 27, 0.26, 100, 42), ("pictures", 5, 0.018, 230, 97))
)


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
#: openb (Alibaba, cluster-trace-gpu-v2023): lengths in seconds of the 6,203 pods with GPUs that ran.
OPENB_SECONDS: Final = (48.0, 67.0, 183.0, 655.0, 2301.0, 7380.0, 16_921.0, 145_258.0)


def spec_of(preset: str, nodes: int = NODES) -> FleetSpec:
    """Nodes of 8 A100s of 80 GB with a preset, from a Monday on."""
    pool = f"{{name: dgx, nodes: {nodes}, device: a100-80gb, devices-per-node: 8, identity: dcgm}}"
    fleet = f'seed: 7, epoch: "2027-01-18T00:00:00Z", tick: {TICK_SECONDS}s, cluster: {preset}, pools: [{pool}]'
    text = f"version: 1\nfleet: {{{fleet}}}\nweb: []\nworkloads: {{listen: []}}\n"
    return load(None, Files(environ={}), text=text).fleet


@dataclass(frozen=True)
class Week:
    """What a cluster shows in a week.

    :param seen: by quantity, shape (ticks, devices).
    :param jobs: the key of the job of each board, 0 for none: shape (ticks, devices).
    :param ends: how many jobs have ended, by how.
    """

    seen: dict[str, Floats]
    jobs: Floats
    ends: dict[str, int]


@cache
def week_of(preset: str, nodes: int = NODES, ticks: int = TICKS) -> Week:
    """A simulated week."""
    fleet = Fleet(spec_of(preset, nodes))
    seen: dict[str, list[Floats]] = {each.quantity: [] for each in SEREN}
    jobs = []
    for _ in range(ticks):
        fleet.advance()
        for name, kept in seen.items():
            kept.append(getattr(fleet, name))
        table, owner = fleet.workloads.table, np.zeros(len(fleet.usage_ratio))
        owner[table.device] = table.keys[table.owner].astype(np.float64)
        jobs.append(owner)
    assert fleet.cluster is not None
    return Week({name: np.array(kept) for name, kept in seen.items()}, np.array(jobs), dict(fleet.cluster.ends))


def distance(published: Published, week: Week) -> tuple[Floats, float]:
    """The quantiles of a week, and their mean distance to the published ones as a share of the scale."""
    ours: Floats = np.quantile(published.factor * week.seen[published.quantity], QUANTILES)
    return ours, float(np.abs(ours - np.array(published.values)).mean()) / published.scale


def correlations(week: Week) -> tuple[float, float]:
    """The median correlation of the power of two boards of one job, and of boards of two jobs, over two hours."""
    of_job: list[float] = []
    strangers: list[float] = []
    for first in range(0, len(week.jobs) - WINDOW, WINDOW):
        jobs, power = (each[first : first + WINDOW] for each in (week.jobs, week.seen["power_watts"]))
        steady = np.flatnonzero((jobs == jobs[0]).all(axis=0) & (jobs[0] > 0) & (power.std(axis=0) > 1.0))
        for one, other in combinations(steady[:40].tolist(), 2):
            found = float(np.corrcoef(power[:, one], power[:, other])[0, 1])
            (of_job if jobs[0, one] == jobs[0, other] else strangers).append(found)
    return float(np.median(of_job)), float(np.median(strangers))


def lengths() -> tuple[Floats, float]:
    """The quantiles of the lengths of jobs of the preset ``inference``, and the distance of their logarithms."""
    spec = spec_of("inference").cluster
    assert spec is not None
    arrivals = Arrivals(7, spec, 50_000, 8)
    drawn = [job.left_seconds for slot in range(100) for job in arrivals.in_slot(slot, 0.0) if job.kind == "batch"]
    ours: Floats = np.quantile(drawn, QUANTILES)
    return ours, float(np.abs(np.log10(ours / np.array(OPENB_SECONDS))).mean())


@cache
def images() -> Floats:
    """Usage of boards that make images over 22 hours, a value a minute, percent: shape (minutes, devices)."""
    pool = "{name: images, nodes: 4, device: l40s, devices-per-node: 8, identity: dcgm}"
    cluster = f"{{busiest: 15, failure-hours: 1000000000, services: [{IMAGES}]}}"
    fleet = f'seed: 11, epoch: "2027-01-18T04:00:00Z", tick: 60s, cluster: {cluster}, pools: [{pool}]'
    fleet_spec = load(None, Files(environ={}), text=f"version: 1\nfleet: {{{fleet}}}\nweb: []\n").fleet
    simulated, seen = Fleet(fleet_spec), []
    for _ in range(60 * len(GENTD26_HOURS)):
        simulated.advance()
        seen.append(100 * simulated.usage_ratio)
    return np.array(seen)


def services() -> str:
    """The section on services."""
    duty = images()
    ours = np.quantile(duty, QUANTILES)
    apart = float(np.abs(ours - np.array(GENTD26)).mean()) / 100
    centred = duty - duty.mean(axis=0)
    correlations = [
        float(np.median((centred[lag:] * centred[:-lag]).mean(axis=0) / centred.var(axis=0))) for lag in LAGS
    ]
    differ = max(abs(one - other) for one, other in zip(correlations, GENTD26_CORRELATIONS, strict=True))
    hours = duty.reshape(len(GENTD26_HOURS), -1).mean(axis=1)
    of_days = float(np.abs(np.sort(hours) - np.sort(GENTD26_HOURS)).mean()) / 100
    heads = [f"p{100 * quantile:g}" for quantile in QUANTILES], [f"{lag} min" for lag in LAGS]
    lines = [
        "\n## A service that makes images\n\n",
        "Alibaba's GenTD26 has the duty cycles of 110 pods with a GPU each, a value a minute, for 22.8 h. Beside it ",
        "32 boards of two services with `running: 1`: 27 with requests of 35 s at 42 % usage, five with longer ones. ",
        "The real values ",
        "are fifteenths of a percent: means of 15 whole percents, one every four seconds. The simulated ones are ",
        "means of ticks of a minute; for the same fifteenths use ticks of 4 s and the average of a minute of ",
        "`DCGM_FI_DEV_GPU_UTIL`.\n\n",
        f"| duty cycle, % | {' | '.join(heads[0])} | distance | |\n|---|{'---|' * len(QUANTILES)}---|---|\n",
        f"| GenTD26 | {' | '.join(f'{value:.1f}' for value in GENTD26)} | | |\n",
        f"| simulated | {' | '.join(f'{value:.1f}' for value in ours)} | {apart:.3f} | {_verdict(apart)} |\n\n",
        f"| correlation of a board with itself after | {' | '.join(heads[1])} | most apart | |\n",
        f"|---|{'---|' * len(LAGS)}---|---|\n",
        f"| GenTD26 | {' | '.join(f'{value:.2f}' for value in GENTD26_CORRELATIONS)} | | |\n",
        f"| simulated | {' | '.join(f'{value:.2f}' for value in correlations)} | {differ:.2f} ",
        f"| {_verdict(differ)} |\n\n",
        "Means of all boards, hour by hour, %:\n\n",
        *(f"    {name:10}{''.join(f'{value:5.0f}' for value in values)}\n"
          for name, values in (("GenTD26", np.array(GENTD26_HOURS)), ("simulated", hours))),
        f"\nThe hours in order of their means are {of_days:.3f} apart (bound {BOUND:g}). The real day has a dip at ",
        "noon, and falls at once in the evening; ours is a wave.\n",
    ]
    return "".join(lines)


def _verdict(apart: float) -> str:
    return "within the bound" if apart <= BOUND else "**off**"


def page() -> str:
    """The page."""
    week = week_of("research")
    head = " | ".join(f"p{100 * quantile:g}" for quantile in QUANTILES)
    lines = [
        "# Plausibility\n\n",
        "This page compares a simulated week with what was published of real clusters. `make plausible` writes it.\n\n",
        f"The simulated one: {NODES} nodes of 8 A100s of 80 GB with `cluster: research`, seed 7, ticks of ",
        f"{TICK_SECONDS} s, so that all values are means of a minute. ",
        "The real one: Acme's cluster Seren (InternLM, A100s of 80 GB, a value every 15 s; power and temperatures of ",
        "August 2023, the others of six months), as quantiles of the distributions that its repository has.\n\n",
        "*Distance* is the mean difference of the quantiles, as a share of 400 W, 100 % or 50 K. The bound is ",
        f"{BOUND:g}.\n\n",
        f"| | | {head} | distance | |\n|---|---|{'---|' * len(QUANTILES)}---|---|\n",
    ]
    for each in SEREN:
        ours, apart = distance(each, week)
        verdict = _verdict(apart)
        lines += [
            f"| {each.what} | Seren | {' | '.join(f'{value:g}' for value in each.values)} | | |\n",
            f"| | `research` | {' | '.join(f'{value:.1f}' for value in ours)} | {apart:.3f} | {verdict} |\n",
        ]
    of_lengths, apart = lengths()
    verdict = "within the bound" if apart <= BOUND_OF_LENGTHS else "**off**"
    of_job, strangers = correlations(week)
    days = week.seen["usage_ratio"].reshape(7, -1, week.jobs.shape[1])
    ended = week.ends["finished"] + week.ends["failed"]
    lines += [
        f"| length of jobs, s | openb | {' | '.join(f'{value:g}' for value in OPENB_SECONDS)} | | |\n",
        f"| | `inference` | {' | '.join(f'{value:.0f}' for value in of_lengths)} | {apart:.3f} | {verdict} |\n",
        "\nThe lengths are of Alibaba's openb (2023, 6,203 pods with GPUs) and of the jobs `batch` of ",
        f"`cluster: inference`; their distance is of decimal logarithms, and its bound {BOUND_OF_LENGTHS:g}.\n\n",
        f"Of {ended} jobs {100 * week.ends['failed'] / ended:.0f} % failed; about 40 % did at Acme ",
        "([Hu and others, 2024](https://arxiv.org/abs/2403.07648)). ",
        f"Correlation of the power of two boards of one job, over two hours: {of_job:.2f}; of two jobs: ",
        f"{strangers:.2f}. Boards that are idle for a whole day: {100 * float((days.max(axis=1) <= 0).mean()):.0f} %. ",
        "Nothing was published to compare these with.\n\n",
        "Usage of profiles like PAI's and GenTD26's is in [simulation.md](simulation.md#profiles-by-name).\n\n",
        "What is not like a real cluster: the scheduler knows how long jobs will take, but for what slow boards add; ",
        "users do not stop their jobs.\n",
        services(),
    ]
    return "".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(page(), encoding="utf-8")
