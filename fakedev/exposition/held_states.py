"""States for pages of exporters that collect at intervals: the last state at a multiple of some time."""

from __future__ import annotations

import math
from collections.abc import Callable

from fakedev.sim.entities.state import State


class HeldStates:
    """The present state, and of each interval that pages hold the state at its beginning.

    :param present: the state of now.
    """

    def __init__(self, present: Callable[[], State]) -> None:
        self._present = present
        self._held: dict[float, State] = {}

    def every(self, seconds: float) -> Callable[[], State]:
        """What shows the last state at a multiple of some simulated seconds; the present one where that is 0.

        Before the first multiple it is the state at the time of the first call.
        """
        if not seconds:
            return self._present
        self._held.setdefault(seconds, self._present())
        return lambda: self._held[seconds]

    def keep(self) -> None:
        """A tick was done: keep its state where an interval has begun with it."""
        state = self._present()
        for seconds, held in self._held.items():
            if _interval(state, seconds) != _interval(held, seconds):
                self._held[seconds] = state

    def renew(self) -> None:
        """The fleet has other devices: nothing of the one before can be shown of them."""
        self._held = dict.fromkeys(self._held, self._present())


def _interval(state: State, seconds: float) -> int:
    return math.floor(round(state.seconds / seconds, 9))
