"""A socket on which each wait ends at once when the program gets a signal to stop.

The signals only wake a poll. A handler that raises could run between a check and a blocking call, which would then
block until the server sends something: with a hanging server for ever.
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
    """A signal to stop was received; the text is its name."""


class StopSignals:
    """A context in which these signals are caught, and make :meth:`wait` raise."""

    def __init__(self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._signals = tuple(signals)
        self._received: signal.Signals | None = None

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
        """Return at one of the events, or when the time is over.

        :param events: those of select.poll.
        :raises Stopped: at a signal, before the wait or during it.
        """
        if self._received is None:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            if descriptor is not None:
                poll.register(descriptor, events)
            if any(ready == self._woken for ready, _ in poll.poll(milliseconds)):
                numbers = os.read(self._woken, 1024)  # the interpreter writes each signal's number
                self._received = next((number for number in self._signals if number in numbers), None)
        if self._received is not None:
            raise Stopped(self._received.name)


def _ignore(number: int, frame: FrameType | None) -> None:
    """The interpreter writes to the wake-up descriptor only for a signal with a handler."""


def connect(address: Address, stop: StopSignals) -> socket.socket:
    """A connected, non-blocking socket, also of TLS.

    :raises OSError: when none of the addresses accepts the connection, or TLS cannot be agreed on.
    :raises Stopped: at a signal.
    """
    if address.path:
        path = "\0" + address.path[1:] if address.path.startswith("@") else address.path
        return _connected(socket.AF_UNIX, path, stop)
    if address.tls is not None:
        from fakedev.client.tls_socket import secured  # noqa: PLC0415 - most addresses have no TLS

        return secured(_connected_to(address, stop), address.host, address.tls, stop.wait)
    return _connected_to(address, stop)


def _connected_to(address: Address, stop: StopSignals) -> socket.socket:
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
    """Send all bytes, in one call if they fit into the kernel's buffer."""
    rest = memoryview(data)
    while rest:
        stop.wait(connection.fileno(), select.POLLOUT)
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            continue


def receive(connection: socket.socket, stop: StopSignals) -> bytes:
    """The next bytes; empty at the end of the connection."""
    pending = getattr(connection, "pending", int)  # bytes that TLS has decrypted already
    while True:
        if not pending():
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
            # The queue of a UNIX server is full, and no event tells when it has room.
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
    """Notice within a minute that the server's machine is gone, although nothing is sent to it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
