"""Signals that ask a program to end: the first politely, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, Final

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndingSignals:
    """Calls ``first`` with the signal's name when the first one comes, ``again`` at each further one.

    :param reactor: calls both.
    """

    def __init__(self, reactor: Any, first: Callable[[str], None], again: Callable[[str], None]) -> None:
        self._reactor = reactor
        self._first = first
        self._again = again
        self._came = False

    def install(self) -> None:
        """Catch the signals, in place of whoever did; to be called when the reactor runs, which installs its own."""
        for number in ENDING_SIGNALS:
            signal.signal(number, lambda number, _: self._reactor.callFromThread(self._heard, number))

    def _heard(self, number: int) -> None:
        action = self._again if self._came else self._first
        self._came = True
        action(signal.Signals(number).name)
