"""The reactor's clock, which nobody can set.

Twisted uses the system's time of day. When that is set back by an hour, no timer fires for an hour: no tick, no
deadline. When it is set forward, all deadlines of connections have passed at once. So the reactor gets a clock that
starts with the time of day and then counts the seconds that pass, also those in which the machine sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

#: Seconds since the machine was started, which nothing sets; on Linux with the time in which it slept.
passed_seconds: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class SteadyClock:
    """Seconds since the Unix epoch, as the system had them when this was made, and as many more as have passed.

    :param wall: the time of day, in seconds since the Unix epoch.
    :param passed: seconds that nothing sets.
    """

    def __init__(self, wall: Callable[[], float] = time.time, passed: Callable[[], float] = passed_seconds) -> None:
        self._wall = wall
        self._passed = passed
        self._offset_seconds = wall() - passed()

    def seconds(self) -> float:
        """The time of this clock."""
        return self._offset_seconds + self._passed()

    def shift_seconds(self) -> float:
        """How far the time of day is ahead of this clock: what it was set by since, and what it drifted."""
        return self._wall() - self.seconds()


def use_steady_clock(reactor: Any) -> SteadyClock:
    """Give a reactor its clock, before its first timer; the one that it has if it has one."""
    clock = _clock_of(reactor)
    if clock is None:
        clock = SteadyClock()
        reactor.seconds = clock.seconds
    return clock


def clock_shift(reactor: Any) -> float:
    """By how many seconds the time of day is ahead of a reactor's clock; 0 for one that has the time of day."""
    clock = _clock_of(reactor)
    return 0.0 if clock is None else clock.shift_seconds()


def _clock_of(reactor: Any) -> SteadyClock | None:
    """The clock that a reactor was given."""
    clock = getattr(reactor.seconds, "__self__", None)  # of a method
    return clock if isinstance(clock, SteadyClock) else None
