"""Memory of a large process: freed memory, the garbage collector, and how long the reactor is held (stalls).
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: mallopt's M_TRIM_THRESHOLD (malloc.h of the GNU C library).
_TRIM_THRESHOLD: Final = -1
#: The process keeps up to this much freed memory: two pages of 10,000 devices.
KEPT_BYTES: Final = 256 * 1024 * 1024
#: New objects, and collections, after which the next larger collection follows: a full one after 15,000 new objects,
#: which it examines in some 6 ms. Python's usual thresholds make that 70,000.
_THRESHOLDS: Final = (700, 10, 1)
_FULL: Final = 2
_MANY_OBJECTS: Final = 10_000


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


@contextmanager
def without_examination() -> Iterator[None]:
    """While many objects are made that will stay: the collector examines them neither now nor later.

    Else it would examine all of them at once soon after: 150,000 of 1,250 nodes in some 20 ms. Within a program of
    somebody else nothing is left out.
    """
    with collector_paused():
        yield
        if _freeze_many in gc.callbacks:
            gc.freeze()


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory; getting it back costs a page of 10,000 devices up to half its time.

    :returns: whether this C library supports it (the GNU one does).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


def give_back_freed_memory() -> None:
    """Give the system what the C library keeps: after a fleet grew, the arrays of its former sizes.

    That is a quarter of the memory of 10,000 new devices; it takes 3 to 6 ms. Other C libraries keep less.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def freeze_objects() -> None:
    """Start the collector; it examines neither the objects of a program that has just started, nor many old ones again.

    They stay, and to examine those of 10,000 devices blocks the reactor for 50 ms, those of 60,000 workloads for 100.
    Frozen objects are freed as others when nothing refers to them; only unused cycles among them are not found.
    """
    gc.enable()
    gc.set_threshold(*_THRESHOLDS)
    if _freeze_many not in gc.callbacks:
        gc.callbacks.append(_freeze_many)
    gc.collect()
    gc.freeze()
    # A full collection comes when a quarter of what the last one kept is new: that was nothing.
    gc.collect()


def _freeze_many(phase: str, collected: dict[str, int]) -> None:
    """After a full collection: if it kept many objects, the next one leaves them out."""
    if phase == "stop" and collected["generation"] == _FULL and len(gc.get_objects(_FULL)) > _MANY_OBJECTS:
        gc.freeze()


_INTERVAL_SECONDS: Final = 0.1
_MOST_OVER_SECONDS: Final = 60.0


class StallWatch(Service):
    """Measures how long other work, or a collection of garbage, held the reactor: by a timer, ten times a second.

    A stall shorter than the interval may fall between two looks; a longer one is always seen.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self.setName("stalls")
        self._clock = clock
        self._due_seconds = self._began_seconds = clock.seconds()
        self._call: IDelayedCall | None = None
        self._longest = self._longest_before = 0.0

    def longest_seconds(self) -> float:
        """The most that the timer was late in this minute or the one before: each scraper sees each stall."""
        return max(self._longest, self._longest_before)

    def startService(self) -> None:
        """Begin to measure."""
        super().startService()
        self._schedule()

    def stopService(self) -> None:
        super().stopService()
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _schedule(self) -> None:
        self._due_seconds = self._clock.seconds() + _INTERVAL_SECONDS
        self._call = self._clock.callLater(_INTERVAL_SECONDS, self._look)

    def _look(self) -> None:
        now_seconds = self._clock.seconds()
        if now_seconds - self._began_seconds >= _MOST_OVER_SECONDS:
            self._began_seconds, self._longest_before, self._longest = now_seconds, self._longest, 0.0
        self._longest = max(self._longest, now_seconds - self._due_seconds)
        self._schedule()
