"""The advance of the clock that a peer of a workload port waits for: its progress, its end, and requests to stop it."""

from __future__ import annotations

from functools import partial
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from fakedev.net.fleet.describe import describe_clock
from fakedev.net.fleet.ticker import Advance, Ticker
from fakedev.net.lines.peer import Peer
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.units import parse_duration
from fakedev.wire.errors import ProtocolError
from fakedev.wire.fleet_verbs import clock_advancing
from fakedev.wire.grammar import Request
from fakedev.wire.replies import Reply

_STOP: Final = "stop"


class PeerAdvance:
    """Serves the verb ``advance`` for one peer."""

    def __init__(self, fleet: Fleet, ticker: Ticker, peer: Peer) -> None:
        self._fleet = fleet
        self._ticker = ticker
        self._peer = peer
        #: The advance that is in progress, with its request, its target, and the peer's own requests to stop it, which
        #: are answered after it.
        self._moving: Deferred[int] | None = None
        self._request: Request | None = None
        self._target = 0
        self._stops: list[Request] = []

    def request_received(self, request: Request) -> None:
        """Begin an advance, or stop any; the answer follows, perhaps during this call.

        :raises ProtocolError: for a duration that is none.
        """
        duration = request.arguments["duration"]
        if duration == _STOP:
            self._stop(request)
            return
        try:
            seconds = float(duration) if isinstance(duration, int | float) else parse_duration(str(duration))
        except ValueError as error:
            raise ProtocolError("bad-argument", f"duration: {error}") from None
        moving = self._ticker.advance(seconds, self._report)
        advance = self._ticker.advancing
        if not moving.called and advance is not None:
            self._moving, self._request, self._target = moving, request, advance.target
            self._peer.cannot_wait = _is_stop
        moving.addCallbacks(partial(self._arrived, request), partial(self._failed, request))

    def peer_left(self) -> None:
        """Stop the advance of the peer, if one is in progress."""
        if self._moving is not None:
            self._moving.cancel()

    def _stop(self, request: Request) -> None:
        is_stopped = self._ticker.stop_advance()
        if self._moving is not None:
            self._stops.append(request)
        else:
            self._peer.reply(request, self._reply("stopped" if is_stopped else "nothing to stop"))

    def _report(self, advance: Advance) -> None:
        tick = self._fleet.state.tick
        self._peer.notify(clock_advancing(advance.percent_at(tick), tick, advance.target))

    def _arrived(self, request: Request, tick: int) -> None:
        reply = self._reply(f"tick {tick} seconds {self._fleet.state.seconds:g}")
        if request is self._request and tick < self._target:
            reply.text += f" stopped before tick {self._target}"
            reply.data = {**(reply.data or {}), "stopped-before-tick": self._target}
        self._end(request, reply)

    def _failed(self, request: Request, failure: Failure) -> None:
        if failure.check(CancelledError):
            return  # the peer has left
        refused = failure.value
        if not isinstance(refused, Refused):
            failure.raiseException()
        self._end(request, ProtocolError(refused.code, refused.text))

    def _end(self, request: Request, answer: Reply | ProtocolError) -> None:
        stops: list[Request] = []
        if request is self._request:  # not a second one, which was refused
            stops, self._stops = self._stops, []
            self._moving = self._request = self._peer.cannot_wait = None
        self._peer.reply(request, answer)
        for stop in stops:
            self._peer.reply(stop, self._reply("stopped"))

    def _reply(self, text: str) -> Reply:
        return Reply(text, data=describe_clock(self._fleet, self._ticker))


def _is_stop(request: Request) -> bool:
    return request.verb == "advance" and request.arguments["duration"] == _STOP
