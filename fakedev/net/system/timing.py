"""Small helpers for clocks and callbacks: seconds that never go back, and a callback that does nothing."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime


class SteadySeconds:
    """The seconds of a clock, which never go back: while the clock is behind its last value, that value again."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._last = clock.seconds()

    def __call__(self) -> float:
        """The seconds."""
        self._last = max(self._last, self._clock.seconds())
        return self._last


def no_op(*_: object) -> None:
    """Replaces a callback whose owner has gone, so that nothing refers to the owner."""
