"""Our own metrics page, /-/metrics: what this program does, apart from what it simulates.

The groups of our own metrics: each reads plain numbers that its subject keeps, and yields metric families.
"""

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
        """The families, as they are now."""


class TickerStatistics(Protocol):
    """What a ticker counts.

    :ivar ticks: ticks done since the start.
    :ivar missed: ticks dropped because the clock was too far behind.
    :ivar failures: ticks that raised.
    :ivar lag_seconds: how late the last tick began.
    :ivar durations: how long ticks took; its bounds should be TICK_BUCKETS.
    """

    ticks: int
    missed: int
    failures: int
    lag_seconds: float
    durations: Histogram


@dataclass
class ReloadStatistics:
    """How the configuration was loaded last.

    :ivar succeeded_at: seconds since the Unix epoch.
    :ivar sha256: of the text of the configuration's file that is in use, in hexadecimal digits.
    :ivar good, failed: how many reloads were.
    """

    successful: bool = True
    succeeded_at: float = 0.0
    sha256: str = ""
    good: int = 0
    failed: int = 0


class BuildMetrics:
    """Which program this is."""

    def __init__(self, version: str) -> None:
        self._version = version

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        family = GaugeMetricFamily("fakedev_build_info", "The version of fakedev, always 1.", labels=["version"])
        family.add_metric([self._version], 1)
        yield family


class TickMetrics:
    """The simulated clock.

    :param tick: the number of the tick that is shown now.
    """

    def __init__(self, ticker: TickerStatistics, tick: Callable[[], int]) -> None:
        self._ticker = ticker
        self._tick = tick

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        ticker = self._ticker
        yield GaugeMetricFamily("fakedev_tick", "The number of the tick that is shown.", self._tick())
        yield CounterMetricFamily("fakedev_ticks", "Ticks done since the start.", ticker.ticks)
        yield CounterMetricFamily(
            "fakedev_ticks_missed", "Ticks dropped because the clock was too far behind.", ticker.missed
        )
        yield CounterMetricFamily("fakedev_tick_failures", "Ticks that failed by an error of ours.", ticker.failures)
        yield GaugeMetricFamily("fakedev_tick_lag_seconds", "How late the last tick began.", ticker.lag_seconds)
        durations = HistogramMetricFamily("fakedev_tick_duration_seconds", "How long ticks took.", labels=[])
        add_histogram(durations, [], ticker.durations)
        yield durations


class ScrapeMetrics:
    """Requests to our pages."""

    def __init__(self, scrapes: ScrapeStatistics) -> None:
        self._scrapes = scrapes

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        total = CounterMetricFamily(
            "fakedev_scrapes",
            "Requests answered; 499: the client left first; 444: closed by a fault.",
            labels=["page", "code"],
        )
        in_flight = GaugeMetricFamily("fakedev_scrapes_in_flight", "Requests being answered.", labels=["page"])
        durations = HistogramMetricFamily(
            "fakedev_scrape_duration_seconds", "From the request to the last byte written.", labels=["page"]
        )
        for page, statistics in sorted(self._scrapes.pages.items()):
            for code, count in sorted(statistics.codes.items()):
                total.add_metric([page, str(code)], count)
            in_flight.add_metric([page], statistics.in_flight)
            add_histogram(durations, [page], statistics.durations)
        yield from (total, in_flight, durations)


class WorkloadMetrics:
    """Workloads and their connections.

    :param by_state: how many workloads are in each state.
    :param connections: how many connections the workload ports have.
    """

    def __init__(self, by_state: Callable[[], Mapping[str, int]], connections: Callable[[], int]) -> None:
        self._by_state = by_state
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        states = GaugeMetricFamily("fakedev_workloads", "Workloads by state.", labels=["state"])
        for state, count in sorted(self._by_state().items()):
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily(
            "fakedev_workload_connections", "Connections on the workload ports.", self._connections()
        )


class FaultMetrics:
    """Faults that were injected and are not over.

    :param by_kind: how many there are of each kind.
    """

    def __init__(self, by_kind: Callable[[], Mapping[str, int]]) -> None:
        self._by_kind = by_kind

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        kinds = GaugeMetricFamily("fakedev_faults", "Faults that wait or last, by kind.", labels=["kind"])
        for kind, count in sorted(self._by_kind().items()):
            kinds.add_metric([kind], count)
        yield kinds


class ReloadMetrics:
    """The configuration in use."""

    def __init__(self, reload: ReloadStatistics) -> None:
        self._reload = reload

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        yield GaugeMetricFamily(
            "fakedev_config_last_reload_successful",
            "Whether the configuration was good when it was read last.",
            int(self._reload.successful),
        )
        yield GaugeMetricFamily(
            "fakedev_config_last_reload_success_timestamp_seconds",
            "When a good configuration was read last.",
            self._reload.succeeded_at,
        )
        info = GaugeMetricFamily(
            "fakedev_config_info", "The configuration in use, always 1: the SHA-256 of its file.", labels=["sha256"]
        )
        info.add_metric([self._reload.sha256], 1)
        reloads = CounterMetricFamily("fakedev_config_reloads", "Reloads that were asked for.", labels=["result"])
        reloads.add_metric(["good"], self._reload.good)
        reloads.add_metric(["failed"], self._reload.failed)
        yield from (info, reloads)


def add_histogram(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    """Add a histogram to a family."""
    buckets = [(floatToGoString(bound), count) for bound, count in histogram.cumulative()]
    family.add_metric(labels, buckets, histogram.total_seconds)


class OwnMetrics:
    """The metrics of one application object.

    Build, process and Python are always there. A group that fails is left out, logged once, and reported as
    ``fakedev_collector_success 0``; the rest of the page stays.

    :param groups: by the name under which each is reported.
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
        """Content-Type and text of the page, in the format that the Accept header asks for."""
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
    """All groups as one collector, so that one that fails costs only itself."""

    log = Logger()

    def __init__(self, clock: Callable[[], float]) -> None:
        self.groups: dict[str, Group] = {}
        self._clock = clock
        self._failing: set[str] = set()

    def collect(self) -> Iterable[Metric]:
        """The families of all groups, and how each group fared."""
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
                    float(sample.value)  # what cannot be printed must fail here, where it costs one group only
        except Exception:
            if name not in self._failing:
                self._failing.add(name)
                self.log.failure("The metrics of {group} failed", group=name)
            return []
        self._failing.discard(name)
        return families
