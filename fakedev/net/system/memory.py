"""Memory: that of large pages is kept from tick to tick, and the garbage collector looks at what is new.

The limit of open descriptors: each connection costs one, and the usual soft limit is 1024.
"""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Mapping
from typing import Final

from twisted.logger import Logger

#: mallopt's M_TRIM_THRESHOLD (malloc.h of the GNU C library).
_TRIM_THRESHOLD: Final = -1
#: The generation of a full collection.
_OLDEST: Final = 2
#: A full collection comes after so many of the middle generation, in place of Python's 10: it looks at 30,000 new
#: objects, which takes some milliseconds.
_COLLECTIONS: Final = 3
#: So many objects at least are set aside before all is looked at again: some 50 MB.
MIN_ASIDE: Final = 500_000
#: Freed memory up to this stays with the process: pages of 10,000 devices, twice over.
KEPT_BYTES: Final = 256 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory; getting it back costs a page of 10,000 devices up to half its time.

    :returns: whether this C library can be told so (the GNU one can).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


class CollectorSettings:
    """Objects that are there to stay: the garbage collector need not look at them again.

    Looking at everything holds the reactor for 50 ms once the pages of 10,000 devices are there, for twice that with
    as many workloads, and for some milliseconds when it looks at what is new alone. So what has outlived a look at all
    that is new is set aside. There, what only objects that point at each other keep is found no more: connections that
    were closed, at most so many objects as there were at the start, or MIN_ASIDE; then all is looked at once.
    """

    def __init__(self) -> None:
        self._first = 0
        self._aside = 0
        self._usual = gc.get_threshold()

    def begin(self) -> None:
        """All that is there now is there to stay, and from now on what outlives a full collection."""
        gc.collect()
        self._first = len(gc.get_objects())
        gc.freeze()
        # Python puts a full collection off until there is a quarter more than at the last one: now that is nothing.
        gc.collect()
        gc.set_threshold(*self._usual[:2], _COLLECTIONS)
        gc.callbacks.append(self._collected)

    def end(self) -> None:
        """The collector looks at everything again."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*self._usual)
            gc.unfreeze()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase != "stop" or info["generation"] < _OLDEST:
            return
        self._aside += len(gc.get_objects(_OLDEST))
        gc.freeze()
        if self._aside > max(self._first, MIN_ASIDE):
            self._aside = 0
            gc.unfreeze()

_log = Logger()


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard one; the limit that holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        _log.debug("up to {limit} descriptors may be open", limit=soft)
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as reason:
        # Some systems name a hard limit that they do not grant.
        _log.warn(
            "the limit of {soft} open descriptors cannot be raised to {hard}: {reason}",
            soft=soft,
            hard=hard,
            reason=str(reason),
        )
        return soft
    _log.debug("up to {limit} descriptors may be open (it was {soft})", limit=hard, soft=soft)
    return hard
