"""Drives the load of one plan: starts what is due, notes what came of it.

What a load's driver and its way to the frontend know of each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.net.system.timing import SteadySeconds
from fakedev.tester.pacing import MAX_AT_ONCE, ClosedPacer, OpenPacer, pacer_of
from fakedev.tester.plan import Plan
from fakedev.tester.statistics import Statistics, Ticket
from fakedev.workqueue.outcome import Answer, Outcome

_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 5.0


class Requests(Protocol):
    """A way to send requests to one queue of a frontend.

    :ivar can_start: whether ``send`` may be called now; ``Asker.may_start`` is called when that becomes so.
    """

    @property
    def can_start(self) -> bool:
        """Whether there is a frontend, and room."""

    def start(self) -> None:
        """Look for the frontend."""

    def send(self, number: int) -> None:
        """Send a request; ``Asker.answered`` is told of its end, once."""

    def take_back(self, number: int) -> None:
        """Cancel a request; nothing is told of it any more."""

    def stop(self) -> None:
        """Close all connections at once, whatever the frontend does; nothing is told any more."""


class Asker(Protocol):
    """Who sends requests."""

    def answered(self, number: int, answer: Answer) -> None:
        """A request is over."""

    def may_start(self) -> None:
        """Requests can be sent (again)."""

    def reconnected(self) -> None:
        """There is a connection again, after one was lost or could not be had."""


class Reconnection:
    """When a frontend that is away is tried again: soon at first, then less and less often."""

    def __init__(self, attempt: Callable[[], None], clock: IReactorTime) -> None:
        self._attempt = attempt
        self._clock = clock
        self._wait_seconds = _FIRST_WAIT_SECONDS
        self._call: IDelayedCall | None = None

    def later(self) -> None:
        """Try after the next, longer wait."""
        self.stop()
        self._call = self._clock.callLater(self._wait_seconds, self._attempt)
        self._wait_seconds = min(2 * self._wait_seconds, _LONGEST_WAIT_SECONDS)

    def succeeded(self) -> None:
        """It is back: the next wait is short again."""
        self._wait_seconds = _FIRST_WAIT_SECONDS

    def stop(self) -> None:
        """Try no more."""
        if self._call is not None and self._call.active():
            self._call.cancel()


def lost(error: str) -> Answer:
    """What becomes of a request whose connection did not bear it to its end."""
    return Answer(Outcome.LOST, error=error)

#: A place in the closed model pauses after these.
_BAD_ENDS: Final = frozenset((Outcome.REFUSED, Outcome.LOST))
#: Makes the way to the frontend of a plan.
MakeRequests = Callable[[Plan, Asker], Requests]


class PlanDriver:
    """The load of one plan. It is the Asker of its Requests.

    :param books: statistics in which each request is counted.
    :param clock: calls when something is due; what time it is ``seconds`` tells.
    :ivar is_over: whether nothing is under way and nothing will be due.
    """

    def __init__(
        self,
        plan: Plan,
        make_requests: MakeRequests,
        books: tuple[Statistics, ...],
        clock: IReactorTime,
        seconds: SteadySeconds,
        over: Callable[[], None],
    ) -> None:
        self.plan = plan
        self._books = books
        self._clock = clock
        self._seconds = seconds
        self._over = over
        self._pacer = pacer_of(plan, seconds())
        self._requests = make_requests(plan, self)
        self._tickets: dict[int, tuple[Ticket, ...]] = {}  # requests under way, the youngest last
        self._number = 0
        self._dropped = 0
        self._call: IDelayedCall | None = None
        self._turning = False
        self._again = False
        self._halted = False

    @property
    def waiting(self) -> int:
        """Arrivals that wait."""
        return self._pacer.waiting

    @property
    def parallel(self) -> int | None:
        """How many requests are to be under way at once; None in the open model."""
        return self._pacer.parallel if isinstance(self._pacer, ClosedPacer) else None

    @property
    def is_over(self) -> bool:
        """Whether nothing is under way and nothing will be."""
        return not self._tickets and (self._halted or self._pacer.is_exhausted)

    def start(self) -> None:
        """Begin; arrivals are counted from now."""
        self._pacer = pacer_of(self.plan, self._seconds())
        self._requests.start()
        self._turn()

    def set_parallel(self, parallel: int) -> None:
        """Change the number of parallel requests, in the closed model; what is too much is taken back at once."""
        assert isinstance(self._pacer, ClosedPacer)
        self._pacer.set_parallel(parallel, len(self._tickets))
        self._turn()

    @property
    def rate(self) -> float | None:
        """Arrivals per second that are to come now; None in the closed model, and where arrivals are listed."""
        return self._pacer.rate(self._seconds()) if isinstance(self._pacer, OpenPacer) else None

    def set_rate(self, rate: float) -> None:
        """Change the rate of the open model, from now on."""
        assert isinstance(self._pacer, OpenPacer)
        self._pacer.set_rate(rate, self._seconds())
        self._turn()

    def halt(self) -> None:
        """Start what is due by now, and nothing more; what is under way goes on, arrivals that wait are dropped."""
        self._turn()
        self._pacer.give_up()
        self._note_dropped()
        self._cease()

    def end(self, error: str) -> None:
        """End what is under way as cancelled, for this reason."""
        now = self._seconds()
        for number in list(self._tickets):
            self._requests.take_back(number)
            self._note(number, Answer(Outcome.CANCELLED, error=error), now)

    def stop(self) -> None:
        """Close all connections; requests under way stay pending for ever, and arrivals that wait go on waiting."""
        self._cease()
        self._requests.stop()

    def _cease(self) -> None:
        self._halted = True
        self._cancel_call()

    # What the way to the frontend says

    def answered(self, number: int, answer: Answer) -> None:
        """See Asker."""
        if number not in self._tickets:
            return
        now = self._seconds()
        self._note(number, answer, now)
        # The place of one that was too many is gone, and does not rest.
        if not self._pacer.excess(len(self._tickets) + 1):
            self._pacer.ended(now, answer.outcome in _BAD_ENDS)
        self._turn()

    def may_start(self) -> None:
        """See Asker."""
        self._turn()

    def reconnected(self) -> None:
        """See Asker."""
        for statistics in self._books:
            statistics.reconnects += 1

    def _note(self, number: int, answer: Answer, now: float) -> None:
        for statistics, ticket in zip(self._books, self._tickets.pop(number), strict=True):
            statistics.answered(ticket, answer, now)

    def _turn(self) -> None:
        """Start what is due, and look again when something will be."""
        self._again = True
        if self._turning:
            return
        self._turning = True
        try:
            while self._again and not self._halted:
                self._again = False  # set again by a request that ends inside ``send``
                self._start_due()
        finally:
            self._turning = False
        if self.is_over:
            self._over()

    def _take_back(self, count: int) -> None:
        """Take the youngest requests back."""
        for number in list(islice(reversed(self._tickets), count)):
            for statistics, ticket in zip(self._books, self._tickets.pop(number), strict=True):
                statistics.withdraw(ticket)
            self._requests.take_back(number)

    def _start_due(self) -> None:
        now = self._seconds()
        excess = self._pacer.excess(len(self._tickets))
        self._take_back(min(excess, MAX_AT_ONCE))
        due = self._pacer.due(now, len(self._tickets), self._requests.can_start)
        for intended in due:
            self._number += 1
            self._tickets[self._number] = tuple(statistics.started(intended, now) for statistics in self._books)
            self._requests.send(self._number)
        self._note_dropped()
        # What is left over is done in the next reactor turn, after all others had theirs.
        is_more = max(excess, len(due)) >= MAX_AT_ONCE
        self._look_again(now if is_more else self._pacer.next_due(now, len(self._tickets)), now)

    def _note_dropped(self) -> None:
        dropped, self._dropped = self._pacer.dropped - self._dropped, self._pacer.dropped
        for statistics in self._books:
            statistics.dropped += dropped

    def _look_again(self, when: float | None, now: float) -> None:
        if when is None:
            self._cancel_call()
        elif self._call is None or not self._call.active():
            self._call = self._clock.callLater(max(0.0, when - now), self._turn)
        elif self._call.getTime() != when:
            self._call.reset(max(0.0, when - now))

    def _cancel_call(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()
