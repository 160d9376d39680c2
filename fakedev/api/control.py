"""The clock of a fleet (/api/v1/clock), its resets, its journal, and the occurrences of the scenario that it plays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from fakedev.base.units import parse_duration
from fakedev.fleet.describe import describe_clock, describe_entry, find_entries
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import WorkloadHub
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.ticker import Advance, Ticker
from fakedev.web.http_limits import HttpError
from fakedev.web.items import Items, ItemsResource, described_key
from fakedev.web.paths import JOURNAL, OCCURRENCES
from fakedev.web.query import ApiResource, argument, json_body
from fakedev.web.request import Request
from fakedev.web.response import Response, json_response

if TYPE_CHECKING:
    from fakedev.scenario.live import LiveScenario


class Clock(ApiResource):
    """The simulated clock: shows it, moves it on."""

    def __init__(self, fleet: Fleet, ticker: Ticker) -> None:
        self._fleet = fleet
        self._ticker = ticker

    def get(self, request: Request) -> Response:
        return self._shown()

    def post(self, request: Request, body: bytes) -> Deferred[Response]:
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
        request.notifyFinish().addErrback(lambda _: moving.cancel())
        return moving.addCallbacks(partial(self._arrived, self._ticker.advancing), _stopped)

    def patch(self, request: Request, body: bytes) -> Response:
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

    def post(self, request: Request, body: bytes) -> Response:
        """The tick from which on it is as at its start."""
        if body and json_body(body):
            raise HttpError(400, "a reset takes nothing: send no body, or {}", "bad-argument", "body")
        return json_response({"tick": self._hub.reset()})


def _stopped(failure: Failure) -> Response:
    failure.trap(CancelledError)
    raise HttpError(503, "the client has left, and the advance with it")


class JournalApi(ItemsResource):
    """The last events."""

    path = JOURNAL

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def items(self, request: Request) -> Items[JournalEntry]:
        """Newest first."""
        kinds, devices = _words(request, b"kind"), _words(request, b"devices")
        node, since = argument(request, "node"), argument(request, "since")
        return Items(
            find_entries(self._fleet, kinds, devices, node, since=since)[::-1],
            lambda _: partial(describe_entry, self._fleet),
            lambda entry: (entry.kind, entry.scope, entry.cause, entry.text, entry.devices),
            partial(described_key, JournalEntry._asdict),
            lambda: {"tick": self._fleet.state.tick},
        )


def _words(request: Request, name: bytes) -> list[str]:
    """The values of an argument, separated by commas or in several arguments."""
    texts = b",".join(request.args.get(name, [])).decode("utf-8", "replace")
    return [word.strip() for word in texts.split(",") if word.strip()]


class Occurrences(ItemsResource):
    """All occurrences of the scenario that is played."""

    path = OCCURRENCES

    def __init__(self, scenario: LiveScenario) -> None:
        self._scenario = scenario

    def items(self, request: Request) -> Items[int]:
        """What goes on, what is next, then what has happened, the newest first."""
        scenario = self._scenario
        described = scenario.described
        return Items(scenario.numbers(), lambda _: described, scenario.texts, partial(described_key, described))
