"""The root of a program's services: it runs them, and stops them in the right order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twisted.application.service import IService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import ILogObserver

from fakedev.app.early_signals import EarlySignals
from fakedev.config.configuration import Logging
from fakedev.net.system.listening import Listeners
from fakedev.net.system.logging import LoggedService, begin_logging
from fakedev.net.system.memory import CollectorSettings
from fakedev.net.system.names import use_patient_resolver
from fakedev.net.system.signals import EndingSignals, stop_reactor
from fakedev.net.system.steady_clock import use_steady_clock
from fakedev.net.system.task_service import TaskService
from fakedev.spec.os_errors import CannotWrite

if TYPE_CHECKING:
    from fakedev.net.fleet.recorder import Recorder

_Task = TypeVar("_Task", bound=TaskService)

#: Not SIGHUP: each program handles it in its own way.
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


class Application(LoggedService):
    """All services; they stop in an order that loses nothing: queues, ports, the clock, the record.

    :param listeners: the one of the services that listens.
    :param services: in the order in which they start; None for one that this program does not have.
    :param drain: lets running jobs finish; fires when none is left.
    :param hurry: ends jobs that still run, at another signal; called with the signal's name.
    :param owns_process: whether signals and the garbage collector of this process are the application's.
    """

    def __init__(
        self,
        listeners: Listeners,
        reactor: Any,
        services: Iterable[IService | None],
        *,
        recorder: Recorder | None = None,
        observer: ILogObserver | None = None,
        drain: Callable[[], Deferred[None]] | None = None,
        hurry: Callable[[str], None] | None = None,
        owns_process: bool = True,
    ) -> None:
        super().__init__(observer)
        self.listeners = listeners
        self._reactor = reactor
        self._recorder = recorder
        self._drain = drain
        self._hurry = hurry
        self._owns_process = owns_process
        self._collector = CollectorSettings(reactor)
        self._early = EarlySignals.installed() if owns_process else None
        for service in services:
            if service is not None:
                service.setServiceParent(self)

    def privilegedStartService(self) -> None:
        """Listen; from now on a signal is an orderly stop."""
        if self._early is not None:
            self._early.hold()
        super().privilegedStartService()

    def startService(self) -> None:
        """Start all.

        :raises CannotStart: when the record cannot be written.
        """
        if self._recorder is not None:
            # All addresses are ours now: another fakedev with the same record would have been found there.
            try:
                self._recorder.open()
            except CannotWrite as reason:
                self.listeners.give_up(f"the record cannot be written: {reason}")
        super().startService()
        if self._owns_process:
            self._reactor.callWhenRunning(self._collector.begin)
        if self._early is not None:
            self._reactor.callWhenRunning(self._early.deliver)

    def stopService(self) -> Deferred[None]:
        """Stop all; fires when the last connection is closed and the record is complete."""
        return Deferred.fromCoroutine(self._stop())

    def hurry(self, signal_name: str) -> None:
        """Another signal was received while the services stop."""
        if self._hurry is not None:
            self._hurry(signal_name)

    async def _stop(self) -> None:
        if self._owns_process:
            # The reactor's own handlers would stop it again, which is an error.
            EndingSignals(self._reactor, self.hurry, self.hurry).install()
        if self._drain is not None:
            await self._drain()
        await maybeDeferred(self.listeners.disownServiceParent)
        await maybeDeferred(super().stopService)
        self._collector.end()
        if self._recorder is not None:
            self._recorder.close()


def run_application(make: Callable[[Any], Application], logging: Logging) -> str:
    """Run a program: log to standard error, serve until a signal, and stop in good order.

    :param make: makes the application for the reactor.
    :returns: the name of the signal that stopped it; empty when none did.
    :raises SystemExit: 1, after a line of explanation, when an address cannot be used.
    """
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    use_steady_clock(reactor)
    use_patient_resolver(reactor)
    begin_logging(reactor, logging.level, logging.format)
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


def run_task(make: Callable[[Any, Callable[[], None]], _Task]) -> tuple[_Task, str]:
    """Run one task until it has ended, or a signal stops it; what it logs below a warning is not shown.

    :param make: makes the task from the reactor, and from what it is to call at its end.
    :returns: the task, and the name of the signal that stopped it; empty when none did.
    """
    made: list[_Task] = []

    def application(reactor: Any) -> Application:
        task = make(reactor, partial(stop_reactor, reactor))
        made.append(task)
        # Not before the reactor runs and handles signals: the task stops it at its end, and may start programs.
        reactor.callWhenRunning(reactor.callLater, 0, task.startService)
        listeners = Listeners()
        return Application(listeners, reactor, [listeners], drain=task.stop_all)

    signal_name = run_application(application, Logging("warn"))
    return made[0], signal_name
