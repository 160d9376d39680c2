"""Signals before a program's own handlers stand: from its first line until its reactor runs.

Imports nothing that takes time: programs install these handlers before they import anything else.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class EarlySignals:
    """Ends the program, which has nothing open yet, or remembers a signal until there is a handler for it.

    Without a handler SIGHUP and SIGUSR1 would end the program, and the kernel would drop SIGTERM if it is process 1 of
    a container.

    :param ends: these end the program, until :meth:`hold`.
    :param by_signal: it ends by the signal, as twistd does; else with 0.
    """

    def __init__(self, ends: Collection[int], by_signal: bool = False) -> None:
        self._ends = ends
        self._by_signal = by_signal
        self._received: list[int] = []

    @classmethod
    def installed(cls) -> EarlySignals | None:
        """The object whose handlers are installed, if there is one."""
        handlers = map(signal.getsignal, _NUMBERS)
        return next((handler for handler in handlers if isinstance(handler, cls)), None)

    def install(self, besides: int = 0) -> None:
        """Install the handlers.

        :param besides: not for this signal.
        """
        for number in _NUMBERS:
            if number != besides:
                signal.signal(number, self)

    def hold(self) -> None:
        """Only remember signals from now on: sockets and files exist that an orderly stop removes and closes."""
        self._ends = ()

    def deliver(self) -> None:
        """Send the remembered signals again, each once, to the handlers that are installed now."""
        received, self._received = self._received, []
        for number in dict.fromkeys(received):
            if signal.getsignal(number) is not self:
                signal.raise_signal(number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A signal was received (called by Python)."""
        if number not in self._ends:
            self._received.append(number)
            return
        if self._by_signal:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # returns in process 1
        # Not an exception: an import could catch it.
        os._exit(128 + number if self._by_signal else 0)
