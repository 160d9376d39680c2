"""The metrics of fakedev itself, /-/metrics, in groups: each reads plain numbers and yields metric families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import NamedTuple

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev import __version__
from fakedev.base.histograms import Histogram
from fakedev.base.steps import Steps
from fakedev.base.units import python_number
from fakedev.web.encoding import choose_exposition
from fakedev.web.request import Request
from fakedev.web.resource import Resource
from fakedev.web.response import Dropped, Response, ScrapeStatistics

#: A group of metric families: yields them with their present values.
Group = Callable[[], Iterable[Metric]]


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


def histograms(name: str, text: str, label: str, values: Mapping[str, Histogram]) -> Metric:
    """A family of histograms with one label; an empty one for none.

    :param values: by the value of the label.
    """
    family = HistogramMetricFamily(name, text, labels=[label] if label else [])
    for value, histogram in values.items():
        buckets = [(python_number(bound), count) for bound, count in histogram.cumulative()]
        family.add_metric([value] if label else [], buckets, histogram.total_seconds)
    return family


def build_metrics() -> Iterable[Metric]:
    """The version of fakedev."""
    yield labelled(
        GaugeMetricFamily, "fakedev_build_info", "The version of fakedev, always 1.", "version", {__version__: 1}
    )


def stall_metrics(longest_seconds: Callable[[], float]) -> Iterable[Metric]:
    """How long the reactor was held.

    :param longest_seconds: returns the longest time of the last one to two minutes.
    """
    text = "The longest time in the last one to two minutes for which other work or collecting garbage held it up."
    yield GaugeMetricFamily("fakedev_reactor_delay_max_seconds", text, longest_seconds())


def clock_metrics(shift_seconds: Callable[[], float]) -> Iterable[Metric]:
    """The clock that nobody can set, against the system's.

    :param shift_seconds: returns how far the system's time of day is ahead.
    """
    text = "How far the system's time of day is ahead of fakedev's clock: it was set, and fakedev's was not."
    yield GaugeMetricFamily("fakedev_clock_shift_seconds", text, shift_seconds())


def scrape_metrics(scrapes: ScrapeStatistics) -> Iterable[Metric]:
    """Requests to our pages."""
    text = "Requests answered; 499: the client left first; 444: closed by a fault."
    total = CounterMetricFamily("fakedev_scrapes", text, labels=["page", "code"])
    pages = dict(sorted(scrapes.pages.items()))
    for page, statistics in pages.items():
        for code, count in sorted(statistics.codes.items()):
            total.add_metric([page, str(code)], count)
    yield total
    in_flight = {page: statistics.in_flight for page, statistics in pages.items()}
    yield labelled(GaugeMetricFamily, "fakedev_scrapes_in_flight", "Requests being answered.", "page", in_flight)
    durations = {page: statistics.durations for page, statistics in pages.items()}
    yield histograms("fakedev_scrape_duration_seconds", "From the request to the last byte written.", "page", durations)


def port_metrics(
    closed: Callable[[], Mapping[str, Mapping[str, int]]], http_dropped: Mapping[str, int], postponed: Callable[[], int]
) -> Iterable[Metric]:
    """Connections that the ports have closed by themselves, and new ones that must wait on any port.

    :param closed: returns closed connections of the line ports: their numbers by reason, by port.
    :param http_dropped: dropped connections of the HTTP addresses: their numbers by reason.
    :param postponed: returns how often a port did not accept because no descriptors were left.
    """
    text = (
        "Connections that a line port closed; silent: for a new one; full: new ones without room; plain: no TLS; "
        "handshake: one of TLS failed or took too long; else the error."
    )
    family = CounterMetricFamily("fakedev_line_connections_closed", text, labels=["port", "reason"])
    for port, by_reason in closed().items():
        for reason in sorted({"denied", "full", "silent", *by_reason}):
            family.add_metric([port, reason], by_reason.get(reason, 0))
    yield family
    text = "HTTP connections that were dropped; full: too many; refused: no valid request; late: one that did not " \
        "arrive in time; unread: the peer did not read its answer; plain: no TLS; handshake: one of TLS failed " \
        "or took too long."
    dropped = {reason.value: http_dropped.get(reason.value, 0) for reason in Dropped}
    yield labelled(CounterMetricFamily, "fakedev_http_connections_dropped", text, "reason", dropped)
    text = "How often a port did not accept connections because no file descriptors were left."
    yield CounterMetricFamily("fakedev_accepts_postponed", text, postponed())


#: The last line of OpenMetrics.
_END = b"# EOF\n"


class _OneFamily(NamedTuple):
    """A registry with one family, whose text is generated in one step."""

    family: Metric

    def collect(self) -> Iterable[Metric]:
        return [self.family]


class OwnMetrics(Collector):
    """The metrics of one application object.

    The groups build, process and python always exist. A group that fails is missing from the page, logged once, and
    reported as ``fakedev_collector_success 0``; the rest of the page stays.

    :param groups: returns the other groups, in the order of the page.
    """

    log = Logger()

    def __init__(
        self, groups: Callable[[], Mapping[str, Group]] = dict, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._always: dict[str, Group] = {
            "build": build_metrics,
            "process": ProcessCollector(registry=None).collect,
            "python": PlatformCollector(registry=None).collect,
        }
        self._groups = groups
        self._clock = clock
        self._failing: set[str] = set()
        # Without names: a restricted registry then collects all groups, and keeps the samples that it wants.
        self._registry = CollectorRegistry(support_collectors_without_names=True)
        self._registry.register(self)

    def steps(self, accept: bytes | None, names: Iterable[str] = ()) -> Steps[Response]:
        """Makes the page in the format of the Accept header, a family in each step.

        :param names: of samples (``fakedev_ticks_total``): only these; none: all.
        """
        exposition = choose_exposition(accept)
        # Names of ours need no escaping: the same bytes, in two thirds of the time.
        generate = partial(generate_openmetrics, escaping=ALLOWUTF8) if exposition.openmetrics else generate_latest
        registry: Collector = self._registry.restricted_registry(names) if names else self._registry
        texts = []
        for family in registry.collect():
            texts.append(generate(_OneFamily(family)).removesuffix(_END))
            yield
        return Response(200, b"".join(texts) + (_END if exposition.openmetrics else b""), exposition.content_type)

    def collect(self) -> Iterable[Metric]:
        """The families of all groups, and the success and duration of each group."""
        success = GaugeMetricFamily("fakedev_collector_success", "Whether the group is here.", labels=["group"])
        duration = GaugeMetricFamily("fakedev_collector_duration_seconds", "How long it took.", labels=["group"])
        for name, group in {**self._always, **self._groups()}.items():
            started = self._clock()
            families = self._families(name, group)
            success.add_metric([name], int(name not in self._failing))
            duration.add_metric([name], self._clock() - started)
            yield from families
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


class OwnMetricsResource(Resource):
    """/-/metrics"""

    def __init__(self, metrics: OwnMetrics) -> None:
        self._metrics = metrics

    def get(self, request: Request) -> Deferred[Response]:
        names = [name.decode("utf-8", "replace") for name in request.args.get(b"name[]", ())]
        steps = self._metrics.steps(request.getHeader(b"accept"), names)
        page: Deferred[Response] = request.site.slices.make(steps, request.notifyFinish(), request.origin)
        return page
