"""How long the reactor is held: a timer that is due ten times a second, and how late it fires each time."""

from __future__ import annotations

from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.spec.histogram import Histogram

#: Bucket bounds in seconds; the house rule is that nothing holds the reactor for more than 20 ms.
_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_INTERVAL_SECONDS: Final = 0.1


class StallWatch(Service):
    """Measures delays of the reactor while the service runs.

    A stall shorter than the interval may fall between two looks; a longer one is always seen.

    :ivar delays: how late the timer fired.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self.setName("stalls")
        self._clock = clock
        self._due_seconds = 0.0
        self._call: IDelayedCall | None = None
        self.delays = Histogram(_BUCKETS)

    def startService(self) -> None:
        """Begin to measure."""
        super().startService()
        self._schedule()

    def stopService(self) -> None:
        """Measure no more."""
        super().stopService()
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _schedule(self) -> None:
        self._due_seconds = self._clock.seconds() + _INTERVAL_SECONDS
        self._call = self._clock.callLater(_INTERVAL_SECONDS, self._look)

    def _look(self) -> None:
        self.delays.observe(max(0.0, self._clock.seconds() - self._due_seconds))
        self._schedule()
