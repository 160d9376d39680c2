"""Reload of addresses: new ones, those that stay, and those that cannot be had."""

from __future__ import annotations

import pytest

from fakedev.fleet.port import WorkloadPortFactory
from tests.support.application import SMALL, STANDING, application
from tests.support.reloads import ports, reload

MORE = SMALL.replace("nodes: [a, b]", "nodes: [c, a]")
QUEUES = SMALL + "queues:\n  drain: 1s\n  names: {one: {max-waiting: 2}, two: {}}\n"


def test_addresses() -> None:
    """New ones are listened on, old ones closed, and on those that stay connections live on with new rules."""
    with application() as app:
        peer, scraper = app.connect(), app.http()
        text = SMALL.replace('web: ["127.0.0.1:9400"]', 'web: ["127.0.0.1:9400", {listen: 9401, serve: metrics}]')
        text = text.replace("allow: [workloads, clock]", "allow: [clock], node: b")
        text = text.replace('"127.0.0.1:9500",', '"127.0.0.1:9500",')
        assert reload(app, text).status == 200
        assert ports(app) == [9400, 9401, 9500]
        assert app.get("/-/metrics", place=1).status == 404
        assert app.get("/metrics", place=1).status == 200
        assert peer.say("run x devices=card0 profile=5")[0].startswith("error bad-argument this port may not start")
        assert peer.say("devices card0")[1].startswith("b/0 ")
        assert scraper.ask(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
        assert reload(app, SMALL.replace("9500", "9502")).status == 200
        assert ports(app) == [9400, 9502]
        assert app.reactor.told == ["closed 9401", "closed 9500"]
        app.reactor.advance(3)
        assert peer.closed or not app.factories(WorkloadPortFactory)[0].peers


def test_an_address_before_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers 503 until the tick in which all takes effect."""
    with application(STANDING) as app:
        app.text = STANDING.replace('web: ["127.0.0.1:9400"]', 'web: ["127.0.0.1:9400", 9401]')
        assert app.ask("POST", "/-/reload", b"").status == 200
        assert app.get("/nodes/a/metrics", place=1).status == 503
        app.connect().say("advance 1s")
        assert app.get("/nodes/a/metrics", place=1).status == 200


def test_an_address_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes: what was begun before it is closed again."""
    with application() as app:
        listen = app.reactor.listenTCP

        def busy(port: int, *arguments: object, **options: object) -> object:
            if port == 9403:
                raise OSError(98, "in use")
            return listen(port, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(app.reactor, "listenTCP", busy)
        app.text = MORE.replace('web: ["127.0.0.1:9400"]', "web: [9400, 9402, 9403]")
        answer = app.ask("POST", "/-/reload", b"")
        assert answer.status == 400
        assert answer.body == (
            b"cannot listen on 127.0.0.1:9403: the address is in use by another program; "
            b"change web.2.listen (--set web.2.listen=ADDRESS)\n"
        )
        app.tick()
        assert ports(app) == [9400, 9500]
        assert app.get("/nodes/b/metrics").status == 200
        app.stop()
