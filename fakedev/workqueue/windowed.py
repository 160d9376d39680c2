"""Figures over the last minute: rings of sub-buckets, each for a part of the window, so that reading clears nothing.

A figure covers the whole window and at most one sub-bucket more: the sub-bucket that is being filled comes on top.
Recording costs O(1), reading one pass over the ring. Times are seconds and never go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: Into how many parts a window is divided.
PARTS: Final = 60


class _Ring:
    """One number for each part of the window; numbers of parts that are over lie still until their place is used."""

    __slots__ = ("_parts", "_place", "_until", "_values", "part_seconds")

    def __init__(self, window_seconds: float) -> None:
        self.part_seconds = window_seconds / PARTS
        self._values = [0.0] * (PARTS + 1)
        self._parts = [-1] * (PARTS + 1)
        self._place = 0  # where the present part is kept,
        self._until = float("-inf")  # which ends then

    def part_at(self, now: float) -> int:
        """The number of the part that a time lies in."""
        return int(now // self.part_seconds)

    def _begin_part(self, now: float) -> None:
        """Another part is the present one; its number begins with 0."""
        part = self.part_at(now)
        self._place = place = part % (PARTS + 1)
        self._until = (part + 1) * self.part_seconds
        if self._parts[place] != part:
            self._parts[place] = part
            self._values[place] = 0.0

    def current(self, now: float) -> Iterator[float]:
        """The numbers of all parts that count now."""
        oldest = self.part_at(now) - PARTS
        return (value for part, value in zip(self._parts, self._values, strict=True) if part >= oldest)


class WindowedMaximum(_Ring):
    """The largest of the values (not below 0) that were recorded within the window."""

    __slots__ = ()

    def record(self, now: float, value: float) -> None:
        """Take a value into account."""
        if now >= self._until:
            self._begin_part(now)
        if value > self._values[self._place]:
            self._values[self._place] = value

    def value(self, now: float) -> float:
        """The maximum; 0 when nothing was recorded."""
        return max(self.current(now), default=0.0)

    def clear(self) -> None:
        """A scrape clears no window."""


class MaximumSinceScrape:
    """The largest of the values since somebody cleared it: what the original shows, wrong as soon as two scrape."""

    __slots__ = ("_largest",)

    def __init__(self) -> None:
        self._largest = 0.0

    def record(self, now: float, value: float) -> None:
        """Take a value into account, whenever it comes."""
        if value > self._largest:
            self._largest = value

    def value(self, now: float) -> float:
        """The maximum; 0 when nothing was recorded."""
        return self._largest

    def clear(self) -> None:
        """Begin again."""
        self._largest = 0.0


class WindowedRate(_Ring):
    """How many events a second there were within the window.

    :param now: the time from which on events are counted.
    """

    __slots__ = ("_begun",)

    def __init__(self, window_seconds: float, now: float) -> None:
        super().__init__(window_seconds)
        self._begun = now

    def count(self, now: float, events: int = 1) -> None:
        """Count events that are happening."""
        if now >= self._until:
            self._begin_part(now)
        self._values[self._place] += events

    def per_second(self, now: float) -> float:
        """Events a second over the time that is covered: the window, or less soon after the beginning."""
        covered_since = max(self._begun, (self.part_at(now) - PARTS) * self.part_seconds)
        # Right after the beginning the quotient would jump about: no less than one part is covered.
        return sum(self.current(now)) / max(now - covered_since, self.part_seconds)
