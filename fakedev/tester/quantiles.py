"""A sketch of durations with quantiles of bounded relative error, in constant memory.

It is a DDSketch (Masson, Rim, Lee: DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees,
VLDB 2019): bucket ceil(log(value) / log(growth)) counts a value, and the representative of a bucket has the same
relative distance from both of its bounds. Alternatives: hdrhistogram takes three times as long to count a value and
needs the maximum in advance; ddsketch has dependencies.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from fakedev.spec.histogram import Histogram

#: The relative error of quantiles.
FINE: Final = 0.005
#: The same, for very many sketches.
COARSE: Final = 0.05
#: Shorter durations count as 0: no duration across a socket is shorter.
MIN_SECONDS: Final = 1e-6
#: Longer durations count as this (30 years).
MAX_SECONDS: Final = 1e9


class QuantileSketch:
    """Counts durations; has their number, sum, extremes and quantiles.

    It has at most 3,456 buckets with FINE, 348 with COARSE. Only buckets with values take memory.

    :param relative_error: of quantiles: a share, 0 to 1.
    :ivar count: number of values.
    :ivar total_seconds: their sum, exact but for rounding.
    :ivar minimum: the smallest value, exact; 0 if there is none.
    :ivar maximum: the largest value, likewise.
    """

    __slots__ = ("_buckets", "_growth", "_per_log", "count", "maximum", "minimum", "relative_error", "total_seconds")

    def __init__(self, relative_error: float = FINE) -> None:
        self.relative_error = relative_error
        self._growth = (1 + relative_error) / (1 - relative_error)
        self._per_log = 1 / math.log(self._growth)
        self._buckets: dict[int | None, int] = {}
        self.count = 0
        self.total_seconds = 0.0
        self.minimum = 0.0
        self.maximum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a value; a negative one counts as 0."""
        seconds = min(max(seconds, 0.0), MAX_SECONDS)
        if not self.count or seconds < self.minimum:
            self.minimum = seconds
        self.maximum = max(self.maximum, seconds)
        self.count += 1
        self.total_seconds += seconds
        place = None if seconds < MIN_SECONDS else math.ceil(math.log(seconds) * self._per_log)
        self._buckets[place] = self._buckets.get(place, 0) + 1

    def merge(self, other: QuantileSketch) -> None:
        """Count all values of another sketch, which must have the same relative error."""
        if other.relative_error != self.relative_error:
            raise ValueError("sketches of different errors cannot be merged")
        if not other.count:
            return
        self.minimum = min(self.minimum, other.minimum) if self.count else other.minimum
        self.maximum = max(self.maximum, other.maximum)
        self.count += other.count
        self.total_seconds += other.total_seconds
        for place, count in other._buckets.items():
            self._buckets[place] = self._buckets.get(place, 0) + count

    @property
    def mean(self) -> float:
        """The mean; 0 if there are no values."""
        return self.total_seconds / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The smallest value that is not below this share of all values (nearest rank); 0 if there are none.

        :param share: 0 to 1; 0.99 for p99.
        """
        # A share like 0.07 is not a binary fraction: 0.07 * 100 is above 7 because of rounding.
        rank = max(1, math.ceil(share * self.count - 1e-9))
        passed = 0
        for value, count in self.buckets():
            passed += count
            if passed >= rank:
                return value
        return self.maximum

    def histogram(self, bounds: Iterable[float]) -> Histogram:
        """A histogram of the same values with fixed buckets.

        A value near a bound may be in the bucket next to its own, because of the relative error.
        """
        histogram = Histogram(bounds)
        histogram.total_seconds = self.total_seconds
        for seconds, count in self.buckets():
            histogram.counts[bisect_left(histogram.bounds, seconds)] += count
        return histogram

    def buckets(self) -> Iterator[tuple[float, int]]:
        """The representative of each bucket with values, in increasing order, with its count."""
        middle = 2 / (1 + self._growth)
        for place in sorted(self._buckets, key=lambda place: -math.inf if place is None else place):
            value = 0.0 if place is None else middle * self._growth**place
            yield min(max(value, self.minimum), self.maximum), self._buckets[place]
