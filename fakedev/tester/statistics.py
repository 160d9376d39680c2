"""The statistics of the requests of a plan, in constant memory. doc/tester.md defines each number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fakedev.tester.quantiles import COARSE, QuantileSketch
from fakedev.tester.tallies import ByName, Count, NodeTally, Tally, kept_text
from fakedev.tester.timeline import Timeline
from fakedev.workqueue.outcome import Answer, Outcome
from fakedev.workqueue.statistics import WindowedRate

#: A request is late if it starts later than this after its intended start.
LATE_SECONDS: Final = 0.01
#: The window of present rates.
NOW_SECONDS: Final = 10.0
#: Error texts with separate entries.
MAX_ERRORS: Final = 100
#: The parts of a request's time, by the words that all outputs use.
PARTS: Final = ("wait", "run", "communication", "total", "late")
#: Those that the original shows, of successes alone.
ORIGINAL_PARTS: Final = ("run", "wait", "communication")
#: Outcomes that a backend reported: only their times count.
_REPORTED: Final = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT))


@dataclass(frozen=True)
class Ticket:
    """A request in flight.

    :param generation: number of resets of the statistics before its start.
    :param intended: its intended start.
    :param sent: its actual start.
    """

    generation: int
    intended: float
    sent: float


class Statistics:
    """Counts requests from their start to their end.

    ``started`` is always the sum of successes, failures of all kinds, withdrawn and pending. A request in flight during
    a reset belongs to the time before, and only counts as outstanding until it ends.

    :ivar outstanding: requests in flight, whenever they started.
    :ivar begin: when the run started, or the last reset.
    :ivar first_start: when the first request after that started; None before.
    :ivar withdrawn: requests that the tester cancelled.
    :ivar late: requests that started more than LATE_SECONDS after their intended start.
    :ivar dropped: arrivals without a request, because too many waited, or the run was over.
    :ivar reconnects: reconnections to the frontend.
    :ivar timings: seconds by PARTS, of the requests that a backend answered.
    :ivar success_timings: seconds by ORIGINAL_PARTS, of the successes.
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
        self.timings = {part: QuantileSketch() for part in PARTS}
        self.success_timings = {part: QuantileSketch(COARSE) for part in ORIGINAL_PARTS}
        self.nodes = ByName(NodeTally)
        self.devices = ByName(Tally)
        self.pods = ByName(Tally)
        self.errors = ByName(Count, MAX_ERRORS)
        self.timeline = Timeline(now)
        self._recent = WindowedRate(NOW_SECONDS, now)

    def reset(self, now: float) -> None:
        """Start again with 0. Requests in flight stay outstanding, and do not count otherwise."""
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
        """A request was answered."""
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
        if answer.outcome in _REPORTED:
            self._time(ticket, answer, now)
            step.total.observe(now - ticket.intended)
        if answer.node or answer.pod or answer.device:
            self.nodes[answer.node].add(answer, error)
            self.pods[answer.pod].add(answer, error)
            self.devices[f"{answer.node}/{answer.device}"].add(answer, error)

    def withdraw(self, ticket: Ticket) -> None:
        """The tester cancels a request, and does not wait for its answer."""
        self.outstanding -= 1
        if ticket.generation == self._generation:
            self.withdrawn += 1

    @property
    def pending(self) -> int:
        """Requests in flight since the last reset."""
        return self.started_count - self.successes - self.failed - self.withdrawn

    @property
    def failed(self) -> int:
        """Failures of all kinds."""
        return sum(self.failures.values())

    @property
    def completed(self) -> int:
        """Requests with an answer."""
        return self.successes + self.failed

    def rate(self, now: float) -> float:
        """Successes per second since the first request, as the original program computes it."""
        elapsed = 0.0 if self.first_start is None else now - self.first_start
        return self.successes / elapsed if elapsed > 0 else 0.0

    def rate_now(self, now: float) -> float:
        """Successes per second over the last ten seconds."""
        return self._recent.per_second(now)

    def _time(self, ticket: Ticket, answer: Answer, now: float) -> None:
        seconds = {
            "wait": answer.wait_seconds,
            "run": answer.run_seconds,
            # Two or three clocks measured the parts: the difference may be negative, which counts as 0.
            "communication": now - ticket.sent - answer.wait_seconds - answer.run_seconds,
            "total": now - ticket.intended,
            "late": ticket.sent - ticket.intended,
        }
        for part, sketch in self.timings.items():
            sketch.observe(seconds[part])
        if answer.outcome is Outcome.SUCCESS:
            for part, sketch in self.success_timings.items():
                sketch.observe(seconds[part])
