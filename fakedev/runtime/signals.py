"""Signals of a service: the first one stops it in order, the next one at once; SIGHUP reloads instead of killing."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from twisted.application.service import Service
from twisted.internet.error import ReactorNotRunning
from twisted.internet.interfaces import IReactorCore

from fakedev.runtime.reactor import IReactor

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class EndingSignals:
    """Calls ``first`` with the name of the first signal, and ``again`` with the name of each later one.

    :param reactor: both are called in its thread.
    """

    reactor: IReactor
    first: Callable[[str], None]
    again: Callable[[str], None]
    numbers: Sequence[signal.Signals] = ENDING_SIGNALS
    _received: bool = field(default=False, init=False)

    def install(self) -> None:
        """Install the handlers, replacing others; call this when the reactor runs, because it installs its own."""
        for number in self.numbers:
            signal.signal(number, lambda number, _: self.reactor.callFromThread(self._handle, number))
        self.reactor.addSystemEventTrigger("after", "shutdown", self._ignore)

    def _handle(self, number: int) -> None:
        action = self.again if self._received else self.first
        self._received = True
        action(signal.Signals(number).name)

    def _ignore(self) -> None:
        """Ignore late signals: Python removes its handlers before it exits, and a signal would change the exit code."""
        for number in self.numbers:
            signal.signal(number, signal.SIG_IGN)


def stop_reactor(reactor: IReactorCore) -> None:
    """Stop the reactor, unless it is stopping already."""
    with suppress(ReactorNotRunning):
        reactor.stop()


class HangupService(Service):
    """Calls ``action`` in the reactor's thread at each SIGHUP, while the service runs."""

    def __init__(self, reactor: IReactor, action: Callable[[], object]) -> None:
        self.setName("hangup")
        self._reactor = reactor
        self._action = action

    def startService(self) -> None:
        super().startService()
        signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self._action))

    def stopService(self) -> None:
        """Ignore the signal while the program stops: a terminal that closes sends both."""
        super().stopService()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
