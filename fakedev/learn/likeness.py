"""What was read beside what a learnt fleet shows: quantiles of usage, power, memory, sizes and lengths of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from fakedev.fleet.cluster.jobs import SLOT_SECONDS, Arrivals
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.learn.cluster_fit import Window
from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, POWER, USAGE, Track

QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: A board is looked at so often, and a learnt fleet for at most so many boards times looks.
LOOK_SECONDS: Final = 60.0
_MOST_LOOKS: Final = 4_000_000
_MIB: Final = 2**20
#: A larger distance is far, as in doc/plausibility.md.
FAR: Final = 0.1


@dataclass(frozen=True)
class Row:
    """A quantity of both.

    :ivar read, learnt: at QUANTILES, in the unit that ``what`` names.
    :ivar distance: the mean difference of the quantiles, as a share of the largest value of both; of lengths and sizes
        the mean difference of the decimal logarithms.
    """

    what: str
    read: Floats
    learnt: Floats
    distance: float


def likeness(
    tracks: Sequence[Track], jobs: Sequence[SeenJob], spec: FleetSpec, window: Window, show: Callable[[float], None]
) -> list[Row]:
    """The quantities, in the order of a report.

    :param spec: of the learnt fleet, which is simulated for as long a time.
    :param show: is told the share that is done.
    """
    rows = _of_boards(tracks, spec, window, show)
    coming = [job for job in jobs if not job.is_older]
    if coming and spec.cluster is not None:
        boards = sum(len(pool.nodes) * pool.devices_per_node for pool in spec.pools)
        largest = max(max(size for size, _ in kind.sizes) for kind in spec.cluster.jobs)
        drawn = Arrivals(spec.seed, spec.cluster, boards, largest)
        span = window.end - window.begin
        come = [job for slot in range(round(span / SLOT_SECONDS)) for job in drawn.in_slot(slot, window.begin)]
        if come:
            # Both are seen until the window ends.
            lengths = [min(job.left_seconds, max(span - job.arrived_seconds, window.step)) for job in come]
            rows.append(_row("lengths of jobs, s", [job.seconds for job in coming], lengths, is_logarithmic=True))
            sizes = [job.size for job in coming], [job.size for job in come]
            rows.append(_row("boards of jobs", *sizes, is_logarithmic=True))
            per_day = 86_400.0 / span
            rows.append(_row("jobs a day", [len(coming) * per_day], [len(come) * per_day], is_logarithmic=True))
    return rows


def _of_boards(
    tracks: Sequence[Track], spec: FleetSpec, window: Window, show: Callable[[float], None]
) -> list[Row]:
    fleet = Fleet(spec)
    boards = len(fleet.usage_ratio)
    looks = max(min(round((window.end - window.begin) / LOOK_SECONDS), _MOST_LOOKS // boards), 1)
    every = max(round(LOOK_SECONDS / spec.tick_seconds), 1)
    shown: dict[str, list[Floats]] = {USAGE: [], POWER: [], MEMORY: []}
    for look in range(looks):
        for _ in range(every):
            fleet.advance()
        for quantity, found in shown.items():
            found.append(getattr(fleet, quantity).copy())
        show((look + 1) / looks)
    units = {USAGE: ("usage, %", 100.0), POWER: ("power, W", 1.0), MEMORY: ("memory, MiB", 1.0 / _MIB)}
    rows = []
    for quantity, (what, factor) in units.items():
        read = [track.numbers[quantity] for track in tracks if quantity in track.numbers]
        if read:
            rows.append(_row(what, factor * np.concatenate(read), factor * np.concatenate(shown[quantity])))
    return rows


def _row(
    what: str, read: ArrayLike, learnt: ArrayLike, *, is_logarithmic: bool = False
) -> Row:
    one, other = (np.asarray(np.quantile(np.asarray(each), QUANTILES), dtype=np.float64) for each in (read, learnt))
    if is_logarithmic:
        apart = float(np.abs(np.log10(np.maximum(one, 1.0)) - np.log10(np.maximum(other, 1.0))).mean())
    else:
        apart = float(np.abs(one - other).mean()) / max(float(np.maximum(one, other).max()), 1e-9)
    return Row(what, one, other, apart)
