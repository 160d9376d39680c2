"""Our own metrics of the tester."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from fakedev.net.tester.service import LoadTester
from fakedev.net.web.own_metrics import add_histogram, labelled
from fakedev.spec.histogram import JOB_BUCKETS

#: The counters of a plan, with the attributes of its statistics.
_COUNTERS: Final = (
    ("started", "started_count", "Requests sent."),
    ("withdrawn", "withdrawn", "Requests taken back, since the parallelism was lowered."),
    ("late", "late", "Requests that started more than 10 ms after their time."),
    ("dropped", "dropped", "Arrivals for which no request was made: too many waited, or the run was over."),
    ("reconnects", "reconnects", "Connections made again."),
)


def load_metrics(tester: LoadTester) -> Iterable[Metric]:
    """Each plan's requests. A reset of the statistics resets these counters, as a restart would."""
    drivers = tester.drivers
    by_plan = {plan: tester.statistics(plan) for plan in drivers}
    for name, attribute, text in _COUNTERS:
        counts = {plan: getattr(statistics, attribute) for plan, statistics in by_plan.items()}
        yield labelled(CounterMetricFamily, f"fakedev_tester_{name}", text, "plan", counts)
    ended = CounterMetricFamily("fakedev_tester_requests", "Requests that are over.", labels=["plan", "outcome"])
    text = "From the intended start to the answer of a backend."
    times = HistogramMetricFamily("fakedev_tester_request_duration_seconds", text, labels=["plan"])
    for plan, statistics in by_plan.items():
        ended.add_metric([plan, "success"], statistics.successes)
        for outcome, count in statistics.failures.items():
            ended.add_metric([plan, outcome.value], count)
        add_histogram(times, [plan], statistics.timings["total"].histogram(JOB_BUCKETS))
    yield ended
    outstanding = {plan: statistics.outstanding for plan, statistics in by_plan.items()}
    waiting = {plan: driver.waiting for plan, driver in drivers.items()}
    parallel = {plan: driver.parallel for plan, driver in drivers.items() if driver.parallel is not None}
    yield labelled(GaugeMetricFamily, "fakedev_tester_outstanding", "Requests under way.", "plan", outstanding)
    yield labelled(GaugeMetricFamily, "fakedev_tester_waiting", "Arrivals that wait.", "plan", waiting)
    yield labelled(GaugeMetricFamily, "fakedev_tester_parallel", "Requests that are to be under way.", "plan", parallel)
    yield times


def query_metrics(codes: Mapping[int, int]) -> Iterable[Metric]:
    """Queries to the control port.

    :param codes: answers by status.
    """
    completed = sum(count for code, count in codes.items() if code < 400)
    counts = {"completed": completed, "refused": sum(codes.values()) - completed}
    text = "Queries to the control port, by what became of them."
    yield labelled(CounterMetricFamily, "fakedev_tester_queries", text, "result", counts)
