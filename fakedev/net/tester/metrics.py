"""Our own metrics of the tester."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from fakedev.net.tester.service import LoadTester
from fakedev.net.web.own_metrics import add_histogram
from fakedev.spec.histogram import JOB_BUCKETS


class LoadMetrics:
    """Each plan's requests. A reset of the statistics resets these counters, as a restart would."""

    def __init__(self, tester: LoadTester) -> None:
        self._tester = tester

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        counters = {
            name: CounterMetricFamily(f"fakedev_tester_{name}", text, labels=["plan"])
            for name, text in (
                ("started", "Requests sent."),
                ("withdrawn", "Requests taken back, since the parallelism was lowered."),
                ("late", "Requests that started more than 10 ms after their time."),
                ("dropped", "Arrivals for which no request was made: too many waited, or the run was over."),
                ("reconnects", "Connections made again."),
            )
        }
        ended = CounterMetricFamily("fakedev_tester_requests", "Requests that are over.", labels=["plan", "outcome"])
        outstanding = GaugeMetricFamily("fakedev_tester_outstanding", "Requests under way.", labels=["plan"])
        waiting = GaugeMetricFamily("fakedev_tester_waiting", "Arrivals that wait.", labels=["plan"])
        parallel = GaugeMetricFamily("fakedev_tester_parallel", "Requests that are to be under way.", labels=["plan"])
        times = HistogramMetricFamily(
            "fakedev_tester_request_duration_seconds",
            "From the intended start to the answer of a backend.",
            labels=["plan"],
        )
        for name, driver in self._tester.drivers.items():
            statistics = self._tester.statistics(name)
            counters["started"].add_metric([name], statistics.started_count)
            for counter in ("withdrawn", "late", "dropped", "reconnects"):
                counters[counter].add_metric([name], getattr(statistics, counter))
            ended.add_metric([name, "success"], statistics.successes)
            for outcome, count in statistics.failures.items():
                ended.add_metric([name, outcome.value], count)
            outstanding.add_metric([name], statistics.outstanding)
            waiting.add_metric([name], driver.waiting)
            if driver.parallel is not None:
                parallel.add_metric([name], driver.parallel)
            add_histogram(times, [name], statistics.timings["total"].histogram(JOB_BUCKETS))
        yield from (*counters.values(), ended, outstanding, waiting, parallel, times)


class QueryMetrics:
    """Queries to the control port.

    :param codes: answers by status.
    """

    def __init__(self, codes: Mapping[int, int]) -> None:
        self._codes = codes

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        family = CounterMetricFamily(
            "fakedev_tester_queries", "Queries to the control port, by what became of them.", labels=["result"]
        )
        completed = sum(count for code, count in self._codes.items() if code < 400)
        family.add_metric(["completed"], completed)
        family.add_metric(["refused"], sum(self._codes.values()) - completed)
        yield family
