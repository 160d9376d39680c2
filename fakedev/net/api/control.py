"""/api/v1/clock: the simulated clock. /api/v1/journal: the last events with their reasons."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from fakedev.net.fleet.describe import describe_clock
from fakedev.net.fleet.journal import find_entries
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.http.api import ApiResource, argument, items_response, json_body
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.sim.fleet import Fleet
from fakedev.spec.units import parse_duration
from fakedev.spec.web_paths import JOURNAL


class Clock(ApiResource):
    """The simulated clock: shows it, moves it on."""

    def __init__(self, fleet: Fleet, ticker: Ticker) -> None:
        self._fleet = fleet
        self._ticker = ticker

    def get(self, request: GuardedRequest) -> Response:
        return json_response(describe_clock(self._fleet, self._ticker.speed))

    def post(self, request: GuardedRequest, body: bytes) -> Deferred[Response]:
        """``{"advance": "15m"}``: answered when the clock has reached that time."""
        fields = json_body(body)
        advance = fields.get("advance")
        if len(fields) != 1 or isinstance(advance, bool) or not isinstance(advance, str | int | float):
            raise HttpError(400, 'the body must be {"advance": DURATION}, as "15m"', "bad-argument", "advance")
        try:
            seconds = parse_duration(advance) if isinstance(advance, str) else advance
        except ValueError as error:
            raise HttpError(400, str(error), "bad-argument", "advance") from None
        return Deferred.fromCoroutine(self._moved(float(seconds)))

    async def _moved(self, seconds: float) -> Response:
        await self._ticker.advance(seconds)
        return json_response(describe_clock(self._fleet, self._ticker.speed))


class JournalApi(ApiResource):
    """The last events."""

    query = JOURNAL.query

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def get(self, request: GuardedRequest) -> Response:
        """The events, newest first; ``kind``, ``devices``, ``node``, ``limit`` and ``offset`` choose some."""
        kinds, devices = _words(request, b"kind"), _words(request, b"devices")
        node = argument(request, "node")
        found = find_entries(self._fleet, kinds, devices, node)[::-1]
        return items_response(
            request, "journal", found, lambda some: [each.fields() for each in some], tick=self._fleet.state.tick
        )


def _words(request: GuardedRequest, name: bytes) -> list[str]:
    """The values of an argument, separated by commas or in several arguments."""
    texts = b",".join(request.args.get(name, [])).decode("utf-8", "replace")
    return [word.strip() for word in texts.split(",") if word.strip()]
