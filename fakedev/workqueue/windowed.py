"""Maxima and rates over a sliding window, in rings of sub-buckets, so that reading does not clear them.

A value covers the whole window and at most one sub-bucket more: the one that is being filled.
Recording costs O(1), reading one pass over the ring. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: Sub-buckets of a window.
PARTS: Final = 60


class _Ring:
    """One number for each part of the window. Old numbers stay until their place is used again."""

    __slots__ = ("_parts", "_place", "_until", "_values", "part_seconds")

    def __init__(self, window_seconds: float) -> None:
        self.part_seconds = window_seconds / PARTS
        self._values = [0.0] * (PARTS + 1)
        self._parts = [-1] * (PARTS + 1)
        self._place = 0  # of the present part,
        self._until = float("-inf")  # which ends at this time

    def part_at(self, now: float) -> int:
        """The number of the part that contains a time."""
        return int(now // self.part_seconds)

    def _begin_part(self, now: float) -> None:
        """Begin the part that contains ``now``, with 0."""
        part = self.part_at(now)
        self._place = place = part % (PARTS + 1)
        self._until = (part + 1) * self.part_seconds
        if self._parts[place] != part:
            self._parts[place] = part
            self._values[place] = 0.0

    def current(self, now: float) -> Iterator[float]:
        """The numbers of all parts within the window."""
        oldest = self.part_at(now) - PARTS
        return (value for part, value in zip(self._parts, self._values, strict=True) if part >= oldest)


class WindowedMaximum(_Ring):
    """The maximum of the values (not below 0) that were recorded within the window."""

    __slots__ = ()

    def record(self, now: float, value: float) -> None:
        """Record a value."""
        if now >= self._until:
            self._begin_part(now)
        if value > self._values[self._place]:
            self._values[self._place] = value

    def value(self, now: float) -> float:
        """The maximum; 0 if there is no value."""
        return max(self.current(now), default=0.0)

    def clear(self) -> None:
        """Do nothing: a scrape does not clear a window."""


class MaximumSinceScrape:
    """The maximum since the last clear(), as in the original program. It is wrong if there are two scrapers."""

    __slots__ = ("_largest",)

    def __init__(self) -> None:
        self._largest = 0.0

    def record(self, now: float, value: float) -> None:
        """Record a value; the time does not matter."""
        if value > self._largest:
            self._largest = value

    def value(self, now: float) -> float:
        """The maximum; 0 if there is no value."""
        return self._largest

    def clear(self) -> None:
        """Start again with 0."""
        self._largest = 0.0


class WindowedRate(_Ring):
    """Events per second within the window.

    :param now: when counting starts.
    """

    __slots__ = ("_begun",)

    def __init__(self, window_seconds: float, now: float) -> None:
        super().__init__(window_seconds)
        self._begun = now

    def count(self, now: float, events: int = 1) -> None:
        """Count events at this time."""
        if now >= self._until:
            self._begin_part(now)
        self._values[self._place] += events

    def per_second(self, now: float) -> float:
        """Events per second over the window, or since the start if that is shorter."""
        covered_since = max(self._begun, (self.part_at(now) - PARTS) * self.part_seconds)
        # Right after the start the quotient would vary widely: at least one part is covered.
        return sum(self.current(now)) / max(now - covered_since, self.part_seconds)
