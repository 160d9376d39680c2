"""The memory of a large process: freed memory that it keeps, and old objects that the garbage collector skips."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: mallopt's M_TRIM_THRESHOLD (malloc.h of the GNU C library).
_TRIM_THRESHOLD: Final = -1
#: The generation of a full collection.
_OLDEST: Final = 2
#: A full collection runs after this many of the middle generation, instead of Python's 10: it examines 30,000 new
#: objects, which takes some milliseconds.
_COLLECTIONS: Final = 3
#: At least this many objects are frozen before all are examined again: about 50 MB.
MIN_FROZEN_OBJECTS: Final = 500_000
#: How long after the end of a peak its memory is returned.
_AFTER_PEAK_SECONDS: Final = 1.0
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


def return_freed_memory() -> None:
    """Let the C library return all freed memory to the system: about 5 ms for each 100 MB, so only after a peak."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    malloc_trim(0)


class AfterPeak:
    """Returns freed memory to the system after a peak.

    The C library keeps freed memory below memory that is in use, however much that is. So what a peak took would stay
    with the process. Usual pages of usual ticks are no peak: their memory is used again.

    :param give_back: returns the memory.
    """

    def __init__(self, clock: IReactorTime, give_back: Callable[[], None] = return_freed_memory) -> None:
        self._clock = clock
        self._give_back = give_back
        self._bytes = self._peak = 0
        self._call: IDelayedCall | None = None
        self._is_stopped = False

    def note(self, held_bytes: int) -> None:
        """So much is in use now."""
        self._bytes = held_bytes
        self._peak = max(self._peak, held_bytes)
        is_over = self._peak > KEPT_BYTES and held_bytes <= self._peak // 2
        if is_over and self._call is None and not self._is_stopped:
            # A little later: the connections that held it are being closed.
            self._call = self._clock.callLater(_AFTER_PEAK_SECONDS, self._is_over)

    def stop(self) -> None:
        """Return nothing more."""
        self._is_stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _is_over(self) -> None:
        self._call = None
        if self._bytes <= self._peak // 2:
            self._give_back()
            self._peak = self._bytes


class CollectorSettings:
    """Freezes long-lived objects, so that the garbage collector does not examine them again and again.

    Examining all objects blocks the reactor for 50 ms with the pages of 10,000 devices, and for twice that with as
    many workloads; examining new objects alone takes some milliseconds. So objects that survive a full collection are
    frozen. Among frozen objects unused cycles are not found (of closed connections, for example): at most as many
    objects as there were at the start, or MIN_FROZEN_OBJECTS; then all are examined once.
    """

    def __init__(self) -> None:
        self._first = 0
        self._frozen = 0
        self._usual = gc.get_threshold()

    def begin(self) -> None:
        """Freeze all present objects, and from now on those that survive a full collection; start the collector."""
        gc.enable()
        gc.collect()
        self._first = len(gc.get_objects())
        gc.freeze()
        # Python delays a full collection until there are a quarter more objects than after the last one. Now it
        # counts none.
        gc.collect()
        gc.set_threshold(*self._usual[:2], _COLLECTIONS)
        gc.callbacks.append(self._collected)

    def end(self) -> None:
        """Let the collector examine all objects again."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*self._usual)
            gc.unfreeze()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase != "stop" or info["generation"] < _OLDEST:
            return
        self._frozen += len(gc.get_objects(_OLDEST))
        gc.freeze()
        if self._frozen > max(self._first, MIN_FROZEN_OBJECTS):
            self._frozen = 0
            gc.unfreeze()
