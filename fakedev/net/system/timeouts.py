"""The timeouts of many peers that all last equally long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from twisted.internet.interfaces import IReactorTime

from fakedev.net.system.timing import PatientCall

Peer = TypeVar("Peer")

#: So many peers are judged in one turn of the reactor: closing thousands at once would hold up all others.
_MAX_AT_ONCE: Final = 100


class Timeouts(Generic[Peer]):
    """Calls back for each peer, some time after it was started, unless it is stopped before.

    One call of the clock serves all, for they are due in the order in which they were started. A call for each would
    cost more than all else for a connection that sends one message. They are judged as by a
    :class:`~fakedev.net.system.timing.PatientCall`: waiting input is read before.

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
        self._until = 0.0  # what is due by then is judged by the call

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
            self._call = PatientCall(self._clock, max(0.0, self._until - self._clock.seconds()), self._judge)

    def _judge(self) -> None:
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
