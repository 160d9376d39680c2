"""What was read and what a learnt fleet shows: quantiles of usage, power, memory, sizes and lengths of jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fakedev.fleet.cluster.jobs import SLOT_SECONDS, Arrivals
from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.learn.oddities import THROTTLES, Counters
from fakedev.learn.seen_jobs import ENOUGH_JOBS, SeenJob
from fakedev.learn.tracks import MEMORY, POWER, USAGE, Track
from fakedev.learn.usage_fit import LEAST_SAMPLES, MOST_COMPARED, Window, matrices, together

QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: Looks at a board, and the limit of boards times looks of a learnt fleet.
LOOK_SECONDS: Final = 60.0
_MOST_LOOKS: Final = 4_000_000
#: A fleet with fewer is simulated with several seeds: a day of few boards has few large jobs, whose memory and length
#: are a matter of chance.
_ENOUGH_LOOKS: Final = 400_000
_MOST_DRAWS: Final = 4
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
    tracks: Sequence[Track], jobs: Sequence[SeenJob], counters: Counters, spec: FleetSpec, window: Window,
    show: Callable[[float], None],
) -> list[Row]:  # fmt: skip
    """The quantities, in the order of a report.

    :param tracks: of whole boards.
    :param spec: of the learnt fleet, which is simulated for as long a time, a small one with several seeds.
    :param show: is told the share that is done.
    """
    boards = sum(len(pool.nodes) * pool.devices_per_node for pool in spec.pools)
    looks = max(min(round((window.end - window.begin) / LOOK_SECONDS), _MOST_LOOKS // boards), 1)
    count = min(max(_ENOUGH_LOOKS // (boards * looks), 1), _MOST_DRAWS)
    specs = [replace(spec, seed=spec.seed + number) for number in range(count)]
    draws = [
        _drawn(own, looks, lambda share, number=number: show((number + share) / count))  # type: ignore[misc]
        for number, own in enumerate(specs)
    ]
    if not draws[0].owners.size:  # all boards are divided
        return []
    rows = _of_boards(tracks, jobs, counters, draws, window)
    coming = [job for job in jobs if not job.is_older]
    if len(coming) >= ENOUGH_JOBS and spec.cluster is not None:
        largest = max(max(size for size, _ in kind.sizes) for kind in spec.cluster.jobs)
        span = window.end - window.begin
        arrivals = [Arrivals(own.seed, spec.cluster, boards, largest) for own in specs]
        come = [
            job for drawn in arrivals for slot in range(round(span / SLOT_SECONDS))
            for job in drawn.in_slot(slot, window.begin)
        ]  # fmt: skip
        if come:
            # Both are seen until the window ends.
            lengths = [min(job.left_seconds, max(span - job.arrived_seconds, window.step)) for job in come]
            rows.append(_row("lengths of jobs, s", [job.seconds for job in coming], lengths, is_logarithmic=True))
            sizes = [job.size for job in coming], [job.size for job in come]
            rows.append(_row("boards of jobs", *sizes, is_logarithmic=True))
            per_day = 86_400.0 / span
            rows.append(_row("jobs a day", [len(coming) * per_day], [len(come) * per_day / count], is_logarithmic=True))
    return rows


class _Draw(NamedTuple):
    """What the whole boards of a learnt fleet show with a seed.

    :ivar shown: by quantity, shape (looks, boards).
    :ivar owners: the same shape.
    :ivar throttled: seconds in which something took clock away, by its quantity; the mean of boards.
    """

    shown: dict[str, Floats]
    owners: Keys
    throttled: dict[str, float]


def _drawn(spec: FleetSpec, looks: int, show: Callable[[float], None]) -> _Draw:
    fleet = Fleet(spec)
    is_whole = fleet.roster.parts.is_whole
    every = max(round(LOOK_SECONDS / spec.tick_seconds), 1)
    shown: dict[str, list[Floats]] = {USAGE: [], POWER: [], MEMORY: []}
    owners: list[Keys] = []
    for look in range(looks):
        for _ in range(every):
            fleet.advance()
        for quantity, found in shown.items():
            found.append(getattr(fleet, quantity)[is_whole])
        owners.append(_owners(fleet)[is_whole])
        show((look + 1) / looks)
    throttled = {name: getattr(fleet, name) for name in THROTTLES if hasattr(fleet, name)}
    return _Draw(
        {quantity: np.array(found) for quantity, found in shown.items()}, np.array(owners),
        {name: float(np.nan_to_num(seconds).mean()) for name, seconds in throttled.items()},
    )  # fmt: skip


def _of_boards(
    tracks: Sequence[Track], jobs: Sequence[SeenJob], counters: Counters, draws: Sequence[_Draw], window: Window
) -> list[Row]:
    units = {USAGE: ("usage, %", 100.0), POWER: ("power, W", 1.0), MEMORY: ("memory, MiB", 1.0 / _MIB)}
    rows = []
    for quantity, (what, factor) in units.items():
        read = [track.numbers[quantity] for track in tracks if quantity in track.numbers]
        if read:
            learnt = np.concatenate([draw.shown[quantity] for draw in draws])
            rows.append(_row(what, factor * np.concatenate(read), factor * learnt))
    lag = max(round(window.step / LOOK_SECONDS), 1)
    before, after = _pairs(tracks, lag * LOOK_SECONDS)
    looks = len(draws[0].owners)
    if len(before) and looks > lag:
        usages = [draw.shown[USAGE] for draw in draws]
        own = _correlation(
            np.concatenate([usage[:-lag] for usage in usages]), np.concatenate([usage[lag:] for usage in usages])
        )
        what = f"autocorrelation of usage after {lag * LOOK_SECONDS:g} s"
        rows.append(_number(what, _correlation(before, after), own))
    alike = together(matrices([job for job in jobs if not job.is_constant]))
    shown_alike = together(job for draw in draws for job in _shown_jobs(draw.shown[USAGE], draw.owners))
    if alike is not None and shown_alike is not None:
        rows.append(_number("correlation of two boards of a job", alike, shown_alike))
    span = looks * LOOK_SECONDS
    for quantity, what in THROTTLES.items():
        risen, _, seconds = counters.watched(quantity)
        if seconds and quantity in draws[0].throttled:
            learnt_seconds = float(np.mean([draw.throttled[quantity] for draw in draws]))
            rows.append(_number(what, 100.0 * risen / seconds, 100.0 * learnt_seconds / span))
    return rows


def _pairs(tracks: Sequence[Track], lag: float) -> tuple[Floats, Floats]:
    """Values of the usage of boards, whoever had them, and the values some seconds later."""
    boards: dict[tuple[str, str], list[Track]] = defaultdict(list)
    for track in tracks:
        boards[track.device].append(track)
    found: list[tuple[Floats, Floats]] = [(np.zeros(0), np.zeros(0))]
    for own in boards.values():
        seconds = np.concatenate([track.seconds for track in own])
        order = np.argsort(seconds, kind="stable")
        seconds, usage = seconds[order], np.concatenate([track.numbers[USAGE] for track in own])[order]
        later = np.minimum(np.searchsorted(seconds, seconds + lag), len(seconds) - 1)
        there = np.flatnonzero(seconds[later] == seconds + lag)
        found.append((usage[there].astype(np.float64), usage[later[there]].astype(np.float64)))
    return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])


def _correlation(one: Floats, other: Floats) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1]) if one.std() and other.std() else 1.0


def _owners(fleet: Fleet) -> Keys:
    """The key of the work of each board, which is that of its whole job; 0: none."""
    owners = np.zeros(fleet.roster.parts.unit_count, dtype=np.uint64)
    table = fleet.workloads.table
    owners[table.device] = table.each(table.keys)
    return owners[: fleet.roster.parts.device_count]


def _shown_jobs(usage: Floats, owners: Keys) -> Iterator[Floats]:
    """The usage of the boards of some jobs with several, but for those that are there all the time.

    :param usage, owners: shape (looks, boards).
    """
    order = np.argsort(owners, axis=None, kind="stable")
    keys, begins = np.unique(owners.ravel()[order], return_index=True)
    found = []
    for key, places in zip(keys, np.split(order, begins[1:]), strict=True):
        looks, boards = np.divmod(places, owners.shape[1])
        job_boards = np.unique(boards)
        # Those at which it has all of its boards.
        looks = np.flatnonzero(np.bincount(looks) == len(job_boards))
        if key and len(job_boards) > 1 and LEAST_SAMPLES <= len(looks) < len(owners):
            found.append((looks, job_boards))
    for looks, job_boards in found[:: math.ceil(len(found) / MOST_COMPARED) or 1]:
        yield usage[np.ix_(looks, job_boards)].T


def _number(what: str, read: float, learnt: float) -> Row:
    """A row of a quantity without a distribution."""
    every = np.ones(len(QUANTILES))
    return Row(what, read * every, learnt * every, abs(read - learnt))


def _row(
    what: str, read: ArrayLike, learnt: ArrayLike, *, is_logarithmic: bool = False
) -> Row:
    one, other = (np.asarray(np.quantile(np.asarray(each), QUANTILES), dtype=np.float64) for each in (read, learnt))
    if is_logarithmic:
        apart = float(np.abs(np.log10(np.maximum(one, 1.0)) - np.log10(np.maximum(other, 1.0))).mean())
    else:
        apart = float(np.abs(one - other).mean()) / max(float(np.maximum(one, other).max()), 1e-9)
    return Row(what, one, other, apart)
