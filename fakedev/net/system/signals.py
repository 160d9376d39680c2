"""Signals that ask a program to end: the first politely, the second at once, and late ones in vain.

What SIGHUP does: never end the program by default, as the signal otherwise would.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.error import ReactorNotRunning

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndingSignals:
    """Calls ``first`` with the signal's name when the first one comes, ``again`` at each further one.

    :param reactor: calls both.
    """

    def __init__(
        self,
        reactor: Any,
        first: Callable[[str], None],
        again: Callable[[str], None],
        numbers: Sequence[signal.Signals] = ENDING_SIGNALS,
    ) -> None:
        self._reactor = reactor
        self._first = first
        self._again = again
        self._numbers = numbers
        self._came = False

    def install(self) -> None:
        """Catch the signals, in place of whoever did; to be called when the reactor runs, which installs its own."""
        for number in self._numbers:
            signal.signal(number, lambda number, _: self._reactor.callFromThread(self._heard, number))
        self._reactor.addSystemEventTrigger("after", "shutdown", self._ignore)

    def _heard(self, number: int) -> None:
        action = self._again if self._came else self._first
        self._came = True
        action(signal.Signals(number).name)

    def _ignore(self) -> None:
        """Python gives up its signals before it exits: one that comes then would take the place of the exit code."""
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)


def stop_reactor(reactor: Any) -> None:
    """Stop the reactor, unless it is stopping already."""
    with suppress(ReactorNotRunning):
        reactor.stop()


class HangupService(Service):
    """Calls ``action`` in the reactor whenever SIGHUP comes, from start to stop."""

    def __init__(self, reactor: Any, action: Callable[[], None]) -> None:
        self.setName("hangup")
        self._reactor = reactor
        self._action = action

    def startService(self) -> None:
        """Catch the signal."""
        super().startService()
        signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self._action))

    def stopService(self) -> None:
        """Ignore it while the program ends: a terminal that closes sends both."""
        super().stopService()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
