"""Tells systemd how the service is: ready, reloading, stopping, its status, and that it lives (sd_notify(3))."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: How often the status is told without a watchdog.
_STATUS_SECONDS: Final = 10.0
#: When a message that systemd had no room for is sent again.
_AGAIN_SECONDS: Final = 0.1
#: Messages that wait for room.
_MOST_WAITING: Final = 20


def notifier_of(
    environ: MutableMapping[str, str], clock: IReactorTime, status: Callable[[], str]
) -> SystemdNotifier | None:
    """The notifier of a service that systemd has started and wants to hear of; None for others.

    Takes the variables away, so that no child of the service speaks for it.

    :param status: returns a line for ``systemctl status``.
    """
    address, microseconds, process = (environ.pop(name, "") for name in _VARIABLES)
    if not address.startswith(("/", "@")):
        return None
    is_watched = microseconds.isdecimal() and process in ("", str(os.getpid()))
    return SystemdNotifier(address, int(microseconds) / 1e6 if is_watched else 0.0, clock, status)


class SystemdNotifier(Service):
    """Sends messages to systemd; none of them can block the reactor.

    It is the last service to start, so that all is ready then, and the first to stop.

    :param address: of the socket; one that begins with ``@`` is abstract.
    :param watchdog_seconds: systemd restarts the service when it hears nothing for so long; 0: it does not watch.
    :param status: returns a line for ``systemctl status``.
    """

    log = Logger()

    def __init__(self, address: str, watchdog_seconds: float, clock: IReactorTime, status: Callable[[], str]) -> None:
        self.setName("systemd")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._is_watched = watchdog_seconds > 0
        self._every_seconds = min(_STATUS_SECONDS, watchdog_seconds / 3) if self._is_watched else _STATUS_SECONDS
        self._clock = clock
        self._status = status
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._again: IDelayedCall | None = None
        self._call: IDelayedCall | None = None
        self._has_failed = False

    def startService(self) -> None:
        """All is ready."""
        super().startService()
        self._send("READY=1", f"STATUS={self._status()}")
        self._call = self._clock.callLater(self._every_seconds, self._tell)

    def stopService(self) -> None:
        """The service stops; it may take as long as its jobs need."""
        super().stopService()
        self._send("STOPPING=1", "STATUS=stopping")
        for call in (self._call, self._again):
            if call is not None and call.active():
                call.cancel()

    def reloading(self) -> None:
        """A reload begins."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")

    def reloaded(self) -> None:
        """A reload has ended, well or not."""
        self._send("READY=1", f"STATUS={self._status()}")

    def _tell(self) -> None:
        self._call = self._clock.callLater(self._every_seconds, self._tell)
        self._send(*(["WATCHDOG=1"] if self._is_watched else []), f"STATUS={self._status()}")

    def _send(self, *lines: str) -> None:
        self._waiting.append("\n".join(lines).encode())
        if self._again is None:
            self._flush()

    def _flush(self) -> None:
        self._again = None
        while self._waiting:
            try:
                self._socket.sendto(self._waiting[0], self._address)
            except BlockingIOError:
                self._again = self._clock.callLater(_AGAIN_SECONDS, self._flush)
                return
            except OSError as error:
                if not self._has_failed:
                    self.log.warn("systemd cannot be told how the service is: {error}", error=error)
                self._has_failed = True
                self._waiting.clear()
                return
            self._waiting.popleft()
