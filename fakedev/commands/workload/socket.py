"""A socket whose every wait ends at once when the program is told to stop.

The signals only wake a poll: a handler that raises could come between a check and a blocking
call, and be heard only when the server speaks again, which a hanging server never does.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, Final, Self

from fakedev.config.peer_address import Address

_RETRY_MILLISECONDS: Final = 50
_PENDING: Final = (errno.EINPROGRESS, errno.EINTR)
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Stopped(Exception):
    """The program was told to stop; the text is the name of the signal."""


class StopSignals:
    """While entered, these signals are caught and make :meth:`wait` raise."""

    def __init__(self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._signals = tuple(signals)
        self._came: signal.Signals | None = None

    def __enter__(self) -> Self:
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, _ignore) for number in self._signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wake)
        os.close(self._woken)
        os.close(self._wake)

    def wait(self, descriptor: int | None = None, events: int = 0, milliseconds: int | None = None) -> None:
        """Return when one of the events is there, or the time is over.

        :param events: those of select.poll.
        :raises Stopped: when a signal came, before the wait or in it.
        """
        if self._came is None:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            if descriptor is not None:
                poll.register(descriptor, events)
            if any(ready == self._woken for ready, _ in poll.poll(milliseconds)):
                numbers = os.read(self._woken, 1024)  # the interpreter writes each signal's number
                self._came = next((number for number in self._signals if number in numbers), None)
        if self._came is not None:
            raise Stopped(self._came.name)


def _ignore(number: int, frame: FrameType | None) -> None:
    """A handler has to be there for the interpreter to write to the wake-up descriptor."""


def connect(address: Address, stop: StopSignals) -> socket.socket:
    """A connected, non-blocking socket.

    :raises OSError: when none of the address's hosts takes the connection.
    :raises Stopped: when a signal came first.
    """
    if address.path:
        path = "\0" + address.path[1:] if address.path.startswith("@") else address.path
        return _connected(socket.AF_UNIX, path, stop)
    failure = OSError(f"{address.host} has no address")
    for family, _, _, _, target in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
        try:
            connection = _connected(family, target, stop)
        except OSError as error:
            failure = error
            continue
        _keep_alive(connection)
        return connection
    raise failure


def send_all(connection: socket.socket, data: bytes, stop: StopSignals) -> None:
    """Hand all bytes to the kernel, in one call as long as they fit."""
    rest = memoryview(data)
    while rest:
        stop.wait(connection.fileno(), select.POLLOUT)
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            continue


def receive(connection: socket.socket, stop: StopSignals) -> bytes:
    """Some bytes, as soon as there are any; none at the end of the connection."""
    while True:
        stop.wait(connection.fileno(), select.POLLIN)
        try:
            return connection.recv(65536)
        except BlockingIOError:
            continue


def _connected(family: int, target: tuple[Any, ...] | str, stop: StopSignals) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        while (problem := connection.connect_ex(target)) == errno.EAGAIN and family == socket.AF_UNIX:
            # A UNIX server with a full queue: a crowd came before us, and no event tells of room.
            stop.wait(milliseconds=_RETRY_MILLISECONDS)
        if problem in _PENDING:
            stop.wait(connection.fileno(), select.POLLOUT)
            problem = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, os.strerror(problem))
    except BaseException:
        connection.close()
        raise
    return connection


def _keep_alive(connection: socket.socket) -> None:
    """Notice within a minute that the server's machine is gone, though nothing is ever sent to it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
