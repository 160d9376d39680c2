"""Reactor turns: a fair share for every host.

A host that sends much, on however many connections, does not delay other hosts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from zope.interface import Attribute, Interface, implementer

#: Seconds that all connections together may take in one turn of the reactor.
TURN_SECONDS: Final = 0.005


class ITurnTaker(Interface):
    """Something with work that can be done in slices."""

    origin = Attribute("Whose time it takes: a host, or a process on a UNIX socket; empty: the program's own.")
    waits_for_ticks = Attribute("Whether it gets no turn while a tick of the fleet is paused.")

    def take_turn() -> bool:
        """Do one slice, which takes some milliseconds at most; return whether there is more to do."""


class ITurnObserver(Interface):
    """Something that collects what happens in a turn, to handle it once at the end."""

    def turn_ended() -> None:
        """Handle it."""


class _Waiting:
    """Takers that wait for a turn. The next is of the host that has used the least time; of one host the oldest.

    :param used: seconds that each host has used; it changes while hosts wait.
    """

    def __init__(self, used: dict[str, float]) -> None:
        self._used = used
        #: What the host of the last one had used: no host has a claim to the time in which it asked for nothing.
        self._least = 0.0
        # Ordered dicts, because a dict is slow to find its first element after many elements before it were deleted.
        self._by_host: dict[str, OrderedDict[ITurnTaker, None]] = {}
        #: A heap of all hosts: what each had used when it was put there, their order, and the host.
        self._hosts: list[tuple[float, int, str]] = []
        self._order = count()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, taker: ITurnTaker) -> bool:
        return taker in self._by_host.get(taker.origin, ())

    def add(self, taker: ITurnTaker) -> None:
        """Let it wait, if it does not do so yet."""
        if taker in self:
            return
        host = taker.origin
        self._used[host] = max(self._used.get(host, 0.0), self._least)
        if host not in self._by_host:
            self._by_host[host] = OrderedDict()
            heappush(self._hosts, (self._used[host], next(self._order), host))
        self._by_host[host][taker] = None
        self._count += 1

    def pop(self) -> ITurnTaker:
        """Remove and return the next one."""
        used, _, host = heappop(self._hosts)
        while used < self._used[host]:  # it was served since
            heappush(self._hosts, (self._used[host], next(self._order), host))
            used, _, host = heappop(self._hosts)
        self._least = used
        takers = self._by_host[host]
        taker, _ = takers.popitem(last=False)
        if takers:
            heappush(self._hosts, (used, next(self._order), host))
        else:
            del self._by_host[host]
        self._count -= 1
        return taker

    def forget(self) -> None:
        """Nobody waits, and what hosts have used is forgotten."""
        self._least = 0.0


class FairShare:
    """Gives turns: at once while there is time, else in the next turns of the reactor.

    While there is more to do than time, all hosts get the same time, measured in seconds, however many connections and
    messages they have. A new request for a turn is served before takers that had a slice and are not done, or that say
    that they have much to do, so that a short message does not wait for long work. At least one of those is served in
    each turn of the reactor. While a tick of the fleet is paused, work on the fleet waits in the order of its arrival.

    :ivar is_held: whether a tick is paused.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, turn_seconds: float = TURN_SECONDS) -> None:
        self._clock = clock
        self._turn_seconds = turn_seconds
        #: Seconds that each host has used since nobody waited.
        self._used: dict[str, float] = {}
        self._requested, self._unfinished = _Waiting(self._used), _Waiting(self._used)
        self._current: ITurnTaker | None = None
        self._observers: dict[ITurnObserver, None] = {}
        self._spent = 0.0
        self._call: IDelayedCall | None = None
        self.is_held = False
        #: What waits for the end of the tick.
        self._held: OrderedDict[ITurnTaker, None] = OrderedDict()

    def hold(self, is_held: bool) -> None:
        """A tick of the fleet is paused, or complete: then all that has waited for it gets its turn."""
        self.is_held = is_held
        if not is_held:
            while self._held:
                self._requested.add(self._held.popitem(last=False)[0])
            self._schedule()

    def call_when_complete(self, call: Callable[[], object]) -> None:
        """Call it now, or in a turn after the end of the tick that is paused."""
        if self.is_held:
            self._held[_Call(call)] = None
        else:
            call()

    def request_turn(self, taker: ITurnTaker, *, is_long: bool = False, is_late: bool = False) -> None:
        """Give a turn: now, or as soon as the takers before it had theirs.

        :param is_long: the taker has work for several slices.
        :param is_late: not now, because the caller's own step took long.
        """
        if taker in self._requested or taker in self._unfinished or taker in self._held:
            return
        waiting = self._unfinished if is_long else self._requested
        if self._current is None and not waiting and self._spent < self._turn_seconds and not is_late:
            self._give_turn(taker)
        else:
            waiting.add(taker)
        self._schedule()

    def call_after_turn(self, observer: ITurnObserver) -> None:
        """Call the observer once when the current turn ends; at once outside of turns."""
        if self._current is None:
            observer.turn_ended()
        else:
            self._observers[observer] = None

    def _schedule(self) -> None:
        # The time spent is reset in the next turn of the reactor; a call is needed for that only when all is spent.
        wanted = self._requested or self._unfinished or self._spent >= self._turn_seconds
        if wanted and self._call is None:
            self._call = self._clock.callLater(0, self._next_turn)

    def _next_turn(self) -> None:
        self._call = None
        self._spent = 0.0
        self._serve(self._requested, len(self._requested))
        self._serve(self._unfinished, len(self._unfinished), at_least=1)
        if not (self._requested or self._unfinished):
            self._used.clear()
            self._requested.forget()
            self._unfinished.forget()
        self._schedule()

    def _serve(self, waiting: _Waiting, at_most: int, at_least: int = 0) -> None:
        """Give each waiting taker a turn, while there is time."""
        for served in range(at_most):
            if served >= at_least and self._spent >= self._turn_seconds:
                break
            self._give_turn(waiting.pop())

    def _give_turn(self, taker: ITurnTaker) -> None:
        if self.is_held and taker.waits_for_ticks:
            self._held[taker] = None
            return
        started = self._clock.seconds()
        self._current = taker
        try:
            is_unfinished = taker.take_turn()
        except Exception:
            is_unfinished = False
            self.log.failure("a turn of {taker} failed", taker=taker)
        while self._observers:
            observer, _ = self._observers.popitem()
            try:
                observer.turn_ended()
            except Exception:
                self.log.failure("{observer} failed at the end of a turn", observer=observer)
        self._current = None
        seconds = max(self._clock.seconds() - started, 0.0)  # the clock may be set back
        self._spent += seconds
        self._used[taker.origin] = self._used.get(taker.origin, 0.0) + seconds
        if is_unfinished:
            self._unfinished.add(taker)


@implementer(ITurnTaker)
class _Call:
    """A call that has waited for the end of a tick."""

    origin = ""
    waits_for_ticks = True

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def take_turn(self) -> bool:
        self._call()
        return False
