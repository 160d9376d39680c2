"""Memory of a large process: freed memory, the garbage collector, and how long the reactor is held (stalls).

Stalls are measured by a timer that is due ten times a second; pauses of the garbage collector are measured too.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.base.histograms import STALL_BUCKETS, Histogram

#: mallopt's M_TRIM_THRESHOLD (malloc.h of the GNU C library).
_TRIM_THRESHOLD: Final = -1
#: The process keeps up to this much freed memory: two pages of 10,000 devices.
KEPT_BYTES: Final = 256 * 1024 * 1024


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no garbage while many objects without cycles are made: it would examine all of them again and again.

    A page of 200 pods has 35,000 objects. With the collector at work their parsing takes up to 60 ms instead of 8.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory; getting it back costs a page of 10,000 devices up to half its time.

    :returns: whether this C library supports it (the GNU one does).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


def freeze_objects() -> None:
    """Start the collector, and let it never examine the objects of a program that has just started.

    They stay, and to examine those of 10,000 devices blocks the reactor for 50 ms. Frozen objects are freed as others
    when nothing refers to them; only unused cycles among them are not found.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


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
        if self.running:
            gc.callbacks.remove(self.collects)
        super().stopService()

    def collects(self, phase: str, info: Mapping[str, int]) -> None:
        """A collection starts or stops; see gc.callbacks of Python's library.

        One that had started before the service did is not counted.
        """
        if phase == "start":
            self._began = self._seconds()
        elif self._began is not None:
            self.by_generation[info["generation"]].observe(self._seconds() - self._began)
            self._began = None
