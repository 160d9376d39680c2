"""The memory of a large process: freed memory that it keeps, and old objects that the garbage collector skips."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Mapping
from typing import Final

#: mallopt's M_TRIM_THRESHOLD (malloc.h of the GNU C library).
_TRIM_THRESHOLD: Final = -1
#: The generation of a full collection.
_OLDEST: Final = 2
#: A full collection runs after this many of the middle generation, instead of Python's 10: it examines 30,000 new
#: objects, which takes some milliseconds.
_COLLECTIONS: Final = 3
#: At least this many objects are frozen before all are examined again: about 50 MB.
MIN_FROZEN_OBJECTS: Final = 500_000
#: The process keeps up to this much freed memory: two pages of 10,000 devices.
KEPT_BYTES: Final = 256 * 1024 * 1024

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
    frozen. Among frozen objects unused cycles are not found (of closed connections, for example): at most as many
    objects as there were at the start, or MIN_FROZEN_OBJECTS; then all are examined once.
    """

    def __init__(self) -> None:
        self._first = 0
        self._frozen = 0
        self._usual = gc.get_threshold()

    def begin(self) -> None:
        """Freeze all present objects, and from now on those that survive a full collection."""
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
