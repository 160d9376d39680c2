"""The health that the web tells, and what it is ill of."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.application import MemoryApplication, application
from tests.support.logged_errors import LoggedErrors
from tests.support.wire.web_tree import FULL, HEALTH, METRICS, TREE


class TestHealth:
    """Health that can fail."""

    app: MemoryApplication

    @pytest.fixture(autouse=True)
    def _started(self) -> Iterator[None]:
        with application(TREE) as self.app:
            yield

    def unhealthy(self) -> str:
        """The reason that all health paths give, on both kinds of endpoints."""
        reasons = set()
        for place in (FULL, METRICS):
            for path in HEALTH:
                answer = self.app.get(path, place=place)
                assert (answer.status, answer.headers["content-type"]) == (503, "application/json")
                assert self.app.ask("HEAD", path, place=place).status == 503
                content = json.loads(answer.body)
                assert content.pop("status") == "unhealthy"
                reasons.add(content.pop("reason"))
                assert content == {}
        (reason,) = reasons
        return reason

    def test_overdue(self) -> None:
        """No tick for long."""
        self.app.tick(2)
        self.app.reactor.rightNow += 30
        assert self.unhealthy() == "the next tick is 29 s overdue"
        self.app.reactor.advance(0)
        assert self.app.get("/health").status == 200

    def test_a_failed_tick(self, logged_errors: LoggedErrors) -> None:
        """The last one raised; the page of the tick before is still served; then all is well again."""
        self.app.tick(2)
        page = self.app.get("/metrics").body
        fleet = self.app.factories(type(self.app.connect().protocol.factory))[0].hub.fleet
        tick = fleet.tick

        def failing() -> None:
            raise RuntimeError("an internal error")

        fleet.tick = failing
        self.app.tick()
        assert self.unhealthy() == "tick 3 failed; the log says why"
        assert self.app.get("/metrics").body == page
        samples = self.app.get("/-/metrics").body
        assert b"fakedev_tick_failures_total 1.0" in samples
        fleet.tick = tick
        self.app.tick()
        assert self.app.get("/health").status == 200
        assert len(logged_errors.take(RuntimeError)) == 1
