"""Seconds that never go back, though the system's time may.

A wait that can be cut short.

In the place of a callback whose owner is gone, so that nothing points back at it.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime


class SteadySeconds:
    """Called, it tells the seconds of a clock; while that is behind what it said before, the last ones again."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._last = clock.seconds()

    def __call__(self) -> float:
        """The seconds."""
        self._last = max(self._last, self._clock.seconds())
        return self._last


class Pause:
    """Waits of one party, one at a time."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._over: Deferred[None] | None = None

    def wait(self, seconds: float) -> Deferred[None]:
        """Fires after so many seconds, or when :meth:`interrupt` is called."""
        self._over = over = Deferred()
        self._call = self._clock.callLater(seconds, self._end)
        return over

    def interrupt(self) -> None:
        """End the wait, if there is one."""
        if self._call is not None and self._call.active():
            self._call.cancel()
            self._end()

    def _end(self) -> None:
        over, self._over, self._call = self._over, None, None
        if over is not None:
            over.callback(None)


def no_op(*_: object) -> None:
    """Nobody is told any more."""
