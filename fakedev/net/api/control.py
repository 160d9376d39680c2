"""The clock of a fleet (/api/v1/clock), its resets (/api/v1/reset), and its last events (/api/v1/journal)."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from fakedev.net.fleet.describe import describe_clock
from fakedev.net.fleet.journal import find_entries
from fakedev.net.fleet.ticker import Advance, Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.api import ApiResource, argument, json_body
from fakedev.net.http.items import Items, described_key, items_response
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal_entries import JournalEntry
from fakedev.spec.units import parse_duration
from fakedev.spec.web_paths import JOURNAL


class Clock(ApiResource):
    """The simulated clock: shows it, moves it on."""

    def __init__(self, fleet: Fleet, ticker: Ticker) -> None:
        self._fleet = fleet
        self._ticker = ticker

    def get(self, request: GuardedRequest) -> Response:
        return self._shown()

    def post(self, request: GuardedRequest, body: bytes) -> Deferred[Response]:
        """``{"advance": "15m"}``: answered when the clock has reached that time, or was stopped."""
        fields = json_body(body)
        advance = fields.get("advance")
        if len(fields) != 1 or isinstance(advance, bool) or not isinstance(advance, str | int | float):
            raise HttpError(400, 'the body must be {"advance": DURATION}, as "15m"', "bad-argument", "advance")
        try:
            seconds = parse_duration(advance) if isinstance(advance, str) else advance
        except ValueError as error:
            raise HttpError(400, str(error), "bad-argument", "advance") from None
        moving = self._ticker.advance(float(seconds))
        # The advance of a client that has left ends.
        request.ends_with_input = True
        request.notify_finish().addErrback(lambda _: moving.cancel())
        return moving.addCallbacks(partial(self._arrived, self._ticker.advancing), _stopped)

    def patch(self, request: GuardedRequest, body: bytes) -> Response:
        """``{"speed": 2}`` changes the speed, ``{"advance": null}`` stops an advance; or both."""
        fields = json_body(body)
        speed = fields.get("speed", self._ticker.speed)
        unknown = next((name for name in fields if name not in ("speed", "advance")), None)
        if not fields or unknown is not None or fields.get("advance") is not None:
            text = 'the body must be {"speed": NUMBER}, {"advance": null}, or both in one'
            raise HttpError(400, text, "bad-argument", unknown or "advance")
        if isinstance(speed, bool) or not isinstance(speed, int | float):
            raise HttpError(400, "speed must be a number", "bad-argument", "speed")
        if "speed" in fields:
            self._ticker.set_speed(float(speed))  # refused: the advance goes on
        if "advance" in fields:
            self._ticker.stop_advance()
        return self._shown()

    def _arrived(self, advance: Advance | None, tick: int) -> Response:
        """The answer to an advance; None: it has ended at once."""
        is_stopped = advance is not None and tick < advance.target
        stopped = {"stopped-before-tick": advance.target} if advance is not None and is_stopped else {}
        return json_response(describe_clock(self._fleet, self._ticker) | stopped)

    def _shown(self) -> Response:
        return json_response(describe_clock(self._fleet, self._ticker))


class ResetApi(ApiResource):
    """Lets the fleet begin again."""

    def __init__(self, hub: WorkloadHub) -> None:
        self._hub = hub

    def post(self, request: GuardedRequest, body: bytes) -> Response:
        """The tick from which on it is as at its start."""
        if body and json_body(body):
            raise HttpError(400, "a reset takes nothing: send no body, or {}", "bad-argument", "body")
        return json_response({"tick": self._hub.reset()})


def _stopped(failure: Failure) -> Response:
    failure.trap(CancelledError)
    raise HttpError(503, "the client has left, and the advance with it")


class JournalApi(ApiResource):
    """The last events."""

    query = JOURNAL.query

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def get(self, request: GuardedRequest) -> Answer:
        """The events, newest first, or those that the query asks for."""
        kinds, devices = _words(request, b"kind"), _words(request, b"devices")
        node = argument(request, "node")

        def now() -> Items[JournalEntry]:
            found = find_entries(self._fleet, kinds, devices, node)[::-1]
            return Items(
                found,
                lambda _: JournalEntry.fields,
                lambda entry: (entry.kind, entry.scope, entry.cause, entry.text, entry.devices),
                partial(described_key, JournalEntry._asdict),
                lambda: {"tick": self._fleet.state.tick},
            )

        return items_response(request, JOURNAL, "journal", now)


def _words(request: GuardedRequest, name: bytes) -> list[str]:
    """The values of an argument, separated by commas or in several arguments."""
    texts = b",".join(request.args.get(name, [])).decode("utf-8", "replace")
    return [word.strip() for word in texts.split(",") if word.strip()]
