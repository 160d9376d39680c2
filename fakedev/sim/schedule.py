"""Profiles of many workloads as arrays: the mean load of each over any stretch of time.

A profile is a piecewise constant function of time, repeated. Its integral from 0 to t is exact for
any t, so a tick shows the time-weighted mean of all activities inside it, however short they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.randomness import Floats
from fakedev.sim.spec import FOREVER, Activity

Positions = NDArray[np.int64]

#: Means are rounded to this, in percent. They are differences of integrals that grow with time: without it
#: a constant load would show a last digit that dances, in ticks whose length no float holds exactly.
_DECIMALS: Final = 6


@dataclass(frozen=True)
class Profiles:
    """The activities of W workloads, A in all, one workload's after the other's.

    :ivar counts: activities of each workload, shape (W,).
    :ivar starts: seconds from the profile's start to each activity's, shape (A,).
    :ivar load, fluctuation: percent, shape (A,).
    :ivar load_before, fluctuation_before: their integrals up to each activity, percent seconds, shape (A,).
    :ivar period: seconds of one run through, shape (W,); FOREVER where the last activity has no end.
    :ivar load_period, fluctuation_period: the integrals over one period, shape (W,).
    """

    counts: Positions
    starts: Floats
    load: Floats
    fluctuation: Floats
    load_before: Floats
    fluctuation_before: Floats
    period: Floats
    load_period: Floats
    fluctuation_period: Floats

    @classmethod
    def of(cls, profiles: Sequence[Sequence[Activity]]) -> Profiles:
        """The profiles of some workloads, in their order."""
        columns: list[tuple[float, ...]] = []
        totals = []
        for activities in profiles:
            time = load = fluctuation = 0.0
            for activity in activities:
                columns.append((time, activity.load, activity.fluctuation, load, fluctuation))
                time += activity.seconds
                load += activity.load * activity.seconds
                fluctuation += activity.fluctuation * activity.seconds
            totals.append((time, load, fluctuation) if time < FOREVER else (FOREVER, 0.0, 0.0))
        rows = np.array(columns, dtype=np.float64).reshape(-1, 5).T
        sums = np.array(totals, dtype=np.float64).reshape(-1, 3).T
        counts = np.array([len(activities) for activities in profiles], dtype=np.int64)
        return cls(counts, *rows, *sums)

    def kept(self, keep: NDArray[np.bool_]) -> Profiles:
        """The profiles of the workloads where ``keep``, shape (W,), is true."""
        rows = np.repeat(keep, self.counts)
        by_activity = (self.starts, self.load, self.fluctuation, self.load_before, self.fluctuation_before)
        by_workload = (self.period, self.load_period, self.fluctuation_period)
        return Profiles(
            self.counts[keep], *(each[rows] for each in by_activity), *(each[keep] for each in by_workload)
        )

    def joined(self, other: Profiles) -> Profiles:
        """These profiles, then the other's."""
        return Profiles(
            *(
                np.concatenate((getattr(self, name), getattr(other, name)))
                for name in self.__dataclass_fields__
            )
        )

    def means(self, start: Floats, end: Floats, seconds: Floats | float) -> tuple[Floats, Floats]:
        """Mean load and fluctuation over a tick, percent, both of shape (W,).

        :param start, end: the part of the tick in which each workload runs, in seconds since its
            own start, shape (W,).
        :param seconds: length of the tick in each workload's seconds, shape (W,): what is outside the part
            counts as 0.
        """
        load_0, fluctuation_0 = self._integrals(start)
        load_1, fluctuation_1 = self._integrals(end)
        load = np.round((load_1 - load_0) / seconds, _DECIMALS)
        return load, np.round((fluctuation_1 - fluctuation_0) / seconds, _DECIMALS)

    def _integrals(self, time: Floats) -> tuple[Floats, Floats]:
        """Integrals of load and fluctuation from each workload's start to ``time``, shape (W,)."""
        cycles = np.floor(time / self.period)
        within = time - cycles * self.period
        activity = self._activity_at(within)
        passed = within - self.starts[activity]
        load = cycles * self.load_period + self.load_before[activity] + self.load[activity] * passed
        fluctuation = (
            cycles * self.fluctuation_period
            + self.fluctuation_before[activity]
            + self.fluctuation[activity] * passed
        )
        return load, fluctuation

    def _activity_at(self, within: Floats) -> Positions:
        """Which activity runs at ``within`` seconds of the period, shape (W,): a binary search for all at once."""
        low = np.cumsum(self.counts) - self.counts
        high = low + self.counts - 1
        for _ in range(int(self.counts.max(initial=1)).bit_length()):
            middle = (low + high + 1) // 2
            begun = self.starts[middle] <= within
            low = np.where(begun, middle, low)
            high = np.where(begun, high, middle - 1)
            high = np.maximum(high, low)
        return low
