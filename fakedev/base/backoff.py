"""How long to wait before the next attempt: of requests, connections, and what fakedev-node tries again."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Waits that double.

    :param first_seconds: the first wait.
    :param longest_seconds: no wait is longer.
    :param random: gives a number from 0 to 1 for each wait, as ``random.random``: chance takes up to a half of it, so
        that many clients spread. Without it waits are whole.
    """

    def __init__(
        self, first_seconds: float, longest_seconds: float, random: Callable[[], float] = lambda: 1.0
    ) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._random = random
        self._whole_seconds = first_seconds

    def next_seconds(self) -> float:
        """The next wait."""
        seconds = self._whole_seconds
        self._whole_seconds = min(2 * seconds, self._longest_seconds)
        return seconds * (0.5 + 0.5 * self._random())

    def reset(self) -> None:
        """It works again: the next wait is a short one."""
        self._whole_seconds = self._first_seconds
