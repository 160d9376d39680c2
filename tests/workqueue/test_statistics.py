"""What is counted of a queue: examples, and a comparison with a list of all events."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.spec.histogram import Histogram
from fakedev.workqueue.outcome import Answer, Outcome
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import ENDS, PARTS, QueueStatistics, WindowedMaximum, WindowedRate

WINDOW = 60.0
SPEC = BrokerSpec((), window_seconds=WINDOW)


def end(
    statistics: QueueStatistics,
    now: float,
    outcome: Outcome,
    wait: float,
    run: float | None = None,
    node: str = "",
    pod: str = "",
) -> None:
    """Count the end of a request; ``run`` is None when no backend took it."""
    answer = Answer(outcome, wait_seconds=wait, run_seconds=run or 0.0, node=node, pod=pod)
    statistics.ended(now, answer, has_run=run is not None)


class TestHistogram:
    """Counting by bounds."""

    def test_value_on_a_bound_is_below_it(self) -> None:
        """``le`` means less or equal."""
        histogram = Histogram((1.0, 2.0))
        for value in (0.5, 1.0, 1.5, 2.0, 9.0):
            histogram.observe(value)
        assert histogram.cumulative() == [(1.0, 2), (2.0, 4), (float("inf"), 5)]
        assert histogram.total_seconds == 14.0


class TestWindow:
    """Figures over the last minute."""

    def test_maximum_stays_for_the_window_and_then_goes(self) -> None:
        """The window is covered whole, and at most one part of it more."""
        maximum = WindowedMaximum(WINDOW)
        maximum.record(100.5, 7.0)
        maximum.record(130.0, 3.0)
        assert [maximum.value(now) for now in (100.5, 160.5, 161.5, 190.0, 191.0)] == [7.0, 7.0, 3.0, 3.0, 0.0]

    def test_place_in_the_ring_is_used_again(self) -> None:
        """What was recorded a whole turn earlier is not seen."""
        maximum = WindowedMaximum(WINDOW)
        maximum.record(0.0, 7.0)
        maximum.record(PARTS + 1.0, 2.0)
        assert maximum.value(PARTS + 1.0) == 2.0

    def test_rate_soon_after_the_beginning(self) -> None:
        """Five events in the first ten seconds are one every two seconds."""
        rate = WindowedRate(WINDOW, 1000.0)
        for second in range(5):
            rate.count(1000.0 + second)
        assert rate.per_second(1010.0) == 0.5

    def test_rate_of_an_even_stream(self) -> None:
        """Two events a second are a rate of two; long after the last nothing is left."""
        rate = WindowedRate(WINDOW, 0.0)
        for half in range(1000):
            rate.count(half / 2)
        assert rate.per_second(500.0) == pytest.approx(2.0, rel=0, abs=5e-8)
        assert rate.per_second(600.0) == 0.0


class TestQueueStatistics:
    """The figures of one queue."""

    def setup_method(self) -> None:
        self.statistics = QueueStatistics(SPEC, 0.0)

    def test_run_is_counted_under_its_outcome_once(self) -> None:
        """A success is a success and nothing else."""
        self.statistics.put(1.0)
        self.statistics.taken(3.0, 2.0)
        end(self.statistics, 4.0, Outcome.SUCCESS, 2.0, 1.0, "node-1", "pod-1")
        expected = dict.fromkeys(Outcome, 0) | {Outcome.SUCCESS: 1}
        assert (self.statistics.puts, self.statistics.outcomes) == (1, expected)
        assert sum(sum(self.statistics.run[outcome].counts) for outcome in ENDS) == 1
        assert self.statistics.longest_total_seconds(4.0) == 3.0

    def test_request_that_no_worker_took_has_no_run(self) -> None:
        """Its wait counts, its run does not."""
        self.statistics.put(1.0)
        end(self.statistics, 6.0, Outcome.CANCELLED, 5.0)
        assert self.statistics.longest_wait_seconds(6.0) == 5.0
        assert self.statistics.longest_run_seconds(6.0) == 0.0
        assert sum(self.statistics.run[Outcome.CANCELLED].counts) == 0
        assert sum(self.statistics.wait[Outcome.CANCELLED].counts) == 1
        assert self.statistics.services_per_second(6.0) == 0.0

    def test_two_scrapers_see_the_same_maxima(self) -> None:
        """A scrape clears no window."""
        end(self.statistics, 6.0, Outcome.SUCCESS, 5.0, 4.0)
        self.statistics.scraped()
        assert self.statistics.longest_run_seconds(7.0) == 4.0

    def test_maxima_since_the_last_scrape(self) -> None:
        """The original's way: every reader clears them, and nothing else does."""
        statistics = QueueStatistics(replace(SPEC, maxima="since-scrape"), 0.0)
        end(statistics, 6.0, Outcome.SUCCESS, 5.0, 4.0)
        assert statistics.longest_total_seconds(6000.0) == 9.0
        statistics.scraped()
        assert statistics.longest_total_seconds(6000.0) == 0.0

    def test_maxima_of_an_interval(self) -> None:
        """They cover as long as the log's interval, not the window of the rates."""
        statistics = QueueStatistics(replace(SPEC, maxima="interval", interval_seconds=6.0), 0.0)
        end(statistics, 10.0, Outcome.SUCCESS, 5.0, 4.0)
        assert [statistics.longest_run_seconds(now) for now in (16.0, 16.2)] == [4.0, 0.0]
        assert statistics.services_per_second(20.0) == 0.05

    def test_interval_names_where_the_longest_run_was(self) -> None:
        """Each interval counts separately."""
        end(self.statistics, 1.0, Outcome.SUCCESS, 0.0, 4.0, "node-1", "pod-1")
        end(self.statistics, 2.0, Outcome.FAILURE, 9.0, 7.0, "node-2", "pod-2")
        end(self.statistics, 3.0, Outcome.SUCCESS, 0.0, 1.0, "node-3", "pod-3")
        first = self.statistics.end_interval()
        assert (first.node, first.pod, first.longest_run_seconds) == ("node-2", "pod-2", 7.0)
        assert (first.longest_total_seconds, first.ended[Outcome.SUCCESS]) == (16.0, 2)
        second = self.statistics.end_interval()
        assert (second.node, second.longest_run_seconds, sum(second.ended.values())) == ("", 0.0, 0)


@dataclass(frozen=True)
class End:
    """The end of a request, as the naive model remembers it."""

    now: float
    outcome: Outcome
    wait: float
    run: float | None


SECONDS = st.floats(0, 1e4).map(lambda value: round(value, 3))
ENDINGS = st.lists(
    st.tuples(st.floats(0, 40).map(lambda gap: round(gap, 3)), st.sampled_from(ENDS), SECONDS, SECONDS | st.none())
)


class TestNaiveModel:
    """The rings and histograms say what a list of all events says."""

    @given(ENDINGS, st.floats(0, 100).map(lambda gap: round(gap, 3)))
    def test_figures_agree_with_a_list_of_all_events(
        self, endings: list[tuple[float, Outcome, float, float | None]], pause: float
    ) -> None:
        """Maxima, rates, counters and histograms after any stream of ends."""
        statistics = QueueStatistics(SPEC, 0.0)
        events: list[End] = []
        now = 0.0
        for gap, outcome, wait, run in endings:
            now += gap
            statistics.put(now)
            end(statistics, now, outcome, wait, run)
            events.append(End(now, outcome, wait, run))
        now += pause
        inside = [event for event in events if event.now // 1.0 >= now // 1.0 - WINDOW]
        runs = [(event.wait, event.run) for event in inside if event.run is not None]
        unstarted = [event.wait for event in inside if event.run is None]
        assert statistics.longest_wait_seconds(now) == max(unstarted, default=0.0)
        assert statistics.longest_run_seconds(now) == max((run for _, run in runs), default=0.0)
        assert statistics.longest_total_seconds(now) == max((wait + run for wait, run in runs), default=0.0)
        covered = max(min(now, now - (now // 1.0 - WINDOW)), 1.0)
        assert statistics.arrivals_per_second(now) == pytest.approx(len(inside) / covered, rel=0, abs=5e-8)
        assert statistics.services_per_second(now) == pytest.approx(len(runs) / covered, rel=0, abs=5e-8)
        assert statistics.puts == sum(statistics.outcomes.values())
        for outcome in ENDS:
            of_outcome = [event for event in events if event.outcome is outcome]
            assert statistics.outcomes[outcome] == len(of_outcome)
            for bound, count in statistics.wait[outcome].cumulative():
                assert count == sum(event.wait <= bound for event in of_outcome)
            for bound, count in statistics.run[outcome].cumulative():
                assert count == sum(event.run is not None and event.run <= bound for event in of_outcome)
