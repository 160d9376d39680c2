"""What is counted of one queue: O(1) for each event, and constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fakedev.workqueue.histogram import Histogram
from fakedev.workqueue.job import Outcome
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.windowed import MaximumSinceScrape, WindowedMaximum, WindowedRate

#: The outcomes that a request which was taken in can have.
ENDS: Final[tuple[Outcome, ...]] = tuple(outcome for outcome in Outcome if outcome is not Outcome.REFUSED)


@dataclass
class Interval:
    """What happened between two log lines.

    :ivar put: requests that were taken in.
    :ivar over: requests that ended.
    :ivar longest_wait_seconds: from put to take, or to the end of what was never taken.
    :ivar longest_run_seconds: of the runs that ended.
    :ivar longest_total_seconds: wait and run together.
    :ivar node: where the longest run was; empty when nothing ran to its end.
    :ivar pod: likewise.
    """

    put: int = 0
    over: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    longest_wait_seconds: float = 0.0
    longest_run_seconds: float = 0.0
    longest_total_seconds: float = 0.0
    node: str = ""
    pod: str = ""


class QueueStatistics:
    """The figures of one queue.

    Each request that is put is counted once in ``puts`` and, when it is over, once in ``outcomes``; one that is refused
    only in ``outcomes[Outcome.REFUSED]``.

    :param now: the time from which on is counted; seconds that never go back, as in all methods.
    :param spec: says what rates and maxima cover.
    :ivar puts: requests taken in.
    :ivar outcomes: requests that are over, by outcome.
    :ivar disconnects: clients that left before the answer; their requests are among the cancelled ones.
    :ivar retries: how often a job was offered again because its backend had left.
    :ivar burials: jobs laid aside.
    :ivar wait: time from put to take, by outcome; of a job that was offered several times, to the last one.
    :ivar run: run time of what was taken, by outcome.
    """

    def __init__(self, spec: BrokerSpec, now: float) -> None:
        self.puts = 0
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.disconnects = 0
        self.retries = 0
        self.burials = 0
        self.wait: dict[Outcome, Histogram] = {outcome: Histogram() for outcome in ENDS}
        self.run: dict[Outcome, Histogram] = {outcome: Histogram() for outcome in ENDS}
        self._arrivals = WindowedRate(spec.window_seconds, now)
        self._services = WindowedRate(spec.window_seconds, now)
        self._longest_wait = _maximum(spec)
        self._longest_run = _maximum(spec)
        self._longest_total = _maximum(spec)
        self._interval = Interval()

    def put(self, now: float) -> None:
        """A request was taken in."""
        self.puts += 1
        self._interval.put += 1
        self._arrivals.count(now)

    def refused(self) -> None:
        """A request was not taken in."""
        self.outcomes[Outcome.REFUSED] += 1
        self._interval.over[Outcome.REFUSED] += 1

    def taken(self, now: float, wait_seconds: float) -> None:
        """A backend got a job that had waited so long."""
        self._longest_wait.record(now, wait_seconds)
        if wait_seconds > self._interval.longest_wait_seconds:
            self._interval.longest_wait_seconds = wait_seconds

    def offered_again(self) -> None:
        """A job goes back to the queue because its backend did not see it through."""
        self.retries += 1

    def buried(self) -> None:
        """A job was laid aside."""
        self.burials += 1

    def client_left(self) -> None:
        """A client went away before it had its answer; that its request is over is told apart."""
        self.disconnects += 1

    def over(
        self,
        now: float,
        outcome: Outcome,
        wait_seconds: float,
        run_seconds: float | None = None,
        node: str = "",
        pod: str = "",
    ) -> None:
        """A request ended, once and for all.

        :param wait_seconds: from put to the last time it was taken, or to the end of what was never taken.
        :param run_seconds: how long it ran; None when no backend took it.
        :param node: where it ran.
        :param pod: likewise.
        """
        self.outcomes[outcome] += 1
        self.wait[outcome].observe(wait_seconds)
        interval = self._interval
        interval.over[outcome] += 1
        if run_seconds is None:
            self.taken(now, wait_seconds)  # it waits no longer, and nobody else will tell
            return
        self._services.count(now)
        self.run[outcome].observe(run_seconds)
        self._longest_run.record(now, run_seconds)
        total_seconds = wait_seconds + run_seconds
        self._longest_total.record(now, total_seconds)
        if total_seconds > interval.longest_total_seconds:
            interval.longest_total_seconds = total_seconds
        if run_seconds >= interval.longest_run_seconds:
            interval.longest_run_seconds = run_seconds
            interval.node = node
            interval.pod = pod

    def arrivals_per_second(self, now: float) -> float:
        """Requests taken in, per second of the window."""
        return self._arrivals.per_second(now)

    def services_per_second(self, now: float) -> float:
        """Runs that ended, however, per second of the window."""
        return self._services.per_second(now)

    def longest_wait_seconds(self, now: float) -> float:
        """The longest wait that ended within the window, or since the last scrape."""
        return self._longest_wait.value(now)

    def longest_run_seconds(self, now: float) -> float:
        """The longest run that ended within the window, or since the last scrape."""
        return self._longest_run.value(now)

    def longest_total_seconds(self, now: float) -> float:
        """The longest wait and run of one request that ended within the window, or since the last scrape."""
        return self._longest_total.value(now)

    def scraped(self) -> None:
        """The maxima were read for a page; only those since the last scrape begin again."""
        for maximum in (self._longest_wait, self._longest_run, self._longest_total):
            maximum.clear()

    def end_interval(self) -> Interval:
        """What happened since the last call; a new interval begins."""
        interval, self._interval = self._interval, Interval()
        return interval


def _maximum(spec: BrokerSpec) -> WindowedMaximum | MaximumSinceScrape:
    if spec.maxima == "since-scrape":
        return MaximumSinceScrape()
    return WindowedMaximum(spec.interval_seconds if spec.maxima == "interval" else spec.window_seconds)
