"""A histogram of durations with a bounded relative error, in constant memory.

The buckets grow by a constant factor, as in DDSketch (Masson, Rim, Lee: DDSketch: a fast and fully-mergeable quantile
sketch with relative-error guarantees, VLDB 2019): a value lies in bucket ceil(log(value) / log(growth)), and the
bucket is told as the value whose distance from both ends is the same share of it. It is our own: hdrhistogram takes
three times as long to count a value and wants to know the longest one beforehand; ddsketch brings packages of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

#: Quantiles are wrong by at most this share of themselves.
FINE: Final = 0.005
#: The same, where there are very many histograms.
COARSE: Final = 0.05
#: What is shorter counts as 0: nothing that is measured across a socket is.
SHORTEST_SECONDS: Final = 1e-6
#: What is longer counts as this (30 years).
LONGEST_SECONDS: Final = 1e9


class Histogram:
    """Counts durations; tells their number, sum, extremes and quantiles.

    With FINE it has at most 3,456 buckets, with COARSE 348, and only those that hold something take memory.

    :param relative_error: of quantiles: a share, 0 to 1.
    :ivar count: how many values there are.
    :ivar total_seconds: their sum, exact but for rounding.
    :ivar least: the smallest, exact; 0 when there are none.
    :ivar most: the largest, likewise.
    """

    __slots__ = ("_buckets", "_growth", "_per_log", "count", "least", "most", "relative_error", "total_seconds")

    def __init__(self, relative_error: float = FINE) -> None:
        self.relative_error = relative_error
        self._growth = (1 + relative_error) / (1 - relative_error)
        self._per_log = 1 / math.log(self._growth)
        self._buckets: dict[int | None, int] = {}
        self.count = 0
        self.total_seconds = 0.0
        self.least = 0.0
        self.most = 0.0

    def add(self, seconds: float) -> None:
        """Count a value; one below 0 counts as 0."""
        seconds = min(max(seconds, 0.0), LONGEST_SECONDS)
        if not self.count or seconds < self.least:
            self.least = seconds
        self.most = max(self.most, seconds)
        self.count += 1
        self.total_seconds += seconds
        place = None if seconds < SHORTEST_SECONDS else math.ceil(math.log(seconds) * self._per_log)
        self._buckets[place] = self._buckets.get(place, 0) + 1

    def merge(self, other: Histogram) -> None:
        """Count all values of another one, which must have the same relative error."""
        if other.relative_error != self.relative_error:
            raise ValueError("histograms of different errors cannot be merged")
        if not other.count:
            return
        self.least = min(self.least, other.least) if self.count else other.least
        self.most = max(self.most, other.most)
        self.count += other.count
        self.total_seconds += other.total_seconds
        for place, count in other._buckets.items():
            self._buckets[place] = self._buckets.get(place, 0) + count

    @property
    def mean(self) -> float:
        """The mean; 0 when there are no values."""
        return self.total_seconds / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The value that this share of all values is not above, by nearest rank; 0 when there are none.

        :param share: 0 to 1; 0.99 for p99.
        """
        # A share like 0.07 is no binary fraction: 0.07 * 100 is above 7 by rounding alone.
        rank = max(1, math.ceil(share * self.count - 1e-9))
        passed = 0
        for value, count in self.buckets():
            passed += count
            if passed >= rank:
                return value
        return self.most

    def counts_within(self, bounds: Sequence[float]) -> list[int]:
        """How many values lie in each of the ranges that end with these bounds, and how many above the last.

        A value may be in the range next to its own, by the error of quantiles.

        :param bounds: seconds, rising.
        """
        counts = [0] * (len(bounds) + 1)
        for seconds, count in self.buckets():
            counts[bisect_left(bounds, seconds)] += count
        return counts

    def buckets(self) -> Iterator[tuple[float, int]]:
        """The value that stands for each bucket that holds something, rising, with its count."""
        middle = 2 / (1 + self._growth)
        for place in sorted(self._buckets, key=lambda place: -math.inf if place is None else place):
            value = 0.0 if place is None else middle * self._growth**place
            yield min(max(value, self.least), self.most), self._buckets[place]
