"""What the API says of what is not there: names in the path, keys in the query."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.application import SMALL, MemoryApplication, application

CONFIG = """
fleet:
  pools:
    - {name: p, nodes: [dgx-0, dgx-1], device: h100, devices-per-node: 2}
    - {name: m, nodes: [mig-0], device: a100, devices-per-node: 1, mig: [3g.20gb, 1g.5gb]}
    - {name: t, nodes: [t4-0], device: t4, devices-per-node: 1}
web: ["127.0.0.1:9400"]
workloads: {listen: []}
queues:
  names: [sleep]
  listen-clients: ["127.0.0.1:9997"]
tester:
  plans: [{queue: sleep, parallel: 1}]
"""
#: Paths below /api/v1, the wrong part, and the error text.
MISSING = [
    ("devices/dgx-9/0", "node", "no node 'dgx-9'; did you mean dgx-1?"),
    ("devices/dgx-9", "node", "no node 'dgx-9'; did you mean dgx-1?"),
    ("devices?node=dxg-0", "node", "no node 'dxg-0'; did you mean dgx-0?"),
    ("devices//0", "node", "no node ''; there are dgx-0, dgx-1, mig-0, t4-0"),
    ("devices/dgx-0/gpu9", "device", "no device 'dgx-0/gpu9': dgx-0 has 2: 0 to 1"),
    ("devices/dgx-0/2", "device", "no device 'dgx-0/2': dgx-0 has 2: 0 to 1"),
    ("devices/dgx-0/9999999", "device", "no device 'dgx-0/9999999': dgx-0 has 2: 0 to 1"),
    ("devices/dgx-0/-1/history", "device", "no device 'dgx-0/-1': dgx-0 has 2: 0 to 1"),
    ("devices/dgx-0", "device", "no device 'dgx-0/': dgx-0 has 2: 0 to 1"),
    ("devices/dgx-0/", "device", "no device 'dgx-0/': dgx-0 has 2: 0 to 1"),
    ("devices/t4-0/1", "device", "no device 't4-0/1': t4-0 has 1: 0"),
    (
        "devices/dgx-0/0/1",
        "part",
        "no part 'dgx-0/0/1': dgx-0/0 is not divided; also there are history, link and parts",
    ),
    (
        "devices/mig-0/0/2",
        "part",
        "no part 'mig-0/0/2': mig-0/0 has 2: 0 to 1; also there are history, link and parts",
    ),
    ("devices/dgx-0/0/link/18", "link", "no link 'dgx-0/0/link/18': dgx-0/0 has 18: 0 to 17"),
    ("devices/dgx-0/0/link/x", "link", "no link 'dgx-0/0/link/x': dgx-0/0 has 18: 0 to 17"),
    ("devices/t4-0/0/link/0", "link", "no link 't4-0/0/link/0': t4-0/0 has none"),
    ("nodes/dgx-2", "node", "no node 'dgx-2'; did you mean dgx-1?"),
    ("nodes?pool=q", "pool", "no pool 'q': there are p, m, t"),
    ("queues/media", "queue", "no queue 'media': there is sleep"),
    ("tester/media", "plan", "no plan 'media': there is sleep"),
    ("workloads/w9", "workload", "no workload 'w9'"),
    ("faults/f9", "fault", "no fault 'f9'"),
    ("ended-workloads/w9", "ended workload", "no ended workload 'w9': there are the last ones"),
    ("past-faults/f9", "past fault", "no past fault 'f9': there are the last ones"),
    (
        "devises",
        "resource",
        "no resource 'devises': there are clock, devices, ended-workloads, exporters, fault-kinds, faults, find, "
        "history, identities, journal, nodes, openapi.json, past-faults, queues, racks, reset, scenario, stream, "
        "tester, why, workloads",
    ),
]
#: What is below a resource that has nothing below it.
NOTHING = [
    *("nodes/dgx-0/0", "clock/now", "devices/mig-0/0/1/x", "devices/mig-0/0/parts/1", "tester/sleep/x", "faults/f1/x"),
]
#: Every resource with the keys that it takes.
KEYS = {
    "workloads": "search, sort, limit, offset",
    "ended-workloads": "search, sort, limit, offset",
    "faults": "devices, search, sort, limit, offset",
    "past-faults": "search, sort, limit, offset",
    "why": "of, metric",
    "journal": "kind, devices, node, since, search, sort, limit, offset",
    "devices": "node, search, sort, limit, offset",
    "nodes": "pool, search, sort, limit, offset",
    "queues": "search, sort, limit, offset",
    "tester": "limit, offset",
    "tester/sleep": "limit, offset",
    "history": "seconds, devices, quantity",
    **dict.fromkeys(("devices/mig-0/0/history", "queues/sleep/history"), "seconds"),
    "find": "text",
    **dict.fromkeys(("devices/mig-0/0", "devices/mig-0/0/1", "devices/dgx-0/0/link/3"), "metric"),
    **dict.fromkeys(
        (
            *("fault-kinds", "identities", "exporters", "clock", "stream", "nodes/dgx-0", "queues/sleep"),
            *("devices/mig-0/0/parts", "devices/dgx-0/0/link", "tester/sleep/timeline"),
        ),
        "",
    ),
}


@pytest.fixture(scope="module")
def app() -> Iterator[MemoryApplication]:
    """An application with something of each kind."""
    with application(CONFIG) as running:
        yield running


def error_of(app: MemoryApplication, path: str, status: int, method: str = "GET") -> dict[str, str]:
    """The error that a request must be answered with."""
    answer = app.ask(method, f"/api/v1/{path}")
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json"), (path, answer)
    error: dict[str, str] = json.loads(answer.body)["error"]
    return error


def test_names(app: MemoryApplication) -> None:
    """404 that says which name is unknown, and which names exist; for every method."""
    for path, where, message in MISSING:
        error = error_of(app, path, 404)
        assert error == {"code": "unknown-name", "message": message, "where": where}, path
    for path in ("devices/dgx-0/9", "queues/media", "devises"):
        error_of(app, path, 404, "DELETE")


def test_paths(app: MemoryApplication) -> None:
    """404 that names the path, where no item has a name."""
    for path in NOTHING:
        error = error_of(app, path, 404)
        assert error == {"code": "not-found", "message": f"nothing is at /api/v1/{path}", "where": ""}
    assert error_of(app, "", 404)["message"].startswith("no resource '': there are clock, devices")
    assert app.get("/api/v1").body.startswith(b'{"error":{"code":"not-found","message":"name a resource: ')


def test_what_the_configuration_has_not() -> None:
    with application(SMALL) as app:
        assert error_of(app, "queues/sleep", 404)["message"] == "no queue 'sleep': the configuration has no queues"
        assert error_of(app, "tester", 404)["message"] == "no load is put on queues: the configuration has no tester"


def test_nodes_of_other_shards() -> None:
    """A node that is simulated elsewhere: by which shard."""
    text = SMALL.replace("seed: 7", "seed: 7\n  shard: 1/2").replace("[a, b]", "[a, b, c, d, e, f]")
    with application(text) as app:
        here = {node["node"] for node in app.json("/api/v1/nodes")["nodes"]}
        other = min({*"abcdef"} - here)
        message = f"node '{other}' is in shard 0 of 2, and this is shard 1/2"
        assert error_of(app, f"devices/{other}/0", 404)["message"] == message


def test_keys_of_queries(app: MemoryApplication) -> None:
    """400 that names the unknown key, and the known ones, on every resource."""
    for path, known in KEYS.items():
        error = error_of(app, f"{path}?{'offset=0&' if 'offset' in known else ''}colour=red", 400)
        text = f"there {'are' if ',' in known else 'is'} {known}" if known else "nothing can be chosen here"
        expected = f"unknown key 'colour' in the query: {text}"
        assert error == {"code": "bad-argument", "message": expected, "where": "colour"}, path
    message = error_of(app, "journal?knid=xid", 400)["message"]
    assert message.startswith("unknown key 'knid' in the query: did you mean kind? there are kind, devices")
    assert error_of(app, "devices?%FF", 400)["where"] == "\ufffd"


def test_keys_where_something_is_changed(app: MemoryApplication) -> None:
    """Changes take none: who says limit with one means something else."""
    assert error_of(app, "faults?limit=1", 400, "DELETE")["where"] == "limit"
    assert app.ask("POST", "/api/v1/faults?node=a", {"kind": "hang", "devices": ["dgx-0/0"]}).status == 400
    assert app.json("/api/v1/faults")["total"] == 0


def test_keys_of_discovery(app: MemoryApplication) -> None:
    """A key of /sd that is misspelt would give all nodes."""
    assert app.get("/sd?pol=p").body == b"unknown key 'pol' in the query: did you mean pool? there are pool, shard\n"
    assert app.get("/sd?pool=p&shard=1/2").status == 200
