"""Shares the reactor between peers, so that none that sends much delays the others."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

#: Seconds of one reactor turn that all peers together may take.
TURN_SECONDS = 0.010


class TurnTaker(Protocol):
    """Something with work that can be done in slices."""

    def take_turn(self) -> bool:
        """Do one slice, which takes some milliseconds at most.

        :returns: whether there is more to do.
        """


class TurnObserver(Protocol):
    """Something that gathers what turns bring, to do it once when one is over."""

    def turn_over(self) -> None:
        """Do it."""


class FairShare:
    """Gives turns: at once while there is time, else in the next reactor turns.

    Who asks comes before those who had a slice and were not done, so that a short request does not wait for the
    long work of others; but one of these is served in each reactor turn.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, turn_seconds: float = TURN_SECONDS) -> None:
        self._clock = clock
        self._turn_seconds = turn_seconds
        self._asking: dict[TurnTaker, None] = {}
        self._unfinished: dict[TurnTaker, None] = {}
        self._taking: TurnTaker | None = None
        self._afterwards: dict[TurnObserver, None] = {}
        self._spent = 0.0
        self._call: IDelayedCall | None = None

    def ask(self, peer: TurnTaker) -> None:
        """Let the peer take a turn: now, or as soon as the others have had theirs."""
        if peer in self._asking or peer in self._unfinished:
            return
        if self._taking is None and not self._asking and self._spent < self._turn_seconds:
            self._give(peer)
        else:
            self._asking[peer] = None
        self._schedule()

    def afterwards(self, mind: TurnObserver) -> None:
        """Tell it once when the turn that is being taken is over; at once when none is."""
        if self._taking is None:
            mind.turn_over()
        else:
            self._afterwards[mind] = None

    def _schedule(self) -> None:
        # Time spent is forgotten in the next reactor turn; only when it is used up somebody has to see to that.
        wanted = self._asking or self._unfinished or self._spent >= self._turn_seconds
        if wanted and self._call is None:
            self._call = self._clock.callLater(0, self._next_turn)

    def _next_turn(self) -> None:
        self._call = None
        self._spent = 0.0
        self._serve(self._asking, len(self._asking))
        self._serve(self._unfinished, len(self._unfinished), at_least=1)
        self._schedule()

    def _serve(self, waiting: dict[TurnTaker, None], most: int, at_least: int = 0) -> None:
        """Give each that waits a turn, while there is time."""
        for served in range(most):
            if served >= at_least and self._spent >= self._turn_seconds:
                break
            peer = next(iter(waiting))
            del waiting[peer]
            self._give(peer)

    def _give(self, peer: TurnTaker) -> None:
        began = self._clock.seconds()
        self._taking = peer
        try:
            if peer.take_turn():
                self._unfinished[peer] = None
        except Exception:
            self.log.failure("a turn of {peer}", peer=peer)
        while self._afterwards:
            mind, _ = self._afterwards.popitem()
            try:
                mind.turn_over()
            except Exception:
                self.log.failure("the end of a turn, for {mind}", mind=mind)
        self._taking = None
        self._spent += self._clock.seconds() - began
