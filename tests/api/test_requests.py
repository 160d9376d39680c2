"""The API of doc/http.md, request by request, over the whole application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.web.paths import FAULTS
from tests.support.application import SMALL, MemoryApplication, application
from tests.support.wire.http_wire import failed

WORKLOADS = "/api/v1/workloads"
GOOD = {"name": "night", "devices": ["a/0"], "profile": "60:5:10"}


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """Four devices, a clock that goes."""
    with application() as running:
        yield running


def start(app: MemoryApplication, **changes: object) -> Any:
    """A workload by POST, which must be taken."""
    answer = app.ask("POST", WORKLOADS, {**GOOD, **changes})
    assert answer.status == 201, answer
    return json.loads(answer.body)


# -- workloads ------------------------------------------------------------------------------------------


def test_post(app: MemoryApplication) -> None:
    """201, its description and where it is found; it runs from the next tick, with no connection to keep it."""
    answer = app.ask("POST", WORKLOADS, GOOD)
    assert (answer.status, answer.headers["location"]) == (201, "/api/v1/workloads/w2")
    described = json.loads(answer.body)
    assert described == {
        "id": "w2", "state": "starting", "origin": "request",
        "name": "night", "devices": ["a/0"], "profile": "60:5:10", "repeat": 1,
        "device-count": 1, "load-percent": 0.0, "run-seconds": 0.0, "remaining-seconds": 10.0,
    }  # fmt: skip
    assert app.json(answer.headers["location"]) == described
    app.tick()
    running = {**described, "state": "running", "load-percent": 60.0, "run-seconds": 1.0, "remaining-seconds": 9.0}
    assert app.json("/api/v1/workloads/night") == running
    assert app.json(WORKLOADS) == {"workloads": [running], "total": 1}
    assert app.json("/api/v1/devices/a/0")["quantities"]["usage_ratio"] == pytest.approx(0.6, abs=0.05)
    app.tick(9)
    assert app.json(WORKLOADS) == {"workloads": [], "total": 0}
    assert failed(app.get("/api/v1/workloads/w2"), 404, "unknown-name", "workload") == "no workload 'w2'"


def test_post_by_the_names_of_words(app: MemoryApplication) -> None:
    """The answer says what the fields are called in JSON; without such names it has no notes."""
    fields = {"name": "a", "devices": "a/0", "profile": "5:0:0", "use": {"memory": "1GiB"}}
    answer = json.loads(app.ask("POST", "/api/v1/workloads", fields).body)
    assert answer["notes"] == ["use is called metrics here; both are good"]
    assert "memory" in answer["metrics"]
    fields["metrics"] = fields.pop("use")
    assert "notes" not in json.loads(app.ask("POST", "/api/v1/workloads", fields).body)


def test_post_with_everything(app: MemoryApplication) -> None:
    """All fields, in their JSON forms; null is the same as a field that is not given."""
    fields = {
        "name": "x", "devices": "0,1", "profile": [{"load": 50}], "repeat": 0, "node": "a", "pod": "p",
        "namespace": "n", "container": "c", "limits": {"memory": 79e9}, "run-time-limit": "5m", "ttl": 60,
    }  # fmt: skip
    described = json.loads(app.ask("POST", WORKLOADS, fields).body)
    del described["id"], described["state"], described["origin"]
    assert described == {
        **fields, "devices": ["0", "1"], "profile": "50:0:0", "run-time-limit": 300.0, "ttl": 60.0,
        "device-count": 2, "load-percent": 0.0, "run-seconds": 0.0, "remaining-seconds": 60.0,
    }  # fmt: skip
    start(app, name="y", pod=None, limits=None, ttl=None, repeat=None)
    assert app.json("/api/v1/workloads/y")["repeat"] == 1
    app.tick(60)
    assert app.json(WORKLOADS)["total"] == 0


def test_post_that_is_no_workload(app: MemoryApplication) -> None:
    """Not JSON, JSON of another shape, wrong types, impossible values: which part, and nothing is started."""
    for body in (b"", b"{", b"not json", b"{'name': 'x'}", b'{"name": NaN}', b"\xff\xfe", b"[" * 1000, b'{"a":1e999}'):
        assert failed(app.ask("POST", WORKLOADS, body), 400, "bad-argument", "body").startswith("the body is not JSON")
    for value in ([], "text", 5, None, True):
        message = failed(app.ask("POST", WORKLOADS, json.dumps(value).encode()), 400, "bad-argument", "body")
        assert message == "the body must be a JSON object"
    for changes, where in (
        ({"name": None}, "name"),
        ({"name": 5}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"devices": None}, "devices"),
        ({"devices": []}, "devices"),
        ({"devices": 5}, "devices"),
        ({"devices": ["a/0", None]}, "devices"),
        ({"devices": ["card0"]}, "devices"),
        ({"profile": None}, "profile"),
        ({"profile": "101:0:0"}, "profile"),
        ({"profile": "60:50:0"}, "profile"),
        ({"profile": [[10, 1, -5]]}, "profile"),
        ({"profile": [[10, 1, 0], [10]]}, "profile"),
        ({"profile": {"load": 5}}, "profile"),
        ({"repeat": "1"}, "repeat"),
        ({"repeat": 1.5}, "repeat"),
        ({"repeat": True}, "repeat"),
        ({"limits": [1]}, "limits"),
        ({"limits": {"power": "1"}}, "limits"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": "soon"}, "ttl"),
        ({"run-time-limit": []}, "run-time-limit"),
        ({"op": "run"}, "op"),
        ({"nmae": "x"}, "nmae"),
    ):
        failed(app.ask("POST", WORKLOADS, {**GOOD, **changes}), 400, "bad-argument", where)
    # A name that is unknown is the body's fault, not the path's.
    for changes, where in (
        ({"devices": ["a/9"]}, "devices"),
        ({"node": "c", "devices": ["0"]}, "node"),
        ({"limits": {"colour": 1}}, "limits"),
    ):
        failed(app.ask("POST", WORKLOADS, {**GOOD, **changes}), 400, "unknown-name", where)
    assert app.json(WORKLOADS) == {"workloads": [], "total": 0}


def test_post_of_too_much(app: MemoryApplication) -> None:
    """64 KiB are taken, one byte more is 413."""
    start(app, devices=",".join(["a/0"] * 3))
    body = json.dumps(GOOD).encode()
    assert app.ask("POST", WORKLOADS, body.ljust(65536)).status == 201
    failed(app.ask("POST", WORKLOADS, body.ljust(65537)), 413, "too-long")


def test_post_when_full() -> None:
    with application(SMALL + "limits: {workloads: 1}\n") as app:
        start(app)
        failed(app.ask("POST", WORKLOADS, GOOD), 503, "full", "limits.workloads")


def test_delete(app: MemoryApplication) -> None:
    """By id one, by name all; its peer is notified; then it is unknown."""
    peer = app.connect()
    peer.say("run same devices=a/0 profile=10")
    start(app, name="same")
    start(app, name="same")
    app.tick()
    assert json.loads(app.ask("DELETE", "/api/v1/workloads/w3").body) == {"stopped": ["w3"]}
    assert json.loads(app.ask("DELETE", "/api/v1/workloads/same").body) == {"stopped": ["w2", "w4"]}
    failed(app.ask("DELETE", "/api/v1/workloads/same"), 404, "unknown-name", "workload")
    app.tick()
    assert peer.lines() == ["ended same 0 stopped"]
    assert app.json(WORKLOADS)["total"] == 0
    failed(app.ask("DELETE", "/api/v1/workloads/w3"), 404, "unknown-name", "workload")
    assert app.ask("HEAD", "/api/v1/workloads/w3").status == 404


def test_a_name_with_odd_characters(app: MemoryApplication) -> None:
    """Percent-encoded, slash and all."""
    start(app, name="a/b c\u00e9?")
    assert app.json("/api/v1/workloads/a%2Fb%20c%C3%A9%3F")["id"] == "w2"
    failed(app.get("/api/v1/workloads/a/b%20c%C3%A9%3F"), 404, "not-found")


def test_delete_takes_no_body(app: MemoryApplication) -> None:
    """400, and nothing is stopped."""
    start(app)
    failed(app.ask("DELETE", "/api/v1/workloads/w2", b"{}"), 400, "bad-request")
    assert app.json(WORKLOADS)["total"] == 1


def test_methods_of_collections_and_items(app: MemoryApplication) -> None:
    start(app)
    for method, path in (
        ("DELETE", WORKLOADS), ("PUT", "/api/v1/workloads/w2"), ("POST", "/api/v1/workloads/w2"),
        ("POST", "/api/v1/devices/a/0"), ("DELETE", "/api/v1/nodes/a"), ("DELETE", "/api/v1/clock"),
    ):  # fmt: skip
        failed(app.ask(method, path), 405, "method-not-allowed")


@pytest.mark.slow
def test_paging_of_workloads(app: MemoryApplication) -> None:
    """500 at once, the rest by offset; the total is that of all."""
    for number in range(503):
        start(app, name=f"job-{number}")
    every = app.json(WORKLOADS)
    assert (len(every["workloads"]), every["total"]) == (500, 503)
    rest = app.json(f"{WORKLOADS}?offset=500")
    assert [each["name"] for each in rest["workloads"]] == ["job-500", "job-501", "job-502"]
    some = app.json(f"{WORKLOADS}?limit=2&offset=7")
    assert ([each["name"] for each in some["workloads"]], some["total"]) == (["job-7", "job-8"], 503)
    for empty in ("limit=0", "offset=503", "offset=999999999"):
        assert app.json(f"{WORKLOADS}?{empty}") == {"workloads": [], "total": 503}
    for query, where in (
        ("limit=501", "limit"), ("limit=-1", "limit"), ("limit=x", "limit"), ("limit=1.5", "limit"),
        ("offset=1e3", "offset"), ("offset=10000000000", "offset"), ("limit=%D9%A1", "limit"),
    ):  # fmt: skip
        failed(app.get(f"{WORKLOADS}?{query}"), 400, "bad-argument", where)


# -- devices, nodes, identities ----------------------------------------------------------------------------


def test_devices(app: MemoryApplication) -> None:
    start(app, pod="my-pod")
    app.tick()
    every = app.json("/api/v1/devices")
    assert (every["tick"], every["total"]) == (1, 4)
    assert [device["device"] for device in every["devices"]] == ["a/0", "a/1", "b/0", "b/1"]
    first = every["devices"][0]
    assert list(first) == ["device", "type", "facts", "quantities"]
    assert (first["type"], first["facts"]["pod"], first["facts"]["node"]) == ("h100-sxm5-80gb", "my-pod", "a")
    assert {"usage_ratio", "power_watts", "temperature_celsius", "memory_used_bytes"} <= set(first["quantities"])
    alone = app.json("/api/v1/devices/a/0")
    assert [each["metric"] for each in alone.pop("explained")][:2] == ["usage_ratio", "core_frequency_mhz"]
    assert (alone.pop("health"), alone.pop("workloads")) == ("well", [{"id": "w2", "name": "night"}])
    limits = alone.pop("limits")
    assert limits["power_watts"] == [["limit", 700.0]]
    assert [name for name, _ in limits["temperature_celsius"]] == ["slowdown", "hardware slowdown", "shutdown"]
    assert [each["link"] for each in alone.pop("links")] == [f"a/0/link/{number}" for number in range(18)]
    assert alone == first
    of_links = app.json("/api/v1/devices/a/0/link")["links"]
    last = app.json("/api/v1/devices/a/0/link/17")
    assert [each["metric"] for each in last.pop("explained")][:1] == ["link_up"]
    assert (len(of_links), last) == (18, of_links[-1])
    for path, metric in (("a/0", "power_watts"), ("a/0/link/17", "link_errors")):
        (explained,) = app.json(f"/api/v1/devices/{path}?metric={metric}")["explained"]
        assert explained["metric"] == metric
    failed(app.get("/api/v1/devices/a/0?metric=nothing"), 400, "unknown-name", "metric")
    of_b = app.json("/api/v1/devices?node=b")
    assert (of_b["devices"], of_b["total"]) == (every["devices"][2:], 2)
    assert app.json("/api/v1/devices?limit=2&offset=1")["devices"] == every["devices"][1:3]
    assert app.json("/api/v1/devices/") == every
    failed(app.get("/api/v1/devices?node=c"), 404, "unknown-name", "node")
    failed(app.get("/api/v1/devices?limit=1000"), 400, "bad-argument", "limit")


def test_the_api_and_the_page_show_one_state(app: MemoryApplication) -> None:
    start(app)
    app.tick(5)
    power = app.json("/api/v1/devices/a/0")["quantities"]["power_watts"]
    page = app.get("/metrics").body.decode()
    lines = [line for line in page.splitlines() if line.startswith('DCGM_FI_DEV_POWER_USAGE{gpu="0"')]
    (line,) = (line for line in lines if 'Hostname="a"' in line)
    assert float(line.split()[-1]) == pytest.approx(power, abs=1e-6)


def test_nodes(app: MemoryApplication) -> None:
    first = {
        "node": "a", "pool": "p", "device-type": "h100-sxm5-80gb", "devices": 2, "identity": "dcgm@4.8.2",
        "metrics": "/nodes/a/metrics",
    }  # fmt: skip
    second = {**first, "node": "b", "metrics": "/nodes/b/metrics"}
    assert app.json("/api/v1/nodes") == {"nodes": [first, second], "total": 2}
    assert app.json("/api/v1/nodes?pool=p&offset=1") == {"nodes": [second], "total": 2}
    alone = app.json("/api/v1/nodes/b")
    assert [each["device"] for each in alone.pop("topology")["devices"]] == ["b/0", "b/1"]
    assert alone == second
    assert app.get(first["metrics"]).status == 200  # type: ignore[arg-type]
    for pool in ("q", "%C3%A9%FF"):
        failed(app.get(f"/api/v1/nodes?pool={pool}"), 404, "unknown-name", "pool")


def test_identities(app: MemoryApplication) -> None:
    """What is shown, always or at times, what is absent because nothing simulates it, what is not covered: the page."""
    (identity,) = app.json("/api/v1/identities")["identities"]
    assert (identity["identity"], identity["content-type"]) == ("dcgm@4.8.2", "text/plain; charset=utf-8")
    assert set(identity["absent"]) < set(identity["families"])
    assert isinstance(identity["not-covered"], list)
    page = app.get("/metrics").body.decode()
    shown = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    assert identity["conditional"] == ["DCGM_FI_DEV_XID_ERRORS"]
    assert shown == set(identity["families"]) - set(identity["absent"]) - set(identity["conditional"])


def test_a_path_of_the_whole_catalog() -> None:
    """The API of a fleet of every device of the catalog shows all of them."""
    types = ("h100", "a100-sxm4-40gb", "h200", "l40s", "t4", "v100", "dg1", "max-1550", "flex-170", "mi300x")
    pools = "".join(
        f"\n    - {{name: {name}, nodes: [{name}], device: {name}, devices-per-node: 1, identity: "
        f"{'xpumanager' if name in ('dg1', 'max-1550', 'flex-170') else 'dcgm'}}}"
        for name in types
    )
    text = SMALL[: SMALL.index("  pools:")] + "  pools:" + pools + SMALL[SMALL.index("\nweb:") :]
    with application(text) as app:
        assert app.json("/api/v1/devices")["total"] == len(types)
        assert [identity["identity"] for identity in app.json("/api/v1/identities")["identities"]] == [
            "dcgm@4.8.2", "xpumanager@1.3",
        ]  # fmt: skip


def test_fault_kinds(app: MemoryApplication) -> None:
    """Every kind with what it takes: each can be injected with what must be given, and not without that."""
    kinds = app.json("/api/v1/fault-kinds")["kinds"]
    assert [kind["kind"] for kind in kinds] == list(KINDS)
    for kind in kinds:
        body = {"kind": kind["kind"], "devices": ["a/0"]}
        needed = [each for each in kind["takes"] if each["default"] is None]
        if needed:
            failed(app.ask("POST", "/api/v1/faults", body), 400, "bad-argument", needed[0]["name"])
        # A driver takes power caps within its range only.
        body |= {each["name"]: 300 if each["name"] == "watts" else each["low"] for each in needed}
        answer = app.ask("POST", "/api/v1/faults", body)
        # Boards that are in no rack cannot have those of racks.
        assert answer.status == (400 if KINDS[kind["kind"]].needs_racks else 201), kind


def test_a_cleared_fault_is_gone_at_once(app: MemoryApplication) -> None:
    """Although its effects end with the next tick: who deletes something does not find it afterwards."""
    for seconds in (1, 0):
        app.ask("POST", FAULTS.template, {"kind": "fan", "devices": ["a/0"]})
        fault = f"{FAULTS.template}/{app.json(FAULTS.template)['faults'][0]['id']}"
        assert app.ask("DELETE", fault).status == 200
        failed(app.ask("GET", fault), 404, "unknown-name", "fault")
        failed(app.ask("DELETE", fault), 404, "unknown-name", "fault")
        assert app.json(FAULTS.template)["total"] == 0
        app.reactor.advance(seconds)
