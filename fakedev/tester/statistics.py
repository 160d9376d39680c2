"""What is known of the requests of a plan, in constant memory. doc/tester.md defines each number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fakedev.tester.names import ByName, kept_text
from fakedev.tester.quantiles import Histogram
from fakedev.tester.tally import Count, NodeTally, Tally
from fakedev.tester.timeline import Timeline
from fakedev.workqueue.outcome import Answer, Outcome
from fakedev.workqueue.windowed import WindowedRate

#: A request that starts so much after its time is late.
LATE_SECONDS: Final = 0.01
#: What is called now, of a rate.
NOW_SECONDS: Final = 10.0
#: Error texts that are told apart.
MOST_ERRORS: Final = 100
#: The parts of a request's time, by the words that all outputs use.
PARTS: Final = ("wait", "run", "communication", "total", "late")
#: Ends that a backend has answered: only their times mean something.
_RAN: Final = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT))


@dataclass(frozen=True)
class Ticket:
    """A request under way.

    :param generation: how often the statistics had been reset when it started.
    :param intended: when it was meant to start.
    :param sent: when it did.
    """

    generation: int
    intended: float
    sent: float


class Statistics:
    """Counts requests from their start to their end.

    ``started`` is always the sum of successes, failures of all kinds, withdrawn and pending: a request that was under
    way at a reset belongs to the time before it, and is only counted as outstanding until it ends.

    :ivar outstanding: requests under way, whenever they started.
    :ivar begin: when the run began, or the last reset was.
    :ivar first_start: when the first request after that started; None before.
    :ivar withdrawn: requests that the tester itself took back.
    :ivar late: requests that started more than LATE_SECONDS after their time.
    :ivar dropped: arrivals for which no request was started, since too many waited, or the run was over.
    :ivar reconnects: connections to the frontend made anew after one was lost.
    :ivar timings: seconds by PARTS, of the requests that a backend answered.
    """

    def __init__(self, now: float) -> None:
        self.outstanding = 0
        self._generation = 0
        self._clear(now)

    def _clear(self, now: float) -> None:
        self.begin = now
        self.first_start: float | None = None
        self.started_count = 0
        self.successes = 0
        self.failures = dict.fromkeys((outcome for outcome in Outcome if outcome is not Outcome.SUCCESS), 0)
        self.withdrawn = 0
        self.late = 0
        self.dropped = 0
        self.reconnects = 0
        self.timings = {part: Histogram() for part in PARTS}
        self.nodes = ByName(NodeTally)
        self.devices = ByName(Tally)
        self.pods = ByName(Tally)
        self.errors = ByName(Count, MOST_ERRORS)
        self.timeline = Timeline(now)
        self._recent = WindowedRate(NOW_SECONDS, now)

    def reset(self, now: float) -> None:
        """Begin anew; requests under way stay outstanding and count no further."""
        self._generation += 1
        self._clear(now)

    def started(self, intended: float, now: float) -> Ticket:
        """A request is sent now."""
        self.outstanding += 1
        self.started_count += 1
        if self.first_start is None:
            self.first_start = now
        if now - intended > LATE_SECONDS:
            self.late += 1
        step = self.timeline.at(now)
        step.started += 1
        step.outstanding = max(step.outstanding, self.outstanding)
        return Ticket(self._generation, intended, now)

    def answered(self, ticket: Ticket, answer: Answer, now: float) -> None:
        """A request is over."""
        self.outstanding -= 1
        if ticket.generation != self._generation:
            return
        error = kept_text(answer.error)
        step = self.timeline.at(now)
        if answer.outcome is Outcome.SUCCESS:
            self.successes += 1
            step.successes += 1
            self._recent.count(now)
        else:
            self.failures[answer.outcome] += 1
            step.failures += 1
            self.errors[error or answer.outcome.value].value += 1
        if answer.outcome in _RAN:
            self._time(ticket, answer, now)
            step.total.add(now - ticket.intended)
        if answer.node or answer.pod or answer.device:
            self.nodes[answer.node].add(answer, error)
            self.pods[answer.pod].add(answer, error)
            self.devices[f"{answer.node}/{answer.device}"].add(answer, error)

    def withdraw(self, ticket: Ticket) -> None:
        """The tester takes a request back: it is not waited for any more."""
        self.outstanding -= 1
        if ticket.generation == self._generation:
            self.withdrawn += 1

    @property
    def pending(self) -> int:
        """Requests under way that count."""
        return self.started_count - self.successes - self.failed - self.withdrawn

    @property
    def failed(self) -> int:
        """Failures of all kinds."""
        return sum(self.failures.values())

    @property
    def completed(self) -> int:
        """Requests that are over, well or not."""
        return self.successes + self.failed

    def rate(self, now: float) -> float:
        """Successes per second over the time since the first request, as the original computes it."""
        elapsed = 0.0 if self.first_start is None else now - self.first_start
        return self.successes / elapsed if elapsed > 0 else 0.0

    def rate_now(self, now: float) -> float:
        """Successes per second over the last ten seconds."""
        return self._recent.per_second(now)

    def _time(self, ticket: Ticket, answer: Answer, now: float) -> None:
        timings = self.timings
        timings["wait"].add(answer.wait_seconds)
        timings["run"].add(answer.run_seconds)
        # The parts were measured by two or three clocks: what is left may be below 0, and counts as 0 then.
        timings["communication"].add(now - ticket.sent - answer.wait_seconds - answer.run_seconds)
        timings["total"].add(now - ticket.intended)
        timings["late"].add(ticket.sent - ticket.intended)
