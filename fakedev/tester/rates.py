"""How many a second lately."""

from __future__ import annotations

from collections import deque
from typing import Final

#: Whole seconds that count as lately.
WINDOW_SECONDS: Final = 10


class RecentRate:
    """Counts events by whole seconds; remembers those of the window and the second that is not over."""

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._counts: deque[tuple[int, int]] = deque()  # (whole second since begin, events in it)

    def add(self, now: float) -> None:
        """Count an event."""
        second = int(now - self._begin)
        if self._counts and self._counts[-1][0] == second:
            self._counts[-1] = (second, self._counts[-1][1] + 1)
        else:
            self._forget(second)
            self._counts.append((second, 1))

    def rate(self, now: float) -> float:
        """Events per second over the whole seconds of the window; of the part since the begin when that is younger."""
        age = now - self._begin
        second = int(age)
        self._forget(second)
        if second == 0:
            return sum(count for _, count in self._counts) / age if age > 0 else 0.0
        whole = min(second, WINDOW_SECONDS)
        return sum(count for when, count in self._counts if when < second) / whole

    def _forget(self, second: int) -> None:
        while self._counts and self._counts[0][0] < second - WINDOW_SECONDS:
            self._counts.popleft()
