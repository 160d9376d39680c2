"""What random values add to the mean of a tick: the sum over the draws that fall into it.

A draw is a pure function of the seed, the workload, what it is a value of, the run through the profile, the segment
and the number of the draw in it. A tick walks over its draws, all workloads at once, one draw a step; how many there
may be is bounded where workloads are taken (MAX_DRAWS).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats, Keys, sub_keys, uniform_of
from fakedev.sim.workloads.schedule import Positions, Profiles
from fakedev.sim.workloads.shapes import FIRST_DRAWN, Shape
from fakedev.spec.fleet import FOREVER

#: Of a workload with random values no activity and no time between two draws is shorter than this part of a tick.
MAX_DRAWS: Final = 50
#: Segments of a profile are told apart by a number below this.
_SEGMENTS: Final = 16_384


def drawn_integrals(
    profiles: Profiles, seed: int, keys: Keys, quantity: str, start: Floats, end: Floats
) -> Floats | None:
    """What draws add to the integrals from ``start`` to ``end``, in seconds since each start: shape (W,).

    None when no workload draws.

    :param keys: of the workloads, shape (W,).
    :param quantity: what the values are of.
    """
    rows = profiles.draws
    if not len(rows):
        return None
    total = np.zeros(len(profiles.counts))
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
    """Where each of some workloads is: N of them, in a run, a segment and a draw of it."""

    def __init__(self, profiles: Profiles, rows: Positions, time: Floats) -> None:
        self._profiles = profiles
        self.rows = rows
        period = profiles.period[rows]
        self._run = np.floor(time / period)
        within = np.zeros(len(profiles.counts))
        within[rows] = time - self._run * period
        self.segment = profiles.segment_at(within)[rows]
        passed = within[rows] - profiles.starts[self.segment]
        most = np.maximum(np.ceil(self._seconds() / self._every()) - 1.0, 0.0)
        self._draw = np.minimum(np.floor(passed / self._every()), most)

    def _seconds(self) -> Floats:
        """How long the segments are, shape (N,)."""
        profiles = self._profiles
        lasts = profiles.firsts[self.rows] + profiles.counts[self.rows] - 1
        following = np.minimum(self.segment + 1, len(profiles.starts) - 1)
        is_last = self.segment == lasts
        ends = np.where(is_last, profiles.period[self.rows], profiles.starts[following])
        seconds: Floats = ends - profiles.starts[self.segment]
        return seconds

    def _every(self) -> Floats:
        """Seconds of one draw, of a segment without draws all it lasts, shape (N,)."""
        is_drawn = self._profiles.shape[self.segment] >= FIRST_DRAWN
        return np.where(is_drawn, self._profiles.shape_period[self.segment], self._seconds())

    def span(self) -> tuple[Floats, Floats]:
        """Begin and end of the draws, in seconds since each start, both of shape (N,)."""
        profiles = self._profiles
        runs = np.where(self._run > 0, self._run * profiles.period[self.rows], 0.0)
        begin = runs + profiles.starts[self.segment]
        every, seconds = self._every(), self._seconds()
        return begin + self._draw * every, begin + np.minimum((self._draw + 1.0) * every, seconds)

    def values(self, drawn: Positions, seed: int, keys: Keys, quantity: str) -> Floats:
        """What is drawn at some of the N, by the base of their segments."""
        profiles, segment, draw = self._profiles, self.segment[drawn], self._draw[drawn]
        place = segment - profiles.firsts[self.rows[drawn]]
        numbers = self._run[drawn].astype(np.uint64) * np.uint64(_SEGMENTS) + place.astype(np.uint64)
        unit = uniform_of(seed, sub_keys(keys[self.rows[drawn]], numbers), quantity, draw.astype(np.uint64))
        grows = profiles.shape[segment] == Shape.INCREASE
        share = np.where(grows, (draw + unit) / np.maximum(profiles.active[segment], 1.0), unit)
        values: Floats = profiles.width[segment] * share
        return values

    def step(self, goes_on: NDArray[np.bool_]) -> None:
        """To the next draw, segment or run, of those that go on; the others are done."""
        profiles = self._profiles
        seconds, every = self._seconds(), self._every()
        more = (self._draw + 1.0) * every < np.where(seconds < FOREVER, seconds * (1.0 - 1e-12), seconds)
        segment = np.where(more, self.segment, self.segment + 1)
        is_over = segment >= profiles.firsts[self.rows] + profiles.counts[self.rows]
        self._run = np.where(is_over, self._run + 1.0, self._run)[goes_on]
        self._draw = np.where(more, self._draw + 1.0, 0.0)[goes_on]
        self.segment = np.where(is_over, profiles.firsts[self.rows], segment)[goes_on]
        self.rows = self.rows[goes_on]
