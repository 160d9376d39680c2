"""The steady clock of the reactor, a timer for silent peers, and the timeouts of many peers.

Twisted uses the system's time of day. When that is set back by an hour, no timer fires for an hour: no tick, no
deadline. When it is set forward, all deadlines of connections have passed at once. So the reactor gets a clock that
starts with the time of day and then counts the seconds that pass, also the seconds in which the machine sleeps.

A patient timer fires for a silent peer only after waiting input was read. The timeouts of many peers all last equally
long.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Generic, TypeVar

from twisted.internet.interfaces import IReactorTime

#: Boot-time clock, in seconds; not affected by setting the time. On Linux it also counts the time in suspend.
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


def clock_shift(reactor: object) -> float:
    """By how many seconds the time of day is ahead of a reactor's clock; 0 for one without a steady clock."""
    return reactor.shift_seconds() if isinstance(reactor, SteadyClock) else 0.0


#: A timer that fires this much too late was delayed by a pause (of the process or the machine), not by usual work.
PAUSE_SECONDS: Final = 1.0
#: After a pause a peer has this long for what it would have sent or read meanwhile.
GRACE_SECONDS: Final = 1.0


class SteadySeconds:
    """The seconds of a clock, which never go back: while the clock is behind its last value, that value again."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._last = clock.seconds()

    def __call__(self) -> float:
        self._last = max(self._last, self._clock.seconds())
        return self._last


class PatientCall:
    """Like callLater, but runs one reactor turn late, so that input already received is handled first.

    In each turn the reactor calls what is due before it reads. So a due call waits for one more turn, in which
    everything that waits at the sockets is read; after a pause it waits for GRACE_SECONDS before that. Whoever receives
    the input cancels or resets the call as usual.

    :param seconds: until the callback is due.
    """

    __slots__ = ("_call", "_callback", "_clock", "_due", "_had_grace", "_is_last_turn")

    def __init__(self, clock: IReactorTime, seconds: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._due = clock.seconds() + seconds
        self._had_grace = self._is_last_turn = False
        self._call = clock.callLater(seconds, self._fire)

    def active(self) -> bool:
        """Whether the callback was neither called nor cancelled."""
        return self._call.active()

    def cancel(self) -> None:
        """Do not call back; only while active."""
        self._call.cancel()

    def reset(self, seconds: float) -> None:
        """Call back ``seconds`` from now; only while active."""
        self._due = self._clock.seconds() + seconds
        self._had_grace = False
        # To move a call forward Twisted looks for it among all calls: a millisecond with 10,000 connections.
        if self._is_last_turn or self._due < self._call.getTime():
            self._is_last_turn = False
            self._call.cancel()
            self._call = self._clock.callLater(seconds, self._fire)
        else:
            self._call.reset(seconds)

    def _fire(self) -> None:
        if self._clock.seconds() - self._due > PAUSE_SECONDS and not self._had_grace:
            self._had_grace = True
            self._call = self._clock.callLater(GRACE_SECONDS, self._fire)
        else:
            self._is_last_turn = True
            self._call = self._clock.callLater(0, self._callback)


def no_op(*_: object) -> None:
    """Replaces a callback whose owner has gone, so that nothing refers to the owner."""


Peer = TypeVar("Peer")

#: Maximum peers checked in one turn of the reactor: closing thousands at once would hold up all others.
_MAX_AT_ONCE: Final = 100


class Timeouts(Generic[Peer]):
    """Calls back for each peer, some time after it was started, unless it is stopped before.

    One call of the clock serves all, for they are due in the order in which they were started. A call for each would
    cost more than all else for a connection that sends one message. They are checked as by a
    :class:`~fakedev.runtime.clock.PatientCall`: waiting input is read before.

    :param seconds: from start() until it is due. It may be changed; those that were started with a longer time may
        then delay the others until they are due.
    :param expired: called with each peer whose time is over.
    """

    __slots__ = ("_call", "_clock", "_expired", "_running", "_until", "seconds")

    def __init__(self, clock: IReactorTime, seconds: float, expired: Callable[[Peer], None]) -> None:
        self._clock = clock
        self.seconds = seconds
        self._expired = expired
        # In a plain dict, finding the first entry would pass all deleted ones.
        self._running: OrderedDict[Peer, float] = OrderedDict()
        self._call: PatientCall | None = None
        self._until = 0.0  # the call checks what is due by then

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Peer]:
        """The peers, the first started first."""
        return iter(self._running)

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._running

    def start(self, peer: Peer) -> None:
        """Begin to count, or begin again."""
        running = self._running
        running.pop(peer, None)
        running[peer] = self._clock.seconds() + self.seconds
        if self._call is None:
            self._schedule()

    def stop(self, peer: Peer) -> bool:
        """Do not call back for this peer; return whether it was counted."""
        if self._running.pop(peer, None) is None:
            return False
        # While others are counted the call stays: when it comes too early it schedules the next.
        if not self._running and self._call is not None:
            if self._call.active():
                self._call.cancel()
            self._call = None
        return True

    def _schedule(self) -> None:
        if self._running and self._call is None:
            self._until = next(iter(self._running.values()))
            self._call = PatientCall(self._clock, max(0.0, self._until - self._clock.seconds()), self._check_due)

    def _check_due(self) -> None:
        self._call = None
        try:
            for _ in range(_MAX_AT_ONCE):
                peer = next(iter(self._running), None)
                if peer is None or self._running[peer] > self._until:
                    break
                del self._running[peer]
                self._expired(peer)
        finally:
            self._schedule()
