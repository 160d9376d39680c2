"""Drives the load of one plan: starts the requests that are due, and counts how they end.

How they are sent is a matter of :class:`IRequests`; both ways to send use :class:`Reconnection`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

from fakedev.base.backoff import Backoff
from fakedev.queues.frontend_client import FrontendConnector, FrontendLost
from fakedev.queues.job import Answer, Outcome
from fakedev.runtime.clock import SteadySeconds
from fakedev.tester.pacing import MAX_AT_ONCE, ClosedPacer, OpenPacer, pacer_of
from fakedev.tester.plan import Plan
from fakedev.tester.statistics import Statistics, Ticket

_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 5.0
#: After these outcomes a request of the closed model pauses before the next one starts.
_BAD_OUTCOMES: Final = frozenset((Outcome.REFUSED, Outcome.LOST))

Client = TypeVar("Client", bound=Protocol)


class IRequests(Interface):
    """Sends the requests of a plan to one queue of a frontend."""

    can_start: bool = Attribute("Whether ``send`` may be called; ``PlanDriver.may_start`` is called when it may again.")

    def start() -> None:
        """Connect to the frontend."""

    def send(number: int) -> None:
        """Send a request; ``PlanDriver.answered`` is called once, when it ends."""

    def cancel_request(number: int) -> None:
        """Cancel a request; ``PlanDriver.answered`` is not called for it any more."""

    def stop() -> None:
        """Close all connections at once, whatever the frontend does, and call nothing any more."""


@dataclass(eq=False)
class Reconnection(Generic[Client]):
    """Connects to a frontend, and tries again while that fails: soon at first, then less and less often.

    :param make_client: makes the protocol of a connection.
    :param connected: called with the protocol of each new connection.
    """

    log = Logger()

    _connector: FrontendConnector
    _make_client: Callable[[], Client]
    _connected: Callable[[Client], None]
    _asker: PlanDriver
    _clock: IReactorTime
    _waits: Backoff = field(default_factory=lambda: Backoff(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS))
    _call: IDelayedCall | None = None
    _connecting: Deferred[None] | None = None
    _was_away: bool = False

    def connect(self) -> None:
        self._connecting = Deferred.fromCoroutine(self._connect())
        self._connecting.addErrback(report_failure, self.log)

    def retry(self) -> None:
        """The frontend is away: connect after the next, longer wait."""
        self._was_away = True
        self._call = self._clock.callLater(self._waits.next_seconds(), self.connect)

    def succeeded(self) -> None:
        """The frontend serves requests: make the next wait short again."""
        self._waits.reset()

    def stop(self) -> None:
        """Do not connect any more."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        if self._connecting is not None:
            self._connecting.cancel()

    async def _connect(self) -> None:
        try:
            client = await self._connector.connect(self._make_client)
        except FrontendLost as reason:
            self._asker.was_refused = True
            if not self._was_away:
                self.log.warn("{reason}; trying again", reason=reason)
            self.retry()
            return
        if self._was_away:
            self._was_away = False
            self._asker.reconnected()
        self._connected(client)


def report_failure(failure: Failure, log: Logger) -> None:
    """Log that connecting failed, unless it was cancelled."""
    if not failure.check(CancelledError, ConnectingCancelledError):
        log.failure("Connecting failed", failure)


def lost(error: str) -> Answer:
    """The answer to a request whose connection was lost before it ended."""
    return Answer(Outcome.LOST, error=error)


#: Makes the requests of a plan.
MakeRequests = Callable[[Plan, "PlanDriver"], IRequests]


class PlanDriver:
    """The load of one plan.

    :param books: the statistics that count each request.
    :param clock: for delayed calls; times come from ``seconds``.
    :param over: called when nothing is pending and nothing will be due.
    :ivar was_reached: whether the frontend was there at any time.
    :ivar was_refused: whether a connection to it could not be made.
    """

    was_reached = False
    was_refused = False

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
        self._tickets: dict[int, tuple[Ticket, ...]] = {}  # pending requests, the youngest last
        self._number = 0
        self._dropped = 0
        self._call: IDelayedCall | None = None
        self._is_starting = False
        self._again = False
        self._halted = False

    @property
    def waiting(self) -> int:
        """The number of waiting arrivals."""
        return self._pacer.waiting

    @property
    def parallel(self) -> int | None:
        """The wanted number of parallel requests; None in the open model."""
        return self._pacer.parallel if isinstance(self._pacer, ClosedPacer) else None

    @property
    def is_over(self) -> bool:
        """Whether nothing is pending and nothing will be due."""
        return not self._tickets and (self._halted or self._pacer.is_exhausted)

    def start(self) -> None:
        """Start the load; arrivals are counted from now."""
        self._pacer = pacer_of(self.plan, self._seconds())
        self._requests.start()
        self._start_what_is_due()

    def set_parallel(self, parallel: int) -> None:
        """Change the number of parallel requests, in the closed model; surplus requests are cancelled at once."""
        assert isinstance(self._pacer, ClosedPacer)
        self._pacer.set_parallel(parallel, len(self._tickets))
        self._start_what_is_due()

    @property
    def rate(self) -> float | None:
        """The current rate in arrivals per second; None in the closed model, and where arrivals are listed."""
        return self._pacer.rate(self._seconds()) if isinstance(self._pacer, OpenPacer) else None

    def set_rate(self, rate: float) -> None:
        """Change the rate of the open model, from now on."""
        assert isinstance(self._pacer, OpenPacer)
        self._pacer.set_rate(rate, self._seconds())
        self._start_what_is_due()

    def halt(self) -> None:
        """Start what is due now, and nothing more; pending requests continue, waiting arrivals are dropped."""
        self._start_what_is_due()
        self._pacer.give_up()
        self._count_dropped()
        self._stop_starting()

    def end(self, error: str) -> None:
        """End the pending requests as cancelled, for this reason."""
        now = self._seconds()
        for number in list(self._tickets):
            self._requests.cancel_request(number)
            self._count(number, Answer(Outcome.CANCELLED, error=error), now)

    def stop(self) -> None:
        """Close all connections; pending requests stay pending, and waiting arrivals stay waiting."""
        self._stop_starting()
        self._requests.stop()

    def _stop_starting(self) -> None:
        self._halted = True
        self._cancel_call()

    # Called by the requests

    def answered(self, number: int, answer: Answer) -> None:
        """A request has ended."""
        if number not in self._tickets:
            return
        now = self._seconds()
        self._count(number, answer, now)
        # A surplus request frees no place, so none has to pause.
        if not self._pacer.excess(len(self._tickets) + 1):
            self._pacer.ended(now, answer.outcome in _BAD_OUTCOMES)
        self._start_what_is_due()

    def may_start(self) -> None:
        """Requests can be sent (again)."""
        self.was_reached = True
        self._start_what_is_due()

    def reconnected(self) -> None:
        """There is a connection again, after one was lost or could not be made."""
        for statistics in self._books:
            statistics.reconnects += 1

    def _count(self, number: int, answer: Answer, now: float) -> None:
        for statistics, ticket in zip(self._books, self._tickets.pop(number), strict=True):
            statistics.answered(ticket, answer, now)

    def _start_what_is_due(self) -> None:
        """Start what is due, and call this again when something will be."""
        self._again = True
        if self._is_starting:
            return
        self._is_starting = True
        try:
            while self._again and not self._halted:
                self._again = False  # set again by a request that ends inside ``send``
                self._start_due()
        finally:
            self._is_starting = False
        if self.is_over:
            self._over()

    def _withdraw(self, count: int) -> None:
        for number in list(islice(reversed(self._tickets), count)):
            for statistics, ticket in zip(self._books, self._tickets.pop(number), strict=True):
                statistics.withdraw(ticket)
            self._requests.cancel_request(number)

    def _start_due(self) -> None:
        now = self._seconds()
        excess = self._pacer.excess(len(self._tickets))
        self._withdraw(min(excess, MAX_AT_ONCE))
        due = self._pacer.due(now, len(self._tickets), self._requests.can_start)
        for intended in due:
            self._number += 1
            self._tickets[self._number] = tuple(statistics.started(intended, now) for statistics in self._books)
            self._requests.send(self._number)
        self._count_dropped()
        # The rest starts in the next reactor turn, so that other work has its turn.
        is_more = max(excess, len(due)) >= MAX_AT_ONCE
        self._schedule(now if is_more else self._pacer.next_due(now, len(self._tickets)), now)

    def _count_dropped(self) -> None:
        dropped, self._dropped = self._pacer.dropped - self._dropped, self._pacer.dropped
        for statistics in self._books:
            statistics.dropped += dropped

    def _schedule(self, when: float | None, now: float) -> None:
        if when is None:
            self._cancel_call()
        elif self._call is None or not self._call.active():
            self._call = self._clock.callLater(max(0.0, when - now), self._start_what_is_due)
        elif self._call.getTime() != when:
            self._call.reset(max(0.0, when - now))

    def _cancel_call(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()
