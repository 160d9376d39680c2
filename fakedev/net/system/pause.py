"""A wait that can be cut short."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime


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
