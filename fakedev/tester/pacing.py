"""Pacing of requests: which of them start now, in the closed and the open model."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from fakedev.tester.plan import ClosedLoad, OpenLoad, Plan, constant

#: The pause of a slot of the closed model after a refused or lost request, to avoid a busy loop.
REFUSED_PAUSE_SECONDS: Final = 0.1
#: Maximum requests to start or cancel in one call: about 10 ms of work if each has a connection.
MAX_AT_ONCE: Final = 50
#: Maximum arrivals to process in one call: after a stall there may be millions.
_MAX_ARRIVALS: Final = 2_000


class ClosedPacer:
    """The closed model.

    :ivar parallel: intended number of requests in flight.
    :ivar dropped: arrivals without a request: none in this model.
    :ivar waiting: arrivals whose request could not start yet: likewise.
    :ivar is_exhausted: whether no request will be due again: likewise.
    """

    dropped = 0
    waiting = 0
    is_exhausted = False

    def __init__(self, load: ClosedLoad) -> None:
        self.parallel = load.parallel
        self._delay_seconds = load.delay_seconds
        self._resting: deque[float] = deque()  # when resting slots may continue, after the delay
        self._paused: deque[float] = deque()  # the same for slots that pause longer, after a bad end

    def due(self, now: float, running: int, can_start: bool) -> list[float]:
        """The intended start of each request to start now; if there are MAX_AT_ONCE, there may be more.

        :param running: requests in flight.
        :param can_start: whether there is a connection for them.
        """
        for waits in (self._resting, self._paused):
            while waits and waits[0] <= now:
                waits.popleft()
        if not can_start:
            return []
        slots = self.parallel - running - len(self._resting) - len(self._paused)
        return [now] * max(0, min(slots, MAX_AT_ONCE))

    def next_due(self, now: float, running: int) -> float | None:
        """When to call ``due`` again if no request ends before; None for not before."""
        return min((waits[0] for waits in (self._resting, self._paused) if waits), default=None)

    def excess(self, running: int) -> int:
        """How many requests in flight are too many."""
        return max(0, running - self.parallel)

    def ended(self, now: float, is_bad: bool) -> None:
        """A request has ended.

        :param is_bad: it was refused or lost.
        """
        if is_bad and self._delay_seconds < REFUSED_PAUSE_SECONDS:
            self._paused.append(now + REFUSED_PAUSE_SECONDS)
        elif self._delay_seconds > 0:
            self._resting.append(now + self._delay_seconds)

    def give_up(self) -> None:
        """No arrivals wait in this model."""

    def set_parallel(self, parallel: int, running: int) -> None:
        """Change the number of requests in flight. Resting slots are removed first."""
        self.parallel = parallel
        slots = max(0, parallel - running)
        while len(self._resting) + len(self._paused) > slots:
            (self._resting or self._paused).pop()


class OpenPacer:
    """The open model; it has the same methods as :class:`ClosedPacer`.

    :param begin: the start of the run, and of the arrivals.
    :ivar dropped: arrivals without a request, because too many waited.
    """

    def __init__(self, load: OpenLoad, name: str, begin: float) -> None:
        self._load = load
        self._name = name
        self._begin = begin
        self._arrivals = load.arrivals(name)
        self._waiting: deque[float] = deque()
        self._next: float | None = None
        self.dropped = 0
        self._advance()

    def rate(self, now: float) -> float | None:
        """The present rate of the curve in arrivals per second; None for listed arrivals."""
        return None if self._load.curve is None else self._load.curve.rate(max(0.0, now - self._begin))

    def set_rate(self, rate: float, now: float) -> None:
        """Replace the curve by a constant rate from now on. Waiting arrivals stay."""
        self._load = replace(self._load, curve=constant(rate), listed_seconds=())
        self._begin = now
        self._arrivals = self._load.arrivals(self._name)
        self._advance()

    def due(self, now: float, running: int, can_start: bool) -> list[float]:
        """The intended start of each request to start now."""
        for _ in range(_MAX_ARRIVALS):
            if self._next is None or self._next > now:
                break
            if len(self._waiting) < self._load.max_waiting:
                self._waiting.append(self._next)
            else:
                self.dropped += 1
            self._advance()
        room = self._load.max_outstanding - running if can_start else 0
        return [self._waiting.popleft() for _ in range(max(0, min(room, len(self._waiting), MAX_AT_ONCE)))]

    def next_due(self, now: float, running: int) -> float | None:
        """When the next request arrives; None for never."""
        return self._next

    def excess(self, running: int) -> int:
        """None: requests in flight stay."""
        return 0

    def give_up(self) -> None:
        """Drop waiting arrivals: no more requests will start."""
        self.dropped += len(self._waiting)
        self._waiting.clear()

    def ended(self, now: float, is_bad: bool) -> None:
        """Do nothing: arrivals do not depend on it."""

    @property
    def waiting(self) -> int:
        """Arrivals whose request could not start yet."""
        return len(self._waiting)

    @property
    def is_exhausted(self) -> bool:
        """Whether no request will be due again."""
        return self._next is None and not self._waiting

    def _advance(self) -> None:
        arrival = next(self._arrivals, None)
        self._next = None if arrival is None else self._begin + arrival


def pacer_of(plan: Plan, begin: float) -> ClosedPacer | OpenPacer:
    if isinstance(plan.load, ClosedLoad):
        return ClosedPacer(plan.load)
    return OpenPacer(plan.load, plan.name, begin)
