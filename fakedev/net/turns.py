"""Shares the reactor between peers, so that none that sends much delays the others."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

#: Seconds of one reactor turn that all peers together may take.
TURN_SECONDS = 0.010


class TakesTurns(Protocol):
    """Something with work that can be done in slices."""

    def take_turn(self) -> bool:
        """Do one slice, which takes some milliseconds at most.

        :returns: whether there is more to do.
        """


class Turns:
    """Gives turns: at once while there is time, else in the next reactor turns, each waiting peer one slice."""

    log = Logger()

    def __init__(self, clock: IReactorTime, turn_seconds: float = TURN_SECONDS) -> None:
        self._clock = clock
        self._turn_seconds = turn_seconds
        self._waiting: dict[TakesTurns, None] = {}
        self._taking: TakesTurns | None = None
        self._spent = 0.0
        self._call: IDelayedCall | None = None

    def ask(self, peer: TakesTurns) -> None:
        """Let the peer take a turn: now, or as soon as the others have had theirs."""
        if peer in self._waiting:
            return
        if self._taking is None and not self._waiting and self._spent < self._turn_seconds:
            self._give(peer)
        else:
            self._waiting[peer] = None
        self._schedule()

    def _schedule(self) -> None:
        # Time spent is forgotten in the next reactor turn; only when it is used up somebody has to see to that.
        if self._call is None and (self._waiting or self._spent >= self._turn_seconds):
            self._call = self._clock.callLater(0, self._next_turn)

    def _next_turn(self) -> None:
        self._call = None
        self._spent = 0.0
        for _ in range(len(self._waiting)):
            if self._spent >= self._turn_seconds:
                break
            peer = next(iter(self._waiting))
            del self._waiting[peer]
            self._give(peer)
        self._schedule()

    def _give(self, peer: TakesTurns) -> None:
        began = self._clock.seconds()
        self._taking = peer
        try:
            if peer.take_turn():
                self._waiting[peer] = None
        except Exception:
            self.log.failure("a turn of {peer}", peer=peer)
        self._taking = None
        self._spent += self._clock.seconds() - began
