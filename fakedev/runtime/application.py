"""The root of a program's services: it runs them, and stops them in the right order."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from twisted.application.service import IService
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import ILogObserver

from fakedev.runtime.early import EarlySignals
from fakedev.runtime.listening import CannotStart, Listeners, ListeningService
from fakedev.runtime.logs import LoggedService, begin_logging
from fakedev.runtime.memory import freeze_objects
from fakedev.runtime.part import Part, parts_of
from fakedev.runtime.reactor import IReactor, program_reactor
from fakedev.runtime.settings import Logging
from fakedev.runtime.signals import EndingSignals, stop_reactor
from fakedev.runtime.threads import TaskService

_Task = TypeVar("_Task", bound=TaskService)

#: Not SIGHUP: each program handles it in its own way.
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


class Application(LoggedService):
    """All parts of a program; they stop in an order that loses nothing: queues, ports, the clock, the record.

    :param listeners: all that listen, one of the services.
    :param owns_process: whether signals and the garbage collector of this process are the application's.
    """

    def __init__(
        self, reactor: IReactor, listeners: Listeners, observer: ILogObserver | None = None, *,
        owns_process: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(observer)
        self.listeners = listeners
        self._reactor = reactor
        self._owns_process = owns_process
        self._early = EarlySignals.installed() if owns_process else None

    def run_parts(
        self, services: Iterable[IService | None], listening: Iterable[Part | None] = ()
    ) -> Application:
        """Run parts and other services, in the order in which they start; None for one that this program does not have.

        :param listening: the parts with addresses, in the order in which they listen; empty: as they start.
        """
        for service in services:
            if service is not None:
                service.setServiceParent(self)
        for part in listening or parts_of(self):
            for listener in part.listeners() if part is not None else ():
                listener.setServiceParent(self.listeners)
        return self

    def listening(self) -> list[ListeningService]:
        """The services of all addresses, as the parts have them."""
        return [service for part in parts_of(self) for service in part.listeners()]

    def closed(self) -> Mapping[str, Mapping[str, int]]:
        """See IPart."""
        return {port: counts for part in parts_of(self) for port, counts in part.closed.items()}

    def problems(self) -> Mapping[str, str]:
        """See IPart."""
        return {name: problem for part in parts_of(self) for name, problem in part.problems().items()}

    def unready_reason(self) -> str | None:
        """See IPart; the first one."""
        reasons = filter(None, (part.unready_reason() for part in parts_of(self)))
        return next(reasons, None) or self.listeners.shortage.problem(self._reactor.seconds())

    def privilegedStartService(self) -> None:
        """Listen; from now on a signal is an orderly stop."""
        if self._early is not None:
            self._early.hold()
        self._all_or_nothing(super().privilegedStartService)

    def startService(self) -> None:
        """Start all.

        :raises CannotStart: when a part cannot use its files.
        """
        self._all_or_nothing(super().startService)
        if self._owns_process:
            # On a full disk half a file of bytecode may be written, which no later start can read (CPython 3.11).
            sys.dont_write_bytecode = True
            self._reactor.callWhenRunning(freeze_objects)
        if self._early is not None:
            self._reactor.callWhenRunning(self._early.deliver)

    def _all_or_nothing(self, start: Callable[[], None]) -> None:
        try:
            start()
        except CannotStart:
            for part in parts_of(self):
                part.abandon()
            raise

    def stopService(self) -> Deferred[None]:
        """Stop all; fires when the last connection is closed and the record is complete."""
        return Deferred.fromCoroutine(self._stop())

    def hurry(self, signal_name: str) -> None:
        """Another signal was received while the services stop."""
        for part in parts_of(self):
            part.hurry(signal_name)

    async def _stop(self) -> None:
        if self._owns_process:
            # The reactor's own handlers would stop it again, which is an error.
            EndingSignals(self._reactor, self.hurry, self.hurry).install()
        # The sources of work first.
        for drained in [part.drain() for part in reversed(parts_of(self))]:
            await (drained or succeed(None))
        await maybeDeferred(self.listeners.disownServiceParent)
        await maybeDeferred(super().stopService)


def run_application(make: Callable[[IReactor], Application], logging: Logging) -> str:
    """Run a program: log to standard error, serve until a signal, and stop in good order.

    :param make: makes the application for the reactor.
    :returns: the name of the signal that stopped it; empty when none did.
    :raises SystemExit: 1, after a line of explanation, when an address cannot be used.
    """
    if EarlySignals.installed() is None:
        # A signal between the first address or ready file and the reactor's start must find an orderly stop.
        early = EarlySignals(_STOPS, by_signal=True)
        for number in _STOPS:
            signal.signal(number, early)
    reactor = program_reactor()
    begin_logging(logging.level, logging.format)
    application = make(reactor)
    received: list[str] = []

    def stop(signal_name: str) -> None:
        received.append(signal_name)
        stop_reactor(reactor)

    # Before the application starts: when the reactor runs, it sends early signals to these handlers.
    reactor.callWhenRunning(EndingSignals(reactor, stop, application.hurry, _STOPS).install)
    application.privilegedStartService()
    application.startService()
    reactor.addSystemEventTrigger("before", "shutdown", application.stopService)
    reactor.run()
    if application.listeners.failure is not None:
        raise SystemExit(1)
    return received[0] if received else ""


class _TaskPart(Part):
    """A task, which stops the reactor at its end."""

    def __init__(self, task: TaskService, reactor: IReactor) -> None:
        super().__init__("task")
        self._task = task
        # Not before the reactor runs and handles signals: the task may start programs.
        reactor.callWhenRunning(reactor.callLater, 0, task.startService)

    def drain(self) -> Deferred[None]:
        return self._task.stop_all()


def run_task(make: Callable[[IReactor, Callable[[], None]], _Task]) -> tuple[_Task, str]:
    """Run one task until it has ended, or a signal stops it; what it logs below a warning is not shown.

    :param make: makes the task from the reactor, and from what it is to call at its end.
    :returns: the task, and the name of the signal that stopped it; empty when none did.
    """
    made: list[_Task] = []

    def application(reactor: IReactor) -> Application:
        made.append(make(reactor, partial(stop_reactor, reactor)))
        listeners = Listeners()
        return Application(reactor, listeners).run_parts([listeners, _TaskPart(made[0], reactor)])

    signal_name = run_application(application, Logging("warn"))
    return made[0], signal_name
