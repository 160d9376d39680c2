"""The web tree of doc/http.md, path by path, over the whole application."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.address import IPv4Address

from fakedev import __version__
from tests.support.application import MemoryApplication, application
from tests.support.wire.http_wire import answers
from tests.support.wire.web_tree import AS_DCGM, BLUE, FULL, HEALTH, METRICS, TREE


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """The application of TREE."""
    with application(TREE) as running:
        yield running


#: Everything that answers GET, and the Content-Type it has.
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
PAGES = {
    "/": "text/html; charset=utf-8",
    "/metrics": None,
    "/nodes/a/metrics": None,
    "/nodes/c/metrics": None,
    "/sd": "application/json",
    **dict.fromkeys(HEALTH, "application/json"),
}
CONTROL = {
    "/workloads/metrics": PLAIN,
    "/-/metrics": PLAIN,
    "/api/v1/workloads": "application/json",
    "/api/v1/devices": "application/json",
    "/api/v1/nodes": "application/json",
    "/api/v1/identities": "application/json",
    "/api/v1/clock": "application/json",
    "/api/v1/queues": "application/json",
    "/api/v1/history": "application/json",
    "/api/v1/fault-kinds": "application/json",
    "/page/app.js": "text/javascript; charset=utf-8",
    "/page/icon.svg": "image/svg+xml",
    "/page/layout.css": "text/css; charset=utf-8",
}


@pytest.mark.parametrize("path", [*PAGES, *CONTROL])
def test_get_and_head(app: MemoryApplication, path: str) -> None:
    """GET is answered; HEAD the same without the body; both say that it is simulated."""
    answer = app.get(path)
    assert answer.status == 200
    assert answer.headers["server"] == f"fakedev/{__version__} (simulated)"
    expected = {**PAGES, **CONTROL}[path]
    assert expected in (None, answer.headers["content-type"])
    head = app.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    if path != "/-/metrics":  # which counts
        # The items of a collection are not described for HEAD, so their length is not known.
        is_list = path in ("/api/v1/workloads", "/api/v1/devices", "/api/v1/nodes", "/api/v1/queues", "/sd")
        length = {"content-length": answer.headers["content-length"]} if is_list else {}
        assert head.headers | length == answer.headers and is_list != ("content-length" in head.headers)


@pytest.mark.parametrize("path", [*PAGES, *CONTROL])
def test_below_it_is_nothing(app: MemoryApplication, path: str) -> None:
    """A longer path is 404, and so is one slash more where it is no folder."""
    below = f"{path.rstrip('/')}/nothing-here"
    answer = app.get(below)
    # Below these are items, which fail in the API's way.
    assert answer.status == 404, below
    assert app.get(f"{path.rstrip('/')}/x/y/z").status == 404
    if path not in ("/", "/api/v1/workloads", "/api/v1/devices", "/api/v1/nodes", "/api/v1/queues"):
        assert app.get(f"{path}/").status == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "POST"])
def test_other_methods(app: MemoryApplication, method: str) -> None:
    for path in (*PAGES, "/workloads/metrics", "/-/metrics", "/api/v1/devices", "/api/v1/nodes"):
        answer = app.ask(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD"), path


def test_allowed_methods_where_there_are_more(app: MemoryApplication) -> None:
    for path, allowed in (
        ("/api/v1/workloads", "GET, HEAD, POST"),
        ("/api/v1/clock", "GET, HEAD, POST, PATCH"),
        ("/api/v1/workloads/w1", "GET, HEAD, DELETE"),
        ("/-/reload", "POST"),
    ):
        answer = app.ask("PUT", path)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)


def test_unknown_paths(app: MemoryApplication) -> None:
    """404 everywhere, with a line of text, or JSON in the API."""
    for path in ("/metric", "/nodes", "/nodes/", "/nodes/x/metrics", "/nodes/a", "/nodes/a/", "/-", "/-/x", "/api",
                 "/api/v1", "/api/v2/nodes", "/workloads", "/queues/metrics", "//metrics", "/favicon.ico",
                 "/nodes/%ff/metrics"):  # fmt: skip
        answer = app.get(path)
        assert answer.status == 404, path
        if path.startswith("/api"):
            assert json.loads(answer.body)["error"]["code"] == "not-found"
        else:
            assert answer.body.count(b"\n") == 1


def test_what_there_is(app: MemoryApplication) -> None:
    """A 404 says why, and what there is."""
    there = (
        "there are -, api, cluster, health, healthz, livez, metrics, nodes, page, queues, readyz, sd, tester, "
        "topology, workloads"
    )
    for path, text in {
        "/metric": f"nothing is here: did you mean metrics? {there}",
        "/favicon.ico": f"nothing is here: {there}",
        "/metrics/x": "nothing is here: a page has no path below it",
        "/nodes": "nothing is here: name a node, as /nodes/a/metrics",
        "/nodes/zz/metrics": "no node 'zz'; there are a, b, c",
        "/nodes/a/metric": "nothing is here: did you mean metrics? there is metrics",
        "/queues/metrics": "nothing is here: the configuration has no queues",
        "/tester/stats": "nothing is here: the configuration has no tester",
    }.items():
        assert app.get(path).body.decode() == f"{text}\n"


@pytest.mark.parametrize("path", [*PAGES, *CONTROL])
def test_a_body_where_none_belongs(app: MemoryApplication, path: str) -> None:
    """400, before it is read; nothing after it on the connection is taken for a request."""
    peer = app.http()
    peer.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n".encode())
    (answer,) = answers(peer.transport.value())
    assert answer.status == 400
    peer.leave()


def test_metrics_endpoints_change_nothing(app: MemoryApplication) -> None:
    """`serve: metrics` has the pages, discovery and health, and lacks everything else (also test_addresses.py)."""
    for path in PAGES:
        assert app.get(path, place=METRICS).status == 200, path
    for path in CONTROL:
        assert app.get(path, place=METRICS).status == 404, path
    assert b"/api/" not in app.get("/", place=METRICS).body


def test_links_where_nothing_can_be_changed(app: MemoryApplication) -> None:
    """All of them work, and the page says that everything is simulated."""
    body = app.get("/", place=METRICS).body.decode()
    assert "simulated" in body
    assert "6 devices on 3 nodes" in body
    links = [part.split('"')[0] for part in body.split('href="')[1:]]
    assert links == ["/metrics", "/nodes/a/metrics", "/sd", "/health"]
    assert [app.get(link, place=METRICS).status for link in links] == [200] * 4


def test_metrics(app: MemoryApplication) -> None:
    """The fleet's page says its tick; the next one differs; two of one tick do not."""
    app.tick()
    first, second = app.get("/metrics"), app.get("/metrics")
    assert first.body == second.body
    assert first.headers["x-fakedev-tick"] == "1"
    app.tick()
    third = app.get("/metrics")
    assert third.body != first.body
    assert third.headers["x-fakedev-tick"] == "2"
    declared = [line for line in third.body.splitlines() if line.startswith(b"# TYPE")]
    assert len(declared) == len(set(declared)) > 40


def test_pool_and_identity_of_an_endpoint(app: MemoryApplication) -> None:
    """`pool` shows only that pool, `identity` shows everything as that exporter; in /nodes and /sd too."""
    blue = app.get("/metrics", place=BLUE).body
    assert b"xpum_" in blue
    assert b"DCGM" not in blue
    assert app.get("/nodes/c/metrics", place=BLUE).status == 200
    assert app.get("/nodes/a/metrics", place=BLUE).status == 404
    assert [target["labels"]["node"] for target in json.loads(app.get("/sd", place=BLUE).body)] == ["c"]
    dcgm = app.get("/metrics", place=AS_DCGM).body
    assert b"xpum_" not in dcgm
    assert dcgm.count(b"\nDCGM_FI_DEV_GPU_TEMP{") == 6
    assert b"DCGM_FI_DEV_GPU_TEMP" in app.get("/nodes/c/metrics", place=AS_DCGM).body


def test_nodes(app: MemoryApplication) -> None:
    app.tick(3)
    page = app.get("/nodes/b/metrics")
    assert page.headers["x-fakedev-tick"] == "3"
    assert b'Hostname="b"' in page.body
    assert b'Hostname="a"' not in page.body
    assert page.body.count(b"\nDCGM_FI_DEV_GPU_TEMP{") == 2
    assert b"xpum_" in app.get("/nodes/c/metrics").body
    whole = set(app.get("/metrics").body.splitlines())
    for node in "abc":
        assert set(app.get(f"/nodes/{node}/metrics").body.splitlines()) <= whole


def test_discovery(app: MemoryApplication) -> None:
    """A target per node, reached where the request came to; one pool if wanted."""
    answer = app.ask("GET", "/sd", headers="Host: gpus.example.org:9400\r\n")
    targets = json.loads(answer.body)
    assert targets[0] == {
        "targets": ["gpus.example.org:9400"],
        "labels": {"__metrics_path__": "/nodes/a/metrics", "instance": "a:9400", "node": "a", "pool": "green"},
    }
    assert [target["labels"]["node"] for target in targets] == ["a", "b", "c"]
    for target in targets:
        assert app.get(target["labels"]["__metrics_path__"]).status == 200
    assert [target["labels"]["node"] for target in app.json("/sd?pool=blue")] == ["c"]
    unknown = app.get("/sd?pool=red")
    assert (unknown.status, unknown.body) == (404, b"no pool 'red': there are green, blue\n")
    # As a request of HTTP/1.0, which has no Host.
    assert json.loads(app.ask("GET", "/sd", headers="Host:\r\n").body)[0]["targets"] == ["localhost"]


def test_health_is_good(app: MemoryApplication) -> None:
    app.tick()
    for path in HEALTH:
        assert app.json(path) == {"status": "healthy"}


def test_openmetrics_of_our_own_pages(app: MemoryApplication) -> None:
    """Text by default, OpenMetrics when it is preferred; both parse and say the same."""
    peer = app.connect()
    peer.say('run "a \\"b\\"" devices=a/0,a/1 profile=60:0:0 pod=p', "run y devices=c/0 profile=20")
    app.tick(2)
    accept = "Host: localhost\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n"
    for path in ("/workloads/metrics", "/-/metrics"):
        plain = app.get(path)
        openmetrics = app.ask("GET", path, headers=accept)
        assert plain.headers["content-type"] == PLAIN
        assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert openmetrics.body.endswith(b"# EOF\n")
        old, new = (
            {sample.name for family in parse(answer.body.decode()) for sample in family.samples}
            for parse, answer in ((text_string_to_metric_families, plain), (parse_openmetrics, openmetrics))
        )
        assert old == new
        assert len(old) >= 3


def test_the_page_of_workloads(app: MemoryApplication) -> None:
    """Each running workload with its name, load and age."""
    assert text_samples(app, "/workloads/metrics") == {}
    app.connect().say('run "a \\"b\\"" devices=a/0,a/1 profile=60:0:0 pod=p namespace=n')
    assert text_samples(app, "/workloads/metrics") == {}
    app.tick(2)
    labels = (("name", 'a "b"'), ("namespace", "n"), ("pod", "p"), ("workload", "w2"))
    shown = text_samples(app, "/workloads/metrics")
    assert shown["fakedev_workload_devices", labels] == 2.0
    assert shown["fakedev_workload_load_ratio", labels] == 0.6
    assert shown["fakedev_workload_run_seconds", labels] == 2.0
    of_a_device = tuple(sorted([*labels, ("node", "a"), ("device", "1")]))
    assert shown["fakedev_workload_device_load_ratio", of_a_device] == 0.6


def text_samples(app: MemoryApplication, path: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(app.get(path).body.decode())
        for sample in family.samples
    }


def test_our_own_metrics(app: MemoryApplication) -> None:
    """Ticks, scrapes by page, workloads by state, connections."""
    peer = app.connect()
    peer.say("run x devices=a/0 profile=60")
    app.tick(3)
    peer.say("run y devices=a/0 profile=60")
    for _ in range(4):
        app.get("/metrics")
    app.get("/nodes/a/metrics", place=METRICS)
    app.ask("POST", "/metrics")
    samples = text_samples(app, "/-/metrics")
    assert samples["fakedev_tick", ()] == samples["fakedev_ticks_total", ()] == 3
    assert samples["fakedev_ticks_missed_total", ()] == 0
    assert samples["fakedev_workloads", (("state", "running"),)] == 1
    assert samples["fakedev_workloads", (("state", "starting"),)] == 1
    assert samples["fakedev_workload_connections", ()] == 1
    assert samples["fakedev_scrapes_total", (("code", "200"), ("page", "/metrics"))] == 4
    assert samples["fakedev_scrapes_total", (("code", "405"), ("page", "/metrics"))] == 1
    assert samples["fakedev_scrapes_total", (("code", "200"), ("page", "/nodes/NODE/metrics"))] == 1
    assert samples["fakedev_build_info", (("version", __version__),)] == 1
    assert samples["fakedev_config_last_reload_successful", ()] == 1
    assert {value for (name, _), value in samples.items() if name == "fakedev_collector_success"} == {1}


def test_gzip(app: MemoryApplication) -> None:
    import gzip  # noqa: PLC0415

    answer = app.ask("GET", "/metrics", headers="Host: x\r\nAccept-Encoding: gzip;q=0.5\r\n")
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body) == app.get("/metrics").body
    assert "content-encoding" not in app.ask("GET", "/metrics", headers="Accept-Encoding: gzip;q=0\r\n").headers


@pytest.mark.parametrize(
    ("host", "place", "path"),
    [
        ("a", FULL, "/nodes/a/metrics"),
        ("a:9400", FULL, "/nodes/a/metrics"),
        ("A:9400", FULL, "/nodes/a/metrics"),
        ("b.gpu.svc.cluster.local:9400", METRICS, "/nodes/b/metrics"),
        ("c", BLUE, "/nodes/c/metrics"),
        ("a", BLUE, "/metrics"),
        ("x", FULL, "/metrics"),
        ("127.0.0.1:9400", FULL, "/metrics"),
        ("", FULL, "/metrics"),
    ],
)
def test_the_host_header_selects_a_node(app: MemoryApplication, host: str, place: int, path: str) -> None:
    """An agent that knows only host and port finds a node's exporter there; any other name means all nodes."""
    found = app.ask("GET", "/metrics", place=place, headers=f"Host: {host}\r\n")
    assert (found.status, found.body) == (200, app.get(path, place=place).body)


def test_the_host_header_of_another_shard() -> None:
    """A node that another shard has is not here; all nodes of this one would be the wrong page."""
    with application(TREE.replace("fleet:\n", "fleet:\n  shard: 0/2\n", 1)) as app:
        shown = {node["node"] for node in app.json("/api/v1/nodes")["nodes"]}
        assert 0 < len(shown) < 3
        for name in "abc":
            found = app.ask("GET", "/metrics", headers=f"Host: {name}:9400\r\n")
            assert found.status == (200 if name in shown else 404), name


class TestPerNode:
    """Each node has its own address, on one port."""

    def test_addresses(self) -> None:
        """The first is the first node's; an address without a node has nothing."""
        text = TREE.replace('  - {listen: "127.0.0.1:9401", serve: metrics}\n', "  - per-node: 127.64.0.0/24:9410\n")
        with application(text) as app:
            (host,) = [port.getHost().host for port in app.reactor.ports if port.getHost().port == 9410]
            assert host == "0.0.0.0"
            for host, path in (("127.64.0.1", "a"), ("127.64.0.3", "c"), ("127.64.0.4", ""), ("127.0.0.1", "")):
                peer = app.http(METRICS)
                peer.transport.hostAddr = IPv4Address("TCP", host, 9410)
                answer = peer.ask(b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n")
                assert answer.status == (200 if path else 404), host
                if path:
                    assert answer.body == app.get(f"/nodes/{path}/metrics").body
                    assert peer.ask(b"GET /health HTTP/1.1\r\nHost: b\r\n\r\n").status == 200
                assert peer.ask(b"GET /nodes/a/metrics HTTP/1.1\r\nHost: b\r\n\r\n").status == 404
