"""Which requests are to start now: the rules of the closed and the open model."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final, Protocol

from fakedev.tester.plan import ClosedLoad, OpenLoad, Plan
from fakedev.tester.rate_curve import constant

#: How long a place of the closed model pauses after a request that was refused or got lost, lest it spins.
REFUSED_PAUSE_SECONDS: Final = 0.1
#: Requests that may be started, or taken back, in one go: about 10 ms of work where each has a connection.
MAX_AT_ONCE: Final = 50
#: Arrivals looked at in one call: after a standstill there may be millions.
_MAX_LOOKED_AT: Final = 2_000


class Pacer(Protocol):
    """Says when requests start; whoever asks starts them.

    :ivar dropped: requests given up because too many waited.
    """

    dropped: int = 0

    def due(self, now: float, running: int, can_start: bool) -> list[float]:
        """The intended start of each request that is to start now; when there are MAX_AT_ONCE, there may be more.

        :param running: requests under way.
        :param can_start: whether there is a connection to start them on.
        """

    def next_due(self, now: float, running: int) -> float | None:
        """When ``due`` is to be asked again if no request ends before; None for not before."""

    def excess(self, running: int) -> int:
        """How many of the requests under way are too many."""

    def give_up(self) -> None:
        """Nothing more will start: drop what waits."""

    def ended(self, now: float, is_bad: bool) -> None:
        """A request has ended; ``is_bad``: it was refused or got lost."""

    @property
    def waiting(self) -> int:
        """Requests whose time has come and that could not start yet."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no request will ever be due again."""


class ClosedPacer(Pacer):
    """The closed model.

    :ivar parallel: how many requests are to be under way at once.
    """

    waiting = 0
    is_exhausted = False

    def __init__(self, load: ClosedLoad) -> None:
        self.parallel = load.parallel
        self._delay_seconds = load.delay_seconds
        self._resting: deque[float] = deque()  # when places that rest may go on, after the delay
        self._paused: deque[float] = deque()  # the same of places that pause for longer, after a bad end

    def due(self, now: float, running: int, can_start: bool) -> list[float]:
        """See Pacer."""
        for waits in (self._resting, self._paused):
            while waits and waits[0] <= now:
                waits.popleft()
        if not can_start:
            return []
        places = self.parallel - running - len(self._resting) - len(self._paused)
        return [now] * max(0, min(places, MAX_AT_ONCE))

    def next_due(self, now: float, running: int) -> float | None:
        """See Pacer."""
        return min((waits[0] for waits in (self._resting, self._paused) if waits), default=None)

    def excess(self, running: int) -> int:
        """See Pacer."""
        return max(0, running - self.parallel)

    def ended(self, now: float, is_bad: bool) -> None:
        """See Pacer."""
        if is_bad and self._delay_seconds < REFUSED_PAUSE_SECONDS:
            self._paused.append(now + REFUSED_PAUSE_SECONDS)
        elif self._delay_seconds > 0:
            self._resting.append(now + self._delay_seconds)

    def give_up(self) -> None:
        """Nobody waits here."""

    def set_parallel(self, parallel: int, running: int) -> None:
        """Change how many requests are under way at once; places that rest are the first to go."""
        self.parallel = parallel
        places = max(0, parallel - running)
        while len(self._resting) + len(self._paused) > places:
            (self._resting or self._paused).pop()


class OpenPacer(Pacer):
    """The open model.

    :param begin: when the run begins; arrivals are counted from there.
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
        """Arrivals per second that the curve asks for now; None where arrivals are listed."""
        return None if self._load.curve is None else self._load.curve.rate(max(0.0, now - self._begin))

    def set_rate(self, rate: float, now: float) -> None:
        """Let arrivals come at this rate from now on, in place of the curve; those that wait go on waiting."""
        self._load = replace(self._load, curve=constant(rate), listed_seconds=())
        self._begin = now
        self._arrivals = self._load.arrivals(self._name)
        self._advance()

    def due(self, now: float, running: int, can_start: bool) -> list[float]:
        """See Pacer."""
        for _ in range(_MAX_LOOKED_AT):
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
        """See Pacer."""
        return self._next

    def excess(self, running: int) -> int:
        """None: whoever has arrived stays."""
        return 0

    def give_up(self) -> None:
        """See Pacer."""
        self.dropped += len(self._waiting)
        self._waiting.clear()

    def ended(self, now: float, is_bad: bool) -> None:
        """Nothing: arrivals do not depend on it."""

    @property
    def waiting(self) -> int:
        """See Pacer."""
        return len(self._waiting)

    @property
    def is_exhausted(self) -> bool:
        """See Pacer."""
        return self._next is None and not self._waiting

    def _advance(self) -> None:
        arrival = next(self._arrivals, None)
        self._next = None if arrival is None else self._begin + arrival


def pacer_of(plan: Plan, begin: float) -> ClosedPacer | OpenPacer:
    """What paces the requests of a plan."""
    if isinstance(plan.load, ClosedLoad):
        return ClosedPacer(plan.load)
    return OpenPacer(plan.load, plan.name, begin)
