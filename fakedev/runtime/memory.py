"""Memory of a large process: freed memory, the garbage collector, and how long the reactor is held (stalls).

Stalls are measured by a timer that is due ten times a second; pauses of the garbage collector are measured too.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall

from fakedev.base.histograms import STALL_BUCKETS, Histogram

#: mallopt's M_TRIM_THRESHOLD (malloc.h of the GNU C library).
_TRIM_THRESHOLD: Final = -1
#: The generation of a full collection.
_OLDEST: Final = 2
#: A collection of all that is not frozen runs this often. Python's own runs when there are 700 more objects than after
#: the last one: not at all while as many are freed as made. Where connections come and go it would examine those of
#: thousands at once.
COLLECT_SECONDS: Final = 0.25
#: Collections run for this many new objects, then for this many collections of them, and so on, instead of Python's
#: 700, 10 and 10: so a full one examines some 8,000 new objects, which takes some milliseconds.
_THRESHOLDS: Final = (700, 5, 1)
#: At least this many more blocks of memory are in use before all objects are examined again: about 100 MB.
MIN_MORE_BLOCKS: Final = 1_000_000
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


class CollectorSettings:
    """Freezes long-lived objects, so that the garbage collector does not examine them again and again.

    Examining all objects blocks the reactor for 50 ms with the pages of 10,000 devices, and for twice that with as
    many workloads; examining new objects alone takes some milliseconds. So objects that survive a full collection are
    frozen. Frozen objects are freed as others when nothing refers to them, as those of closed connections, which make
    no cycles (tests/service/test_cycles.py). Only unused cycles among them are not found: when twice as many blocks of
    memory are in use as after the last examination of all, and MIN_MORE_BLOCKS more, all are examined again. Blocks are
    counted, because to count the frozen objects takes 30 ms beside 10,000 connections.

    :param clock: calls regular collections, and the examination of all objects, each in a turn of the reactor.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._first_blocks = 0
        self._usual = gc.get_threshold()
        self._loop = LoopingCall(self._collect)
        self._loop.clock = clock

    def begin(self) -> None:
        """Freeze all present objects, and from now on those that survive a full collection; start the collector."""
        gc.enable()
        self._examine_all()
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._collected)
        self._loop.start(COLLECT_SECONDS, now=False)

    def end(self) -> None:
        """Let the collector examine all objects again."""
        if self._loop.running:
            self._loop.stop()
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*self._usual)
            gc.unfreeze()

    def _collect(self) -> None:
        gc.collect()
        if sys.getallocatedblocks() - self._first_blocks > max(self._first_blocks, MIN_MORE_BLOCKS):
            self._examine_all()

    def _examine_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._first_blocks = sys.getallocatedblocks()
        # Python delays a full collection until there are a quarter more objects than after the last one. Now it
        # counts none.
        gc.collect()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == _OLDEST:
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
