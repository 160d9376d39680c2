"""Our own metrics page."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fakedev import __version__
from fakedev.base.histograms import TICK_BUCKETS, Histogram
from fakedev.base.steps import result_of
from fakedev.fleet.metrics import file_metrics, tick_metrics, workload_metrics
from fakedev.service.reload import ReloadStatistics, reload_metrics
from fakedev.web.metrics import Group, OwnMetrics, OwnMetricsResource, port_metrics, scrape_metrics
from fakedev.web.response import ScrapeStatistics
from tests.support.logged_errors import LoggedErrors
from tests.support.wire.http_wire import Peer, make_site

OPENMETRICS = b"application/openmetrics-text;version=1.0.0"


class Clockwork:
    """A ticker's numbers."""

    ticks = 12
    missed = 3
    failures = 1
    lag_seconds = 0.25

    def __init__(self) -> None:
        self.durations = Histogram(TICK_BUCKETS)


def full(scrapes: ScrapeStatistics | None = None, **more: Group) -> OwnMetrics:
    """A page with all groups, and more of them."""
    ticker = Clockwork()
    for seconds in (0.0001, 0.0002, 0.3, 7.0):
        ticker.durations.observe(seconds)
    fleet = SimpleNamespace(
        cluster=None,
        state=SimpleNamespace(tick=15), intake=SimpleNamespace(starting_count=1),
        workloads=SimpleNamespace(by_id=dict.fromkeys("abc")),
    )  # fmt: skip
    groups = {
        "ticks": partial(tick_metrics, ticker, fleet),
        "scrapes": partial(scrape_metrics, scrapes or ScrapeStatistics()),
        "workloads": partial(workload_metrics, fleet, lambda: 3),
        "reload": partial(reload_metrics, ReloadStatistics(True, 1234.5)),
    }
    return OwnMetrics(lambda: groups | more)


def samples(metrics: OwnMetrics) -> dict[str, float]:
    """All values of the page by their series."""
    found = {}
    for family in parse_text(bytes(result_of(metrics.steps(None)).body).decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


class TestOwnMetrics:
    """The page, its formats, and groups that fail."""

    def test_values(self) -> None:
        """Every group shows its numbers; histograms are cumulative."""
        found = samples(full())
        wanted = {
            f"fakedev_build_info{{version={__version__}}}": 1,
            "fakedev_tick": 15,
            "fakedev_ticks_total": 12,
            "fakedev_ticks_missed_total": 3,
            "fakedev_tick_failures_total": 1,
            "fakedev_tick_lag_seconds": 0.25,
            "fakedev_tick_duration_seconds_bucket{le=0.0001}": 1,
            "fakedev_tick_duration_seconds_bucket{le=0.00025}": 2,
            "fakedev_tick_duration_seconds_bucket{le=0.25}": 2,
            "fakedev_tick_duration_seconds_bucket{le=0.5}": 3,
            "fakedev_tick_duration_seconds_bucket{le=+Inf}": 4,
            "fakedev_tick_duration_seconds_count": 4,
            "fakedev_workloads{state=running}": 2,
            "fakedev_workloads{state=starting}": 1,
            "fakedev_workload_connections": 3,
            "fakedev_config_last_reload_successful": 1,
            "fakedev_config_last_reload_success_timestamp_seconds": 1234.5,
            "fakedev_collector_success{group=ticks}": 1,
        }
        assert {name: found.get(name) for name in wanted} == wanted
        assert "process_resident_memory_bytes" in found
        assert any(name.startswith("python_info{") for name in found)

    def test_peers_that_were_dropped(self) -> None:
        """Each reason has a series from the start, so that its first increase is seen."""
        ports = partial(port_metrics, lambda: {"workloads": {"full": 2}}, {"late": 3}, lambda: 4)
        found = samples(OwnMetrics(lambda: {"ports": ports}))
        wanted = {
            "fakedev_line_connections_closed_total{port=workloads,reason=full}": 2,
            "fakedev_line_connections_closed_total{port=workloads,reason=silent}": 0,
            "fakedev_http_connections_dropped_total{reason=late}": 3,
            "fakedev_http_connections_dropped_total{reason=full}": 0,
            "fakedev_http_connections_dropped_total{reason=refused}": 0,
            "fakedev_http_connections_dropped_total{reason=unread}": 0,
            "fakedev_http_connections_dropped_total{reason=handshake}": 0,
            "fakedev_http_connections_dropped_total{reason=plain}": 0,
            "fakedev_accepts_postponed_total": 4,
        }
        assert {name: found.get(name) for name in wanted} == wanted

    def test_what_the_journal_owes(self) -> None:
        """Beside what has failed: how many entries are not in its file yet."""
        files = partial(file_metrics, lambda: {"journal": "", "record": "full"}, SimpleNamespace(waiting_count=7))
        found = samples(OwnMetrics(lambda: {"files": files}))
        assert found["fakedev_file_failed{file=record}"] == 1
        assert found["fakedev_file_failed{file=journal}"] == 0
        assert found["fakedev_journal_waiting"] == 7

    def test_scrapes_of_itself(self) -> None:
        """Requests over HTTP are counted by page and code, and appear on the page."""
        scrapes = ScrapeStatistics()
        resource = OwnMetricsResource(full(scrapes))
        resource.statistics = scrapes.page("own")
        peer = Peer(make_site(own=resource))
        peer.send(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n", b"PUT /own HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = peer.ask(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        values = {(s.name, s.labels.get("code")): s.value for f in parse_text(answer.body.decode()) for s in f.samples}
        assert values["fakedev_scrapes_total", "200"] == 1
        assert values["fakedev_scrapes_total", "405"] == 1
        assert values["fakedev_scrapes_in_flight", None] == 1
        assert values["fakedev_scrape_duration_seconds_count", None] == 2

    def test_names(self) -> None:
        """``name[]`` restricts the page to samples of these names, in the order of the page, in both formats."""
        peer = Peer(make_site(own=OwnMetricsResource(full())))
        names = ("fakedev_ticks_total", "fakedev_tick", "no", "fakedev_tick_duration_seconds_count")
        query = "&".join(f"name[]={name}" for name in names).replace("[]", "%5B%5D", 1).encode()
        for accept, counter in ((b"text/plain", b"fakedev_ticks_total"), (OPENMETRICS, b"fakedev_ticks")):
            answer = peer.ask(b"GET /own?%s HTTP/1.1\r\nHost: a\r\nAccept: %s\r\n\r\n" % (query, accept))
            lines = answer.body.decode().splitlines()
            assert [line for line in lines if not line.startswith("#")] == [
                "fakedev_tick 15.0", "fakedev_ticks_total 12.0", "fakedev_tick_duration_seconds_count 4.0",
            ]  # fmt: skip
            assert f"# TYPE {counter.decode()} counter" in lines
        assert not peer.ask(b"GET /own?name[]=%ff HTTP/1.1\r\nHost: a\r\n\r\n").body

    def test_same_bytes(self) -> None:
        """The text of each family for itself is what prometheus_client generates of all of them."""
        metrics = OwnMetrics(lambda: {"scrapes": partial(scrape_metrics, ScrapeStatistics())}, clock=lambda: 0.0)
        for accept, generate in ((None, generate_latest), (OPENMETRICS, generate_openmetrics)):
            stable = [line for line in generate(metrics).splitlines() if not line.startswith(b"process_")]
            text = bytes(result_of(metrics.steps(accept)).body)
            assert [line for line in text.splitlines() if not line.startswith(b"process_")] == stable

    def test_openmetrics(self) -> None:
        """OpenMetrics is served when asked for, and its own parser takes it."""
        scrapes = ScrapeStatistics()
        scrapes.page("metrics").begun()
        scrapes.page("metrics").ended(200, 0.003)
        answer = result_of(full(scrapes).steps(OPENMETRICS))
        assert answer.content_type.startswith("application/openmetrics-text; version=1.0.0")
        families = {family.name for family in parse_openmetrics(bytes(answer.body).decode())}
        assert {"fakedev_scrapes", "fakedev_ticks", "fakedev_scrape_duration_seconds"} <= families

    def test_applications_are_separate(self) -> None:
        """Two application objects have nothing in common."""
        scrapes = ScrapeStatistics()
        scrapes.page("here").begun()
        full(scrapes)
        assert not [name for name in samples(full()) if "here" in name]

    def test_group_that_fails(self, logged_errors: LoggedErrors) -> None:
        """A group that fails, at once, halfway or by its values, is reported and logged once; the others stay."""

        class Halfway:
            """Fails after one family."""

            def collect(self) -> Iterable[Metric]:
                """One good family and an error."""
                yield GaugeMetricFamily("good", "x", 1)
                raise LookupError

        class Unprintable:
            """Has a value that is no number."""

            def collect(self) -> Iterable[Metric]:
                """None for a number."""
                value: Any = None
                family = GaugeMetricFamily("bad", "x", labels=[])
                family.add_metric([], value)
                yield family

        metrics = full(halfway=Halfway().collect, unprintable=Unprintable().collect)
        for _ in range(3):
            found = samples(metrics)
            assert found["fakedev_ticks_total"] == 12
            assert "good" not in found
            assert found["fakedev_collector_success{group=halfway}"] == 0
            assert found["fakedev_collector_success{group=unprintable}"] == 0
            assert found["fakedev_collector_success{group=ticks}"] == 1
        assert len(logged_errors.take(LookupError)) == 1
        assert len(logged_errors.take(TypeError)) == 1
