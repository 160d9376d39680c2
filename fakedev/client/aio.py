"""A running fakedev as an object for asyncio: ``from fakedev.client import aio``, then ``aio.Fleet(url)``."""

from __future__ import annotations

import asyncio
import http.client
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from fakedev.client import calls
from fakedev.client.calls import Duration, Wait
from fakedev.client.http import (
    MOST_BYTES,
    Access,
    Call,
    CallUnderWay,
    Exchange,
    Reply,
    TooLarge,
    declared_by,
    http_address,
    no_answer,
    with_access,
)
from fakedev.runtime.client_tls import client_context
from fakedev.schema.peer_addresses import NO_FILES, ClientTls, with_tls

P = ParamSpec("P")
T = TypeVar("T")
_AT_ONCE: Final = 1 << 16


class AsyncRequester(Protocol):
    """Sends requests; the client of a real service has an :class:`AsyncServiceAddress`."""

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str],
        still: Callable[[], Awaitable[object]] | None,
    ) -> Reply:
        """The answer to a request.

        :param still: awaited whenever the service has been silent for the timeout; it raises if the service is dead.
            None: the service must answer within the timeout.
        :raises NoAnswer: when there is none.
        """  # fmt: skip
        ...


class AsyncServiceAddress:
    """An HTTP address of fakedev; each request has a connection of its own, so tasks may share it.

    A request that is cancelled closes its connection at once.

    :param url: see :class:`fakedev.client.http.ServiceAddress`, also for the others.
    :raises ValueError: for a text that is no address.
    """

    def __init__(self, url: str, timeout_seconds: float, tls: ClientTls = NO_FILES) -> None:
        self._address = with_tls(http_address(url), tls)
        self._timeout_seconds = timeout_seconds

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str],
        still: Callable[[], Awaitable[object]] | None,
    ) -> Reply:
        """See :class:`AsyncRequester`."""  # fmt: skip
        exchange = Exchange(self._address, method, path, body, headers)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                reader, writer = await self._connect()
            try:
                writer.write(exchange.sent)
                async with asyncio.timeout(self._timeout_seconds):
                    await writer.drain()
                return exchange.reply(await self._read(reader, still))
            finally:
                writer.transport.abort()
        except (OSError, http.client.HTTPException) as error:
            raise no_answer(method, path, self._address, error) from None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._address
        if not address.path:
            context = None if address.tls is None else client_context(address.tls)
            return await asyncio.open_connection(address.host, address.port, ssl=context)
        path = "\0" + address.path[1:] if address.path.startswith("@") else address.path
        return await asyncio.open_unix_connection(path)

    async def _read(self, reader: asyncio.StreamReader, still: Callable[[], Awaitable[object]] | None) -> bytes:
        """All that comes until the service closes the connection.

        :raises TimeoutError: when it is silent for too long.
        """
        parts: list[bytes] = []
        left = MOST_BYTES
        while True:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    part = await reader.read(_AT_ONCE)
            except TimeoutError:
                if still is None or parts:
                    raise
                await still()
                continue
            if not part:
                return b"".join(parts)
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise TooLarge


def _awaits(call: Callable[P, Call[T]]) -> Callable[Concatenate[Fleet, P], Coroutine[Any, Any, T]]:
    """A method that makes a call, and awaits its answers."""

    async def method(self: Fleet, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._result(call(*args, **kwargs))

    return declared_by(call, method)


class Fleet:
    """A running fakedev: the methods of :class:`fakedev.client.Fleet` as coroutines.

    It keeps nothing open between two calls, so it needs no end, and tasks and event loops may share it. A call that is
    cancelled closes its connection; with an advance, the clock stops then.

    :param url: see :class:`fakedev.client.Fleet`, also for the others.
    :ivar url: as given, without a slash at its end.
    :raises ValueError: for a URL that is no address.
    """

    def __init__(
        self, url: str, token: str = "", timeout_seconds: float = 30.0, requester: AsyncRequester | None = None,
        **access: Unpack[Access],
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/")
        tls, self._headers = with_access(token, access)
        self._requester = requester or AsyncServiceAddress(url, timeout_seconds, tls)

    async def __aenter__(self) -> Self:
        """``async with aio.Fleet(url) as fleet:`` as programs for asyncio have it; nothing is opened."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    run = _awaits(calls.run)
    stop = _awaits(calls.stop)
    workloads = _awaits(calls.workloads)
    workload = _awaits(calls.workload)
    ended_workloads = _awaits(calls.ended_workloads)
    past_faults = _awaits(calls.past_faults)
    fault = _awaits(calls.fault)
    clear = _awaits(calls.clear)
    faults = _awaits(calls.faults)
    clock = _awaits(calls.clock)
    advance = _awaits(calls.advance)
    stop_advance = _awaits(calls.stop_advance)
    speed = _awaits(calls.speed)
    reset = _awaits(calls.reset)
    page = _awaits(calls.page)
    scrape = _awaits(calls.scrape)
    devices = _awaits(calls.devices)
    device = _awaits(calls.device)
    explain = _awaits(calls.explain)
    why = _awaits(calls.why)
    nodes = _awaits(calls.nodes)
    journal = _awaits(calls.journal)
    queues = _awaits(calls.queues)
    queue = _awaits(calls.queue)
    scenario = _awaits(calls.scenario)
    occurrences = _awaits(calls.occurrences)
    reload = _awaits(calls.reload)

    @overload
    async def wait_until(
        self, predicate: Callable[[], Awaitable[T]], advance: Duration = "1s", at_most: Duration = "5m"
    ) -> T:
        """With a coroutine function."""

    @overload
    async def wait_until(self, predicate: Callable[[], T], advance: Duration = "1s", at_most: Duration = "5m") -> T:
        """With a plain function."""

    async def wait_until(
        self, predicate: Callable[[], object], advance: Duration = "1s", at_most: Duration = "5m"
    ) -> object:
        """Advance the clock until a condition is true; it is checked before the first step, too.

        :param predicate: returns something true when the wait is over; it may be a coroutine function.
        :param advance: the simulated time of a step.
        :param at_most: the simulated time after which the wait fails.
        :returns: what the predicate returned.
        :raises NeverTrue: when it was not true within ``at_most``.
        """
        wait = Wait(predicate, advance, at_most)
        while True:
            given = predicate()
            value = await given if inspect.isawaitable(given) else given
            if value:
                return value
            await self.advance(wait.next_seconds(value))

    async def _result(self, call: Call[T]) -> T:
        under_way = CallUnderWay(self.url, call)
        while (request := under_way.request) is not None:
            still = self.clock if request.is_long else None
            asked = request.method, request.path, request.content, self._headers, still
            under_way.answered(await self._requester.ask(*asked))
        return under_way.result
