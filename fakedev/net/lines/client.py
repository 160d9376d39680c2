"""Connects a program to its frontend: finds the addresses of the name, and tries them in turn."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, UNIXClientEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import (
    IReactorFromThreads,
    IStreamClientEndpoint,
    ISystemHandle,
    ITCPTransport,
    ITransport,
)
from twisted.internet.protocol import Factory, Protocol

from fakedev.net.lines.frontend_errors import FrontendLost

#: How long one address of the frontend may take to answer.
CONNECT_SECONDS: Final = 5
#: TCP options that detect within a minute that the frontend's machine is gone, although nothing is sent to it.
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))

P = TypeVar("P", bound=Protocol)


def look_up_addresses(reactor: IReactorFromThreads, host: str) -> Deferred[list[str]]:
    """The addresses of a name, IPv4 and IPv6, in the system's order; fails with OSError.

    A thread outside of the reactor's pool looks them up: the reactor waits for its pool when it stops, and a resolver
    may hang.
    """
    found: Deferred[list[str]] = Deferred()

    def look_up() -> None:
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            reactor.callFromThread(found.errback, error)
            return
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        reactor.callFromThread(found.callback, addresses)

    threading.Thread(target=look_up, daemon=True).start()
    return found


class _Factory(Factory):
    noisy = False


class FrontendConnector:
    """Connects to one frontend: tries its addresses in turn, first the one that worked last.

    :param path: of a UNIX socket; empty for TCP.
    :param shown: the frontend's name in the log.
    :param look_up: finds the addresses of a name; fails with OSError.
    """

    def __init__(
        self,
        reactor: Any,
        *,
        path: str = "",
        host: str = "",
        port: int = 0,
        shown: str = "",
        look_up: Callable[[Any, str], Deferred[list[str]]] = look_up_addresses,
    ) -> None:
        self._reactor = reactor
        self._look_up = look_up
        self._path = path
        self._host = host
        self._port = port
        self._last_address = ""
        self.shown = shown or path or f"{host}:{port}"

    async def connect(self, make_protocol: Callable[[], P]) -> P:
        """A connected protocol.

        :raises FrontendLost: when no address of the frontend takes the connection.
        """
        problem = "its name has no address"
        for address in await self._addresses():
            try:
                connecting = self._endpoint(address).connect(_Factory.forProtocol(make_protocol))
                protocol = cast("P", await connecting)
            except ConnectError as error:
                problem = os.strerror(error.osError) if isinstance(error.osError, int) else str(error).rstrip(".")
                continue
            self._last_address = address
            _keep_alive(protocol.transport)
            return protocol
        self._last_address = ""
        raise FrontendLost(f"cannot connect to {self.shown}: {problem}")

    def _endpoint(self, address: str) -> IStreamClientEndpoint:
        if self._path:
            return UNIXClientEndpoint(self._reactor, address, timeout=CONNECT_SECONDS)
        make_endpoint = TCP6ClientEndpoint if isIPv6Address(address) else TCP4ClientEndpoint
        return make_endpoint(self._reactor, address, self._port, timeout=CONNECT_SECONDS)

    async def _addresses(self) -> list[str]:
        if self._path:
            # Twisted takes a leading NUL for an abstract socket.
            return ["\0" + self._path[1:] if self._path.startswith("@") else self._path]
        if self._last_address:
            return [self._last_address]
        if isIPAddress(self._host) or isIPv6Address(self._host):
            return [self._host]
        try:
            return await self._look_up(self._reactor, self._host)
        except OSError as error:
            raise FrontendLost(f"{self._host} has no address: {error.strerror or error}") from None


def _keep_alive(transport: ITransport | None) -> None:
    if not ITCPTransport.providedBy(transport):
        return
    handle = cast("socket.socket", cast("ISystemHandle", transport).getHandle())
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
