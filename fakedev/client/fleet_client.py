"""A running fakedev as an object: what its API does, as methods."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar, Unpack

from fakedev.client import calls
from fakedev.client.calls import Duration, wait_until
from fakedev.client.http import Access, Call, CallUnderWay, Requester, ServiceAddress, declared_by, with_access

P = ParamSpec("P")
T = TypeVar("T")


def _waits(call: Callable[P, Call[T]]) -> Callable[Concatenate[Fleet, P], T]:
    """A method that makes a call, and waits for its answers."""

    def method(self: Fleet, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._result(call(*args, **kwargs))

    return declared_by(call, method)


class Fleet:
    """A running fakedev; all methods wait for its answer.

    Fields have the names of doc/protocol-workload.txt, with ``_`` in place of ``-``.

    :param url: an HTTP address with ``serve: all``: ``http://HOST:PORT``, ``HOST:PORT``, ``https://HOST:PORT``, or the
        path of a UNIX socket.
    :param token: of the address, if it asks for one.
    :param timeout_seconds: how long the service may be silent.
    :param requester: sends the requests; by default over a socket.
    :param access: how an address with TLS or passwords is used.
    :ivar url: as given, without a slash at its end.
    :raises ValueError: for a URL that is no address.

    All methods raise RequestRefused when the service refuses the request, and NoAnswer when it does not answer.
    """

    def __init__(
        self, url: str, token: str = "", timeout_seconds: float = 30.0, requester: Requester | None = None,
        **access: Unpack[Access],
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/")
        tls, self._headers = with_access(token, access)
        self._requester = requester or ServiceAddress(url, timeout_seconds, tls)

    def __enter__(self) -> Self:
        """``with Fleet(url) as fleet:``; nothing is opened."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    run = _waits(calls.run)
    stop = _waits(calls.stop)
    workloads = _waits(calls.workloads)
    workload = _waits(calls.workload)
    ended_workloads = _waits(calls.ended_workloads)
    past_faults = _waits(calls.past_faults)
    fault = _waits(calls.fault)
    clear = _waits(calls.clear)
    faults = _waits(calls.faults)
    clock = _waits(calls.clock)
    advance = _waits(calls.advance)
    stop_advance = _waits(calls.stop_advance)
    speed = _waits(calls.speed)
    reset = _waits(calls.reset)
    page = _waits(calls.page)
    scrape = _waits(calls.scrape)
    devices = _waits(calls.devices)
    device = _waits(calls.device)
    explain = _waits(calls.explain)
    why = _waits(calls.why)
    nodes = _waits(calls.nodes)
    journal = _waits(calls.journal)
    queues = _waits(calls.queues)
    queue = _waits(calls.queue)
    scenario = _waits(calls.scenario)
    occurrences = _waits(calls.occurrences)
    reload = _waits(calls.reload)

    def wait_until(self, predicate: Callable[[], T], advance: Duration = "1s", at_most: Duration = "5m") -> T:
        """Advance the clock until a condition is true; it is checked before the first step, too.

        :param predicate: returns something true when the wait is over.
        :param advance: the simulated time of a step.
        :param at_most: the simulated time after which the wait fails.
        :returns: what the predicate returned.
        :raises NeverTrue: when it was not true within ``at_most``.
        """
        return wait_until(predicate, self.advance, advance, at_most)

    def _result(self, call: Call[T]) -> T:
        under_way = CallUnderWay(self.url, call)
        while (request := under_way.request) is not None:
            still = self.clock if request.is_long else None
            asked = request.method, request.path, request.content, self._headers, still
            under_way.answered(self._requester.ask(*asked))
        return under_way.result
