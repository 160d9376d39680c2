"""Shares the reactor between connections, so that one that sends much does not delay the others."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

#: Seconds that all connections together may take in one turn of the reactor.
TURN_SECONDS: Final = 0.010


class TurnTaker(Protocol):
    """Something with work that can be done in slices."""

    def take_turn(self) -> bool:
        """Do one slice, which takes some milliseconds at most; return whether there is more to do."""


class TurnObserver(Protocol):
    """Something that collects what happens in a turn, to handle it once at the end."""

    def turn_ended(self) -> None:
        """Handle it."""


class FairShare:
    """Gives turns: at once while there is time, else in the next turns of the reactor.

    A new request for a turn is served before takers that had a slice and are not done, or that say that they have much
    to do, so that a short message does not wait for long work. At least one of those is served in each turn of the
    reactor.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, turn_seconds: float = TURN_SECONDS) -> None:
        self._clock = clock
        self._turn_seconds = turn_seconds
        # Ordered dicts, because a dict is slow to find its first element after many elements before it were deleted.
        self._requested: OrderedDict[TurnTaker, None] = OrderedDict()
        self._unfinished: OrderedDict[TurnTaker, None] = OrderedDict()
        self._current: TurnTaker | None = None
        self._observers: dict[TurnObserver, None] = {}
        self._spent = 0.0
        self._call: IDelayedCall | None = None

    def request_turn(self, taker: TurnTaker, *, is_long: bool = False, is_late: bool = False) -> None:
        """Give a turn: now, or as soon as the takers before it had theirs.

        :param is_long: the taker has work for several slices.
        :param is_late: not now, because the caller's own step took long.
        """
        if taker in self._requested or taker in self._unfinished:
            return
        waiting = self._unfinished if is_long else self._requested
        if self._current is None and not waiting and self._spent < self._turn_seconds and not is_late:
            self._give_turn(taker)
        else:
            waiting[taker] = None
        self._schedule()

    def call_after_turn(self, observer: TurnObserver) -> None:
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
        self._schedule()

    def _serve(self, waiting: OrderedDict[TurnTaker, None], at_most: int, at_least: int = 0) -> None:
        """Give each waiting taker a turn, while there is time."""
        for served in range(at_most):
            if served >= at_least and self._spent >= self._turn_seconds:
                break
            taker, _ = waiting.popitem(last=False)
            self._give_turn(taker)

    def _give_turn(self, taker: TurnTaker) -> None:
        started = self._clock.seconds()
        self._current = taker
        try:
            if taker.take_turn():
                self._unfinished[taker] = None
        except Exception:
            self.log.failure("a turn of {taker} failed", taker=taker)
        while self._observers:
            observer, _ = self._observers.popitem()
            try:
                observer.turn_ended()
            except Exception:
                self.log.failure("{observer} failed at the end of a turn", observer=observer)
        self._current = None
        self._spent += self._clock.seconds() - started
