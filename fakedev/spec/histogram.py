"""A histogram of durations with fixed buckets, as Prometheus exposes it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

#: Bucket bounds in seconds for jobs of the work queue: handing one out takes milliseconds, a run seconds to minutes.
JOB_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 1800.0),
)
#: Bucket bounds in seconds for HTTP requests: a cached page takes tens of microseconds, a large compressed one seconds.
REQUEST_BUCKETS: Final = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
#: Bucket bounds in seconds for ticks.
TICK_BUCKETS: Final = REQUEST_BUCKETS[:-2]
#: Bucket bounds in seconds for how long the reactor is held: 20 ms is the most that our own rules allow.
STALL_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram:
    """Counts durations in buckets. Its memory is constant.

    :ivar bounds: upper bounds in seconds, increasing. A value equal to a bound is in its bucket (Prometheus' ``le``).
    :ivar counts: one count for each bound, and one for values above all bounds; not cumulative.
    :ivar total_seconds: the sum of all values.
    """

    __slots__ = ("bounds", "counts", "total_seconds")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_seconds += seconds

    def ranges(self) -> list[tuple[float, int]]:
        """Each bound, infinity last, with the number of values between it and the bound before."""
        return list(zip((*self.bounds, math.inf), self.counts, strict=True))

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound, infinity last, with the number of values that are not above it."""
        return list(zip((*self.bounds, math.inf), accumulate(self.counts), strict=True))
