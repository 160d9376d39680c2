"""The clients of a frontend: how a program connects to it, and the connections in JSON lines and in bare JSON."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, UNIXClientEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import (
    IConsumer,
    INegotiated,
    IPushProducer,
    IReactorFromThreads,
    IStreamClientEndpoint,
    ISystemHandle,
    ITCPTransport,
    ITransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.base.errors import plain_reason
from fakedev.lines.auth import encode_auth, is_plain_ok
from fakedev.lines.grammar import ProtocolError
from fakedev.queues.bare import BareReader
from fakedev.queues.messages import MAX_LINE_BYTES
from fakedev.runtime.reactor import IReactor

#: How long one address of the frontend may take to answer.
CONNECT_SECONDS: Final = 5
#: TCP options that detect within a minute that the frontend's machine is gone, although nothing is sent to it.
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))

P = TypeVar("P", bound=Protocol)
Message = TypeVar("Message")


class FrontendLost(Exception):
    """The frontend cannot be reached, or has closed the connection; trying again may help."""


class FrontendRefused(Exception):
    """The frontend refuses the request, or does not speak this protocol; trying again does not help."""


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


@dataclass(eq=False)
class FrontendConnector:
    """Connects to one frontend: tries its addresses in turn, first the one that worked last.

    :param path: of a UNIX socket; empty for TCP.
    :param shown: the frontend's name in the log.
    :param look_up: finds the addresses of a name; fails with OSError.
    :param read_token: gives the token for a :class:`JsonClient`, or raises ValueError; None for no token.
    :param tls_options: gives how connections are encrypted, for Twisted's wrapClientTLS, or raises ValueError; it is
        asked for each connection, because certificates change. None for plain text.
    """

    reactor: IReactor
    path: str = ""
    host: str = ""
    port: int = 0
    shown: str = ""
    look_up: Callable[[Any, str], Deferred[list[str]]] = look_up_addresses
    read_token: Callable[[], str] | None = None
    tls_options: Callable[[], Any] | None = None
    _last_address: str = ""

    def __post_init__(self) -> None:
        self.shown = self.shown or self.path or f"{self.host}:{self.port}"

    async def connect(self, make_protocol: Callable[[], P]) -> P:
        """A connected protocol, which has sent its token.

        :raises FrontendLost: when no address of the frontend takes the connection, or the token cannot be read.
        """
        try:
            token = self.read_token() if self.read_token is not None else ""
        except ValueError as error:
            raise FrontendLost(f"no token for {self.shown}: {error}") from None
        try:
            options = self.tls_options() if self.tls_options is not None else None
        except ValueError as error:
            raise FrontendLost(f"no TLS with {self.shown}: {error}") from None
        problem = "its name has no address"
        for address in await self._addresses():
            try:
                connecting = self._endpoint(address, options).connect(_Factory.forProtocol(make_protocol))
                protocol = cast("P", await connecting)
            except ConnectError as error:
                problem = (
                    plain_reason(OSError(error.osError, "")) if isinstance(error.osError, int)
                    else str(error).rstrip(".")
                )  # fmt: skip
                continue
            self._last_address = address
            _keep_alive(protocol.transport)
            if token:
                cast("JsonClient[Any]", protocol).authenticate(token)
            return protocol
        self._last_address = ""
        raise FrontendLost(f"cannot connect to {self.shown}: {problem}")

    def _endpoint(self, address: str, tls_options: Any) -> IStreamClientEndpoint:
        if self.path:
            return UNIXClientEndpoint(self.reactor, address, timeout=CONNECT_SECONDS)
        make_endpoint = TCP6ClientEndpoint if isIPv6Address(address) else TCP4ClientEndpoint
        endpoint = make_endpoint(self.reactor, address, self.port, timeout=CONNECT_SECONDS)
        if tls_options is None:
            return endpoint
        from twisted.internet.endpoints import wrapClientTLS  # noqa: PLC0415 - needs pyOpenSSL

        return wrapClientTLS(tls_options, endpoint)

    async def _addresses(self) -> list[str]:
        if self.path:
            # Twisted takes a leading NUL for an abstract socket.
            return ["\0" + self.path[1:] if self.path.startswith("@") else self.path]
        if self._last_address:
            return [self._last_address]
        if isIPAddress(self.host) or isIPv6Address(self.host):
            return [self.host]
        try:
            return await self.look_up(self.reactor, self.host)
        except OSError as error:
            raise FrontendLost(f"{self.host} has no address: {plain_reason(error)}") from None


def _keep_alive(transport: ITransport | None) -> None:
    if INegotiated.providedBy(transport):
        transport = cast("Protocol", transport).transport  # the TCP transport below TLS
    if not ITCPTransport.providedBy(transport):
        return
    handle = cast("socket.socket", cast("ISystemHandle", transport).getHandle())
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def tls_reason(error: BaseException | None) -> str:
    """Why TLS failed, of an error of pyOpenSSL; empty for other errors."""
    if not type(error).__module__.startswith("OpenSSL") or error is None:
        return ""
    entries = error.args[0] if error.args and isinstance(error.args[0], list) else []
    words = [str(entry[-1]) for entry in entries if entry]
    return f"TLS failed: {', '.join(words) or 'no reason is given'}"


class _Client(Protocol):
    """One connection to a frontend.

    :param log: a method of a Logger, which logs all messages; None: they are not logged.
    :ivar is_lost: the connection is closed.
    """

    transport: ITCPTransport  # set before connectionMade

    def __init__(self, log: Callable[..., None] | None) -> None:
        self.is_lost = False
        self._log = log

    def send(self, message: bytes) -> None:
        """Send a message in one write: the original reads once. A line ends with a newline."""
        if self._log is not None:
            self._log("sends {message!r}", message=message)
        self.transport.write(message)

    def close(self) -> None:
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close the connection now, without sending what is still buffered."""
        self.transport.abortConnection()

    def _log_received(self, data: bytes) -> None:
        if self._log is not None:
            self._log("received {data!r}", data=data)

    def _note_loss(self, reason: Failure) -> str:
        """The connection is closed; returns why."""
        self.is_lost = True
        return tls_reason(reason.value) or reason.getErrorMessage().rstrip(".")


@implementer(IPushProducer)
class JsonClient(_Client, LineOnlyReceiver, Generic[Message]):
    """One connection to a frontend that speaks JSON lines: for backends, the tester and the scale test.

    :param parse: the message of a line, None for one that does not matter here; raises ProtocolError.
    :param lost: called once, when the connection is closed, with FrontendLost or FrontendRefused.
    :param writable: called when the frontend reads again after it did not keep up.
    :ivar is_full: the frontend does not read what was sent: the caller should send nothing more now.
    """

    delimiter = b"\n"
    MAX_LENGTH = MAX_LINE_BYTES

    def __init__(
        self,
        parse: Callable[[bytes], Message | None],
        received: Callable[[Message], None],
        lost: Callable[[Exception], None],
        *,
        writable: Callable[[], None] | None = None,
        log: Callable[..., None] | None = None,
    ) -> None:
        super().__init__(log)
        self.is_full = False
        self._parse = parse
        self._received = received
        self._lost = lost
        self._writable = writable
        self._fault: Exception | None = None
        self._awaits_admission = False

    def connectionMade(self) -> None:
        """Let the transport report when the frontend does not keep up."""
        if self._writable is not None:
            cast(IConsumer, self.transport).registerProducer(self, True)

    def authenticate(self, token: str) -> None:
        """Send the token, which is not logged, before all else; its answer is passed on only when it is an error."""
        self._awaits_admission = True
        self.transport.write(encode_auth(token))

    def fail(self, fault: Exception) -> None:
        """Close the connection now; ``lost`` gets this fault."""
        self._fault = fault
        self.abort()

    def lineReceived(self, line: bytes) -> None:
        self._log_received(line)
        if self._awaits_admission:
            self._awaits_admission = False
            if is_plain_ok(line):
                return
        try:
            message = self._parse(line)
        except ProtocolError as error:
            self.fail(FrontendRefused(f"the frontend does not speak JSON lines; try the other protocol: {error.text}"))
            return
        if message is not None:
            self._received(message)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Close: no answer is that long."""
        self.fail(FrontendRefused(f"an answer of the frontend is longer than {self.MAX_LENGTH} bytes"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        text = self._note_loss(reason)
        self._lost(self._fault or FrontendLost(f"the frontend closed the connection: {text}"))

    def pauseProducing(self) -> None:
        self.is_full = True

    def resumeProducing(self) -> None:
        self.is_full = False
        if self._writable is not None:
            self._writable()

    def stopProducing(self) -> None:
        """The connection is closed (called by the transport before connectionLost)."""


class BareClient(_Client, Generic[Message]):
    """One connection in bare JSON, as the original programs have it: a request, its answer, a backend's result.

    :param parse: the answer of an object's bytes; raises ProtocolError.
    :param lost: called with the reason when the connection is closed.
    """

    def __init__(
        self,
        parse: Callable[[bytes], Message],
        *,
        lost: Callable[[str], None] | None = None,
        log: Callable[..., None] | None = None,
    ) -> None:
        super().__init__(log)
        self._reader = BareReader(parse)
        self._lost = lost
        self._answered: Callable[[Message], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def request(
        self, message: bytes, answered: Callable[[Message], None], failed: Callable[[Exception], None]
    ) -> None:
        """Send the request; one of the two is called once.

        :param failed: called with FrontendLost when the connection is closed before the answer, and with ProtocolError
            when the frontend says something else (``busy``: it has no room for the connection now).
        """
        self._answered, self._failed = answered, failed
        self.send(message)

    def abort(self) -> None:
        """Close the connection now; nothing more is reported of a pending request."""
        self._answered = self._failed = None
        super().abort()

    def dataReceived(self, data: bytes) -> None:
        """Take bytes of the answer; later bytes are ignored."""
        self._log_received(data)
        if self._answered is None:
            return
        try:
            answer = self._reader.feed(data)
        except ProtocolError as error:
            self._fail(error)
            return
        if answer is not None:
            answered, self._answered, self._failed = self._answered, None, None
            answered(answer)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        text = self._note_loss(reason)
        self._fail(FrontendLost(f"the frontend closed the connection without an answer: {text}"))
        if self._lost is not None:
            self._lost(text)

    def _fail(self, fault: Exception) -> None:
        failed, self._answered, self._failed = self._failed, None, None
        if failed is not None:
            failed(fault)
