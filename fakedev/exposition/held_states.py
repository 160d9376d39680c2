"""States of exporters that collect at intervals: the last state at a multiple of the interval."""

from __future__ import annotations

import math
from collections.abc import Callable

from fakedev.sim.entities.state import State


class HeldStates:
    """The current state, and for each interval of exporters the state at its start.

    :param present: returns the current state.
    """

    def __init__(self, present: Callable[[], State]) -> None:
        self._present = present
        self._held: dict[float, State] = {}

    def every(self, seconds: float) -> Callable[[], State]:
        """A function that returns the last state at a multiple of some simulated seconds; 0: the current state.

        Before the first multiple it returns the state at the time of the first call.
        """
        if not seconds:
            return self._present
        self._held.setdefault(seconds, self._present())
        return lambda: self._held[seconds]

    def keep(self) -> None:
        """Keep the state of a tick for intervals that have started with it."""
        state = self._present()
        for seconds, held in self._held.items():
            if _interval(state, seconds) != _interval(held, seconds):
                self._held[seconds] = state

    def renew(self) -> None:
        """Replace all held states by the current one, after the devices have changed."""
        self._held = dict.fromkeys(self._held, self._present())


def _interval(state: State, seconds: float) -> int:
    return math.floor(round(state.seconds / seconds, 9))
