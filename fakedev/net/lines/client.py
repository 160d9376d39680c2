"""Connects a backend to its frontend.

The addresses of a host's name.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, UNIXClientEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Factory, Protocol

from fakedev.net.backend.sources import FrontendLost


def look_up_addresses(reactor: Any, host: str) -> Deferred[list[str]]:
    """The addresses of a name, IPv4 and IPv6, in the system's order; fails with OSError.

    A thread of its own looks them up: the reactor waits for its threads when it stops, and a resolver may hang.
    """
    found: Deferred[list[str]] = Deferred()

    def look() -> None:
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            reactor.callFromThread(found.errback, error)
            return
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        reactor.callFromThread(found.callback, addresses)

    threading.Thread(target=look, daemon=True).start()
    return found

#: How long one address of the frontend may take to answer.
CONNECT_SECONDS: Final = 5
#: Notice within a minute that the frontend's machine is gone, though nothing is sent to it.
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))

P = TypeVar("P", bound=Protocol)


class _Factory(Factory):
    noisy = False


class FrontendConnector:
    """Tries the addresses of one frontend in turn, first the one that worked last.

    :param path: of a UNIX socket; empty for TCP.
    :param shown: how the log calls the frontend.
    :param look_up: finds the addresses of a name; raises OSError.
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
        """A protocol with a connection.

        :raises FrontendLost: when no address of the frontend takes the connection.
        """
        problem = "its name has no address"
        for address in await self._addresses():
            try:
                protocol = await self._endpoint(address).connect(_Factory.forProtocol(make_protocol))
            except ConnectError as error:
                problem = os.strerror(error.osError) if isinstance(error.osError, int) else str(error).rstrip(".")
                continue
            self._last_address = address
            _keep_alive(protocol.transport)
            return protocol
        self._last_address = ""
        raise FrontendLost(f"cannot connect to {self.shown}: {problem}")

    def _endpoint(self, address: str) -> Any:
        if self._path:
            return UNIXClientEndpoint(self._reactor, address, timeout=CONNECT_SECONDS)
        kind = TCP6ClientEndpoint if isIPv6Address(address) else TCP4ClientEndpoint
        return kind(self._reactor, address, self._port, timeout=CONNECT_SECONDS)

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


def _keep_alive(transport: Any) -> None:
    if not ITCPTransport.providedBy(transport):
        return
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                transport.getHandle().setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
