"""Services that listen on an address, and the limit of file descriptors that pauses accepting.

A service reports clear errors at the start, has the real address, and stops in order.

Twisted closes connections that it accepts without a descriptor, and logs each. When it cannot do even that, the port
stays readable and the reactor spins. So a port looks before it accepts: a new connection waits in the system's queue
while only the descriptors are left that files, logs and other ports need.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, NoReturn, cast
from weakref import WeakSet

from twisted.application.service import MultiService, Service
from twisted.internet import tcp
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IProtocolFactory, IReadDescriptor, IStreamServerEndpoint
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.base.errors import plain_reason
from fakedev.runtime.early import every_address, passed_socket
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.socket_files import SocketPathError
from fakedev.runtime.unix_sockets import OwnedUnixPort, PassedUnixEndpoint, UnixEndpoint
from fakedev.schema.addresses import ListenAddress

#: A port without descriptors looks again after this time; sooner when it has closed a connection.
RETRY_SECONDS: Final = 0.2
ROOM_SECONDS: Final = 0.01
#: Connections that a port accepts in one turn of the reactor, and for how long: one with TLS takes a millisecond.
_MAX_ACCEPTS: Final = 20
_MAX_ACCEPT_SECONDS: Final = 0.005
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
    """Whether the ports of an application are short of file descriptors; each shortage is logged once.

    :ivar postponed: how often a port did not accept because of it.
    """

    log = Logger()

    def __init__(self) -> None:
        self._last_seconds: float | None = None
        self.postponed = 0

    def note(self, now: float) -> None:
        """A port has not accepted."""
        if self.problem(now) is None:
            text = "{problem}; raise the limit (LimitNOFILE=, ulimit -n) or lower max-connections"
            self.log.error(text, problem=_SHORTAGE)
        self._last_seconds = now
        self.postponed += 1

    def problem(self, now: float) -> str | None:
        """What is wrong; None when there was no shortage lately."""
        if self._last_seconds is None or now - self._last_seconds > OVER_SECONDS:
            return None
        return _SHORTAGE


@implementer(IReadDescriptor)
class CarefulPort:
    """Takes a port's place in the reactor, and lets it accept only while descriptors are left.

    :param port: of Twisted; it listens already.
    :param make_room: closes a connection that is not needed, and returns whether there was one.
    :param spare: the descriptors that must be left for others.
    :param find_lowest: returns the lowest free descriptor; None for none.
    """

    def __init__(
        self,
        port: tcp.Port,
        reactor: IReactor,
        shortage: DescriptorShortage,
        make_room: Callable[[], bool],
        spare: int = SPARE,
        find_lowest: Callable[[int], int | None] = lowest_free_descriptor,
    ) -> None:
        self._port = port
        self._reactor = reactor
        self._shortage = shortage
        self._make_room = make_room
        self._spare = spare
        self._find_lowest = find_lowest
        self._is_closed = False
        port.stopReading()
        reactor.addReader(self)

    def fileno(self) -> int:
        """See IReadDescriptor."""
        number: int = self._port.fileno()
        return number

    def logPrefix(self) -> str:
        """See IReadDescriptor."""
        name: str = self._port.logPrefix()
        return name

    def connectionLost(self, reason: Failure) -> None:
        """See IReadDescriptor."""
        self.close()
        self._port.connectionLost(reason)

    def doRead(self) -> None:
        """Accept waiting connections one by one, or pause when descriptors are short."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        spare = min(self._spare, limit * self._spare // _WHOLE)
        began = self._reactor.seconds()
        for _ in range(_MAX_ACCEPTS):
            lowest = self._find_lowest(self._port.fileno())
            if lowest is None or lowest + spare >= limit:
                self._shortage.note(self._reactor.seconds())
                seconds = ROOM_SECONDS if self._make_room() else RETRY_SECONDS
                self._reactor.removeReader(self)
                self._reactor.callLater(seconds, self._look_again)
                return
            # Twisted raises the number when it has accepted as many, and leaves it at 1 when nothing waits.
            self._port.numberAccepts = 1
            self._port.doRead()
            if self._port.numberAccepts == 1 or self._reactor.seconds() - began >= _MAX_ACCEPT_SECONDS:
                return

    def close(self) -> None:
        """Stop accepting, before the port is closed."""
        self._is_closed = True
        self._reactor.removeReader(self)

    def _look_again(self) -> None:
        if not self._is_closed:
            self._reactor.addReader(self)


_SHORTAGE: Final = "no file descriptors are left for connections: new ones wait"


_LOOK_AGAIN_SECONDS = 0.02
_NOT_PASSED = "systemd has passed no such socket: start this program by a .socket unit with FileDescriptorName=NAME"

_PARTICULAR_REASONS = {errno.EACCES: "this user may not listen there"}


#: How an IPv6 socket shows the addresses of IPv4 peers begins.
MAPPED: Final = "::ffff:"


class CannotListen(Exception):
    """The program cannot listen on an address; the text is a whole sentence."""


class CannotStart(Exception, SystemExit):
    """Ends the program, after the reason was logged or printed.

    It has two bases because of twistd: only after an Exception twistd removes its pid file and reports to the process
    that waits for the daemon; only after a SystemExit it prints no traceback.

    :ivar code: the exit code.
    """

    code: int

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Announced(NamedTuple):
    """How an address is announced.

    :ivar key: of its list in the ready file.
    :ivar words: what it serves.
    :ivar path: of an HTTP address: one that shows it; empty for a line port.
    :ivar curl_path: the same for curl, which shows a UNIX socket; empty: that path.
    :ivar has_control: whether it is an HTTP address with the whole API.
    :ivar token_file: has its token; empty for none, or for one that is in no file.
    """

    key: str
    words: str
    path: str = ""
    curl_path: str = ""
    has_control: bool = False
    token_file: str = ""


def endpoint_of(address: ListenAddress, reactor: IReactor, make_folder: bool = False) -> IStreamServerEndpoint:
    """The endpoint of an address, with the socket that listens there already, if it was passed (EarlySockets).

    :param make_folder: make the folder of a UNIX socket, only for this user, when it is missing.
    :raises ValueError: when Twisted refuses the description, or systemd has passed no such socket.
    """
    from twisted.internet import endpoints  # noqa: PLC0415 - takes 5 ms, and a usage error does not need it

    has_descriptors = isinstance(reactor, ReactorBase)  # not in memory
    passed = passed_socket(os.environ, address.display) if has_descriptors else None
    if address.kind == "unix":
        return UnixEndpoint(reactor, address, make_folder, passed)
    if passed is None and address.kind == "tcp" and not address.host and has_descriptors:
        passed = every_address(address.port)
    if passed is not None:
        return endpoints.AdoptedStreamServerEndpoint(reactor, passed.detach(), passed.family)
    try:
        endpoint: Any = endpoints.serverFromString(reactor, address.description)
    except LookupError:  # of a systemd endpoint
        raise ValueError(_NOT_PASSED) from None
    except TypeError as error:
        raise ValueError(f"Twisted refuses the arguments of this endpoint string: {error}") from None
    if has_descriptors and getattr(endpoint, "addressFamily", None) == socket.AF_UNIX:
        endpoint = PassedUnixEndpoint(reactor, endpoint.fileno)
    return cast(IStreamServerEndpoint, endpoint)


class ListeningService(Service):
    """Listens on one address from the start to the stop of the application.

    At the stop a factory that has ``shut_down()`` closes its connections itself, which may take a moment each.

    :param make_folder: make the folder of a UNIX socket, only for this user, when it is missing.
    :ivar failure: why listening failed, once it has.
    :ivar announced: None: it is not.
    :ivar remedy: how a user gives it another address; empty: the error does not say.
    """

    #: How long connections may take to answer and to send buffered data when the service stops.
    closing_seconds = 2.0
    announced: Announced | None = None
    failure: CannotListen | None = None
    remedy = ""

    def __init__(
        self, address: ListenAddress, factory: IProtocolFactory, reactor: IReactor, make_folder: bool = False
    ) -> None:
        self.address = address
        self.factory = factory
        self._reactor = reactor
        self._make_folder = make_folder
        self._port: Any = None
        self._careful: CarefulPort | None = None
        self._transports: WeakSet[Any] = WeakSet()
        self._make_transport: Callable[..., Any] | None = None

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

    def stopService(self) -> Deferred[None]:
        """Stop listening, let connections answer and send their buffered data, then close them."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    def abandon(self) -> None:
        """Remove the socket file, when the program ends and its reactor has not run."""
        if isinstance(self._port, OwnedUnixPort):
            self._port.remove_file()

    def _listen(self) -> None:
        if self._port is not None:
            return
        outcomes: list[Any] = []
        try:
            endpoint = endpoint_of(self.address, self._reactor, self._make_folder)
            endpoint.listen(self.factory).addBoth(outcomes.append)
            # Endpoints of all kinds that addresses can have fire at once.
            (port,) = outcomes
            if isinstance(port, Failure):
                port.raiseException()
        except (CannotListenError, SocketPathError, ValueError, OSError) as reason:
            remedy = f"; {self.remedy}" if self.remedy else ""
            text = f"cannot listen on {self.address.display}: {_plain(reason)}{remedy}"
            self.failure = CannotListen(text)
            raise self.failure from None
        self._port = port
        self._make_transport = getattr(port, "transport", None)
        if self._make_transport is not None:
            port.transport = self._accept  # Twisted's documented hook
        if isinstance(port, tcp.Port):
            shortage = self.parent.shortage if isinstance(self.parent, Listeners) else DescriptorShortage()
            make_room = getattr(self.factory, "make_room", None)  # a line port closes its longest silent peer
            spare = SPARE_OF_LINE_PORTS if make_room else SPARE
            self._careful = CarefulPort(port, self._reactor, shortage, make_room or bool, spare)

    def _accept(self, *args: Any) -> Any:
        assert self._make_transport is not None
        transport = self._make_transport(*args)
        client = getattr(transport, "client", None)
        if client and isinstance(client[0], str) and client[0].startswith(MAPPED):
            transport.client = (client[0].removeprefix(MAPPED), *client[1:])
        # An answer is one write: waiting for more would only delay it.
        transport.setTcpNoDelay(True)
        self._transports.add(transport)
        return transport

    async def _stop(self) -> None:
        if self._port is None:
            return
        port, self._port = self._port, None
        if self._careful is not None:
            self._careful.close()
        await maybeDeferred(port.stopListening)
        if self._connected():  # what they have just sent may not have been read yet
            await deferLater(self._reactor, _LOOK_AGAIN_SECONDS)
        getattr(self.factory, "shut_down", self._close)()  # that of HTTP lets answers end first
        until = self._reactor.seconds() + self.closing_seconds
        while self._connected() and self._reactor.seconds() < until:
            await deferLater(self._reactor, _LOOK_AGAIN_SECONDS)
        for transport in self._connected():
            transport.abortConnection()

    def _close(self) -> None:
        for transport in self._connected():
            transport.loseConnection()

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
