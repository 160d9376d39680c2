"""What is counted of a queue: examples, and a comparison with a list of all events."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.queues.job import Answer, Outcome
from fakedev.queues.settings import BrokerSpec
from fakedev.queues.statistics import ENDS, QueueStatistics, WindowedMaximum, WindowedRate

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


class TestWindow:
    """Figures over the last minute."""

    def test_maximum_stays_for_the_window_and_then_goes(self) -> None:
        """The window is covered whole, and at most one part of it more."""
        maximum = WindowedMaximum(WINDOW)
        maximum.record(100.5, 7.0)
        maximum.record(130.0, 3.0)
        assert [maximum.value(now) for now in (100.5, 160.5, 161.5, 190.0, 191.0)] == [7.0, 7.0, 3.0, 3.0, 0.0]

    def test_rate_soon_after_the_beginning(self) -> None:
        """Five events in the first ten seconds are one every two seconds."""
        rate = WindowedRate(WINDOW, 1000.0)
        for second in range(5):
            rate.count(1000.0 + second)
        assert rate.per_second(1010.0) == 0.5


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
