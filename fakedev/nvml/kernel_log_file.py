"""The service that writes XIDs where monitors look for kernel messages: a file, a named pipe, or ``/dev/kmsg``."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.fleet.fleet import Fleet
from fakedev.nvml.kernel_log import BoardXid, KernelLog, xids_of_tick
from fakedev.nvml.settings import KernelLogFile
from fakedev.runtime.disk import LineFile
from fakedev.runtime.listening import CannotStart
from fakedev.runtime.part import Part

#: XIDs that are written in one turn of the reactor: some milliseconds.
MAX_AT_ONCE: Final = 50
#: XIDs that wait for later turns; more are lost, as in the kernel.
_MAX_WAITING: Final = 20_000
#: The kernel's KERN_ERR, of its own facility.
_PRIORITY: Final = 3
#: The bytes that a pipe holds while nobody reads it; each message takes a page of it.
_PIPE_BYTES: Final = 2**20


class Target(Protocol):
    """Where messages go."""

    @property
    def problem(self) -> str:
        """Why no more messages are written; empty while they are."""

    def write(self, xid: BoardXid, text: str) -> None:
        """Add a message."""

    def try_again(self) -> None:
        """Write what waits for room on a disk."""

    def close(self) -> None:
        """Add no more."""


class SyslogFile:
    """A file like ``kern.log`` of a system log, in its usual form and in local time."""

    def __init__(self, path: str, mode: int) -> None:
        self._file = LineFile("kernel log", path, mode=mode)

    @property
    def problem(self) -> str:
        """Why lines wait, or none are written any more; empty while they are."""
        return self._file.problem

    def write(self, xid: BoardXid, text: str) -> None:
        """Add a line."""
        when = time.localtime(xid.wall_seconds)
        stamp = f"{time.strftime('%b', when)} {when.tm_mday:2d} {time.strftime('%H:%M:%S', when)}"
        self._file.write(f"{stamp} {xid.node.name} kernel: [{xid.seconds:12.6f}] {text}\n".encode())

    def try_again(self) -> None:
        """Write what waits for room on the disk."""
        self._file.write()

    def close(self) -> None:
        """Add no more."""
        self._file.close()


class Device:
    """A named pipe that is read as ``/dev/kmsg`` is, a record with each read; or ``/dev/kmsg`` itself.

    There messages have the facility of users. What nobody reads of a pipe is lost, and the log says so once.
    """

    log = Logger()

    def __init__(self, path: str, *, is_pipe: bool) -> None:
        self._path, self._is_pipe = path, is_pipe
        self.problem = ""
        # A pipe is opened for reading too: then it is there, whether somebody else reads it or not.
        flags = os.O_RDWR if is_pipe else os.O_WRONLY
        self._descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        if is_pipe:
            # Each write is a packet (pipe(2), O_DIRECT).
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._sequence = self._lost = 0

    def write(self, xid: BoardXid, text: str) -> None:
        """Add a message; a pipe gets the time since the machine has started, too."""
        head = f"{_PRIORITY},{self._sequence},{time.monotonic_ns() // 1000},-;" if self._is_pipe else f"<{_PRIORITY}>"
        self._sequence += 1
        try:
            os.write(self._descriptor, f"{head}{text}\n".encode())
            self.problem = ""
        except BlockingIOError:
            self._lost += 1
            if self._lost == 1:
                self.log.warn("nobody reads {path}: messages of the kernel log are lost", path=self._path)
        except OSError as reason:
            if not self.problem:
                self.log.error("{path}: {reason}; all else continues", path=self._path, reason=plain_reason(reason))
            self.problem = f"messages of the kernel log are lost: {CannotWrite(self._path, reason)}"

    def try_again(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Add no more."""
        os.close(self._descriptor)


def opened(settings: KernelLogFile) -> Target:
    """The target of a path, by what is there.

    :raises CannotWrite: when it cannot be used.
    """
    path = settings.file
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    except OSError as reason:
        raise CannotWrite(path, reason) from None
    try:
        if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
            return Device(path, is_pipe=stat.S_ISFIFO(kind))
    except OSError as reason:
        raise CannotWrite(path, reason) from None
    return SyslogFile(path, settings.mode)


class KernelLogPart(Part):
    """The kernel log of a configuration.

    :raises CannotStart: when it cannot be written.
    """

    log = Logger()

    def __init__(self, settings: KernelLogFile, fleet: Fleet, clock: IReactorTime) -> None:
        super().__init__("kernel-log")
        self._settings, self._fleet, self._clock = settings, fleet, clock
        self._words = KernelLog(fleet.spec.seed)
        self._tick = fleet.state.tick
        self._waiting: deque[BoardXid] = deque()
        self._call: IDelayedCall | None = None
        try:
            self._target = opened(settings)
        except CannotWrite as reason:
            raise CannotStart(f"fakedev: the kernel log cannot be written: {reason}") from None

    def problems(self) -> Mapping[str, str]:
        return {"kernel-log": self._target.problem}

    def ticked(self) -> None:
        if self._fleet.state.tick == self._tick:  # a reload
            return
        self._tick = self._fleet.state.tick
        self._target.try_again()
        found = xids_of_tick(self._fleet, self._settings.nodes)
        lost = len(found) - (_MAX_WAITING - len(self._waiting))
        if lost > 0:
            self.log.warn("the kernel log cannot take as many XIDs: {lost} are lost", lost=lost)
            del found[-lost:]
        self._waiting.extend(found)
        if self._call is None:
            self._go_on()

    def _go_on(self) -> None:
        self._write_some()
        self._call = self._clock.callLater(0, self._go_on) if self._waiting else None

    def _write_some(self) -> None:
        for _ in range(min(len(self._waiting), MAX_AT_ONCE)):
            xid = self._waiting.popleft()
            for text in self._words.texts(xid):
                self._target.write(xid, text)

    def stopService(self) -> Deferred[Any]:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        while self._waiting:
            self._write_some()
        self._target.close()
        stopped: Deferred[Any] = super().stopService()
        return stopped
