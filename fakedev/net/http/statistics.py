"""Counts of requests, as plain numbers: counting a request must cost next to nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fakedev.spec.histogram import REQUEST_BUCKETS, Histogram


class Dropped(Enum):
    """Why a connection was closed that its peer would have kept."""

    FULL = "full"  # there are too many connections
    REFUSED = "refused"  # what it sent is no valid request, or too large
    LATE = "late"  # its request did not arrive in time
    UNREAD = "unread"  # it did not read its answer, or too slowly


@dataclass(eq=False, slots=True)
class PageStatistics:
    """The requests to one page, or to one group of resources.

    :ivar codes: answers by status; 499: the client left or was dropped before it had its answer.
    :ivar in_flight: requests that are not answered yet.
    """

    codes: dict[int, int] = field(default_factory=dict)
    in_flight: int = 0
    durations: Histogram = field(default_factory=lambda: Histogram(REQUEST_BUCKETS))

    def begun(self) -> None:
        """A request arrived."""
        self.in_flight += 1

    def ended(self, code: int, seconds: float) -> None:
        """A request was answered with ``code``."""
        self.in_flight -= 1
        self.codes[code] = self.codes.get(code, 0) + 1
        self.durations.observe(seconds)


@dataclass
class ScrapeStatistics:
    """The statistics of all pages of an application, by name."""

    pages: dict[str, PageStatistics] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All requests that were answered."""
        return sum(sum(page.codes.values()) for page in self.pages.values())

    def page(self, name: str) -> PageStatistics:
        """The statistics of the page ``name``, made at the first call."""
        return self.pages.setdefault(name, PageStatistics())
