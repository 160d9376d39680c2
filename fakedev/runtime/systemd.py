"""The state of a service for systemd (sd_notify(3)): ready, reloading, stopping, its status, the watchdog."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: How often the status is sent without a watchdog.
_STATUS_SECONDS: Final = 10.0
#: When a message that systemd had no room for is sent again.
_AGAIN_SECONDS: Final = 0.1
#: Messages that wait for room.
_MOST_WAITING: Final = 20


def notifier_of(
    environ: MutableMapping[str, str], clock: IReactorTime, status: Callable[[], str]
) -> SystemdNotifier | None:
    """The notifier of a service that systemd has started and waits for; None for others.

    Removes the variables, so that no child of the service notifies systemd in its place.

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
    :param watchdog_seconds: systemd restarts the service after this time without a message; 0: it does not watch.
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
        self._beats = LoopingCall(self._beat)
        self._beats.clock = clock
        self._has_failed = False

    def startService(self) -> None:
        super().startService()
        self._send("READY=1", f"STATUS={self._status()}")
        self._beats.start(self._every_seconds, now=False)

    def stopService(self) -> None:
        """Stopping may take as long as the jobs of the service need."""
        super().stopService()
        self._send("STOPPING=1", "STATUS=stopping")
        if self._beats.running:
            self._beats.stop()
        if self._again is not None and self._again.active():
            self._again.cancel()

    def reloading(self) -> None:
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")

    def reloaded(self) -> None:
        """A reload has ended, well or not."""
        self._send("READY=1", f"STATUS={self._status()}")

    def _beat(self) -> None:
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
                    self.log.warn("systemd cannot be notified: {error}", error=error)
                self._has_failed = True
                self._waiting.clear()
                return
            self._waiting.popleft()
