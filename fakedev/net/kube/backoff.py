"""How long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 30.0
#: Doublings after which the wait grows no further.
_MOST_STEPS: Final = 10


class Backoff:
    """Waits that double, from 0.1 s to 30 s; each is shorter by chance, up to a half, so that many clients spread.

    :param random: gives a number from 0 to 1, as ``random.random``.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._step = 0

    def next_seconds(self) -> float:
        """The next wait."""
        longest: float = min(2 * FIRST_SECONDS * 2**self._step, LONGEST_SECONDS)
        self._step = min(self._step + 1, _MOST_STEPS)
        return longest * (0.5 + 0.5 * self._random())

    def reset(self) -> None:
        """It works again: the next wait is a short one."""
        self._step = 0
