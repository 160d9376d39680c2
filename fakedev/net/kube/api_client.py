"""The client of an API server: every request of fakedev to a cluster goes through it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlencode

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from fakedev import __version__
from fakedev.kube.backoff import Backoff
from fakedev.net.kube.api_error import NO_ANSWER, ApiError, error_of_answer
from fakedev.net.kube.body import MOST_BODY_BYTES, read_lines, read_whole
from fakedev.net.kube.paths import Target, parse_path, role_rule, verb_of
from fakedev.net.kube.request_queue import RequestQueue
from fakedev.net.kube.statistics import ApiStatistics, Troubles
from fakedev.net.kube.token import Token
from fakedev.net.kube.transport import is_cancelled, make_agent, no_answer
from fakedev.net.system.memory import collector_paused
from fakedev.spec.api_server import ApiServer

MERGE_PATCH: Final = "application/merge-patch+json"
#: The flow of the requests of a lease.
LEASE_FLOW: Final = "lease"
#: So often a request is sent that the server answers with 429 or 5xx.
MOST_ATTEMPTS: Final = 6
#: An answer that takes longer is given up.
ANSWER_SECONDS: Final = 30.0
#: Waits of what is tried again: chance takes up to a half, so the first is 0.1 s at least.
_FIRST_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 30.0
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
    content_type: str


class ApiClient:
    """Sends requests to one API server, at a bounded rate, and sends them again where that helps.

    - The server does not answer: all requests wait; one is tried after 0.1 s to 30 s, until there is an answer.
    - 429 and 503: all requests of the same flow wait as long as the server says, or 0.1 s to 30 s.
    - 500, 502, 504: the request is sent again after 0.1 s to 30 s. All four codes: 6 times, then the request fails.
    - 401: the token is read again; with another token the request is sent again.
    - All else is the caller's to decide: the request fails with ApiError.

    A POST whose answer was lost may be sent twice: then AlreadyExists is a success. Troubles are logged once.

    :param reactor: with connections and time, as Twisted's.
    :param random: gives a number from 0 to 1, as ``random.random``, for the jitter of waits.
    :raises CannotConnect: when the server's value cannot be used, with the remedy.
    """

    def __init__(
        self,
        server: ApiServer,
        reactor: Any,
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
        self.troubles = Troubles(reactor)
        self.queue = RequestQueue(reactor, requests_per_second, most_in_flight)
        self._random = random
        self._answer_seconds = answer_seconds
        self._token = Token(server)
        self._agent, self._pool = make_agent(reactor, server, _MOST_CONNECTIONS)
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
        content_type: str = "application/json",
        flow: str = "",
        attempts: int = MOST_ATTEMPTS,
    ) -> Deferred[Any]:
        """The JSON of the answer; fails with ApiError. Cancelling gives the request up, wherever it is.

        :param body: a JSON value; None: no body.
        :param flow: requests of one flow wait together when the server asks for it; flows take turns.
        :param attempts: how often it is sent; 1: it also fails, at once, when the server cannot be reached.
        """
        call = self._call(method, path, query, body, content_type, flow, is_watch=False)
        return self._tracked(self._request(call, attempts), is_change=method != "GET" and flow != LEASE_FLOW)

    def merge_patch(self, path: str, patch: Mapping[str, Any], *, flow: str = "") -> Deferred[Any]:
        """Merge a patch into an object, or into its status at the path of that; the object as it is then."""
        return self.request("PATCH", path, body=patch, content_type=MERGE_PATCH, flow=flow)

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

        :param silence_seconds: it fails when nothing comes for so long.
        :param opened: called when the answer begins.
        """
        call = self._call("GET", path, query, None, "", flow, is_watch=True)
        return self._tracked(self._stream(call, received, silence_seconds, opened), is_change=False)

    def cancel_changes(self) -> None:
        """Cancel the requests that change something, but for those of the lease: another one may write now."""
        for each in [each for each, is_change in self._active.items() if is_change]:
            each.cancel()

    def stop(self) -> Deferred[Any]:
        """Cancel all requests and streams; fires when the connections are closed.

        Watches and leases are stopped before.
        """
        for each in list(self._active):
            each.cancel()
        self.queue.stop()
        return cast("Deferred[Any]", self._pool.closeCachedConnections())

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object | None,
        content_type: str,
        flow: str,
        *,
        is_watch: bool,
    ) -> _Call:
        target = parse_path(path)
        url = f"{self.server.url.rstrip('/')}{path}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else orjson.dumps(body)
        return _Call(method, url, target, verb_of(method, target, is_watch=is_watch), flow, data, content_type)

    def _tracked(self, coroutine: Coroutine[Deferred[Any], Any, Any], *, is_change: bool) -> Deferred[Any]:
        running: Deferred[Any] = Deferred.fromCoroutine(coroutine)
        self._active[running] = is_change

        def forget(result: Any) -> Any:
            self._active.pop(running, None)
            return result

        return running.addBoth(forget)

    async def _request(self, call: _Call, attempts: int) -> Any:
        sent = 0
        lost = 0
        backoff = self.make_backoff()
        while True:
            await self.queue.place(call.flow, first=sent + lost > 0)
            try:
                code, data = await self._exchange(call)
                self._worked(call)
                return _parsed(data, call.url) if code != 204 and data.strip() else None
            except ApiError as error:
                self._note(call, error)
                if error.code == NO_ANSWER:
                    lost += 1
                    if error.reason not in _UNREACHABLE or attempts == 1:
                        raise
                elif error.code == 401 and self._token.was_refused():
                    continue
                else:
                    sent += 1
                    if sent >= attempts or not _is_passing(call, error):
                        raise
                wait = error.retry_after_seconds or backoff.next_seconds()
                seconds = wait if error.code in _FAULTS else 0.0
            finally:
                self.queue.leave()
            if seconds:
                await deferLater(self.clock, seconds)

    async def _exchange(self, call: _Call) -> tuple[int, bytes]:
        """One attempt: code and body of a good answer."""
        response = await self._send(call)
        data = await self._limited(read_whole(response, self.server.url, MOST_BODY_BYTES))
        if response.code >= 300:
            raise error_of_answer(response.code, _header(response, b"retry-after"), data)
        return response.code, data

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
            if response.code != 200:
                data = await self._limited(read_whole(response, self.server.url, MOST_BODY_BYTES))
                raise error_of_answer(response.code, _header(response, b"retry-after"), data)
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
        headers = Headers({"User-Agent": [f"fakedev/{__version__}"], "Accept": ["application/json"]})
        if token := self._token.text():
            headers.addRawHeader("Authorization", f"Bearer {token}")
        if call.body is not None:
            headers.addRawHeader("Content-Type", call.content_type)
        try:
            response = await self._send_once(call, headers)
        except ApiError as error:
            if error.reason != "Broken":
                raise
            # A kept connection, which the server closed meanwhile: a new one is no new attempt.
            response = await self._send_once(call, headers)
        # Whatever its body will be: the server has answered.
        self.statistics.requests[call.verb, call.target.shown, response.code] += 1
        return response

    def _send_once(self, call: _Call, headers: Headers) -> Coroutine[Deferred[Any], Any, IResponse]:
        producer = None if call.body is None else _Bytes(call.body)
        sending = self._agent.request(call.method.encode(), call.url.encode(), headers, producer)
        return self._limited(sending)

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
        backoff = self._flow_backoffs.get(call.flow)
        if backoff is not None:
            backoff.reset()
        self.troubles.over(("busy", call.flow))
        self.troubles.over(("fault", call.verb, call.target.shown))
        self.troubles.over(_forbidden_key(call))
        self.troubles.over("token")

    def _answered(self) -> None:
        self.statistics.is_connected = True
        self._outage.reset()
        self.troubles.over("server")
        self.queue.resume()

    def _note(self, call: _Call, error: ApiError) -> None:
        """Report an error, and let others wait where it concerns them, too."""
        if error.code == NO_ANSWER:
            self.statistics.requests[call.verb, call.target.shown, NO_ANSWER] += 1
            if error.reason in _UNREACHABLE:
                self._lose(error)
            elif error.reason == "Token":
                self.troubles.began("token", error.message)
            return
        self._answered()
        if error.code == 401:
            self.troubles.began("token", f"{self.server.url} refuses the token or certificate (401): {error.message}")
        elif error.code == 403:
            self.troubles.began(_forbidden_key(call), f"{role_rule(call.verb, call.target)} ({error.message})")
        elif error.code in _BUSY and _is_passing(call, error):
            backoff = self._flow_backoffs.setdefault(call.flow, self.make_backoff())
            self.queue.pause(call.flow, error.retry_after_seconds or backoff.next_seconds())
            text = f"{self.server.url} is busy ({error.code}): {error.message}"
            self.troubles.began(("busy", call.flow), text)
        elif error.code in _FAULTS:
            text = f"{self.server.url} fails to {call.verb} {call.target.shown} ({error.code}): {error.message}"
            self.troubles.began(("fault", call.verb, call.target.shown), text)

    def _lose(self, error: ApiError) -> None:
        self.statistics.is_connected = False
        self.troubles.began("server", f"{error.message}; it is tried again")
        if not self.queue.is_held:
            # Requests that were in flight together fail together: that is one failure.
            self.queue.hold(self._outage.next_seconds())


class _Bytes(FileBodyProducer):
    """A body that is sent in one write."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: Any) -> Deferred[None]:
        consumer.write(self._data)
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def stopProducing(self) -> None:
        """Nothing is left to send."""

    def pauseProducing(self) -> None:
        """Nothing is left to send."""

    def resumeProducing(self) -> None:
        """Nothing is left to send."""


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


def _header(response: IResponse, name: bytes) -> str:
    values: list[bytes] = response.headers.getRawHeaders(name) or [b""]
    return values[0].decode(errors="replace")
