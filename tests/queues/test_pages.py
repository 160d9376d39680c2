"""What can be seen of the work queues: the metrics page, the API, our own metrics, over the whole application."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.support.application import MemoryApplication, application
from tests.support.paths import ORIGINALS
from tests.support.wire.http_wire import answers

#: A stopped clock, so that nothing else changes.
QUEUES = """
version: 1
fleet: {speed: 0}
web: ["127.0.0.1:9400", {listen: "127.0.0.1:9401", serve: metrics}]
workloads: {listen: []}
queues:
  names: {sleep: {max-waiting: 3}, media: {retries: 1}}
  drain: 0s
"""
ORIGINAL_SERIES = {
    "hpa_client_connections_total": 1.0,
    "hpa_worker_connections_total": 1.0,
    'hpa_queue_all{name="sleep"}': 0.0,
    'hpa_queue_waiting{name="sleep"}': 0.0,
    'hpa_queue_running{name="sleep"}': 0.0,
    'hpa_queue_success_total{name="sleep"}': 1.0,
    'hpa_queue_failure_total{name="sleep"}': 0.0,
    'hpa_queue_disconnect_total{name="sleep"}': 0.0,
    'hpa_queue_maxrun_seconds{name="sleep"}': 0.5,
    'hpa_queue_maxwait_seconds{name="sleep"}': 2.0,
    'hpa_queue_maxtotal_seconds{name="sleep"}': 2.5,
}


def series(text: str) -> dict[str, float]:
    found = {}
    for family in parse_text(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def page(app: MemoryApplication) -> dict[str, float]:
    return series(app.get("/queues/metrics").body.decode())


def with_a_run(text: str = QUEUES) -> MemoryApplication:
    """An application in which one request waited two seconds, ran for half a second, and succeeded."""
    app = MemoryApplication(text)
    asks, works = app.client(), app.backend()
    asks.say("put sleep 0.5")
    app.reactor.advance(2)
    works.say("hello node=n1 pod=p1", "take sleep")
    app.reactor.advance(0.5)
    assert works.say("done 1 0 run=500ms") == ["ok success"]
    return app


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    with application(QUEUES) as running:
        yield running


def test_series_of_the_original() -> None:
    app = with_a_run()
    shown = {name: value for name, value in page(app).items() if name.startswith("hpa_") and "media" not in name}
    app.stop()
    assert shown == ORIGINAL_SERIES


def test_names_and_labels_are_those_that_were_captured() -> None:
    """Against the original's own page."""
    if not ORIGINALS.is_dir():
        pytest.skip("the original's page is not at hand")
    captured = (ORIGINALS / "WIRE.md").read_text(encoding="utf-8").split("/metrics (", 1)[1].split("```")[1]
    assert list(series(captured)) == list(ORIGINAL_SERIES)


def test_the_page_is_good_in_both_formats(app: MemoryApplication) -> None:
    """HELP and TYPE for every family, no name twice; the parsers of text and OpenMetrics agree."""
    text = app.get("/queues/metrics")
    lines = text.body.decode().splitlines()
    assert lines[0].startswith("# fakedev ")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(parse_text(text.body.decode()))
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) == len(families)
    assert [line.split()[2] for line in lines if line.startswith("# HELP")] == names
    accept = "Host: localhost\r\nAccept: application/openmetrics-text\r\n"
    openmetrics = app.ask("GET", "/queues/metrics", headers=accept)
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    values = [
        {(sample.name, *sorted(sample.labels.items())): sample.value for each in found for sample in each.samples}
        for found in (families, list(parse_openmetrics(openmetrics.body.decode())))
    ]
    assert values[0] == values[1]


def test_gzip(app: MemoryApplication) -> None:
    peer = app.http()
    peer.send(b"GET /queues/metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
    app.reactor.advance(0)
    for _ in range(200):
        app.reactor.advance(0.01)
        if peer.transport.value():
            break
    (answer,) = answers(peer.transport.value())
    peer.leave()
    body = gzip.decompress(answer.body) if answer.headers.get("content-encoding") == "gzip" else answer.body
    assert b"hpa_queue_all" in body


def test_figures_for_scalers(app: MemoryApplication) -> None:
    """Waiting, oldest, rates and workers, while a job runs, two wait, and a backend waits for other work."""
    asks, works, idles = app.client(), app.backend(), app.backend()
    asks.say("put sleep 1", "put sleep 2")
    works.say("take sleep")
    idles.send(b"take media wait=1h\n")
    app.reactor.advance(7)
    asks.say("put sleep 3", "put sleep 4", "put sleep 5")
    shown = page(app)
    expected = {
        'hpa_queue_all{name="sleep"}': 4,
        'hpa_queue_waiting{name="sleep"}': 3,
        'hpa_queue_running{name="sleep"}': 1,
        'fakedev_queue_oldest_waiting_seconds{queue="sleep"}': 7,
        'fakedev_queue_workers{queue="sleep",state="busy"}': 1,
        'fakedev_queue_workers{queue="sleep",state="idle"}': 0,
        'fakedev_queue_workers{queue="media",state="idle"}': 1,
        'fakedev_queue_puts_total{queue="sleep"}': 4,
        'fakedev_queue_ended_total{outcome="refused",queue="sleep"}': 1,
        'fakedev_queue_services_per_second{queue="sleep"}': 0,
    }
    assert {name: shown.get(name) for name in expected} == expected
    assert shown['fakedev_queue_arrivals_per_second{queue="sleep"}'] == pytest.approx(4 / 7)


def test_each_outcome_has_its_counter_and_histogram(app: MemoryApplication) -> None:
    """A failure, a time-out, a loss that is tried again and then buried, a client that leaves, and a pause."""
    asks, leaves, works, dies = app.client(), app.client(), app.backend(), app.backend()
    asks.say("put sleep 1", "put sleep 2", "put media 3")
    works.say("take sleep", "take sleep")
    app.reactor.advance(3)
    works.say("fail 1 2 broken", "fail 2 1 late timeout=2s")
    dies.say("take media")
    dies.leave()
    again = app.backend()
    again.say("take media")
    again.leave()
    leaves.say("put sleep 4")
    leaves.leave()
    works.say("pause sleep")
    shown = page(app)
    expected = {
        'fakedev_queue_ended_total{outcome="failure",queue="sleep"}': 1,
        'fakedev_queue_ended_total{outcome="timeout",queue="sleep"}': 1,
        'fakedev_queue_ended_total{outcome="cancelled",queue="sleep"}': 1,
        'fakedev_queue_ended_total{outcome="lost",queue="media"}': 1,
        'fakedev_queue_retries_total{queue="media"}': 1,
        'fakedev_queue_burials_total{queue="media"}': 1,
        'fakedev_queue_buried{queue="media"}': 1,
        'fakedev_queue_paused{queue="sleep"}': 1,
        'hpa_queue_failure_total{name="sleep"}': 2,
        'hpa_queue_failure_total{name="media"}': 1,
        'hpa_queue_disconnect_total{name="sleep"}': 1,
        'fakedev_queue_run_seconds_count{outcome="failure",queue="sleep"}': 1,
        'fakedev_queue_run_seconds_bucket{le="2.5",outcome="timeout",queue="sleep"}': 0,
        'fakedev_queue_run_seconds_bucket{le="5.0",outcome="timeout",queue="sleep"}': 1,
        'fakedev_queue_wait_seconds_count{outcome="cancelled",queue="sleep"}': 1,
    }
    assert {name: shown.get(name) for name in expected} == expected
    totals = series(app.get("/-/metrics").body.decode())
    assert totals['fakedev_queues_ended_total{outcome="lost"}'] == 1
    assert totals['fakedev_queues_ended_total{outcome="cancelled"}'] == 1
    assert totals['fakedev_queues_connections_total{port="backends"}'] == 3
    assert totals['fakedev_queues_requests{state="waiting"}'] == 0


def test_scrapes_do_not_clear_the_maxima() -> None:
    """Two scrapers see the same; a minute later the window is over."""
    app = with_a_run()
    name = 'hpa_queue_maxwait_seconds{name="sleep"}'
    seen = [page(app)[name], page(app)[name]]
    app.reactor.advance(62)
    assert [*seen, page(app)[name]] == [2, 2, 0]
    app.stop()


def test_maxima_since_the_last_scrape() -> None:
    """By a switch, as in the original: GET clears them, HEAD and the API do not."""
    app = with_a_run(QUEUES + "  maxima: since-scrape\n")
    app.reactor.advance(1000)
    app.ask("HEAD", "/queues/metrics")
    assert app.json("/api/v1/queues/sleep")["maxwait-seconds"] == 2
    name = 'hpa_queue_maxwait_seconds{name="sleep"}'
    assert [page(app)[name], page(app)[name]] == [2, 0]
    app.stop()


def test_maxima_of_an_interval() -> None:
    """They carry it as a label, as in the original with -interval, and end with it."""
    app = with_a_run(QUEUES + "  maxima: interval\n  log-interval: 10s\n")
    name = 'hpa_queue_maxwait_seconds{interval="10s",name="sleep"}'
    seen = page(app)
    assert (seen[name], seen['hpa_queue_all{name="sleep"}']) == (2, 0)
    app.reactor.advance(11)
    assert page(app)[name] == 0
    app.stop()


def test_api() -> None:
    """The queues and one of them: what `stats` tells, rates, maxima and histograms."""
    app = with_a_run()
    app.reactor.advance(10)
    told = app.json("/api/v1/queues")
    assert ([queue["queue"] for queue in told["queues"]], told["total"]) == (["sleep", "media"], 2)
    assert [queue["queue"] for queue in app.json("/api/v1/queues?offset=1&limit=1")["queues"]] == ["media"]
    one = app.json("/api/v1/queues/sleep")
    assert one == told["queues"][0]
    expected = {"waiting": 0, "all": 0, "success": 1, "maxrun-seconds": 0.5, "maxima": "window", "maxima-seconds": 60}
    assert {name: one[name] for name in expected} == expected
    assert one["services-per-second"] == pytest.approx(1 / 12.5)
    assert one["run-seconds"]["success"]["count"] == 1
    assert one["run-seconds"]["success"]["buckets"][-1] == [None, 1]
    missing = app.get("/api/v1/queues/nope")
    error = json.loads(missing.body)["error"]
    assert (missing.status, error["message"]) == (404, "no queue 'nope': there are sleep, media")
    app.stop()


def test_pages_where_only_metrics_are_served(app: MemoryApplication) -> None:
    """The page is there, for the scraper of an autoscaler; the API is not."""
    assert app.get("/queues/metrics", place=1).status == 200
    assert app.get("/api/v1/queues", place=1).status == 404


def test_without_queues_there_is_no_page() -> None:
    with application() as app:
        assert app.get("/queues/metrics").status == 404
        assert app.json("/api/v1/queues") == {"queues": [], "total": 0}
        assert app.get("/api/v1/queues/sleep").status == 404
        assert "fakedev_queues" not in app.get("/-/metrics").body.decode()
