"""The client of an API server: its requests, the request queue (rate, requests in flight, pauses), and statistics.

Every request of fakedev to a cluster goes through it. The queue waits as the server asks, and while the server is
down. Our own metrics show the statistics of the connection, and its present problem.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, Final, cast
from urllib.parse import urlencode

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import Cooperator, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from fakedev import __version__
from fakedev.base.backoff import Backoff
from fakedev.kubernetes.client.api_paths import Target, parse_path, role_rule, verb_of
from fakedev.runtime.http_client import (
    MOST_BODY_BYTES,
    NO_ANSWER,
    ApiError,
    Token,
    error_of_answer,
    is_cancelled,
    make_agent,
    no_answer,
    read_lines,
    read_whole,
)
from fakedev.runtime.memory import collector_paused
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.tls_settings import ApiServer

#: More requests than this do not wait: some for each node of the largest cluster.
MOST_WAITING: Final = 20_000
_CLOSE: Final = 1e-9


#: The flow of Events.
EVENTS_FLOW: Final = "events"


class RequestQueue:
    """Requests wait in flows, which take turns: one flow with many requests does not delay the others.

    :param per_second: the rate.
    :param burst: requests that may be sent at once after a quiet time.
    :param most_in_flight: requests that are sent and not answered yet, at most.
    """

    def __init__(
        self,
        clock: IReactorTime,
        per_second: float,
        most_in_flight: int = 16,
        *,
        burst: int = 1,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._clock = clock
        self._interval_seconds = 1 / per_second
        self._burst_seconds = (burst - 1) * self._interval_seconds
        self._most_in_flight = most_in_flight
        self._most_waiting = most_waiting
        #: When the next request would be sent at the rate without bursts.
        self._due_seconds = 0.0
        #: In the order of their turns.
        self._flows: dict[str, deque[Deferred[None]]] = {}
        self._paused_until: dict[str, float] = {}
        self._held_until = 0.0
        self._is_probing = False
        self._is_serving = False
        self._is_stopped = False
        self._timer: IDelayedCall | None = None
        self.waiting = 0
        self.in_flight = 0

    def place(self, flow: str, *, first: bool = False) -> Deferred[None]:
        """Fires when the request may be sent; then ``leave`` must follow. It can be cancelled.

        :param first: before all others of its flow, for a request that is sent again.
        """
        if self._is_stopped:
            raise ApiError(NO_ANSWER, "Stopped", "requests are not sent any more: the program stops")
        if self.waiting >= self._most_waiting:
            raise ApiError(NO_ANSWER, "Full", f"{self.waiting} requests wait for the API server already")
        place: Deferred[None] = Deferred(self._cancelled)
        queue = self._flows.setdefault(flow, deque())
        if first:
            queue.appendleft(place)
        else:
            queue.append(place)
        self.waiting += 1
        self._serve()
        return place

    def leave(self) -> None:
        self.in_flight -= 1
        self._serve()

    def pause(self, flow: str, seconds: float) -> None:
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
        if self._is_probing:
            self._is_probing = False
            self._held_until = 0.0
            self._serve()

    def stop(self) -> None:
        """Cancel all requests that wait; later ones fail."""
        self._is_stopped = True
        for place in [place for queue in self._flows.values() for place in queue]:
            place.cancel()
        self._flows.clear()
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _cancelled(self, _: Deferred[None]) -> None:
        # It stays in its queue, called, and is skipped there: a search would take long with thousands.
        self.waiting -= 1

    def _serve(self) -> None:
        """Let all requests go that may go now, and set a timer for the next one."""
        if self._is_serving:
            return  # the loop below sees what has changed
        self._is_serving = True
        while self.waiting and self.in_flight < (1 if self._is_probing else self._most_in_flight):
            now = self._clock.seconds()
            flow = self._next_flow(now)
            earliest = max(self._held_until, self._paused_until.get(flow, 0.0), self._due_seconds - self._burst_seconds)
            if earliest > now + _CLOSE:
                self._stop_timer()
                self._timer = self._clock.callLater(earliest - now, self._serve)
                break
            self._due_seconds = max(self._due_seconds, now) + self._interval_seconds
            queue = self._flows.pop(flow)
            self._flows[flow] = queue  # its next turn comes after all others
            self.waiting -= 1
            self.in_flight += 1
            queue.popleft().callback(None)
        self._is_serving = False

    def _next_flow(self, now: float) -> str:
        """The first flow with a request that is not paused; while all are paused, the first to go on.

        Events come after all others: schedulers act on nodes, and nobody on an Event.
        """
        ready = ""
        for flow, queue in list(self._flows.items()):
            while queue and queue[0].called:
                queue.popleft()
            if not queue:
                del self._flows[flow]
            elif self._paused_until.get(flow, 0.0) <= now:
                if flow != EVENTS_FLOW:
                    return flow
                ready = flow
        return ready or min(self._flows, key=self._paused_until.__getitem__)


#: Beyond this number the oldest problems are forgotten.
_MOST_PROBLEMS: Final = 500


@dataclass
class ApiStatistics:
    """Counts since the start.

    :param requests: by verb, resource (``nodes/status``) and code of HTTP; code 0: there was no answer.
    :param watch_restarts: by resource and reason: ``ended``, ``expired``, ``broken``, ``silent``, ``garbled``,
        ``refused``, ``unreachable``.
    :param last_event_seconds: by watched resource: when the last list, event or bookmark came, by the clock.
    :param is_connected: whether the last request was answered.
    """

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    watch_restarts: Counter[tuple[str, str]] = field(default_factory=Counter)
    last_event_seconds: dict[str, float] = field(default_factory=dict)
    is_connected: bool = False


class OpenProblems:
    """What does not work now. Each is logged once when it begins, and once when it is over."""

    log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._active: dict[Hashable, tuple[str, float]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for text, _ in self._active.values())

    def began(self, key: Hashable, text: str) -> None:
        """Something does not work; again the same until it is over."""
        if key in self._active:
            self._active[key] = (text, self._active[key][1])
            return
        while len(self._active) >= _MOST_PROBLEMS:
            del self._active[next(iter(self._active))]
        self._active[key] = (text, self._clock.seconds())
        self.log.warn("Kubernetes: {text}", text=text)

    def over(self, key: Hashable) -> None:
        if key in self._active:
            text, began_seconds = self._active.pop(key)
            seconds = round(self._clock.seconds() - began_seconds, 1)
            self.log.info("Kubernetes: over after {seconds} s: {text}", seconds=seconds, text=text)


#: The types of bodies: all patches are merge patches.
_BODIES: Final = {"PATCH": "application/merge-patch+json"}
#: The flow of the requests of a lease.
LEASE_FLOW: Final = "lease"
#: Attempts per request on 429 or 5xx.
MOST_ATTEMPTS: Final = 6
#: An answer that takes longer is given up.
ANSWER_SECONDS: Final = 30.0
#: Waits of what is tried again: chance takes up to a half, so the first is 0.1 s at least.
_FIRST_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 30.0
#: A burst is the requests of this time: kubelets and schedulers (50 a second, 100 at once) have the same.
_BURST_SECONDS: Final = 2.0
#: Requests that were sent and not answered yet; watches do not count.
MOST_IN_FLIGHT: Final = 16
#: Connections that are kept: those of requests and of watches.
_MOST_CONNECTIONS: Final = 32
#: The server is busy: all requests of the flow wait.
_BUSY: Final = frozenset((429, 503))
#: It failed with this request: it is sent again.
_FAULTS: Final = frozenset((500, 502, 504))
#: What says that the server cannot be reached, not that a request failed.
_UNREACHABLE: Final = frozenset(("NoConnection", "NoAnswer", "Certificate", "Garbled", "Broken"))


@dataclass(frozen=True)
class _Call:
    method: str
    url: str
    target: Target
    verb: str
    flow: str
    body: bytes | None
    is_optional: bool = False


class ApiClient:
    """Sends requests to one API server, at a bounded rate, and sends them again where that helps.

    - The server does not answer: all requests wait; one is tried after 0.1 s to 30 s, until there is an answer.
    - 429 and 503: all requests of the same flow wait as long as the server says, or 0.1 s to 30 s.
    - 500, 502, 504: the request is sent again after 0.1 s to 30 s. All four codes: 6 times, then the request fails.
    - 401: the token is read again; with another token the request is sent again.
    - All else is the caller's to decide: the request fails with ApiError.

    A POST whose answer was lost may be sent twice: then AlreadyExists is a success. Problems are logged once.

    :param reactor: with connections and time, as Twisted's.
    :param random: gives a number from 0 to 1, as ``random.random``, for the jitter of waits.
    :raises CannotConnect: when the server's value cannot be used, with the remedy.
    """

    def __init__(
        self,
        server: ApiServer,
        reactor: IReactor,
        *,
        random: Callable[[], float],
        requests_per_second: float = 50.0,
        statistics: ApiStatistics | None = None,
        most_in_flight: int = MOST_IN_FLIGHT,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.server = server
        self.clock = reactor
        self.statistics = statistics if statistics is not None else ApiStatistics()
        self.open_problems = OpenProblems(reactor)
        burst = max(1, round(requests_per_second * _BURST_SECONDS))
        self.queue = RequestQueue(reactor, requests_per_second, most_in_flight, burst=burst)
        self._random = random
        self._answer_seconds = answer_seconds
        self._token = Token(server)
        self._agent, self._pool = make_agent(reactor, server, _MOST_CONNECTIONS)
        self._bodies = Cooperator(scheduler=lambda step: reactor.callLater(0, step))
        self._outage = self.make_backoff()
        self._flow_backoffs: dict[str, Backoff] = {}
        #: The requests and streams that are not over, each with whether the server is asked for a change by it.
        self._active: dict[Deferred[Any], bool] = {}

    def make_backoff(self) -> Backoff:
        """Waits of 0.1 s to 30 s for what a caller tries again itself."""
        return Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, self._random)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object | None = None,
        flow: str = "",
        attempts: int = MOST_ATTEMPTS,
        is_optional: bool = False,
    ) -> Deferred[Any]:
        """The JSON of the answer; fails with ApiError. Cancelling gives the request up, wherever it is.

        :param body: a JSON value, with PATCH a merge patch; None: no body.
        :param flow: requests of one flow wait together when the server asks for it; flows take turns.
        :param attempts: how often it is sent; 1: it also fails, at once, when the server cannot be reached.
        :param is_optional: a Role need not allow it: a 403 is no problem.
        """
        call = replace(self._call(method, path, query, body, flow), is_optional=is_optional)
        return self._tracked(self._request(call, attempts), is_change=method != "GET" and flow != LEASE_FLOW)

    def merge_patch(self, path: str, patch: Mapping[str, Any], *, flow: str = "") -> Deferred[Any]:
        """Merge a patch into an object, or into its status at the path of that; the object as it is then."""
        return self.request("PATCH", path, body=patch, flow=flow)

    def stream(
        self,
        path: str,
        received: Callable[[bytes], None],
        *,
        query: Mapping[str, str],
        silence_seconds: float,
        opened: Callable[[], None] | None = None,
        flow: str = "watch",
    ) -> Deferred[None]:
        """Calls ``received`` with each line of an answer that goes on; fires when the server ends it.

        It is sent once. It fails with ApiError: the code of the answer, ``Broken`` or ``Silent`` after it began, and
        the ApiError that ``received`` raises. Cancelling ends it.

        :param silence_seconds: it fails after this time without data.
        :param opened: called when the answer begins.
        """
        call = self._call("GET", path, query, None, flow, is_watch=True)
        return self._tracked(self._stream(call, received, silence_seconds, opened), is_change=False)

    def cancel_changes(self) -> None:
        """Cancel the requests that change something, but for those of the lease: another one may write now."""
        for request in [request for request, is_change in self._active.items() if is_change]:
            request.cancel()

    def stop(self) -> Deferred[Any]:
        """Cancel all requests and streams; fires when the connections are closed.

        Watches and leases are stopped before.
        """
        for request in list(self._active):
            request.cancel()
        self.queue.stop()
        return cast("Deferred[Any]", self._pool.closeCachedConnections())

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None, body: object | None, flow: str, *,
        is_watch: bool = False,
    ) -> _Call:  # fmt: skip
        target = parse_path(path)
        url = f"{self.server.url.rstrip('/')}{path}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else orjson.dumps(body)
        return _Call(method, url, target, verb_of(method, target, is_watch=is_watch), flow, data)

    def _tracked(self, coroutine: Coroutine[Deferred[Any], Any, Any], *, is_change: bool) -> Deferred[Any]:
        running: Deferred[Any] = Deferred.fromCoroutine(coroutine)
        self._active[running] = is_change

        def forget(result: Any) -> Any:
            self._active.pop(running, None)
            return result

        return running.addBoth(forget)

    async def _request(self, call: _Call, attempts: int) -> Any:
        refused = 0
        is_again = False
        backoff = self.make_backoff()
        while True:
            await self.queue.place(call.flow, first=is_again)
            try:
                response = await self._send(call)
                data = await self._limited(read_whole(response, self.server.url, MOST_BODY_BYTES))
                self._worked(call)
                return _parsed(data, call.url) if response.code != 204 and data.strip() else None
            except ApiError as error:
                self._note(call, error)
                if error.code == NO_ANSWER:
                    if error.reason not in _UNREACHABLE or attempts == 1:
                        raise
                elif error.code == 401 and self._token.was_refused():
                    continue
                else:
                    refused += 1
                    if refused >= attempts or not _is_passing(call, error):
                        raise
                wait = error.retry_after_seconds or backoff.next_seconds()
                seconds = wait if error.code in _FAULTS else 0.0
            finally:
                self.queue.leave()
            is_again = True
            if seconds:
                await deferLater(self.clock, seconds)

    async def _stream(
        self,
        call: _Call,
        received: Callable[[bytes], None],
        silence_seconds: float,
        opened: Callable[[], None] | None,
    ) -> None:
        await self.queue.place(call.flow)
        try:
            response = await self._send(call)
            self._worked(call)
        except ApiError as error:
            self._note(call, error)
            if error.code == 401:
                self._token.was_refused()
            raise
        finally:
            self.queue.leave()
        if opened is not None:
            opened()
        await read_lines(response, self.server.url, received, self.clock, silence_seconds)

    async def _send(self, call: _Call) -> IResponse:
        """A good answer, whose body is not read yet.

        :raises ApiError: for all others.
        """
        headers = Headers({"User-Agent": [f"fakedev/{__version__}"], "Accept": ["application/json"]})
        if token := self._token.text():
            headers.addRawHeader("Authorization", f"Bearer {token}")
        if call.body is not None:
            headers.addRawHeader("Content-Type", _BODIES.get(call.method, "application/json"))
        try:
            response = await self._send_once(call, headers)
        except ApiError as error:
            if error.reason != "Broken":
                raise
            # A kept connection, which the server closed meanwhile: a new one is no new attempt.
            response = await self._send_once(call, headers)
        # Whatever its body will be: the server has answered.
        self.statistics.requests[call.verb, call.target.shown, response.code] += 1
        if response.code >= 300:
            data = await self._limited(read_whole(response, self.server.url, MOST_BODY_BYTES))
            retry_after: list[bytes] = response.headers.getRawHeaders(b"retry-after") or [b""]
            raise error_of_answer(response.code, retry_after[0].decode(errors="replace"), data)
        return response

    def _send_once(self, call: _Call, headers: Headers) -> Coroutine[Deferred[Any], Any, IResponse]:
        body = None if call.body is None else FileBodyProducer(BytesIO(call.body), self._bodies)
        return self._limited(self._agent.request(call.method.encode(), call.url.encode(), headers, body))

    async def _limited(self, waiting: Deferred[Any]) -> Any:
        """What a Deferred fires with in time; each error as ApiError, but that of a cancelled request."""
        try:
            return await waiting.addTimeout(self._answer_seconds, self.clock, lambda *_: Failure(TimeoutError()))
        except ApiError:
            raise
        except Exception as error:
            if is_cancelled(error):
                raise CancelledError from None
            raise no_answer(error, self.server.url) from None

    def _worked(self, call: _Call) -> None:
        self._answered()
        if call.flow in self._flow_backoffs:
            self._flow_backoffs[call.flow].reset()
        self.open_problems.over(("busy", call.flow))
        self.open_problems.over(("fault", call.verb, call.target.shown))
        self.open_problems.over(_forbidden_key(call))
        self.open_problems.over("token")

    def _answered(self) -> None:
        self.statistics.is_connected = True
        self._outage.reset()
        self.open_problems.over("server")
        self.queue.resume()

    def _note(self, call: _Call, error: ApiError) -> None:
        """Report an error, and let others wait where it concerns them, too."""
        if error.code == NO_ANSWER:
            self.statistics.requests[call.verb, call.target.shown, NO_ANSWER] += 1
            if error.reason in _UNREACHABLE:
                self._lose(error)
            elif error.reason == "Token":
                self.open_problems.began("token", error.message)
            return
        self._answered()
        if error.code == 401:
            text = f"{self.server.url} refuses the token or certificate (401): {error.message}"
            self.open_problems.began("token", text)
        elif error.code == 403 and not call.is_optional:
            self.open_problems.began(_forbidden_key(call), f"{role_rule(call.verb, call.target)} ({error.message})")
        elif error.code in _BUSY and _is_passing(call, error):
            backoff = self._flow_backoffs.setdefault(call.flow, self.make_backoff())
            self.queue.pause(call.flow, error.retry_after_seconds or backoff.next_seconds())
            text = f"{self.server.url} is busy ({error.code}): {error.message}"
            self.open_problems.began(("busy", call.flow), text)
        elif error.code in _FAULTS:
            text = f"{self.server.url} fails to {call.verb} {call.target.shown} ({error.code}): {error.message}"
            self.open_problems.began(("fault", call.verb, call.target.shown), text)

    def _lose(self, error: ApiError) -> None:
        self.statistics.is_connected = False
        self.open_problems.began("server", f"{error.message}; it is tried again")
        if not self.queue.is_held:
            # Requests that were in flight together fail together: that is one failure.
            self.queue.hold(self._outage.next_seconds())


def _is_passing(call: _Call, error: ApiError) -> bool:
    """Whether the same request may succeed later. 429 for an eviction says that a disruption budget forbids it."""
    if error.code == 429 and call.target.subresource == "eviction":
        return False
    return error.code in _BUSY or error.code in _FAULTS


def _forbidden_key(call: _Call) -> tuple[str, ...]:
    return "forbidden", call.verb, call.target.group, call.target.shown, call.target.namespace


def _parsed(data: bytes, url: str) -> Any:
    try:
        with collector_paused():
            return orjson.loads(data)
    except ValueError:
        raise ApiError(NO_ANSWER, "NoJson", f"the answer of {url.partition('?')[0]} is no JSON") from None
