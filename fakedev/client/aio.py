"""A running fakedev as an object for asyncio: ``from fakedev.client import aio``, then ``aio.Fleet(url)``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from fakedev.client import calls
from fakedev.client.connection import authorization
from fakedev.client.requests import Call, CallUnderWay, declared_by
from fakedev.client.streams import AsyncRequester, AsyncServiceAddress
from fakedev.client.waiting import Duration, Wait
from fakedev.spec.client_tls import NO_FILES, ClientTls

P = ParamSpec("P")
T = TypeVar("T")


def _awaits(call: Callable[P, Call[T]]) -> Callable[Concatenate[Fleet, P], Coroutine[Any, Any, T]]:
    """A method that makes a call, and awaits its answers."""

    async def method(self: Fleet, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._result(call(*args, **kwargs))

    return declared_by(call, method)


class Fleet:
    """A running fakedev; all methods are coroutines, those of :class:`fakedev.client.Fleet`.

    It keeps nothing open between two calls, so it needs no end, and tasks and event loops may share it. A call that is
    cancelled closes its connection; with an advance, the clock stops then.

    :param url: an HTTP address with ``serve: all``: ``http://HOST:PORT``, ``HOST:PORT``, ``https://HOST:PORT``, or the
        path of a UNIX socket.
    :param token: of the address, if it asks for one.
    :param timeout_seconds: how long the service may be silent.
    :param requester: sends the requests; by default over a socket.
    :param tls: files for ``https:``, as ``ClientTls(ca_file="ca.pem")``; by default what the system trusts.
    :param user, password: if the address has passwords, and you no token.
    :ivar url: as given, without a slash at its end.
    :raises ValueError: for a URL that is no address.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        timeout_seconds: float = 30.0,
        requester: AsyncRequester | None = None,
        *,
        tls: ClientTls = NO_FILES,
        user: str = "",
        password: str = "",
    ) -> None:
        self.url = url.rstrip("/")
        self._requester = requester or AsyncServiceAddress(url, timeout_seconds, tls)
        self._headers = authorization(token, user, password)

    run = _awaits(calls.run)
    stop = _awaits(calls.stop)
    workloads = _awaits(calls.workloads)
    workload = _awaits(calls.workload)
    fault = _awaits(calls.fault)
    clear = _awaits(calls.clear)
    faults = _awaits(calls.faults)
    clock = _awaits(calls.clock)
    advance = _awaits(calls.advance)
    speed = _awaits(calls.speed)
    reset = _awaits(calls.reset)
    page = _awaits(calls.page)
    scrape = _awaits(calls.scrape)
    devices = _awaits(calls.devices)
    device = _awaits(calls.device)
    explain = _awaits(calls.explain)
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
