"""The service that writes reports of boards as kernel messages: a file, a named pipe, ``/dev/kmsg``, the journal."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.fleet.fleet import Fleet
from fakedev.nvml.board_errors import BoardErrors
from fakedev.nvml.kernel_log import KernelLog, Reported, xids_of_tick
from fakedev.nvml.settings import KernelLogFile
from fakedev.runtime.disk import LineFile
from fakedev.runtime.listening import CannotStart
from fakedev.runtime.part import Part

#: Reports that are written in one turn of the reactor: some milliseconds.
MAX_AT_ONCE: Final = 50
#: Reports that wait for later turns; more are lost, as in the kernel.
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

    def write(self, report: Reported, text: str) -> None:
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

    def write(self, report: Reported, text: str) -> None:
        """Add a line."""
        when = time.localtime(report.wall_seconds)
        stamp = f"{time.strftime('%b', when)} {when.tm_mday:2d} {time.strftime('%H:%M:%S', when)}"
        self._file.write(f"{stamp} {report.node.name} kernel: [{report.seconds:12.6f}] {text}\n".encode())

    def try_again(self) -> None:
        """Write what waits for room on the disk."""
        self._file.write()

    def close(self) -> None:
        """Add no more."""
        self._file.close()


class Records:
    """What takes a record with each write: ``/dev/kmsg``, a pipe that is read as it is, or the journal's socket.

    In ``/dev/kmsg`` messages have the facility of users. What nobody reads of a pipe is lost, and the log says so once.

    :param opened: opens it; returns the descriptor.
    :param record: returns a message as a record; of a report, its text and the number of the record.
    :raises OSError: when it cannot be opened.
    """

    log = Logger()

    def __init__(self, path: str, opened: Callable[[], int], record: Callable[[Reported, str, int], bytes]) -> None:
        self._path, self._opened, self._record = path, opened, record
        self.problem = ""
        self._descriptor = opened()
        self._sequence = self._lost = 0

    def write(self, report: Reported, text: str) -> None:
        """Add a message."""
        record = self._record(report, text, self._sequence)
        self._sequence += 1
        try:
            os.write(self._descriptor, record)
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
        """Nothing waits; but a journal that has started again has another socket."""
        if self.problem:
            with suppress(OSError):
                descriptor = self._opened()
                os.close(self._descriptor)
                self._descriptor = descriptor

    def close(self) -> None:
        """Add no more."""
        os.close(self._descriptor)


def _open_device(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _of_device(_report: Reported, text: str, _number: int) -> bytes:
    return f"<{_PRIORITY}>{text}\n".encode()


def _open_pipe(path: str) -> int:
    # For reading too: then it is there, whether somebody else reads it or not.
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    # Each write is a packet (pipe(2), O_DIRECT).
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)
    fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return descriptor


def _of_pipe(_report: Reported, text: str, number: int) -> bytes:
    """With the time since the machine has started."""
    return f"{_PRIORITY},{number},{time.monotonic_ns() // 1000},-;{text}\n".encode()


def _open_journal(path: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.setblocking(False)
        journal.connect(path)
        return journal.detach()


def _of_journal(report: Reported, text: str, _number: int) -> bytes:
    """Fields, a line each (systemd's Native Journal Protocol); texts are single lines."""
    fields = {
        "MESSAGE": text, "PRIORITY": _PRIORITY, "SYSLOG_FACILITY": 0, "SYSLOG_IDENTIFIER": "kernel",
        "FAKEDEV_NODE": report.node.name,
    }  # fmt: skip
    return "".join(f"{name}={value}\n" for name, value in fields.items()).encode()


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
        if stat.S_ISSOCK(kind):
            return Records(path, partial(_open_journal, path), _of_journal)
        if stat.S_ISFIFO(kind):
            return Records(path, partial(_open_pipe, path), _of_pipe)
        if stat.S_ISCHR(kind):
            return Records(path, partial(_open_device, path), _of_device)
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
        self._errors = BoardErrors(fleet)
        self._tick = fleet.state.tick
        self._waiting: deque[Reported] = deque()
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
        nodes = self._settings.nodes
        found: list[Reported] = [*xids_of_tick(self._fleet, nodes), *self._errors.of_tick(self._fleet, nodes)]
        lost = len(found) - (_MAX_WAITING - len(self._waiting))
        if lost > 0:
            self.log.warn("the kernel log cannot take as many reports: {lost} are lost", lost=lost)
            del found[-lost:]
        self._waiting.extend(found)
        if self._call is None:
            self._go_on()

    def _go_on(self) -> None:
        self._write_some()
        self._call = self._clock.callLater(0, self._go_on) if self._waiting else None

    def _write_some(self) -> None:
        for _ in range(min(len(self._waiting), MAX_AT_ONCE)):
            report = self._waiting.popleft()
            for text in self._words.texts(report):
                self._target.write(report, text)

    def stopService(self) -> Deferred[Any]:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        while self._waiting:
            self._write_some()
        self._target.close()
        stopped: Deferred[Any] = super().stopService()
        return stopped
