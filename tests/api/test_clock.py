"""The clock by the API of doc/http.md, over the whole application."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fakedev.fleet.port import WorkloadPortFactory
from tests.support.application import STANDING, MemoryApplication, application
from tests.support.wire.http_wire import answers, failed


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """Four devices, a clock that goes."""
    with application() as running:
        yield running


def test_clock(app: MemoryApplication) -> None:
    app.tick(3)
    assert app.json("/api/v1/clock") == {
        "tick": 3, "tick-seconds": 1.0, "seconds": 3.0, "speed": 1.0, "epoch-seconds": 1800000000.0,
        "due-seconds": 1800000003.0, "advance": None,
    }  # fmt: skip


@pytest.mark.slow
def test_advance() -> None:
    """Answered when the clock is there; a part of a tick counts as a whole one; the page is of that time."""
    with application(STANDING) as app:
        app.tick(10)
        assert app.json("/api/v1/clock")["tick"] == 0
        for advance, tick in (("1m", 60), (1.5, 62), ("250ms", 63), (2, 65), ("5m", 365)):
            answer = app.ask("POST", "/api/v1/clock", {"advance": advance})
            assert (answer.status, json.loads(answer.body)["tick"]) == (200, tick)
        assert app.get("/metrics").headers["x-fakedev-tick"] == "365"


def test_advance_that_cannot_be(app: MemoryApplication) -> None:
    """Refused with the reason; the clock stays."""
    for body in (b"", b"{", b'{"advance": 1e999}'):
        failed(app.ask("POST", "/api/v1/clock", body), 400, "bad-argument", "body")
    for body in ({}, {"advance": None}, {"advance": True}, {"advance": []}, {"advance": 1, "speed": 2}, {"speed": 2}):
        failed(app.ask("POST", "/api/v1/clock", body), 400, "bad-argument", "advance")
    for advance in ("soon", "", "-5s", "nan"):
        failed(app.ask("POST", "/api/v1/clock", {"advance": advance}), 400, "bad-argument", "advance")
    for advance in (0, -5, "0", 1e300, 20_000_000):
        failed(app.ask("POST", "/api/v1/clock", {"advance": advance}), 400, "bad-argument", "duration")
    assert app.json("/api/v1/clock")["tick"] == 0


def test_reset() -> None:
    """One event; a body with anything in it is refused; what decides what runs is named."""
    with application(STANDING) as app:
        assert app.ask("POST", "/api/v1/reset").status == 200
        assert json.loads(app.ask("POST", "/api/v1/reset", {}).body) == {"tick": 1}
        failed(app.ask("POST", "/api/v1/reset", {"tick": 0}), 400, "bad-argument", "body")
        app.factories(WorkloadPortFactory)[0].hub.master = "the scenario"
        refused = app.ask("POST", "/api/v1/reset")
        failed(refused, 400, "limit", "")
        assert b"the scenario decides what runs" in refused.body


def test_two_advances_at_once(app: MemoryApplication) -> None:
    """The second gets 503; the first one is answered when the clock is there; pages are served meanwhile."""
    app.slow_down()
    peer = app.http()
    body = b'{"advance": "1m"}'
    assert peer.send(b"POST /api/v1/clock HTTP/1.1\r\nHost: x.localhost\r\nContent-Length: 17\r\n\r\n" + body) == b""
    app.reactor.turn()
    failed(app.ask("POST", "/api/v1/clock", {"advance": "1s"}), 503, "busy", "duration")
    between = int(app.get("/metrics").headers["x-fakedev-tick"])
    assert 0 < between < 60
    while not peer.transport.value():
        app.reactor.turn()
        peer.read()
    (answer,) = answers(peer.transport.value())
    assert json.loads(answer.body)["tick"] == 60


def test_a_client_that_leaves_ends_its_advance(app: MemoryApplication) -> None:
    """The clock stops at the tick that it has reached; the next advance is accepted."""
    app.slow_down()
    peer = app.http()
    peer.send(b'POST /api/v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n{"advance": "1m"}')
    app.reactor.turn()
    assert app.json("/api/v1/clock")["advance"] == {"first-tick": 0, "target-tick": 60, "percent": 10.0}
    peer.leave()
    for _ in range(40):
        app.reactor.turn()
    assert 0 < app.fleet.state.tick < 10
    assert app.json("/api/v1/clock")["advance"] is None


def test_control_of_the_clock(app: MemoryApplication) -> None:
    """PATCH changes the speed, and stops an advance: its own client gets the tick that was reached."""
    answer = app.ask("PATCH", "/api/v1/clock", {"speed": 0})
    assert (answer.status, json.loads(answer.body)["speed"]) == (200, 0)
    app.tick(3)
    assert app.fleet.state.tick == 0
    app.slow_down()
    peer = app.http()
    peer.send(b'POST /api/v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n{"advance": "1m"}')
    app.reactor.turn()
    assert app.ask("PATCH", "/api/v1/clock", {"advance": None, "speed": -2}).status == 400
    assert app.json("/api/v1/clock")["advance"]
    assert app.ask("PATCH", "/api/v1/clock", {"advance": None, "speed": 2}).status == 200
    for _ in range(5):
        app.reactor.turn()
    peer.read()
    assert b'"speed":2' in peer.transport.value()
    assert app.fleet.state.tick < 10
    for body in ({}, {"advance": 5}, {"sped": 1}, {"speed": "fast"}, {"speed": True}, {"speed": -1}, {"speed": None}):
        assert app.ask("PATCH", "/api/v1/clock", body).status == 400, body
