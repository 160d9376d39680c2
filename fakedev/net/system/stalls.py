"""How long the reactor is held: a timer that is due ten times a second, and the pauses of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.spec.histogram import STALL_BUCKETS, Histogram

_INTERVAL_SECONDS: Final = 0.1
#: Python's garbage collector has generations 0, 1 and 2; 2 is a full collection.
_GENERATIONS: Final = 3


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
        self.delays = Histogram(STALL_BUCKETS)

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


class CollectorPauses(Service):
    """Measures how long the garbage collector holds the whole process, also when a thread caused the collection.

    :param seconds: the clock to measure with.
    :ivar by_generation: the pauses of collections of each generation, the youngest first.
    """

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self.setName("collector-pauses")
        self._seconds = seconds
        self._began: float | None = None
        self.by_generation = [Histogram(STALL_BUCKETS) for _ in range(_GENERATIONS)]

    def startService(self) -> None:
        """Begin to measure."""
        super().startService()
        gc.callbacks.append(self.collects)

    def stopService(self) -> None:
        """Measure no more."""
        super().stopService()
        gc.callbacks.remove(self.collects)

    def collects(self, phase: str, info: Mapping[str, int]) -> None:
        """A collection starts or stops; see gc.callbacks of Python's library.

        One that had started before the service did is not counted.
        """
        if phase == "start":
            self._began = self._seconds()
        elif self._began is not None:
            self.by_generation[info["generation"]].observe(self._seconds() - self._began)
            self._began = None
