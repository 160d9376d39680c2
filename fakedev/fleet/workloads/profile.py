"""Profiles (schedules) of many workloads as arrays: segments with one shape, and mean values over any stretch of time.

A profile is a function of time, repeated, made of segments of known shapes. Each segment is
``base + width x shape(t)`` with the formulas and integrals of :mod:`fakedev.fleet.spec.value_functions`. The integral
from 0 to t is exact for any t, so a tick shows the time-weighted mean of all activities inside it, however short they
are, and grouping ticks changes nothing.

:mod:`fakedev.fleet.workloads.draws` adds random values and values that follow the wall clock, and has the drawn
lengths of segments.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, chain
from typing import Final, NamedTuple

import numpy as np
import orjson

from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.entities.state import MANY_ROWS, Mask, Positions, Rows, column
from fakedev.fleet.spec.value_functions import Function
from fakedev.fleet.spec.workload_spec import FOREVER, Activities, Activity


class Shape(enum.IntEnum):
    """The shapes of segments."""

    CONSTANT = 0
    RAMP = 1
    SINE = 2
    PULSE = 3
    DAILY = 4
    RANDOM = 5
    INCREASE = 6


#: The values of this shape and of the shapes after it are drawn at random.
FIRST_DRAWN = Shape.RANDOM


class Segment(NamedTuple):
    """A part of a profile with one shape: one row of the arrays.

    :ivar period: seconds of one repetition of the shape; for a ramp its whole duration, for drawn values the time of
        one draw.
    :ivar active: for pulses their duration in seconds; for an increase the number of its draws.
    :ivar offset: for pulses their start in the period, for days their peak, in seconds.
    :ivar spread: of its length, as a natural logarithm; 0: it always lasts its seconds.
    """

    seconds: float
    base: float
    fluctuation: float
    shape: Shape = Shape.CONSTANT
    width: float = 0.0
    period: float = 1.0
    active: float = 0.0
    offset: float = 0.0
    spread: float = 0.0


def segments_of(activity: Activity) -> Sequence[Segment]:
    """The segments of an activity: one, but one for each value of ``steps``."""
    spread = math.log(activity.spread)
    if not spread:
        return _segments_of(activity)
    return [segment._replace(spread=spread) for segment in _segments_of(activity)]


def _segments_of(activity: Activity) -> Sequence[Segment]:
    value, fluctuation, seconds = activity.value, activity.fluctuation, activity.seconds
    if not isinstance(value, Function):
        return (Segment(seconds, value, fluctuation),)
    if value.name == "steps":
        each = seconds / len(value.arguments)
        return [Segment(each, step, fluctuation) for step in value.arguments]
    return (_segment_of(value, fluctuation, seconds),)


def _segment_of(value: Function, fluctuation: float, seconds: float) -> Segment:
    base, other = value.arguments[:2]
    times = value.arguments[2:]
    width = other - base
    match value.name:
        case "ramp":
            return Segment(seconds, base, fluctuation, Shape.RAMP, width, seconds)
        case "sine":
            return Segment(seconds, base, fluctuation, Shape.SINE, other, times[0])
        case "square":
            return Segment(seconds, base, fluctuation, Shape.PULSE, width, times[0], times[0] * times[1])
        case "spike":
            lasts, every = times
            return Segment(seconds, base, fluctuation, Shape.PULSE, width, every, lasts, every - lasts)
        case "random":
            return Segment(seconds, base, fluctuation, Shape.RANDOM, width, times[0])
        case "increase":
            draws = max(math.ceil(seconds / times[0] - 1e-9), 1) if seconds < FOREVER else 1
            return Segment(seconds, base, fluctuation, Shape.INCREASE, width, times[0], draws)
        case _:  # daily
            return Segment(seconds, base, fluctuation, Shape.DAILY, width, offset=times[0])


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


#: Standard deviations of a sine of width 1, and of values that are spread evenly over a width of 1.
_SINE: Final = 0.5**0.5
_EVEN: Final = 12.0**-0.5
#: It is a divisor.
_LEAST_PEAK: Final = 1e-9


@dataclass(frozen=True)
class Profiles(Rows):
    """The profiles of W workloads: S different ones, with A segments, grouped by profile.

    :ivar profile: each workload's profile, shape (W,).
    :ivar key: of the profile's activities, shape (S,).
    :ivar counts: segments of each profile, shape (S,).
    :ivar starts: seconds from the profile's start to each segment's, shape (A,).
    :ivar load, fluctuation: percent, or another unit; for a shape that changes its base value; shape (A,).
    :ivar load_before, fluctuation_before: their integrals up to each segment, percent seconds, shape (A,).
    :ivar shape, width, shape_period, active, offset, spread: as in :class:`Segment`, shape (A,).
    :ivar once, once_counts: seconds and segments at the beginning that do not repeat, shape (S,).
    :ivar periods: seconds of one run through the rest, shape (S,); FOREVER if the last activity has no end.
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
    spread: Floats = column("segment")
    once: Floats = column("profile")
    once_counts: Positions = column("profile", np.int64)
    periods: Floats = column("profile")
    load_periods: Floats = column("profile")
    fluctuation_periods: Floats = column("profile")

    @classmethod
    def of(cls, profiles: Sequence[Iterable[Activity]]) -> Profiles:
        """The profiles of some workloads, in their order."""
        if not profiles:
            return cls()
        # Thousands of workloads share few profiles: each object is compared once.
        each_once = {id(profile): profile for profile in profiles}
        places: dict[Activities, int] = {}
        place_of = {key: places.setdefault(Activities.of(each), len(places)) for key, each in each_once.items()}
        profile = [place_of[id(profile)] for profile in profiles]
        rows = [_segment_rows(place) for place in places]
        seconds, base, fluctuation, shapes, width, shape_period, active, offset, spread = np.concatenate(rows).T
        shape = shapes.astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # nobody reads the integral of a segment without end
            added = shape_integrals(
                shape, width, shape_period, active, offset, np.where(seconds < FOREVER, seconds, 0.0)
            )
            terms = np.array((seconds, base * seconds + added, fluctuation * seconds))
        befores, totals = [], []
        begin = 0
        once_counts = [_once_count(place) for place in places]
        for count, once in zip(map(len, rows), once_counts, strict=True):
            # One after the other: the sums are the same on every machine.
            sums = [list(accumulate(row, initial=0.0)) for row in terms[:, begin : begin + count].tolist()]
            befores.append(np.array(sums)[:, :-1])
            repeated = [each[-1] - each[once] for each in sums] if sums[0][-1] < FOREVER else [FOREVER, 0.0, 0.0]
            totals.append((*repeated, sums[0][once]))
            begin += count
        starts, load_before, fluctuation_before = np.concatenate(befores, axis=1)
        periods, load_periods, fluctuation_periods, once_seconds = np.array(totals).T
        return cls(
            np.array(profile, dtype=np.int64), np.array(list(map(_key, places)), dtype=np.uint64),
            np.array(list(map(len, rows)), dtype=np.int64), starts, base, fluctuation, load_before, fluctuation_before,
            shape, width, shape_period, active, offset, spread, once_seconds, np.array(once_counts, dtype=np.int64),
            periods, load_periods, fluctuation_periods,
        )  # fmt: skip

    def at(self, rows: Positions) -> Profiles:
        """The profiles of some workloads, in that order; for a calculation: nothing is removed."""
        return replace(self, profile=self.profile[rows])

    def kept(self, keep: Mask) -> Profiles:
        """The profiles of the workloads where ``keep``, shape (W,), is true."""
        used = np.zeros(len(self.key), dtype=np.bool_)
        used[self.profile[keep]] = True
        unused = len(self.starts) - int(self.counts[used].sum())
        if len(self.starts) > MANY_ROWS and unused < len(self.starts) // 4:
            # Long profiles are copied once for many that go, not for each.
            return replace(self, profile=self.profile[keep])
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

    def run_at(self, time: Floats) -> Floats:
        """How many runs through its profile each workload has behind it at ``time``, shape (W,)."""
        if self._is_endless:
            return np.zeros(len(time))
        if not self.once_counts.any():
            return np.floor(time / self.period)
        return np.maximum(np.floor((time - self.once[self.profile]) / self.period), 0.0)

    def integrals(self, time: Floats) -> tuple[Floats, Floats]:
        """Integrals of load and fluctuation from each workload's start to ``time``, shape (W,)."""
        cycles = self.run_at(time)
        within = time - cycles * self.period
        segment = self.segment_at(within)
        passed = within - self.starts[segment]
        load = cycles * self.load_periods[self.profile] + self.load_before[segment] + self.load[segment] * passed
        if self.has_shapes:
            numbers = (self.width, self.shape_period, self.active, self.offset)
            width, period, active, offset = (column[segment] for column in numbers)
            load = load + shape_integrals(self.shape[segment], width, period, active, offset, passed)
        if not self._has_fluctuation:
            return load, np.zeros(len(time))
        fluctuation = (
            cycles * self.fluctuation_periods[self.profile]
            + self.fluctuation_before[segment]
            + self.fluctuation[segment] * passed
        )
        return load, fluctuation

    def power(self, exponent: int) -> Profiles:
        """The same workloads with powers of their loads, as shares of each profile's highest load.

        What changes within an activity counts as two values, with the mean and the variance of its shape.
        """
        if exponent not in self._powers:
            self._powers[exponent] = self._power(exponent)
        return self._powers[exponent]

    @cached_property
    def _powers(self) -> dict[int, Profiles]:
        return {}

    def _power(self, exponent: int) -> Profiles:
        low, high, period, active, offset = self._levels()
        begins = np.cumsum(self.counts) - self.counts
        peaks = np.repeat(np.maximum(np.maximum.reduceat(np.maximum(low, high), begins), _LEAST_PEAK), self.counts)
        low, high = (low / peaks) ** exponent, (high / peaks) ** exponent
        shape, nothing = np.full(len(low), int(Shape.PULSE)), np.zeros(len(low))
        seconds = np.where(self.ends < FOREVER, self.ends - self.starts, 0.0)
        terms = low * seconds + shape_integrals(shape, high - low, period, active, offset, seconds)
        before, totals = np.zeros(len(low)), np.zeros(len(begins))
        for place, (begin, count, once) in enumerate(zip(begins, self.counts, self.once_counts, strict=True)):
            # One profile after the other: other profiles change no digit.
            sums = np.concatenate(([0.0], np.cumsum(terms[begin : begin + count])))
            before[begin : begin + count], totals[place] = sums[:-1], sums[-1] - sums[once]
        return replace(
            self, load=low, fluctuation=nothing, load_before=before, fluctuation_before=nothing, shape=shape,
            width=high - low, shape_period=period, active=active, offset=offset, load_periods=totals,
            fluctuation_periods=np.zeros(len(begins)),
        )  # fmt: skip

    def _levels(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Each segment as a pulse: lower and higher value, period, seconds at the higher one, and their offset."""
        low, width, shape, period = self.load, self.width, self.shape, self.shape_period
        middle = low + 0.5 * width
        apart = np.select(
            [shape == Shape.SINE, np.isin(shape, (Shape.RAMP, Shape.RANDOM))], [_SINE * width, _EVEN * width], 0.0
        )
        middle = np.select([shape == Shape.SINE, shape == Shape.CONSTANT], [low, low], middle)
        is_pulse = shape == Shape.PULSE
        periods = np.where(shape == Shape.RANDOM, 2.0 * period, period)
        half = np.where(shape == Shape.RAMP, 0.5 * period, 0.0)
        return (
            np.where(is_pulse, low, np.maximum(middle - apart, 0.0)),
            np.where(is_pulse, low + width, middle + apart),
            np.where(period > 0, periods, 1.0),
            np.where(is_pulse, self.active, 0.5 * periods),
            np.where(is_pulse, self.offset, half),
        )

    @cached_property
    def _is_endless(self) -> bool:
        """Whether all last activities have no end, so that no profile repeats."""
        return bool((self.periods >= FOREVER).all())

    @cached_property
    def _has_fluctuation(self) -> bool:
        return bool(self.fluctuation.any())

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
    def _latest(self) -> list[tuple[Floats, tuple[Floats, Floats]]]:
        """Times, and the integrals up to them: at most one pair, see :meth:`integrals_again`."""
        return []

    def integrals_again(self, time: Floats) -> tuple[Floats, Floats]:
        """As :meth:`integrals`; uses the values of :meth:`keep` for the same times, as at the end of a tick."""
        if self._latest and np.array_equal(self._latest[0][0], time):
            return self._latest[0][1]
        return self.integrals(time)

    def keep(self, time: Floats, integrals: tuple[Floats, Floats]) -> None:
        """Keep the integrals up to some times for :meth:`integrals_again`."""
        self._latest[:] = [(time, integrals)]

    @cached_property
    def ends(self) -> Floats:
        """Seconds from the profile's start to the end of each segment, shape (A,)."""
        ends = np.append(self.starts[1:], 0.0)
        ends[np.cumsum(self.counts) - 1] = np.where(self.periods < FOREVER, self.once + self.periods, FOREVER)
        return ends

    @cached_property
    def again(self) -> Positions:
        """The first segment of each workload that repeats, shape (W,)."""
        again: Positions = self.firsts + self.once_counts[self.profile]
        return again

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
    def is_drawn(self) -> Mask:
        """Whether lengths of each workload's activities are drawn, shape (W,)."""
        is_drawn = np.zeros(len(self.profile), dtype=np.bool_)
        is_drawn[self._with_segments(self.spread > 0.0)] = True
        return is_drawn

    @cached_property
    def draws(self) -> Positions:
        """The workloads with random values, ascending."""
        return self._with_segments(self.shape >= FIRST_DRAWN) if self.has_shapes else np.zeros(0, dtype=np.int64)

    @cached_property
    def days(self) -> Positions:
        """The workloads with values that follow the wall clock, ascending."""
        return self._with_segments(self.shape == Shape.DAILY) if self.has_shapes else np.zeros(0, dtype=np.int64)

    def _with_segments(self, which: Mask) -> Positions:
        """The workloads with one of some segments, ascending."""
        has = np.zeros(len(self.key), dtype=np.bool_)
        has[np.repeat(np.arange(len(self.key)), self.counts)[which]] = True
        return np.flatnonzero(has[self.profile])

    @cached_property
    def _found(self) -> list[Positions]:
        """The segments that :meth:`segment_at` found last: at most one array."""
        return []

    def segment_at(self, within: Floats) -> Positions:
        """The segment at ``within`` seconds of the period, shape (W,): nearly always the previous call's."""
        if len(self.starts) == len(self.key):
            return self.profile
        if not self._found:
            found = self._searched(within)
        else:
            (found,) = self._found
            moved = np.flatnonzero((within < self.starts[found]) | (within >= self.ends[found]))
            if len(moved):
                found = found.copy()
                found[moved] = self.at(moved)._searched(within[moved])
        self._found[:] = [found]
        return found

    def _searched(self, within: Floats) -> Positions:
        """As :meth:`segment_at`: one binary search for all workloads."""
        if len(self.key) == 1:
            return np.maximum(np.searchsorted(self.starts, within, side="right") - 1, 0)
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
        segments = [segment for activity in activities for segment in segments_of(activity)]
        numbers = np.fromiter(chain.from_iterable(segments), np.float64, len(segments) * len(Segment._fields))
        return numbers.reshape(-1, len(Segment._fields))
    value, fluctuation, seconds = np.frombuffer(activities.numbers).reshape(-1, 3).T
    rows = np.zeros((len(seconds), len(Segment._fields)))
    rows[:] = Segment(0.0, 0.0, 0.0)
    rows[:, 0], rows[:, 1], rows[:, 2] = seconds, value, fluctuation
    for position, spread in activities.spreads.items():
        rows[position, -1] = math.log(spread)
    return rows


def _once_count(activities: Activities) -> int:
    """The number of segments that do not repeat."""
    if not activities.once_count:
        return 0
    return sum(len(_segments_of(activity)) for activity in activities if activity.is_once)


def _key(activities: Activities) -> int:
    """A number that is the same for the same activities alone."""
    functions = orjson.dumps(list(activities.functions.items()))
    if activities.spreads or activities.once_count:
        functions += repr((sorted(activities.spreads.items()), activities.once_count)).encode()
    return int.from_bytes(blake2b(activities.numbers.tobytes() + functions, digest_size=8).digest(), "little")
