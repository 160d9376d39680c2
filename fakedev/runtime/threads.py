"""Work in threads: long computations, blocking calls, lookups of host names; and a service that runs one coroutine.

A long computation lets the reactor run often. Nobody waits for the threads of name lookups. The service runs its
coroutine until that has ended, or until somebody stops the service.
"""

from __future__ import annotations

import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final, Literal, TypeVar

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IReactorThreads,
    IResolutionReceiver,
)
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.runtime.clock import no_op

Outcome = TypeVar("Outcome")

#: How long the thread may run before the reactor gets its turn. Python's usual 5 ms would pass each time the reactor
#: has waited for something, which is at each socket and at each step of a tick: many times in one reactor turn.
_SWITCH_SECONDS: Final = 0.0001


def call_in_thread(reactor: IReactorThreads, work: Callable[[], Outcome]) -> Deferred[Outcome]:
    """Call a function in a thread.

    :returns: fires with its result, or fails with its exception.
    """
    usual_seconds = sys.getswitchinterval()
    is_first = usual_seconds > 2 * _SWITCH_SECONDS  # else another call runs, and restores the interval
    if is_first:
        sys.setswitchinterval(_SWITCH_SECONDS)

    def ended(outcome: Outcome) -> Outcome:
        if is_first:
            sys.setswitchinterval(usual_seconds)
        return outcome

    return wait_in_thread(reactor, work).addBoth(ended)


def wait_in_thread(reactor: IReactorThreads, work: Callable[[], Outcome]) -> Deferred[Outcome]:
    """Call a function that waits, as for a disk, in a thread.

    :returns: fires with its result, or fails with its exception.
    """
    done: Deferred[Outcome] = deferToThreadPool(reactor, reactor.getThreadPool(), work)
    return done


def load_in_thread(reactor: IReactorThreads, *names: str) -> Deferred[None]:
    """Load modules in a thread: loaded at their first use, they would hold the reactor for some 20 ms each."""

    def load() -> None:
        for name in names:
            import_module(name)

    return call_in_thread(reactor, load)


_ADDRESSES: Final[dict[int, type[IPv4Address | IPv6Address]]] = {
    socket.AF_INET: IPv4Address, socket.AF_INET6: IPv6Address,
}  # fmt: skip


@implementer(IHostnameResolver)
class PatientResolver:
    """Asks the system for the addresses of a name, in a thread of its own for each question.

    A name server that does not answer holds the thread for half a minute. Twisted's resolver uses the reactor's few
    threads, which logs and snapshots need, and for which the reactor waits when it stops.

    :param look_up: as socket.getaddrinfo.
    """

    def __init__(self, reactor: IReactorThreads, look_up: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> None:
        self._reactor = reactor
        self._look_up = look_up

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """Look up a name; the receiver gets each address, then the end. No address: there is no such host."""
        protocol: Literal["TCP", "UDP"] = "UDP" if transportSemantics == "UDP" else "TCP"
        kind = socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM

        def look_up() -> None:
            try:
                found = self._look_up(hostName, portNumber, 0, kind)
            except (OSError, UnicodeError):  # the second one for names that cannot be one
                found = ()
            self._reactor.callFromThread(answer, found)

        def answer(found: Sequence[Any]) -> None:
            for family, _, _, _, target in found:
                address = _ADDRESSES.get(family)
                if address is not None and (addressTypes is None or address in addressTypes):
                    resolutionReceiver.addressResolved(address(protocol, *target))
            resolutionReceiver.resolutionComplete()

        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        threading.Thread(target=look_up, daemon=True).start()
        return resolution


@implementer(IHostResolution)
class _Resolution:
    """A question that cannot be cancelled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Do nothing, as Twisted's."""


class TaskService(Service, ABC):
    """Runs :meth:`run_to_end` from its start on, and calls ``over`` when that has ended by itself.

    :cvar expected: exceptions that end the task early, with their texts as the problem.
    :cvar what: the task in a few words, for the log of an unexpected end.
    :ivar over: called at the end, but not when the task was stopped.
    :ivar problem: why it ended early; empty when it did not.
    """

    log = Logger()
    expected: ClassVar[tuple[type[Exception], ...]]
    what: ClassVar[str]
    over: Callable[[], None]
    problem = ""
    _running: Deferred[None] | None = None

    @abstractmethod
    async def run_to_end(self) -> None:
        """Do the task."""

    @abstractmethod
    async def clean_up(self) -> None:
        """End what the task has started outside of the process: connections, programs."""

    def startService(self) -> None:
        super().startService()
        self._running = Deferred.fromCoroutine(self.run_to_end())
        self._running.addErrback(self.failed)
        self._running.addCallback(lambda _: self.over())

    def stop_all(self) -> Deferred[None]:
        """Stop at once; fires when all is cleaned up."""
        if self._running is not None and not self._running.called:
            self.over = no_op
            self.problem = self.problem or "it was stopped"
            self._running.cancel()
        return Deferred.fromCoroutine(self.clean_up())

    def failed(self, failure: Failure) -> None:
        """Note why the task has ended early."""
        if self.problem:
            return  # it was stopped, and has failed in whatever way by that
        if failure.check(*self.expected):
            self.problem = str(failure.value)
        else:
            self.log.failure("{what} failed", failure, what=self.what)
            self.problem = "an internal error of fakedev"
