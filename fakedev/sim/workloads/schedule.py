"""Profiles of many workloads as arrays: the mean value of each over any stretch of time.

A profile is a function of time, repeated, made of segments of known shapes. Each segment is ``base + width x shape(t)``
with the formulas of :mod:`fakedev.spec.value_functions`. The integral from 0 to t is exact for any t, so a tick shows
the time-weighted mean of all activities inside it, however short they are, and grouping ticks changes nothing.

Random values have no closed form: their part is the sum over the draws in the tick. A draw is a pure function of the
seed, the workload, the quantity, the run through the profile, the segment and the number of the draw in it. A tick
steps through its draws, one draw of all workloads at a time; MAX_DRAWS bounds how many there may be.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys, sub_keys, uniform
from fakedev.sim.entities.state import Mask, Positions, Rows, column
from fakedev.spec.fleet import FOREVER, Activities, Activity
from fakedev.spec.value_functions import Function

#: Decimals of the means, in percent. Means are differences of integrals that grow with time: without rounding the last
#: digit of a constant load would change from tick to tick where a float cannot hold the tick's length exactly.
DECIMALS: Final = 6
#: The shortest activity, and the shortest time between two draws, of a workload with random values is this part of a
#: tick.
MAX_DRAWS: Final = 50
#: Numbers of a profile's segments, as part of a draw's key, are below this.
_MAX_SEGMENTS: Final = 16_384


class Shape(enum.IntEnum):
    """The shapes of segments."""

    CONSTANT = 0
    RAMP = 1
    SINE = 2
    PULSE = 3
    RANDOM = 4
    INCREASE = 5


#: The values of this shape and of those after it are drawn at random.
FIRST_DRAWN = Shape.RANDOM


class Segment(NamedTuple):
    """A part of a profile with one shape: one row of the arrays.

    :ivar period: seconds of one repetition of the shape; for a ramp its whole duration, for drawn values the time of
        one draw.
    :ivar active: for pulses their duration in seconds; for an increase the number of its draws.
    :ivar offset: for pulses their start in the period, in seconds.
    """

    seconds: float
    base: float
    fluctuation: float
    shape: Shape = Shape.CONSTANT
    width: float = 0.0
    period: float = 1.0
    active: float = 0.0
    offset: float = 0.0


def segments_of(activity: Activity) -> Iterator[Segment]:
    """The segments of an activity: one, but one for each value of ``steps``."""
    value, fluctuation, seconds = activity.value, activity.fluctuation, activity.seconds
    if not isinstance(value, Function):
        yield Segment(seconds, value, fluctuation)
        return
    if value.name == "steps":
        each = seconds / len(value.arguments)
        yield from (Segment(each, step, fluctuation) for step in value.arguments)
        return
    base, other = value.arguments[:2]
    times = value.arguments[2:]
    width = other - base
    match value.name:
        case "ramp":
            yield Segment(seconds, base, fluctuation, Shape.RAMP, width, seconds)
        case "sine":
            yield Segment(seconds, base, fluctuation, Shape.SINE, other, times[0])
        case "square":
            yield Segment(seconds, base, fluctuation, Shape.PULSE, width, times[0], times[0] * times[1])
        case "spike":
            lasts, every = times
            yield Segment(seconds, base, fluctuation, Shape.PULSE, width, every, lasts, every - lasts)
        case "random":
            yield Segment(seconds, base, fluctuation, Shape.RANDOM, width, times[0])
        case "increase":
            draws = max(math.ceil(seconds / times[0] - 1e-9), 1) if seconds < FOREVER else 1
            yield Segment(seconds, base, fluctuation, Shape.INCREASE, width, times[0], draws)


#: The integral of each shape of width 1 from 0 to t, for a period p and a pulse of a seconds from o on in each period.
_INTEGRALS: Final[Mapping[Shape, Callable[[Floats, Floats, Floats, Floats], Floats]]] = {
    # Of t / P, within one period.
    Shape.RAMP: lambda t, p, a, o: t * t / (2.0 * p),
    # Of sin(2 pi t / P): as a square of a sine, which loses no digits near 0.
    Shape.SINE: lambda t, p, a, o: p / np.pi * np.sin(np.pi * t / p) ** 2,
    Shape.PULSE: lambda t, p, a, o: np.floor(t / p) * a + np.clip(t - np.floor(t / p) * p - o, 0.0, a),
}


def shape_integrals(
    shape: Positions, width: Floats, period: Floats, active: Floats, offset: Floats, time: Floats
) -> Floats:
    """``width`` times the integral of each shape from 0 to ``time``: all of shape (N,), 0 for drawn shapes."""
    total = np.zeros(len(time))
    for code, integral in _INTEGRALS.items():
        rows = np.flatnonzero(shape == code)
        if len(rows):
            total[rows] = width[rows] * integral(time[rows], period[rows], active[rows], offset[rows])
    return total


@dataclass(frozen=True)
class Profiles(Rows):
    """The profiles of W workloads: S different ones, with A segments, grouped by profile.

    :ivar profile: each workload's profile, shape (W,).
    :ivar key: of the profile's activities, shape (S,).
    :ivar counts: segments of each profile, shape (S,).
    :ivar starts: seconds from the profile's start to each segment's, shape (A,).
    :ivar load, fluctuation: percent, or another unit; for a shape that changes its base value; shape (A,).
    :ivar load_before, fluctuation_before: their integrals up to each segment, percent seconds, shape (A,).
    :ivar shape, width, shape_period, active, offset: as in :class:`Segment`, shape (A,).
    :ivar periods: seconds of one run through the profile, shape (S,); FOREVER if the last activity has no end.
    :ivar load_periods, fluctuation_periods: the integrals over one period, shape (S,).
    """

    profile: Positions = column("workload", np.int64, "profile")
    key: Keys = column("profile", np.uint64)
    counts: Positions = column("profile", np.int64)
    starts: Floats = column("segment")
    load: Floats = column("segment")
    fluctuation: Floats = column("segment")
    load_before: Floats = column("segment")
    fluctuation_before: Floats = column("segment")
    shape: Positions = column("segment", np.int64)
    width: Floats = column("segment")
    shape_period: Floats = column("segment")
    active: Floats = column("segment")
    offset: Floats = column("segment")
    periods: Floats = column("profile")
    load_periods: Floats = column("profile")
    fluctuation_periods: Floats = column("profile")

    @classmethod
    def of(cls, profiles: Sequence[Iterable[Activity]]) -> Profiles:
        """The profiles of some workloads, in their order."""
        if not profiles:
            return cls()
        places: dict[Activities, int] = {}
        profile = [places.setdefault(Activities.of(each), len(places)) for each in profiles]
        rows = [_segment_rows(each) for each in places]
        seconds, base, spread, shapes, width, shape_period, active, offset = np.concatenate(rows).T
        shape = shapes.astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # nobody reads the integral of a segment without end
            added = shape_integrals(
                shape, width, shape_period, active, offset, np.where(seconds < FOREVER, seconds, 0.0)
            )
            terms = np.array((seconds, base * seconds + added, spread * seconds))
        befores, totals = [], []
        begin = 0
        for count in map(len, rows):
            # One after the other: the sums are the same on every machine.
            sums = [list(accumulate(row, initial=0.0)) for row in terms[:, begin : begin + count].tolist()]
            befores.append(np.array(sums)[:, :-1])
            time, load, fluctuation = (each[-1] for each in sums)
            totals.append((time, load, fluctuation) if time < FOREVER else (FOREVER, 0.0, 0.0))
            begin += count
        starts, load_before, fluctuation_before = np.concatenate(befores, axis=1)
        periods, load_periods, fluctuation_periods = np.array(totals).T
        return cls(
            np.array(profile, dtype=np.int64), np.array(list(map(_key, places)), dtype=np.uint64),
            np.array(list(map(len, rows)), dtype=np.int64), starts, base, spread, load_before, fluctuation_before,
            shape, width, shape_period, active, offset, periods, load_periods, fluctuation_periods,
        )  # fmt: skip

    def kept(self, keep: Mask) -> Profiles:
        """The profiles of the workloads where ``keep``, shape (W,), is true."""
        used = np.zeros(len(self.key), dtype=np.bool_)
        used[self.profile[keep]] = True
        return Profiles(**self._kept(workload=keep, profile=used, segment=np.repeat(used, self.counts)))

    def joined(self, other: Profiles) -> Profiles:
        """These profiles, followed by the other profiles; a profile that is in both is kept once."""
        order = np.argsort(self.key)
        found = np.minimum(np.searchsorted(self.key[order], other.key), len(order) - 1)
        is_new = np.ones(len(other.key), dtype=np.bool_)
        if len(order):
            is_new = self.key[order][found] != other.key
        new_place = len(order) + np.cumsum(is_new) - 1
        place = np.where(is_new, new_place, order[found]) if len(order) else new_place
        added = Profiles(**other._kept(
            workload=np.zeros(len(other.profile), dtype=np.bool_), profile=is_new,
            segment=np.repeat(is_new, other.counts),
        ))  # fmt: skip
        columns = self._joined(added, profile=len(order))
        return Profiles(**columns | {"profile": np.concatenate((self.profile, place[other.profile]))})

    def means(
        self, start: Floats, end: Floats, seconds: Floats | float, drawn: Floats | None = None, decimals: int = DECIMALS
    ) -> tuple[Floats, Floats]:
        """Mean load and fluctuation over a tick, percent, both of shape (W,).

        :param start, end: the part of the tick in which each workload runs, in seconds since its
            start, shape (W,).
        :param seconds: length of the tick in each workload's seconds, shape (W,); outside the part the load is 0.
        :param drawn: the part's integrals of random values, shape (W,).
        """
        load_0, fluctuation_0 = self._integrals(start)
        load_1, fluctuation_1 = self._integrals(end)
        total = load_1 - load_0
        if drawn is not None:
            total = total + drawn
        load = np.round(total / seconds, decimals)
        return load, np.round((fluctuation_1 - fluctuation_0) / seconds, decimals)

    def _integrals(self, time: Floats) -> tuple[Floats, Floats]:
        """Integrals of load and fluctuation from each workload's start to ``time``, shape (W,)."""
        cycles = np.floor(time / self.period)
        within = time - cycles * self.period
        segment = self.segment_at(within)
        passed = within - self.starts[segment]
        load = cycles * self.load_periods[self.profile] + self.load_before[segment] + self.load[segment] * passed
        if self.has_shapes:
            numbers = (self.width, self.shape_period, self.active, self.offset)
            width, period, active, offset = (column[segment] for column in numbers)
            load = load + shape_integrals(self.shape[segment], width, period, active, offset, passed)
        fluctuation = (
            cycles * self.fluctuation_periods[self.profile]
            + self.fluctuation_before[segment]
            + self.fluctuation[segment] * passed
        )
        return load, fluctuation

    @cached_property
    def has_shapes(self) -> bool:
        """Whether any value changes within its activity."""
        return bool((self.shape != Shape.CONSTANT).any())

    @cached_property
    def firsts(self) -> Positions:
        """The first segment of each workload, shape (W,)."""
        firsts: Positions = (np.cumsum(self.counts) - self.counts)[self.profile]
        return firsts

    @cached_property
    def lasts(self) -> Positions:
        """The last segment of each workload, shape (W,)."""
        lasts: Positions = (np.cumsum(self.counts) - 1)[self.profile]
        return lasts

    @cached_property
    def period(self) -> Floats:
        """The period of each workload, shape (W,)."""
        return self.periods[self.profile]

    @cached_property
    def fluctuates(self) -> Mask:
        """Whether each workload has any fluctuation, shape (W,)."""
        owners = np.repeat(np.arange(len(self.key)), self.counts)
        fluctuating = np.bincount(owners[self.fluctuation > 0], minlength=len(self.key))
        return (fluctuating > 0)[self.profile]

    @cached_property
    def draws(self) -> Positions:
        """The workloads with random values, ascending."""
        if not self.has_shapes:
            return np.zeros(0, dtype=np.int64)
        is_drawn = np.zeros(len(self.key), dtype=np.bool_)
        is_drawn[np.repeat(np.arange(len(self.key)), self.counts)[self.shape >= FIRST_DRAWN]] = True
        return np.flatnonzero(is_drawn[self.profile])

    def segment_at(self, within: Floats) -> Positions:
        """The segment at ``within`` seconds of the period, shape (W,): one binary search for all workloads."""
        low, high = self.firsts, self.lasts
        for _ in range(int(self.counts.max(initial=1)).bit_length()):
            middle = (low + high + 1) // 2
            begun = self.starts[middle] <= within
            low = np.where(begun, middle, low)
            high = np.where(begun, high, middle - 1)
            high = np.maximum(high, low)
        return low


def _segment_rows(activities: Activities) -> Floats:
    """The segments of some activities, a row for each with the columns of :class:`Segment`."""
    if activities.functions:
        return np.array([segment for activity in activities for segment in segments_of(activity)], dtype=np.float64)
    value, fluctuation, seconds = np.frombuffer(activities.numbers).reshape(-1, 3).T
    rows = np.zeros((len(seconds), len(Segment._fields)))
    rows[:] = Segment(0.0, 0.0, 0.0)
    rows[:, 0], rows[:, 1], rows[:, 2] = seconds, value, fluctuation
    return rows


def _key(activities: Activities) -> int:
    """A number that is the same for the same activities alone."""
    functions = repr(sorted(activities.functions.items(), key=lambda item: item[0])).encode()
    return int.from_bytes(blake2b(activities.numbers.tobytes() + functions, digest_size=8).digest(), "little")


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
        period = profiles.period[rows]
        self._run = np.floor(time / period)
        within = np.zeros(len(profiles.profile))
        within[rows] = time - self._run * period
        self.segment = profiles.segment_at(within)[rows]
        passed = within[rows] - profiles.starts[self.segment]
        most = np.maximum(np.ceil(self._seconds() / self._every()) - 1.0, 0.0)
        self._draw = np.minimum(np.floor(passed / self._every()), most)

    def _seconds(self) -> Floats:
        """The duration of the current segments, shape (N,)."""
        profiles = self._profiles
        lasts = profiles.lasts[self.rows]
        following = np.minimum(self.segment + 1, len(profiles.starts) - 1)
        is_last = self.segment == lasts
        ends = np.where(is_last, profiles.period[self.rows], profiles.starts[following])
        seconds: Floats = ends - profiles.starts[self.segment]
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
        place = segment - profiles.firsts[self.rows[drawn]]
        numbers = self._run[drawn].astype(np.uint64) * np.uint64(_MAX_SEGMENTS) + place.astype(np.uint64)
        unit = uniform(seed, sub_keys(keys[self.rows[drawn]], numbers), quantity, draw.astype(np.uint64))
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
        self.segment = np.where(is_over, profiles.firsts[self.rows], segment)[continues]
        self.rows = self.rows[continues]
