"""The root of a program's services: how it runs, and in which order it stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import ILogObserver

from fakedev.config.configuration import Logging
from fakedev.net.listening import Listeners
from fakedev.net.logs import LoggedService, begin_logging
from fakedev.net.recorder import Recorder


class Application(LoggedService):
    """All services; they stop in the order that loses nothing: queues, ports, the clock, the record.

    :param drain: lets running jobs finish; fires when none is left.
    """

    def __init__(
        self,
        listeners: Listeners,
        recorder: Recorder | None = None,
        observer: ILogObserver | None = None,
        drain: Callable[[], Deferred[None]] | None = None,
    ) -> None:
        super().__init__(observer)
        self.listeners = listeners
        self._recorder = recorder
        self._drain = drain

    def stopService(self) -> Deferred[None]:
        """Stop all; fires when the last connection is closed and the record is complete."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        if self._drain is not None:
            await self._drain()
        await maybeDeferred(self.listeners.disownServiceParent)
        await maybeDeferred(super().stopService)
        if self._recorder is not None:
            self._recorder.close()


def run_application(make: Callable[[Any], Application], logging: Logging) -> None:
    """Be a program: log to standard error, serve until a signal comes, end in good order.

    :param make: makes the application for the reactor.
    :raises SystemExit: 1, after a line of explanation, when an address cannot be had.
    """
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    begin_logging(reactor, logging.level, logging.format)
    application = make(reactor)
    application.privilegedStartService()
    application.startService()
    reactor.addSystemEventTrigger("before", "shutdown", application.stopService)
    reactor.run()
    if application.listeners.failure is not None:
        raise SystemExit(1)
