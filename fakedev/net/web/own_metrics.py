"""Our own metrics page, /-/metrics: what this program does, apart from what it simulates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from twisted.logger import Logger

from fakedev import __version__
from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response
from fakedev.net.web.own_collectors import BuildMetrics, Group


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
