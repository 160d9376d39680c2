"""Profiles of many workloads as arrays: the mean value of each over any stretch of time.

A profile is a function of time, repeated, made of segments of known shapes (:mod:`fakedev.sim.workloads.shapes`). Its
integral from 0 to t is exact for any t, so a tick shows the time-weighted mean of all activities inside it, however
short they are, and how ticks are grouped changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.workloads.shapes import FIRST_DRAWN, Codes, Segment, Shape, segments_of, shape_integrals
from fakedev.spec.fleet import FOREVER, Activity

Positions = NDArray[np.int64]

#: Means are rounded to this, in percent. They are differences of integrals that grow with time: without it
#: a constant load would show a last digit that dances, in ticks whose length no float holds exactly.
DECIMALS: Final = 6


@dataclass(frozen=True)
class Profiles:
    """The segments of W workloads, A in all, one workload's after the other's.

    :ivar counts: segments of each workload, shape (W,).
    :ivar starts: seconds from the profile's start to each segment's, shape (A,).
    :ivar load, fluctuation: percent, or another unit; of a shape that changes its base; shape (A,).
    :ivar load_before, fluctuation_before: their integrals up to each segment, percent seconds, shape (A,).
    :ivar shape, width, shape_period, active, offset: as :class:`Segment` has them, shape (A,).
    :ivar period: seconds of one run through, shape (W,); FOREVER where the last activity has no end.
    :ivar load_period, fluctuation_period: the integrals over one period, shape (W,).
    """

    counts: Positions
    starts: Floats
    load: Floats
    fluctuation: Floats
    load_before: Floats
    fluctuation_before: Floats
    shape: Codes
    width: Floats
    shape_period: Floats
    active: Floats
    offset: Floats
    period: Floats
    load_period: Floats
    fluctuation_period: Floats

    @classmethod
    def of(cls, profiles: Sequence[Sequence[Activity]]) -> Profiles:
        """The profiles of some workloads, in their order."""
        split = [[segment for activity in activities for segment in segments_of(activity)] for activities in profiles]
        shape, numbers, added = _shapes([segment for segments in split for segment in segments])
        columns: list[tuple[float, ...]] = []
        totals = []
        for segments in split:
            time = load = fluctuation = 0.0
            for segment in segments:
                extra = added[len(columns)] if added else 0.0
                columns.append((time, segment.base, segment.fluctuation, load, fluctuation))
                time += segment.seconds
                load += segment.base * segment.seconds + extra
                fluctuation += segment.fluctuation * segment.seconds
            totals.append((time, load, fluctuation) if time < FOREVER else (FOREVER, 0.0, 0.0))
        rows = np.array(columns, dtype=np.float64).reshape(-1, 5).T
        sums = np.array(totals, dtype=np.float64).reshape(-1, 3).T
        counts = np.array([len(segments) for segments in split], dtype=np.int64)
        starts, base, spread, load_before, fluctuation_before = rows
        period, load_period, fluctuation_period = sums
        return cls(
            counts, starts, base, spread, load_before, fluctuation_before, shape, *numbers,
            period=period, load_period=load_period, fluctuation_period=fluctuation_period,
        )  # fmt: skip

    def kept(self, keep: NDArray[np.bool_]) -> Profiles:
        """The profiles of the workloads where ``keep``, shape (W,), is true."""
        rows = np.repeat(keep, self.counts)
        return Profiles(
            **{
                name: array[keep if name in _BY_WORKLOAD else rows]
                for name, array in ((each.name, getattr(self, each.name)) for each in fields(self))
            }
        )

    def joined(self, other: Profiles) -> Profiles:
        """These profiles, then the other's."""
        names = (each.name for each in fields(self))
        return Profiles(*(np.concatenate((getattr(self, name), getattr(other, name))) for name in names))

    def means(
        self, start: Floats, end: Floats, seconds: Floats | float, drawn: Floats | None = None, decimals: int = DECIMALS
    ) -> tuple[Floats, Floats]:
        """Mean load and fluctuation over a tick, percent, both of shape (W,).

        :param start, end: the part of the tick in which each workload runs, in seconds since its
            own start, shape (W,).
        :param seconds: length of the tick in each workload's seconds, shape (W,): what is outside the part
            counts as 0.
        :param drawn: integrals over the part of what random values add, shape (W,).
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
        load = cycles * self.load_period + self.load_before[segment] + self.load[segment] * passed
        if self.has_shapes:
            numbers = (self.width, self.shape_period, self.active, self.offset)
            width, period, active, offset = (column[segment] for column in numbers)
            load = load + shape_integrals(self.shape[segment], width, period, active, offset, passed)
        fluctuation = (
            cycles * self.fluctuation_period
            + self.fluctuation_before[segment]
            + self.fluctuation[segment] * passed
        )
        return load, fluctuation

    @cached_property
    def has_shapes(self) -> bool:
        """Whether some value changes within its activity."""
        return bool((self.shape != Shape.CONSTANT).any())

    @cached_property
    def firsts(self) -> Positions:
        """The first segment of each workload, shape (W,)."""
        firsts: Positions = np.cumsum(self.counts) - self.counts
        return firsts

    @cached_property
    def draws(self) -> Positions:
        """The workloads some of whose values are drawn, ascending."""
        owners = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.unique(owners[self.shape >= FIRST_DRAWN]) if self.has_shapes else np.zeros(0, dtype=np.int64)

    def segment_at(self, within: Floats) -> Positions:
        """Which segment runs at ``within`` seconds of the period, shape (W,): a binary search for all at once."""
        low = self.firsts
        high = low + self.counts - 1
        for _ in range(int(self.counts.max(initial=1)).bit_length()):
            middle = (low + high + 1) // 2
            begun = self.starts[middle] <= within
            low = np.where(begun, middle, low)
            high = np.where(begun, high, middle - 1)
            high = np.maximum(high, low)
        return low


_BY_WORKLOAD: Final = ("counts", "period", "load_period", "fluctuation_period")


def _shapes(segments: Sequence[Segment]) -> tuple[Codes, tuple[Floats, Floats, Floats, Floats], list[float]]:
    """The shapes, their numbers, and what each adds to the integral over its segment: nothing when none changes."""
    count = len(segments)
    if all(segment.shape == Shape.CONSTANT for segment in segments):
        zeros = np.zeros(count)
        return np.zeros(count, dtype=np.int64), (zeros, np.ones(count), zeros, zeros), []
    shape = np.array([segment.shape for segment in segments], dtype=np.int64)
    numbers = [(s.width, s.period, s.active, s.offset, min(s.seconds, FOREVER)) for s in segments]
    width, period, active, offset, seconds = np.array(numbers, dtype=np.float64).T
    added = shape_integrals(shape, width, period, active, offset, np.where(seconds < FOREVER, seconds, 0.0))
    return shape, (width, period, active, offset), added.tolist()
