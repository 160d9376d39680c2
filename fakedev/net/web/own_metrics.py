"""The metrics of fakedev itself, /-/metrics, in groups: each reads plain numbers and yields metric families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from twisted.logger import Logger

from fakedev import __version__
from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.spec.histogram import Histogram


class Group(Protocol):
    """A group of metric families."""

    def collect(self) -> Iterable[Metric]:
        """The families with their present values."""


class TickerStatistics(Protocol):
    """What a ticker counts.

    :ivar ticks: ticks done since the start.
    :ivar missed: ticks dropped because the clock was too far behind.
    :ivar failures: ticks that raised.
    :ivar lag_seconds: how late the last tick began.
    :ivar durations: how long ticks took, by TICK_BUCKETS.
    """

    ticks: int
    missed: int
    failures: int
    lag_seconds: float
    durations: Histogram


@dataclass
class ReloadStatistics:
    """The last load of the configuration.

    :ivar succeeded_at: the time of the last successful load, in seconds since the Unix epoch.
    :ivar sha256: the SHA-256 of the file in use, in hexadecimal digits.
    :ivar good, failed: the numbers of reloads.
    """

    successful: bool = True
    succeeded_at: float = 0.0
    sha256: str = ""
    good: int = 0
    failed: int = 0


@dataclass
class BuildMetrics(Group):
    """The version of fakedev."""

    version: str

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("fakedev_build_info", "The version of fakedev, always 1.", labels=["version"])
        family.add_metric([self.version], 1)
        yield family


@dataclass
class TickMetrics(Group):
    """The simulated clock.

    :param tick: returns the number of the tick that pages show.
    """

    ticker: TickerStatistics
    tick: Callable[[], int]

    def collect(self) -> Iterable[Metric]:
        ticker = self.ticker
        yield GaugeMetricFamily("fakedev_tick", "The number of the tick that is shown.", self.tick())
        yield CounterMetricFamily("fakedev_ticks", "Ticks done since the start.", ticker.ticks)
        yield CounterMetricFamily(
            "fakedev_ticks_missed", "Ticks dropped because the clock was too far behind.", ticker.missed
        )
        yield CounterMetricFamily("fakedev_tick_failures", "Ticks that failed by an error of ours.", ticker.failures)
        yield GaugeMetricFamily("fakedev_tick_lag_seconds", "How late the last tick began.", ticker.lag_seconds)
        durations = HistogramMetricFamily("fakedev_tick_duration_seconds", "How long ticks took.", labels=[])
        add_histogram(durations, [], ticker.durations)
        yield durations


@dataclass
class ScrapeMetrics(Group):
    """Requests to our pages."""

    scrapes: ScrapeStatistics

    def collect(self) -> Iterable[Metric]:
        total = CounterMetricFamily(
            "fakedev_scrapes",
            "Requests answered; 499: the client left first; 444: closed by a fault.",
            labels=["page", "code"],
        )
        in_flight = GaugeMetricFamily("fakedev_scrapes_in_flight", "Requests being answered.", labels=["page"])
        durations = HistogramMetricFamily(
            "fakedev_scrape_duration_seconds", "From the request to the last byte written.", labels=["page"]
        )
        for page, statistics in sorted(self.scrapes.pages.items()):
            for code, count in sorted(statistics.codes.items()):
                total.add_metric([page, str(code)], count)
            in_flight.add_metric([page], statistics.in_flight)
            add_histogram(durations, [page], statistics.durations)
        yield from (total, in_flight, durations)


@dataclass
class WorkloadMetrics(Group):
    """Workloads and their connections.

    :param by_state: returns the numbers of workloads by state.
    :param connections: returns the number of connections of the workload ports.
    """

    by_state: Callable[[], Mapping[str, int]]
    connections: Callable[[], int]

    def collect(self) -> Iterable[Metric]:
        states = GaugeMetricFamily("fakedev_workloads", "Workloads by state.", labels=["state"])
        for state, count in sorted(self.by_state().items()):
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily(
            "fakedev_workload_connections", "Connections on the workload ports.", self.connections()
        )


@dataclass
class FaultMetrics(Group):
    """Faults that wait or last.

    :param by_kind: returns the numbers of faults by kind.
    """

    by_kind: Callable[[], Mapping[str, int]]

    def collect(self) -> Iterable[Metric]:
        kinds = GaugeMetricFamily("fakedev_faults", "Faults that wait or last, by kind.", labels=["kind"])
        for kind, count in sorted(self.by_kind().items()):
            kinds.add_metric([kind], count)
        yield kinds


@dataclass
class ReloadMetrics(Group):
    """The configuration in use."""

    reload: ReloadStatistics

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "fakedev_config_last_reload_successful",
            "Whether the configuration was good when it was read last.",
            int(self.reload.successful),
        )
        yield GaugeMetricFamily(
            "fakedev_config_last_reload_success_timestamp_seconds",
            "When a good configuration was read last.",
            self.reload.succeeded_at,
        )
        info = GaugeMetricFamily(
            "fakedev_config_info", "The configuration in use, always 1: the SHA-256 of its file.", labels=["sha256"]
        )
        info.add_metric([self.reload.sha256], 1)
        reloads = CounterMetricFamily("fakedev_config_reloads", "Reloads that were asked for.", labels=["result"])
        reloads.add_metric(["good"], self.reload.good)
        reloads.add_metric(["failed"], self.reload.failed)
        yield from (info, reloads)


def add_histogram(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    """Add a histogram to a family."""
    buckets = [
        (floatToGoString(bound), count)  # type: ignore[no-untyped-call, unused-ignore]
        for bound, count in histogram.cumulative()
    ]
    family.add_metric(labels, buckets, histogram.total_seconds)


class OwnMetrics:
    """The metrics of one application object.

    The groups build, process and python always exist. A group that fails is missing from the page, logged once, and
    reported as ``fakedev_collector_success 0``; the rest of the page stays.

    :param groups: by name.
    """

    def __init__(self, groups: Mapping[str, Group] | None = None, clock: Callable[[], float] = perf_counter) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._groups = _Groups(clock)
        self._registry.register(self._groups)
        self.add("build", BuildMetrics(__version__))
        self.add("process", ProcessCollector(registry=None))
        self.add("python", PlatformCollector(registry=None))
        for name, group in (groups or {}).items():
            self.add(name, group)

    def add(self, name: str, group: Group) -> None:
        """Add a group to the page."""
        self._groups.groups[name] = group

    def render(self, accept: bytes | None) -> tuple[str, bytes]:
        """Content-Type and text of the page, in the format of the Accept header."""
        exposition = choose_exposition(accept)
        generate = generate_openmetrics if exposition.openmetrics else generate_latest
        return exposition.content_type, generate(self._registry)


class OwnMetricsResource(GuardedResource):
    """/-/metrics"""

    def __init__(self, metrics: OwnMetrics) -> None:
        super().__init__()
        self._metrics = metrics

    def get(self, request: GuardedRequest) -> Response:
        """The page."""
        content_type, text = self._metrics.render(request.header(b"accept"))
        return Response(200, text, content_type)


class _Groups(Collector):
    """All groups as one collector, in which a failure of one group costs only that group."""

    log = Logger()

    def __init__(self, clock: Callable[[], float]) -> None:
        self.groups: dict[str, Group] = {}
        self._clock = clock
        self._failing: set[str] = set()

    def collect(self) -> Iterable[Metric]:
        """The families of all groups, and the success and duration of each group."""
        success = GaugeMetricFamily("fakedev_collector_success", "Whether the group is here.", labels=["group"])
        duration = GaugeMetricFamily("fakedev_collector_duration_seconds", "How long it took.", labels=["group"])
        for name, group in self.groups.items():
            started = self._clock()
            families = self._families(name, group)
            yield from families
            success.add_metric([name], int(name not in self._failing))
            duration.add_metric([name], self._clock() - started)
        yield from (success, duration)

    def _families(self, name: str, group: Group) -> list[Metric]:
        try:
            families = list(group.collect())
            for family in families:
                for sample in family.samples:
                    float(sample.value)  # a value that cannot be printed must fail here, where it costs one group only
        except Exception:
            if name not in self._failing:
                self._failing.add(name)
                self.log.failure("The metrics of {group} failed", group=name)
            return []
        self._failing.discard(name)
        return families
