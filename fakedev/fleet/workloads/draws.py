"""Profiles without a closed form: random draws, noise of load, and values that follow the wall clock; their means.

The part of random values is the sum over the draws in the tick. A draw is a pure function of the seed, the workload,
the quantity, the run through the profile, the segment and the number of the draw in it. A tick steps through its
draws, one draw of all workloads at a time; MAX_DRAWS bounds how many there may be.

A day is a sum of waves: two that peak at its hour, and three shorter ones that are the same for all replicas of a
service. Its integral between two times of the wall clock is exact.

The fluctuation of load is noise with a memory, one source for each pair of a workload and a device.

Means over a tick come from the stretches of profiles that pass in it. Most profiles pass as time does, or at the
speed of the work: a tick is one stretch of the profile. Where the lengths of activities are drawn
(:mod:`fakedev.fleet.workloads.running`), it is a stretch for each activity in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys, sub_keys, uniform
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.spec.value_functions import DAY_SECONDS
from fakedev.fleet.spec.workload_spec import FOREVER
from fakedev.fleet.workloads.profile import FIRST_DRAWN, Profiles, Shape

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
    walk = _DrawWalk(profiles, rows, start[rows])
    while len(walk.rows):
        begin, stop = walk.span()
        overlap = np.minimum(stop, end[walk.rows]) - np.maximum(begin, start[walk.rows])
        drawn = np.flatnonzero(profiles.shape[walk.segment] >= FIRST_DRAWN)
        value = walk.values(drawn, seed, keys, quantity)
        total[walk.rows[drawn]] += value * np.maximum(overlap[drawn], 0.0)
        walk.step(stop < end[walk.rows])
    return total


class _DrawWalk:
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


@dataclass(frozen=True)
class Spans:
    """Stretches of profiles in a tick, in seconds of the profiles: arrays of shape (N,).

    :ivar tick: the length of the whole tick at the speed of the stretch.
    :ivar wall: seconds of the wall clock at its beginning, since 1970.
    """

    begin: Floats
    end: Floats
    tick: Floats
    wall: Floats

    def at(self, places: Positions) -> Spans:
        """Some of the stretches."""
        return Spans(self.begin[places], self.end[places], self.tick[places], self.wall[places])


@dataclass(frozen=True)
class FurtherSpans:
    """The stretches of some workloads after their first one in a tick, N in all; each begins where another one ends.

    :ivar rows: the workload of each, shape (N,).
    :ivar before: the stretch before each: of W workloads below W the first one of that workload, else W and the
        position of one of these; shape (N,).
    """

    spans: Spans
    rows: Positions
    before: Positions

    def of(self, workloads: Positions, count: int) -> FurtherSpans:
        """Those of some workloads, which have new positions.

        :param workloads: their positions, ascending.
        :param count: W.
        """
        places = np.full(count, -1, dtype=np.int64)
        places[workloads] = np.arange(len(workloads))
        kept = np.flatnonzero(places[self.rows] >= 0)
        moved = np.empty(count + len(self.rows), dtype=np.int64)
        moved[:count] = places
        moved[count + kept] = len(workloads) + np.arange(len(kept))
        return FurtherSpans(self.spans.at(kept), places[self.rows[kept]], moved[self.before[kept]])


#: Decimals of the means, in percent. Means are differences of integrals that grow with time: without rounding the last
#: digit of a constant load would change from tick to tick where a float cannot hold the tick's length exactly.
_DECIMALS: Final = 6
#: Decimals of powers of loads, which are shares of 1: variances are differences of them.
_EXACT: Final = 12


@dataclass(frozen=True)
class Course:
    """How far the profiles of W workloads get in a tick.

    :ivar keys, services: keys of randomness of the workloads and of their services, shape (W,).
    :ivar first: the first stretch of each workload, shape (W,).
    :ivar further: None: there are none.
    :ivar until: where each profile is at the end of the tick, shape (W,).
    :ivar done: seconds of open profiles that are done at the end of the tick, shape (W,); 0 for others.
    """

    seed: int
    keys: Keys
    services: Keys
    first: Spans
    further: FurtherSpans | None
    until: Floats
    done: Floats

    def means(
        self, profiles: Profiles, quantity: str, of: Positions | None = None, decimals: int = _DECIMALS
    ) -> tuple[Floats, Floats]:
        """Mean values and fluctuation of some profiles over the tick, both of shape (U,).

        :param profiles: of U workloads.
        :param quantity: that they describe; part of the key of each draw.
        :param of: the workloads' positions, ascending; None: all.
        """
        first, further, keys, services, until = self.first, self.further, self.keys, self.services, self.until
        if of is not None and len(of) < len(keys):
            further = None if further is None else further.of(of, len(keys))
            first, keys, services, until = first.at(of), keys[of], services[of], until[of]
        begins, ends = profiles.integrals_again(first.begin), profiles.integrals(first.end)
        extra = self._drawn(profiles, keys, services, quantity, first)
        load = (ends[0] - begins[0] + extra) / first.tick
        fluctuation = (ends[1] - begins[1]) / first.tick
        if further is not None and len(further.rows):
            rows, spans, count = further.rows, further.spans, len(keys)
            own = profiles.at(rows)
            extra = self._drawn(own, keys[rows], services[rows], quantity, spans)
            last = own.integrals(spans.end)
            passed = [
                there - np.concatenate((here, there))[further.before]
                for here, there in zip(ends, last, strict=True)
            ]
            load = load + np.bincount(rows, (passed[0] + extra) / spans.tick, count)
            fluctuation = fluctuation + np.bincount(rows, passed[1] / spans.tick, count)
            for here, there in zip(ends, last, strict=True):
                here[rows] = there  # the last one of each workload stays
        profiles.keep(until, ends)
        return np.round(load, decimals), np.round(fluctuation, decimals)

    def swings(self, profiles: Profiles, of: Positions | None = None) -> tuple[Floats, Floats]:
        """How much the loads of some profiles change within the tick; parameters as of :meth:`means`.

        :returns: variance and third central moment, by the mean to the power of two and three: both of shape (U,).
        """
        first, second, third = (self.means(profiles.power(exponent), "", of, _EXACT)[0] for exponent in (1, 2, 3))
        mean = np.where(first > 0, first, 1.0)
        variance = np.maximum(second - mean * mean, 0.0)
        moment = third - 3.0 * mean * second + 2.0 * mean**3
        return np.where(first > 0, variance / mean**2, 0.0), np.where(first > 0, moment / mean**3, 0.0)

    def _drawn(
        self, profiles: Profiles, keys: Keys, services: Keys, quantity: str, spans: Spans
    ) -> Floats | float:
        """The integrals of values without a closed form; 0 if there are none."""
        drawn = drawn_integrals(profiles, self.seed, keys, quantity, spans.begin, spans.end)
        days = day_integrals(profiles, self.seed, services, spans.begin, spans.end, spans.wall)
        return (0.0 if drawn is None else drawn) + (0.0 if days is None else days)
