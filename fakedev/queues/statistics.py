"""The statistics of one queue: O(1) for each event, and constant memory.

Maxima and rates cover a sliding window in rings of parts, so that reading does not clear them: the whole window, and at
most the part that is being filled. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fakedev.base.histograms import JOB_BUCKETS, Histogram
from fakedev.queues.job import Answer, Outcome
from fakedev.queues.settings import BrokerSpec

#: The outcomes of accepted requests.
ENDS: Final[tuple[Outcome, ...]] = tuple(outcome for outcome in Outcome if outcome is not Outcome.REFUSED)
#: Parts of a window.
PARTS: Final = 60


class _Ring:
    """One number for each part of the window. Old numbers stay until their place is used again."""

    __slots__ = ("_parts", "_place", "_until", "_values", "part_seconds")

    def __init__(self, window_seconds: float) -> None:
        self.part_seconds = window_seconds / PARTS
        self._values = [0.0] * (PARTS + 1)
        self._parts = [-1] * (PARTS + 1)
        self._place = 0  # of the present part,
        self._until = float("-inf")  # which ends at this time

    def part_at(self, now: float) -> int:
        """The number of the part that contains a time."""
        return int(now // self.part_seconds)

    def _begin_part(self, now: float) -> None:
        """Begin the part that contains ``now``, with 0."""
        part = self.part_at(now)
        self._place = place = part % (PARTS + 1)
        self._until = (part + 1) * self.part_seconds
        if self._parts[place] != part:
            self._parts[place] = part
            self._values[place] = 0.0

    def current(self, now: float) -> Iterator[float]:
        """The numbers of all parts within the window."""
        oldest = self.part_at(now) - PARTS
        return (value for part, value in zip(self._parts, self._values, strict=True) if part >= oldest)


class WindowedMaximum(_Ring):
    """The maximum of the values (not below 0) that were recorded within the window."""

    __slots__ = ()

    def record(self, now: float, value: float) -> None:
        if now >= self._until:
            self._begin_part(now)
        if value > self._values[self._place]:
            self._values[self._place] = value

    def value(self, now: float) -> float:
        """The maximum; 0 if there is no value."""
        return max(self.current(now), default=0.0)


class MaximumSinceScrape:
    """The maximum since the last clear(), as in the original program. It is wrong if there are two scrapers."""

    __slots__ = ("_largest",)

    def __init__(self) -> None:
        self._largest = 0.0

    def record(self, now: float, value: float) -> None:
        if value > self._largest:
            self._largest = value

    def value(self, now: float) -> float:
        """The maximum; 0 if there is no value."""
        return self._largest

    def clear(self) -> None:
        """Start again with 0."""
        self._largest = 0.0


class WindowedRate(_Ring):
    """Events per second within the window.

    :param now: when counting starts.
    """

    __slots__ = ("_begun",)

    def __init__(self, window_seconds: float, now: float) -> None:
        super().__init__(window_seconds)
        self._begun = now

    def count(self, now: float, events: int = 1) -> None:
        if now >= self._until:
            self._begin_part(now)
        self._values[self._place] += events

    def per_second(self, now: float) -> float:
        """Events per second over the window, or since the start if that is shorter."""
        covered_since = max(self._begun, (self.part_at(now) - PARTS) * self.part_seconds)
        # Right after the start the quotient would vary widely: at least one part is covered.
        return sum(self.current(now)) / max(now - covered_since, self.part_seconds)


@dataclass
class Interval:
    """Events between two log lines.

    :ivar put: accepted requests.
    :ivar ended: ended requests.
    :ivar longest_wait_seconds: from put to take, or to the end of a request without a take.
    :ivar longest_run_seconds: of the ended runs.
    :ivar longest_total_seconds: wait and run together.
    :ivar node, pod: of the longest run; empty if no run ended.
    """

    put: int = 0
    ended: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    longest_wait_seconds: float = 0.0
    longest_run_seconds: float = 0.0
    longest_total_seconds: float = 0.0
    node: str = ""
    pod: str = ""


class QueueStatistics:
    """The statistics of one queue.

    Each accepted request is counted once in ``puts`` and, at its end, once in ``outcomes``; a refused one only in
    ``outcomes[Outcome.REFUSED]``.

    :param now: when counting starts; monotonic seconds, as in all methods.
    :param spec: the time that rates and maxima cover.
    :ivar puts: accepted requests.
    :ivar outcomes: ended requests by outcome.
    :ivar disconnects: requests whose client disconnected first; they are among the cancelled ones, at their end.
    :ivar retries: how often a job returned to the queue after its backend disconnected.
    :ivar burials: buried jobs.
    :ivar wait: time from put to the last take, by outcome.
    :ivar run: run times, by outcome.

    These are functions of the time:

    :ivar arrivals_per_second: accepted requests per second of the window.
    :ivar services_per_second: ended runs, with any outcome, per second of the window.
    :ivar longest_wait_seconds: the longest wait that ended within the window, or since the last scrape.
    :ivar longest_run_seconds: the longest run, likewise.
    :ivar longest_total_seconds: the longest wait and run of one request, likewise.
    """

    def __init__(self, spec: BrokerSpec, now: float) -> None:
        self.puts = 0
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.disconnects = 0
        self.retries = 0
        self.burials = 0
        self.wait: dict[Outcome, Histogram] = {outcome: Histogram(JOB_BUCKETS) for outcome in ENDS}
        self.run: dict[Outcome, Histogram] = {outcome: Histogram(JOB_BUCKETS) for outcome in ENDS}
        self._arrivals = WindowedRate(spec.window_seconds, now)
        self._services = WindowedRate(spec.window_seconds, now)
        self._longest_wait = _maximum(spec)
        self._longest_run = _maximum(spec)
        self._longest_total = _maximum(spec)
        self.arrivals_per_second = self._arrivals.per_second
        self.services_per_second = self._services.per_second
        self.longest_wait_seconds = self._longest_wait.value
        self.longest_run_seconds = self._longest_run.value
        self.longest_total_seconds = self._longest_total.value
        self._interval = Interval()

    def put(self, now: float) -> None:
        self.puts += 1
        self._interval.put += 1
        self._arrivals.count(now)

    def refused(self) -> None:
        self.outcomes[Outcome.REFUSED] += 1
        self._interval.ended[Outcome.REFUSED] += 1

    def taken(self, now: float, wait_seconds: float) -> None:
        """A backend got a job after this wait."""
        self._longest_wait.record(now, wait_seconds)
        if wait_seconds > self._interval.longest_wait_seconds:
            self._interval.longest_wait_seconds = wait_seconds

    def ended(self, now: float, answer: Answer, *, has_run: bool) -> None:
        """A request ended with this answer.

        :param has_run: whether a backend took it; else its wait ended without a take.
        """
        wait_seconds, run_seconds = answer.wait_seconds, answer.run_seconds
        self.outcomes[answer.outcome] += 1
        self.wait[answer.outcome].observe(wait_seconds)
        interval = self._interval
        interval.ended[answer.outcome] += 1
        if not has_run:
            self.taken(now, wait_seconds)
            return
        self._services.count(now)
        self.run[answer.outcome].observe(run_seconds)
        self._longest_run.record(now, run_seconds)
        total_seconds = wait_seconds + run_seconds
        self._longest_total.record(now, total_seconds)
        if total_seconds > interval.longest_total_seconds:
            interval.longest_total_seconds = total_seconds
        if run_seconds >= interval.longest_run_seconds:
            interval.longest_run_seconds = run_seconds
            interval.node = answer.node
            interval.pod = answer.pod

    def scraped(self) -> None:
        """A page has read the maxima: clear them if they cover the time since the last scrape."""
        for maximum in (self._longest_wait, self._longest_run, self._longest_total):
            if isinstance(maximum, MaximumSinceScrape):
                maximum.clear()

    def end_interval(self) -> Interval:
        """The events since the last call. A new interval begins."""
        interval, self._interval = self._interval, Interval()
        return interval


def _maximum(spec: BrokerSpec) -> WindowedMaximum | MaximumSinceScrape:
    if spec.maxima == "since-scrape":
        return MaximumSinceScrape()
    return WindowedMaximum(spec.interval_seconds if spec.maxima == "interval" else spec.window_seconds)
