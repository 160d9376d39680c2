"""Counts of requests, as plain numbers: counting a request must cost next to nothing."""

from __future__ import annotations

from fakedev.spec.histogram import REQUEST_BUCKETS, Histogram


class PageStatistics:
    """The requests to one page, or to one group of resources.

    :ivar codes: answers by status; 499: the client left or was dropped before it had its answer.
    :ivar in_flight: requests that are not answered yet.
    """

    __slots__ = ("codes", "durations", "in_flight")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.in_flight = 0
        self.durations = Histogram(REQUEST_BUCKETS)

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
