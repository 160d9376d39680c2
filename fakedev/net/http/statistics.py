"""Counts of requests, as plain numbers: counting a request must cost next to nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

#: Upper bounds in seconds: a cached page takes tens of microseconds, a large one by gzip seconds.
REQUEST_BUCKETS: Final = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Durations:
    """A histogram of seconds.

    :ivar counts: one for each bound, and one for longer times; not cumulative.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = REQUEST_BUCKETS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class PageStatistics:
    """The requests to one page, or to one group of resources.

    :ivar codes: answers by status; 499: the client left or was dropped before it had its answer.
    :ivar in_flight: requests that are not answered yet.
    """

    __slots__ = ("codes", "durations", "in_flight")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.in_flight = 0
        self.durations = Durations()

    def begun(self) -> None:
        """A request arrived."""
        self.in_flight += 1

    def ended(self, code: int, seconds: float) -> None:
        """A request was answered with ``code``."""
        self.in_flight -= 1
        self.codes[code] = self.codes.get(code, 0) + 1
        self.durations.observe(seconds)


class ScrapeStatistics:
    """The statistics of all pages of an application, by name."""

    def __init__(self) -> None:
        self.pages: dict[str, PageStatistics] = {}

    def page(self, name: str) -> PageStatistics:
        """The statistics of the page ``name``, made at the first call."""
        return self.pages.setdefault(name, PageStatistics())
