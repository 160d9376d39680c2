"""Services that listen on an address: clear errors at the start, the real address, and an orderly stop."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any, NoReturn
from weakref import WeakSet

from twisted.application.service import MultiService, Service
from twisted.internet import defer, tcp
from twisted.internet.base import ReactorBase
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.system.descriptors import SPARE, SPARE_OF_LINE_PORTS, CarefulPort, DescriptorShortage
from fakedev.net.system.unix_sockets import (
    DEFAULT_MODE,
    OwnedUnixPort,
    PassedUnixPort,
    SocketPathError,
    group_number,
    prepare_path,
)
from fakedev.spec.listen_address import BACKLOG, ListenAddress
from fakedev.spec.os_errors import plain_reason

_LOOK_AGAIN_SECONDS = 0.02
_NOT_PASSED = "systemd has passed no such socket: start this program by a .socket unit with FileDescriptorName=NAME"

_PARTICULAR_REASONS = {errno.EACCES: "this user may not listen there"}


#: How an IPv6 socket shows the addresses of IPv4 peers begins.
_MAPPED = "::ffff:"
#: Errors on a machine or in a container without IPv6.
_WITHOUT_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class CannotListen(Exception):
    """The program cannot listen on an address; the text is a whole sentence."""


class CannotStart(Exception, SystemExit):
    """Ends the program with code 1, after the reason was logged.

    It has two bases because of twistd: only after an Exception twistd removes its pid file and reports to the process
    that waits for the daemon; only after a SystemExit it prints no traceback.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 1


class _EveryAddressPort(tcp.Port):
    """A port on every IPv6 and IPv4 address, whatever the system's default; IPv4 peers have their IPv4 addresses."""

    def createInternetSocket(self) -> socket.socket:
        made: socket.socket = super().createInternetSocket()
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        return made


class ListeningService(Service):
    """Listens on one address from the start to the stop of the application.

    :param make_folder: make the folder of a UNIX socket, only for this user, when it is missing.
    :ivar failure: why listening failed, once it has.
    :ivar remedy: how a user gives it another address; empty: the error does not say.
    :ivar adopted: a socket that listens on the address already; None to make one.
    """

    log = Logger()
    #: How long connections may take to send buffered data when the service stops.
    closing_seconds = 2.0

    def __init__(
        self, address: ListenAddress, factory: IProtocolFactory, reactor: Any = None, make_folder: bool = False
    ) -> None:
        if reactor is None:
            from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it
        self.address = address
        self.factory = factory
        self.failure: CannotListen | None = None
        self.remedy = ""
        self._reactor = reactor
        self._make_folder = make_folder
        self._port: Any = None
        self.adopted: socket.socket | None = None
        self._waiting: defer.Deferred[Any] | None = None
        self._transports: WeakSet[Any] = WeakSet()
        self._make_transport: Callable[..., Any] | None = None

    @staticmethod
    def endpoint_of(reactor: Any, description: str) -> Any:
        """An endpoint from its description."""
        from twisted.internet.endpoints import serverFromString  # noqa: PLC0415 - takes long, and few addresses need it

        return serverFromString(reactor, description)

    @property
    def where(self) -> Any:
        """The real address (IPv4Address, IPv6Address or UNIXAddress), or None before the start."""
        return None if self._port is None else self._port.getHost()

    @property
    def display(self) -> str:
        """The real address in messages: ``127.0.0.1:9400``, ``[::1]:9400``, ``*:9400`` or a path."""
        where = self.where
        port = getattr(where, "port", None)
        if port is None:
            passed = "" if where is None or self.address.path else os.fsdecode(where.name or b"")
            return self.address.path or passed or self.address.display
        if self.address.kind == "tcp":
            # The configured host, with the real port.
            return f"{self.address.display.rpartition(':')[0]}:{port}"
        host = where.host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def privilegedStartService(self) -> None:
        """Start to listen (called before privileges are given up).

        :raises CannotListen: when the address cannot be used.
        """
        super().privilegedStartService()
        self._listen()

    def startService(self) -> None:
        """Start to listen, unless :meth:`privilegedStartService` did."""
        super().startService()
        self._listen()

    def stopService(self) -> defer.Deferred[None]:
        """Stop listening, let connections send their buffered data, then close them."""
        super().stopService()
        return defer.Deferred.fromCoroutine(self._stop())

    def abandon(self) -> None:
        """Remove the socket file, when the program ends and its reactor has not run."""
        if isinstance(self._port, OwnedUnixPort):
            self._port.remove_file()

    def _listen(self) -> None:
        if self._port is not None or self._waiting is not None:
            return
        try:
            if self.address.kind == "unix":
                self._listening(self._listen_unix())
            elif self.address.kind == "tcp":
                self._listening(self._listen_tcp())
            else:
                self._listen_endpoint()
        except (CannotListenError, SocketPathError, ValueError, OSError) as reason:
            raise self._failed(reason) from None

    def _listen_tcp(self) -> IListeningPort:
        address = self.address
        if self.adopted is not None:
            with self.adopted as listening_socket:  # the reactor has a copy
                adopted: IListeningPort = self._reactor.adoptStreamPort(
                    listening_socket.fileno(), listening_socket.family, self.factory
                )
            self.adopted = None
            return adopted
        if not address.host and isinstance(self._reactor, ReactorBase):
            port = _EveryAddressPort(address.port, self.factory, BACKLOG, "::", self._reactor)
            try:
                port.startListening()
            except CannotListenError as reason:
                if reason.socketError.errno not in _WITHOUT_IPV6:
                    raise
            else:
                return port
        listening: IListeningPort = self._reactor.listenTCP(
            address.port, self.factory, backlog=BACKLOG, interface=address.host
        )
        return listening

    def _listen_unix(self) -> IListeningPort:
        address = self.address
        mode = DEFAULT_MODE if address.mode is None else address.mode
        group = None if address.group is None else group_number(address.group)
        prepare_path(address.path, self._make_folder)
        # Only a reactor with real descriptors can run our port; the in-memory reactors of tests only record it.
        if not isinstance(self._reactor, ReactorBase):
            recorded: IListeningPort = self._reactor.listenUNIX(
                address.path, self.factory, backlog=BACKLOG, mode=mode
            )
            return recorded
        port = OwnedUnixPort(
            address.path, self.factory, backlog=BACKLOG, mode=mode, group=group, reactor=self._reactor
        )
        port.startListening()
        return port

    def _listen_endpoint(self) -> None:
        try:
            endpoint = self.endpoint_of(self._reactor, self.address.description)
        except LookupError:  # of a systemd endpoint
            raise ValueError(_NOT_PASSED) from None
        if getattr(endpoint, "addressFamily", None) == socket.AF_UNIX and isinstance(self._reactor, ReactorBase):
            port = PassedUnixPort(socket.socket(fileno=endpoint.fileno), self.factory, self._reactor)
            port.startListening()
            self._listening(port)
            return
        waiting = self._waiting = endpoint.listen(self.factory)
        failed_now: list[Failure] = []
        waiting.addCallbacks(self._listening, failed_now.append)
        if failed_now:
            self._waiting = None
            failed_now[0].raiseException()
        # No caller is left to raise to: stop the program, because it must not run without listening.
        waiting.addErrback(lambda _: None)
        waiting.addCallback(lambda _: self._stop_program(failed_now) if failed_now else None)

    def _stop_program(self, failures: list[Failure]) -> None:
        reason = failures[0].value
        if reason is not None and not isinstance(reason, defer.CancelledError):
            self.log.critical("{text}", text=str(self._failed(reason)))
            self._reactor.stop()

    def _listening(self, port: Any) -> None:
        self._port = port
        self._make_transport = getattr(port, "transport", None)
        if self._make_transport is not None:
            port.transport = self._accept  # Twisted's documented hook
        if isinstance(port, tcp.Port):
            shortage = self.parent.shortage if isinstance(self.parent, Listeners) else DescriptorShortage()
            make_room = getattr(self.factory, "make_room", None)  # a line port closes its longest silent peer
            if make_room is None:
                CarefulPort(port, self._reactor, shortage, bool, SPARE)
            else:
                CarefulPort(port, self._reactor, shortage, make_room, SPARE_OF_LINE_PORTS)

    def _accept(self, *args: Any) -> Any:
        assert self._make_transport is not None
        transport = self._make_transport(*args)
        client = getattr(transport, "client", None)
        if client and isinstance(client[0], str) and client[0].startswith(_MAPPED):
            transport.client = (client[0].removeprefix(_MAPPED), *client[1:])
        # An answer is one write: waiting for more would only delay it.
        transport.setTcpNoDelay(True)
        self._transports.add(transport)
        return transport

    def _failed(self, reason: BaseException) -> CannotListen:
        remedy = f"; {self.remedy}" if self.remedy else ""
        self.failure = CannotListen(f"cannot listen on {self.address.display}: {_plain(reason)}{remedy}")
        return self.failure

    async def _stop(self) -> None:
        if self._port is None:
            if self._waiting is not None:
                self._waiting.cancel()
            return
        port, self._port = self._port, None
        await defer.maybeDeferred(port.stopListening)
        for transport in self._connected():
            transport.loseConnection()
        until = self._reactor.seconds() + self.closing_seconds
        while self._connected() and self._reactor.seconds() < until:
            await deferLater(self._reactor, _LOOK_AGAIN_SECONDS)
        for transport in self._connected():
            transport.abortConnection()

    def _connected(self) -> list[Any]:
        return [transport for transport in list(self._transports) if transport.connected]


class Listeners(MultiService):
    """All addresses of the application: when one cannot be used, the program ends with code 1 and one clear line.

    Start it before the reactor runs, as twistd does: the reactor would catch the exception.

    :ivar shortage: whether the ports lack file descriptors.
    """

    log = Logger()

    def __init__(self, services: Iterable[ListeningService] = ()) -> None:
        super().__init__()
        self.setName("listeners")
        self.shortage = DescriptorShortage()
        for service in services:
            service.setServiceParent(self)

    @property
    def failure(self) -> CannotListen | None:
        """Why listening on an address has failed; the program's exit code is then 1."""
        return next((service.failure for service in self if service.failure), None)

    def privilegedStartService(self) -> None:
        """Listen on all addresses, or end the program."""
        self._all_or_none(super().privilegedStartService)

    def startService(self) -> None:
        """Listen on the remaining addresses, or end the program."""
        self._all_or_none(super().startService)

    def give_up(self, text: str) -> NoReturn:
        """End the program before its reactor runs.

        :raises CannotStart: with the text, which the log has then.
        """
        for service in self:
            service.abandon()
        self.log.critical("{text}", text=text)
        raise CannotStart(text)

    def _all_or_none(self, start: Callable[[], None]) -> None:
        try:
            start()
        except CannotListen as reason:
            self.give_up(str(reason))


def _plain(reason: BaseException) -> str:
    if isinstance(reason, CannotListenError):
        reason = reason.socketError
    return plain_reason(reason, _PARTICULAR_REASONS)
