"""What a service makes for its peers is freed when they leave: it is in no cycle that only the garbage collector finds.

Collections of garbage examine only new objects (fakedev/runtime/memory.py), so that unused cycles would stay.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from tests.support.application import MemoryApplication, MemoryPort, application

_SERVICE = """
fleet:
  pools: [{name: a, device: h100, identity: dcgm@4.8.2}]
web: ["127.0.0.1:9400"]
workloads: {listen: ["127.0.0.1:9401"]}
queues: {names: [sleep], listen-clients: ["127.0.0.1:9997"], listen-backends: ["127.0.0.1:9999"]}
"""
_HTTP = {
    "silence": b"",
    "a page": b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    "pages that are not read": b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 10,
    "the last page": b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "the API": b"GET /api/v1/devices HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the live stream": b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a head": b"GET /metr",
    "noise": b"\0\1\2\r\n\r\n",
    "no body": b"POST /api/v1/workloads HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{",
}
_LINES = {
    "silence": b"",
    "words": b"list\nfly\n",
    "half an object": b'{"op": "r',
    "an object": b'{"op": "list", "id": 1}\n',
    "a line without an end": b"run " + b"a" * 100_000,
    "a workload": b"run x devices=a/0 profile=10:0:100\n",
    "workloads that end": b"run x devices=a/0 profile=10:0:1\n" * 20,
}
_JOBS = {
    "silence": b"",
    "a request": b'{"op": "submit", "queue": "sleep", "id": 1}\n',
    "an original request": b'{"Queue": "sleep"}',
}


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """A service with each kind of port, without a garbage collector."""
    with application(_SERVICE) as app:
        app.tick(2)
        gc.collect()
        gc.disable()
        try:
            yield app
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("port", "sent"),
    [
        *[pytest.param(0, sent, id=f"http: {name}") for name, sent in _HTTP.items()],
        *[pytest.param(1, sent, id=f"workloads: {name}") for name, sent in _LINES.items()],
        *[pytest.param(place, sent, id=f"queues {place}: {name}") for place in (2, 3) for name, sent in _JOBS.items()],
    ],
)
def test_a_peer_that_leaves(app: MemoryApplication, port: int, sent: bytes) -> None:
    """After one that did the same, which may have made things that stay. What a peer leaves, each one leaves."""
    talk(app, app.reactor.ports[port], sent)
    left: list[list[object]] = []
    while len(left) < 3 and [] not in left:  # other threads of the process may leave something once
        gc.collect()
        talk(app, app.reactor.ports[port], sent)
        left.append(unused_cycles())
    assert left[-1] == []


def unused_cycles() -> list[object]:
    """The objects of fakedev, Twisted and the tests that only the collector frees."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [each for each in gc.garbage if type(each).__module__.startswith(("fakedev", "twisted", "tests"))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def talk(app: MemoryApplication, port: MemoryPort, sent: bytes) -> None:
    """Connect, send, wait for some ticks, and leave."""
    wire = port.connect()
    wire.protocol.dataReceived(sent)
    app.tick(3)
    # As Twisted's transports do at their end.
    protocol, wire.protocol, wire.producer = wire.protocol, None, None
    if wire.connected:
        wire.connected = False
        protocol.connectionLost(Failure(ConnectionDone()))
    app.tick(3)
