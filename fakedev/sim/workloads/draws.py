"""Values of profiles without a closed form: random values, and values that follow the wall clock.

The part of random values is the sum over the draws in the tick. A draw is a pure function of the seed, the workload,
the quantity, the run through the profile, the segment and the number of the draw in it. A tick steps through its draws,
one draw of all workloads at a time; MAX_DRAWS bounds how many there may be.

A day is a sum of waves: two that peak at its hour, and three shorter ones that are the same for all replicas of a
service. Its integral between two times of the wall clock is exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys, sub_keys, uniform
from fakedev.sim.entities.state import Mask, Positions
from fakedev.sim.workloads.schedule import Profiles
from fakedev.sim.workloads.segments import FIRST_DRAWN, Shape
from fakedev.spec.fleet import FOREVER
from fakedev.spec.value_functions import DAY_SECONDS

#: Numbers of a profile's segments, as part of a draw's key, are below this.
_MAX_SEGMENTS: Final = 16_384
#: Period in seconds and weight of the waves of a day; those of whole parts of a day peak at its hour. The weights add
#: up to 1, so that a day stays between its lowest and its highest value.
_WAVES: Final = (
    (DAY_SECONDS, 0.80), (DAY_SECONDS / 2, 0.08), (5437.0, 0.06), (1129.0, 0.04), (211.0, 0.02),
)  # fmt: skip


def segment_keys(keys: Keys, run: Floats, place: Positions) -> Keys:
    """Keys of the draws in one run through a segment of each workload: shape (N,).

    :param run, place: the run's number, and the segment's in the profile.
    """
    return sub_keys(keys, run.astype(np.uint64) * np.uint64(_MAX_SEGMENTS) + place.astype(np.uint64))


def day_integrals(
    profiles: Profiles, seed: int, services: Keys, start: Floats, end: Floats, wall_seconds: Floats | float
) -> Floats | None:
    """The integrals of ``daily`` beyond its lowest value, as :func:`drawn_integrals`; None if no workload has it.

    Such an activity is the last one of its profile and has no end.

    :param services: keys of the workloads' services, shape (W,).
    :param wall_seconds: of the wall clock at ``start``, since 1970.
    """
    rows = profiles.days
    if not len(rows):
        return None
    segment = profiles.lasts[rows]
    begin = np.maximum(start[rows], profiles.starts[segment])
    lasts = np.maximum(end[rows] - begin, 0.0)
    wall = np.broadcast_to(wall_seconds, start.shape)[rows] + begin - start[rows]
    share = 0.5 * lasts
    for number, (period, weight) in enumerate(_WAVES):
        is_fixed = DAY_SECONDS % period == 0
        peak = profiles.offset[segment] if is_fixed else period * uniform(seed, services[rows], "demand", number)
        middle = np.mod(wall + 0.5 * lasts - peak, period)
        wave = np.cos(2.0 * np.pi * middle / period) * np.sin(np.pi * lasts / period)
        share = share + 0.5 * weight * period / np.pi * wave
    total = np.zeros(len(profiles.profile))
    total[rows] = profiles.width[segment] * share
    return total


def drawn_integrals(
    profiles: Profiles, seed: int, keys: Keys, quantity: str, start: Floats, end: Floats
) -> Floats | None:
    """The integrals of random values from ``start`` to ``end``, in seconds since each workload's start: shape (W,).

    None if no workload has random values.

    :param keys: the workloads' keys of randomness, shape (W,).
    :param quantity: the quantity that the profiles describe; part of the key of each draw.
    """
    rows = profiles.draws
    if not len(rows):
        return None
    total = np.zeros(len(profiles.profile))
    walk = _Walk(profiles, rows, start[rows])
    while len(walk.rows):
        begin, stop = walk.span()
        overlap = np.minimum(stop, end[walk.rows]) - np.maximum(begin, start[walk.rows])
        drawn = np.flatnonzero(profiles.shape[walk.segment] >= FIRST_DRAWN)
        value = walk.values(drawn, seed, keys, quantity)
        total[walk.rows[drawn]] += value * np.maximum(overlap[drawn], 0.0)
        walk.step(stop < end[walk.rows])
    return total


class _Walk:
    """The current run, segment and draw of N workloads."""

    def __init__(self, profiles: Profiles, rows: Positions, time: Floats) -> None:
        self._profiles = profiles
        self.rows = rows
        own = profiles.at(rows)
        self._run = own.run_at(time)
        within = time - self._run * own.period
        self.segment = own.segment_at(within)
        passed = within - profiles.starts[self.segment]
        most = np.maximum(np.ceil(self._seconds() / self._every()) - 1.0, 0.0)
        self._draw = np.minimum(np.floor(passed / self._every()), most)

    def _seconds(self) -> Floats:
        """The duration of the current segments, shape (N,)."""
        seconds: Floats = self._profiles.ends[self.segment] - self._profiles.starts[self.segment]
        return seconds

    def _every(self) -> Floats:
        """Seconds of one draw, or of the whole segment if it has no draws: shape (N,)."""
        is_drawn = self._profiles.shape[self.segment] >= FIRST_DRAWN
        return np.where(is_drawn, self._profiles.shape_period[self.segment], self._seconds())

    def span(self) -> tuple[Floats, Floats]:
        """Start and end of the current draws, in seconds since each workload's start, both of shape (N,)."""
        profiles = self._profiles
        runs = np.where(self._run > 0, self._run * profiles.period[self.rows], 0.0)
        begin = runs + profiles.starts[self.segment]
        every, seconds = self._every(), self._seconds()
        return begin + self._draw * every, begin + np.minimum((self._draw + 1.0) * every, seconds)

    def values(self, drawn: Positions, seed: int, keys: Keys, quantity: str) -> Floats:
        """The drawn values of some of the N workloads, beyond the base of their segments."""
        profiles, segment, draw = self._profiles, self.segment[drawn], self._draw[drawn]
        rows = self.rows[drawn]
        own = segment_keys(keys[rows], self._run[drawn], segment - profiles.firsts[rows])
        unit = uniform(seed, own, quantity, draw.astype(np.uint64))
        grows = profiles.shape[segment] == Shape.INCREASE
        share = np.where(grows, (draw + unit) / np.maximum(profiles.active[segment], 1.0), unit)
        values: Floats = profiles.width[segment] * share
        return values

    def step(self, continues: Mask) -> None:
        """Go to the next draw, segment or run of the workloads that continue; remove the other workloads."""
        profiles = self._profiles
        seconds, every = self._seconds(), self._every()
        more = (self._draw + 1.0) * every < np.where(seconds < FOREVER, seconds * (1.0 - 1e-12), seconds)
        segment = np.where(more, self.segment, self.segment + 1)
        is_over = segment > profiles.lasts[self.rows]
        self._run = np.where(is_over, self._run + 1.0, self._run)[continues]
        self._draw = np.where(more, self._draw + 1.0, 0.0)[continues]
        self.segment = np.where(is_over, profiles.again[self.rows], segment)[continues]
        self.rows = self.rows[continues]
