"""The metrics of fakedev itself, /-/metrics, in groups: each reads plain numbers and yields metric families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from twisted.logger import Logger

from fakedev import __version__
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response
from fakedev.net.http.statistics import Dropped, ScrapeStatistics
from fakedev.net.queues.figures import QueueFigures
from fakedev.spec.histogram import Histogram
from fakedev.spec.units import python_number
from fakedev.workqueue.outcome import Outcome

#: A group of metric families: yields them with their present values.
Group = Callable[[], Iterable[Metric]]


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


def labelled(
    kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, label: str, values: Mapping[str, float]
) -> Metric:
    """A family with one label.

    :param values: by the value of the label.
    """
    family = kind(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def build_metrics() -> Iterable[Metric]:
    """The version of fakedev."""
    text = "The version of fakedev, always 1."
    yield labelled(GaugeMetricFamily, "fakedev_build_info", text, "version", {__version__: 1})


def tick_metrics(ticker: Ticker, tick: Callable[[], int]) -> Iterable[Metric]:
    """The simulated clock.

    :param tick: returns the number of the tick that pages show.
    """
    yield GaugeMetricFamily("fakedev_tick", "The number of the tick that is shown.", tick())
    yield CounterMetricFamily("fakedev_ticks", "Ticks done since the start.", ticker.ticks)
    yield CounterMetricFamily(
        "fakedev_ticks_missed", "Ticks dropped because the clock was too far behind.", ticker.missed
    )
    yield CounterMetricFamily("fakedev_tick_failures", "Ticks that failed with an internal error.", ticker.failures)
    yield GaugeMetricFamily("fakedev_tick_lag_seconds", "How late the last tick began.", ticker.lag_seconds)
    durations = HistogramMetricFamily("fakedev_tick_duration_seconds", "How long ticks took.", labels=[])
    add_histogram(durations, [], ticker.durations)
    yield durations


def stall_metrics(delays: Histogram) -> Iterable[Metric]:
    """How long the reactor was held."""
    text = "How late a timer fires that is due ten times a second: how long other work held the reactor."
    family = HistogramMetricFamily("fakedev_reactor_delay_seconds", text, labels=[])
    add_histogram(family, [], delays)
    yield family


def clock_metrics(shift_seconds: Callable[[], float]) -> Iterable[Metric]:
    """The clock that nobody can set, against the system's.

    :param shift_seconds: returns how far the system's time of day is ahead.
    """
    text = "How far the system's time of day is ahead of fakedev's clock: it was set, and fakedev's was not."
    yield GaugeMetricFamily("fakedev_clock_shift_seconds", text, shift_seconds())


def collector_metrics(by_generation: Sequence[Histogram]) -> Iterable[Metric]:
    """How long the garbage collector held the process."""
    text = "How long collections of garbage held the whole process; generation 2: full collections."
    family = HistogramMetricFamily("fakedev_garbage_collection_seconds", text, labels=["generation"])
    for generation, pauses in enumerate(by_generation):
        add_histogram(family, [str(generation)], pauses)
    yield family


def scrape_metrics(scrapes: ScrapeStatistics) -> Iterable[Metric]:
    """Requests to our pages."""
    text = "Requests answered; 499: the client left first; 444: closed by a fault."
    total = CounterMetricFamily("fakedev_scrapes", text, labels=["page", "code"])
    in_flight = GaugeMetricFamily("fakedev_scrapes_in_flight", "Requests being answered.", labels=["page"])
    text = "From the request to the last byte written."
    durations = HistogramMetricFamily("fakedev_scrape_duration_seconds", text, labels=["page"])
    for page, statistics in sorted(scrapes.pages.items()):
        for code, count in sorted(statistics.codes.items()):
            total.add_metric([page, str(code)], count)
        in_flight.add_metric([page], statistics.in_flight)
        add_histogram(durations, [page], statistics.durations)
    yield from (total, in_flight, durations)


def workload_metrics(by_state: Callable[[], Mapping[str, int]], connections: Callable[[], int]) -> Iterable[Metric]:
    """Workloads and their connections.

    :param by_state: returns the numbers of workloads by state.
    :param connections: returns the number of connections of the workload ports.
    """
    states = dict(sorted(by_state().items()))
    yield labelled(GaugeMetricFamily, "fakedev_workloads", "Workloads by state.", "state", states)
    yield GaugeMetricFamily("fakedev_workload_connections", "Connections on the workload ports.", connections())


def fault_metrics(by_kind: Callable[[], Mapping[str, int]]) -> Iterable[Metric]:
    """Faults that wait or last."""
    kinds = dict(sorted(by_kind().items()))
    yield labelled(GaugeMetricFamily, "fakedev_faults", "Faults that wait or last, by kind.", "kind", kinds)


def file_metrics(problems: Callable[[], Mapping[str, str]], journal_waiting: Callable[[], int]) -> Iterable[Metric]:
    """The record and the journal.

    :param problems: returns why each has ended; empty texts for those that have not.
    :param journal_waiting: returns the number of entries that the journal's file does not have yet.
    """
    text = "1: the file could not be written, and has ended; /health and the log say why."
    failed = {name: int(bool(problem)) for name, problem in problems().items()}
    yield labelled(GaugeMetricFamily, "fakedev_file_failed", text, "file", failed)
    text = "Entries that wait to be written to the journal's file; an event is in the record at once."
    yield GaugeMetricFamily("fakedev_journal_waiting", text, journal_waiting())


def state_metrics(snapshots: Mapping[bool, int], began_seconds: float) -> Iterable[Metric]:
    """The folder of the fleet's state.

    :param snapshots: how many have ended, by whether they are complete.
    :param began_seconds: when the last one was begun, in seconds since 1970.
    """
    counts = {"complete": snapshots[True], "failed": snapshots[False]}
    text = "Snapshots of the fleet's state, beside that of the start."
    yield labelled(CounterMetricFamily, "fakedev_state_snapshots", text, "result", counts)
    text = "When the last snapshot of the state was begun."
    yield GaugeMetricFamily("fakedev_state_snapshot_timestamp_seconds", text, began_seconds)


def limit_metrics(budget: Callable[[], Mapping[str, tuple[float, float]]]) -> Iterable[Metric]:
    """The limits of workloads and faults.

    :param budget: returns what is used of each limit and what is allowed, by its key in the configuration.
    """
    text = "What is used of each of the limits; of a peer's limit what the largest peer uses."
    limits = budget()
    used = {key: each[0] for key, each in limits.items()}
    yield labelled(GaugeMetricFamily, "fakedev_limit_used", text, "limit", used)
    allowed = {key: each[1] for key, each in limits.items()}
    text = "What each of the limits allows, as configured."
    yield labelled(GaugeMetricFamily, "fakedev_limit_allowed", text, "limit", allowed)


def port_metrics(
    closed: Mapping[str, Mapping[str, int]], http_dropped: Mapping[str, int], postponed: Callable[[], int]
) -> Iterable[Metric]:
    """Connections that the ports have closed by themselves, and new ones that must wait on any port.

    :param closed: those of the line ports: their numbers by reason, by port.
    :param http_dropped: those of the HTTP addresses: their numbers by reason.
    :param postponed: returns how often a port did not accept for lack of descriptors.
    """
    text = (
        "Connections that a line port closed; silent: for a new one; full: new ones without room; plain: no TLS; "
        "handshake: one of TLS failed or took too long; else the error."
    )
    family = CounterMetricFamily("fakedev_line_connections_closed", text, labels=["port", "reason"])
    for port, by_reason in closed.items():
        for reason in sorted({"denied", "full", "silent", *by_reason}):
            family.add_metric([port, reason], by_reason.get(reason, 0))
    yield family
    text = "HTTP connections that were dropped; full: too many; refused: no valid request; late: one that did not " \
        "arrive in time; unread: the peer did not read its answer."
    dropped = {reason.value: http_dropped.get(reason.value, 0) for reason in Dropped}
    yield labelled(CounterMetricFamily, "fakedev_http_connections_dropped", text, "reason", dropped)
    text = "How often a port did not accept connections because no file descriptors were left."
    yield CounterMetricFamily("fakedev_accepts_postponed", text, postponed())


def reload_metrics(reload: ReloadStatistics) -> Iterable[Metric]:
    """The configuration in use."""
    text = "Whether the configuration was good when it was read last."
    yield GaugeMetricFamily("fakedev_config_last_reload_successful", text, int(reload.successful))
    text = "When a good configuration was read last."
    yield GaugeMetricFamily("fakedev_config_last_reload_success_timestamp_seconds", text, reload.succeeded_at)
    text = "The configuration in use, always 1: the SHA-256 of its file."
    yield labelled(GaugeMetricFamily, "fakedev_config_info", text, "sha256", {reload.sha256: 1})
    counts = {"good": reload.good, "failed": reload.failed}
    yield labelled(CounterMetricFamily, "fakedev_config_reloads", "Reloads that were asked for.", "result", counts)


def add_histogram(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    """Add a histogram to a family."""
    buckets = [
        (python_number(bound), count)
        for bound, count in histogram.cumulative()
    ]
    family.add_metric(labels, buckets, histogram.total_seconds)


def queue_totals(figures: QueueFigures) -> Iterable[Metric]:
    """Sums over all queues, for our own metrics page."""
    queues = figures.all()
    states = {state: sum(getattr(queue.now, state) for queue in queues) for state in ("waiting", "running")}
    ended = {each.value: sum(queue.counted.outcomes[each] for queue in queues) for each in Outcome}
    text = "Requests in all queues, by state."
    yield labelled(GaugeMetricFamily, "fakedev_queues_requests", text, "state", states)
    text = "Requests of all queues that are over."
    yield labelled(CounterMetricFamily, "fakedev_queues_ended", text, "outcome", ended)
    text = "Connections made to the ports."
    yield labelled(CounterMetricFamily, "fakedev_queues_connections", text, "port", figures.connections())


def queue_log_metrics(figures: QueueFigures) -> Iterable[Metric]:
    """The logs of durable queues; nothing without such queues."""
    logs = figures.logs
    if not logs:
        return
    text = "Changes of a durable queue that are not on the disk yet: answers wait for them."
    waiting = {name: writer.pending_records for name, writer in logs.items()}
    yield labelled(GaugeMetricFamily, "fakedev_queue_log_pending_records", text, "queue", waiting)
    sizes = {name: writer.file.size for name, writer in logs.items()}
    yield labelled(GaugeMetricFamily, "fakedev_queue_log_bytes", "The log of a durable queue.", "queue", sizes)
    failed = {name: int(bool(writer.log.problem)) for name, writer in logs.items()}
    text = "1: the log cannot be written, and the queue accepts and hands out nothing; the service's log says why."
    yield labelled(GaugeMetricFamily, "fakedev_queue_log_failed", text, "queue", failed)
    text = "How long a write of the log takes, with its fsync."
    family = HistogramMetricFamily("fakedev_queue_log_write_seconds", text, labels=["queue"])
    for name, writer in logs.items():
        add_histogram(family, [name], writer.writes)
    yield family


class OwnMetrics(Collector):
    """The metrics of one application object.

    The groups build, process and python always exist. A group that fails is missing from the page, logged once, and
    reported as ``fakedev_collector_success 0``; the rest of the page stays.

    """

    log = Logger()

    def __init__(self, groups: Mapping[str, Group] | None = None, clock: Callable[[], float] = perf_counter) -> None:
        self._groups: dict[str, Group] = {
            "build": build_metrics,
            "process": ProcessCollector(registry=None).collect,
            "python": PlatformCollector(registry=None).collect,
            **(groups or {}),
        }
        self._clock = clock
        self._failing: set[str] = set()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def add(self, name: str, group: Group) -> None:
        """Add a group to the page."""
        self._groups[name] = group

    def render(self, accept: bytes | None) -> tuple[str, bytes]:
        """Content-Type and text of the page, in the format of the Accept header."""
        exposition = choose_exposition(accept)
        generate = generate_openmetrics if exposition.openmetrics else generate_latest
        return exposition.content_type, generate(self._registry)

    def collect(self) -> Iterable[Metric]:
        """The families of all groups, and the success and duration of each group."""
        success = GaugeMetricFamily("fakedev_collector_success", "Whether the group is here.", labels=["group"])
        duration = GaugeMetricFamily("fakedev_collector_duration_seconds", "How long it took.", labels=["group"])
        for name, group in self._groups.items():
            started = self._clock()
            families = self._families(name, group)
            yield from families
            success.add_metric([name], int(name not in self._failing))
            duration.add_metric([name], self._clock() - started)
        yield from (success, duration)

    def _families(self, name: str, group: Group) -> list[Metric]:
        try:
            families = list(group())
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


class OwnMetricsResource(GuardedResource):
    """/-/metrics"""

    def __init__(self, metrics: OwnMetrics) -> None:
        self._metrics = metrics

    def get(self, request: GuardedRequest) -> Response:
        content_type, text = self._metrics.render(request.header(b"accept"))
        return Response(200, text, content_type)
