"""When a request may be sent: rate, requests in flight, pauses that the server asks for, and a server that is down."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.net.kube.api_error import NO_ANSWER, ApiError

#: More requests than this do not wait: some for each node of the largest cluster.
MOST_WAITING: Final = 20_000
_CLOSE: Final = 1e-9


class RequestQueue:
    """Requests wait in flows, which take turns: one flow with many requests does not delay the others.

    :param per_second: the rate, with a burst of the requests of one second.
    :param most_in_flight: so many are sent and not answered yet.
    """

    def __init__(
        self, clock: IReactorTime, per_second: float, most_in_flight: int = 16, most_waiting: int = MOST_WAITING
    ) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = max(1.0, per_second)
        self._most_in_flight = most_in_flight
        self._most_waiting = most_waiting
        self._tokens = self._burst
        self._filled_at = clock.seconds()
        self._flows: OrderedDict[str, deque[Deferred[None]]] = OrderedDict()
        self._paused_until: dict[str, float] = {}
        self._held_until = 0.0
        self._is_probing = False
        self._is_serving = False
        self._timer: IDelayedCall | None = None
        self.waiting = 0
        self.in_flight = 0

    def place(self, flow: str, *, first: bool = False) -> Deferred[None]:
        """Fires when the request may be sent; then ``leave`` must follow. It can be cancelled.

        :param first: before all others of its flow, for a request that is sent again.
        """
        if self.waiting >= self._most_waiting:
            raise ApiError(NO_ANSWER, "Full", f"{self.waiting} requests wait for the API server already")
        place: Deferred[None] = Deferred(self._forget)
        queue = self._flows.setdefault(flow, deque())
        if first:
            queue.appendleft(place)
        else:
            queue.append(place)
        self.waiting += 1
        self._serve()
        return place

    def leave(self) -> None:
        """A request is answered, or given up."""
        self.in_flight -= 1
        self._serve()

    def pause(self, flow: str, seconds: float) -> None:
        """Send nothing of a flow for some time."""
        until = self._clock.seconds() + seconds
        self._paused_until[flow] = max(until, self._paused_until.get(flow, 0.0))

    @property
    def is_held(self) -> bool:
        """Whether nothing is sent now because the server does not answer."""
        return self._clock.seconds() < self._held_until

    def hold(self, seconds: float) -> None:
        """The server does not answer: send nothing for some time, then one request alone, until ``resume``."""
        self._held_until = self._clock.seconds() + seconds
        self._is_probing = True

    def resume(self) -> None:
        """The server answers."""
        if self._is_probing:
            self._is_probing = False
            self._held_until = 0.0
            self._serve()

    def stop(self) -> None:
        """All requests that wait are cancelled."""
        for queue in list(self._flows.values()):
            for place in list(queue):
                place.cancel()
        self._flows.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _forget(self, _: Deferred[None]) -> None:
        # It stays in its queue, called, and is skipped there: a search would take long with thousands.
        self.waiting -= 1

    def _serve(self) -> None:
        if self._is_serving:
            return  # the loop below sees what has changed
        self._is_serving = True
        try:
            while self._serve_one():
                pass
        finally:
            self._is_serving = False

    def _serve_one(self) -> bool:
        """Let one request go; False: none may go now."""
        now = self._clock.seconds()
        if not self.waiting or self.in_flight >= (1 if self._is_probing else self._most_in_flight):
            return False
        if now < self._held_until:
            return self._later(self._held_until - now)
        flow = self._next_flow(now)
        if flow is None:
            ends = [self._paused_until[each] for each, queue in self._flows.items() if queue]
            return self._later(min(ends) - now) if ends else False
        self._fill(now)
        if self._tokens < 1 - _CLOSE:
            return self._later((1 - self._tokens) / self._per_second)
        self._tokens -= 1
        place = self._flows[flow].popleft()
        self._flows.move_to_end(flow)
        self.waiting -= 1
        self.in_flight += 1
        place.callback(None)
        return True

    def _next_flow(self, now: float) -> str | None:
        """The first flow with a request that is not paused."""
        for flow in list(self._flows):
            queue = self._flows[flow]
            while queue and queue[0].called:
                queue.popleft()
            if not queue:
                del self._flows[flow]
            elif self._paused_until.get(flow, 0.0) <= now:
                self._paused_until.pop(flow, None)
                return flow
        return None

    def _fill(self, now: float) -> None:
        passed = max(0.0, now - self._filled_at)
        self._tokens = min(self._burst, self._tokens + passed * self._per_second)
        self._filled_at = now

    def _later(self, seconds: float) -> bool:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(max(seconds, 0.0), self._serve)
        return False
