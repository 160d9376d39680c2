"""A histogram of seconds with fixed bounds: constant memory, whatever it counts."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

#: Upper bounds in seconds: handing a job on takes milliseconds, runs take seconds to minutes.
JOB_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 1800.0),
)


class Histogram:
    """How often a time fell between which bounds.

    :ivar bounds: upper bounds in seconds, rising; a value on a bound is below it (Prometheus' ``le``).
    :ivar counts: one for each bound, and one for what is above all of them; not cumulative.
    :ivar total_seconds: the sum of all values.
    """

    __slots__ = ("bounds", "counts", "total_seconds")

    def __init__(self, bounds: tuple[float, ...] = JOB_BUCKETS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_seconds += seconds

    def cumulative(self) -> tuple[tuple[float, int], ...]:
        """Each bound, infinity the last, with how many values are not above it."""
        return tuple(zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True))
