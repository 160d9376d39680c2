"""Statistics in constant memory: histograms as Prometheus exposes them, quantiles, recent values for charts.

The histogram of durations has fixed buckets. The recent past has every entry of the last minutes, and an entry for
every tenth second of the hour before.

The sketch of durations has quantiles of bounded relative error. It is a DDSketch (Masson, Rim, Lee: DDSketch: a fast
and fully-mergeable quantile sketch with relative-error guarantees, VLDB 2019): bucket ceil(log(value) / log(growth))
counts a value, and the representative of a bucket has the same relative distance from both bounds of the bucket.
Alternatives: hdrhistogram takes three times as long to count a value and needs the maximum in advance; ddsketch has
dependencies.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Final, Generic, Protocol, TypeVar

#: Bucket bounds in seconds for jobs of the work queue: handing one out takes milliseconds, a run seconds to minutes.
JOB_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 1800.0),
)
#: Bucket bounds in seconds for HTTP requests: a cached page takes tens of microseconds, a large compressed one seconds.
REQUEST_BUCKETS: Final = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
#: Bucket bounds in seconds for ticks.
TICK_BUCKETS: Final = REQUEST_BUCKETS[:-2]


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


#: Simulated or real seconds between the entries that are kept longer, and how many of them: an hour.
SPARSE_SECONDS: Final = 10.0
MAX_SPARSE: Final = 360
_ROUNDING_SECONDS: Final = 1e-6


class Timed(Protocol):
    """An entry with its time."""

    @property
    def seconds(self) -> float:
        """The time, rising from entry to entry."""


Entry = TypeVar("Entry", bound=Timed)


class Recent(Generic[Entry]):
    """The last entries: ``dense_count`` of them, and before those one for each SPARSE_SECONDS.

    :param sparse_count: maximum number of the latter.
    """

    __slots__ = ("_dense", "_sparse")

    def __init__(self, dense_count: int, sparse_count: int = MAX_SPARSE) -> None:
        self._dense: deque[Entry] = deque()
        self._sparse: deque[Entry] = deque()
        self.resize(dense_count, sparse_count)

    def resize(self, dense_count: int, sparse_count: int) -> None:
        """Keep other numbers of entries from now on; the oldest beyond them are forgotten."""
        self._dense, self._sparse = deque(self._dense, dense_count), deque(self._sparse, sparse_count)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, the oldest first; none twice."""
        first = self._dense[0].seconds if self._dense else 0.0
        return chain((entry for entry in self._sparse if entry.seconds < first), self._dense)

    def add(self, entry: Entry) -> None:
        self._dense.append(entry)
        if not self._sparse or entry.seconds >= self._sparse[-1].seconds + SPARSE_SECONDS - _ROUNDING_SECONDS:
            self._sparse.append(entry)

    def within(self, seconds: float | None) -> Iterable[Entry]:
        """The entries of the last ``seconds``, the oldest first; None: the dense ones."""
        if seconds is None or not self._dense:
            return self._dense
        begin = self._dense[-1].seconds - seconds
        return [entry for entry in self if entry.seconds >= begin]


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
