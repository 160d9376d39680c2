"""Small helpers for clocks and callbacks: seconds that never go back, a timer that judges a silent peer only after
waiting input was read, turns of the reactor for long work, and a callback that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.interfaces import IReactorTime

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
        """The seconds."""
        self._last = max(self._last, self._clock.seconds())
        return self._last


class HalfOfTurns:
    """Gives long work that runs in slices half of the reactor's time while others are served, else each turn.

    Others need many short turns: a large page has a thousand, which would each wait for a slice.

    :param is_sending: whether connections have bytes to send.
    """

    #: A turn that takes longer than this without a slice serves somebody.
    IDLE_SECONDS: Final = 0.0005

    def __init__(self, clock: IReactorTime, is_sending: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_sending = is_sending
        self._slice_seconds = self._others_seconds = self._seen_at = 0.0

    def slice_ended(self, began: float) -> None:
        """A slice that began at this time has just ended."""
        self._seen_at = self._clock.seconds()
        self._slice_seconds, self._others_seconds = self._seen_at - began, 0.0

    def is_next(self) -> bool:
        """Whether the next slice may begin in this turn; ask once in each turn."""
        now = self._clock.seconds()
        turn_seconds, self._seen_at = max(now - self._seen_at, 0.0), now
        self._others_seconds += turn_seconds
        is_serving = turn_seconds > self.IDLE_SECONDS or self._is_sending()
        return not is_serving or self._others_seconds >= self._slice_seconds


class PatientCall:
    """A delayed call that judges a silent peer, as callLater's: one that fires gives waiting input a chance first.

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
        # To move a call forward Twisted looks for it among all calls: a millisecond beside 10,000 connections.
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
