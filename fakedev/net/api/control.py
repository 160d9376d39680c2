"""/api/v1/clock: look at the simulated clock, move it on.

/api/v1/journal: what happened last, and why.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from fakedev.net.fleet.describe import describe_clock
from fakedev.net.fleet.journal import find_happenings
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.http.api import ApiResource, argument, as_http_error, json_body, page_of
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.units import parse_duration


class Clock(ApiResource):
    """The simulated clock: look at it, move it on."""

    def __init__(self, fleet: Fleet, ticker: Ticker) -> None:
        super().__init__()
        self._fleet = fleet
        self._ticker = ticker

    def get(self, request: GuardedRequest) -> Response:
        """Where the clock stands."""
        return json_response(describe_clock(self._fleet, self._ticker.speed))

    def post(self, request: GuardedRequest, body: bytes) -> Deferred[Response]:
        """``{"advance": "15m"}``: answered when the clock has got there."""
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
        try:
            await self._ticker.advance(seconds)
        except Refused as refusal:
            raise as_http_error(refusal) from None
        return json_response(describe_clock(self._fleet, self._ticker.speed))


class JournalApi(ApiResource):
    """What happened last."""

    query = ("kind", "devices", "node", "limit", "offset")

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def get(self, request: GuardedRequest) -> Response:
        """What happened, newest first; ``kind``, ``devices``, ``node``, ``limit`` and ``offset`` choose some."""
        kinds, devices = _words(request, b"kind"), _words(request, b"devices")
        node = argument(request, "node")
        try:
            every = find_happenings(self._fleet, kinds, devices, node)[::-1]
        except Refused as refusal:
            raise as_http_error(refusal) from None
        shown = [every[place].fields() for place in page_of(request, len(every))]
        return json_response({"tick": self._fleet.state.tick, "journal": shown, "total": len(every)})


def _words(request: GuardedRequest, name: bytes) -> list[str]:
    """The words of a query, given with commas or one by one."""
    texts = b",".join(request.args.get(name, [])).decode("utf-8", "replace")
    return [word.strip() for word in texts.split(",") if word.strip()]
