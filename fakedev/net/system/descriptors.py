"""File descriptors: the limit of the process, and ports that take no connections when few are left.

Twisted closes connections that it accepts without a descriptor, and logs each. When it cannot do even that, the port
stays readable and the reactor spins. So a port looks before it accepts: a new connection waits in the system's queue
while only those descriptors are left that files, logs and other ports need.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

#: A port without descriptors looks again after this time; sooner when it has closed a connection.
RETRY_SECONDS: Final = 0.2
ROOM_SECONDS: Final = 0.01
#: Connections that a port accepts in one turn of the reactor.
_MAX_ACCEPTS: Final = 20
#: After this time without a shortage it is over.
OVER_SECONDS: Final = 10.0
#: Descriptors that connections leave for files and logs, those of line ports also for HTTP and so for /health. With a
#: limit below _WHOLE it is a share of that.
SPARE: Final = 32
SPARE_OF_LINE_PORTS: Final = 64
_WHOLE: Final = 512
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)

_log = Logger()


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard limit, and return the limit that holds now.

    Each connection needs a descriptor, and the usual soft limit is 1024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as reason:
            # Some systems report a hard limit that they do not grant.
            _log.warn(
                "the limit of {soft} open descriptors cannot be raised to {hard}: {reason}",
                soft=soft, hard=hard, reason=str(reason),
            )  # fmt: skip
            return soft
    _log.debug("up to {limit} descriptors may be open (it was {soft})", limit=hard, soft=soft)
    return hard


def lowest_free_descriptor(any_descriptor: int) -> int | None:
    """The number that the next descriptor would get, which is the lowest free one; None when there is none.

    :param any_descriptor: an open one.
    """
    try:
        lowest = os.dup(any_descriptor)
    except OSError as reason:
        if is_out_of_descriptors(reason):
            return None
        raise
    os.close(lowest)
    return lowest


def is_out_of_descriptors(reason: BaseException) -> bool:
    """Whether an error means that there are no descriptors."""
    return isinstance(reason, OSError) and reason.errno in _NONE_LEFT


class DescriptorShortage:
    """Whether the ports of an application lack descriptors; the log has it once for each shortage.

    :ivar postponed: how often a port did not accept because of it.
    """

    log = Logger()

    def __init__(self) -> None:
        self._last_seconds: float | None = None
        self.postponed = 0

    def note(self, now: float) -> None:
        """A port has not accepted."""
        if self.trouble(now) is None:
            text = "{trouble}; raise the limit (LimitNOFILE=, ulimit -n) or lower max-connections"
            self.log.error(text, trouble=_TROUBLE)
        self._last_seconds = now
        self.postponed += 1

    def trouble(self, now: float) -> str | None:
        """What is wrong; None when there was no shortage lately."""
        if self._last_seconds is None or now - self._last_seconds > OVER_SECONDS:
            return None
        return _TROUBLE


class CarefulPort:
    """Lets a listening port of Twisted accept only while descriptors are left.

    :param port: its ``doRead`` is replaced.
    :param make_room: closes a connection that is not needed, and returns whether there was one.
    :param spare: the descriptors that must be left for others.
    :param find_lowest: returns the lowest free descriptor; None for none.
    """

    def __init__(
        self,
        port: Any,
        clock: IReactorTime,
        shortage: DescriptorShortage,
        make_room: Callable[[], bool],
        spare: int = SPARE,
        find_lowest: Callable[[int], int | None] = lowest_free_descriptor,
    ) -> None:
        self._port = port
        self._clock = clock
        self._shortage = shortage
        self._make_room = make_room
        self._spare = spare
        self._find_lowest = find_lowest
        self._accept = port.doRead
        port.doRead = self.accept

    def accept(self) -> None:
        """Accept what waits, one by one, or stop to read for a while (called by the reactor)."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        spare = min(self._spare, limit * self._spare // _WHOLE)
        for _ in range(_MAX_ACCEPTS):
            lowest = self._find_lowest(self._port.fileno())
            if lowest is None or lowest + spare >= limit:
                self._postpone()
                return
            # Twisted raises the number when it has accepted as many, and leaves it at 1 when nothing waits.
            self._port.numberAccepts = 1
            self._accept()
            if self._port.numberAccepts == 1:
                return

    def _postpone(self) -> None:
        self._shortage.note(self._clock.seconds())
        seconds = ROOM_SECONDS if self._make_room() else RETRY_SECONDS
        self._port.stopReading()
        self._clock.callLater(seconds, self._look_again)

    def _look_again(self) -> None:
        if self._port.connected and not self._port.disconnecting:
            self._port.startReading()


_TROUBLE: Final = "no file descriptors are left for connections: new ones wait"
