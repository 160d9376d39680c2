"""Seconds that never go back, though the system's time may."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime


class SteadySeconds:
    """Called, it tells the seconds of a clock; while that is behind what it said before, the last ones again."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._last = clock.seconds()

    def __call__(self) -> float:
        """The seconds."""
        self._last = max(self._last, self._clock.seconds())
        return self._last
