"""The client of a frontend in JSON lines: backends, the tester and the scale test send and receive through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from twisted.internet.interfaces import IConsumer, IPushProducer, ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.lines.frontend_errors import FrontendLost, FrontendRefused
from fakedev.wire.errors import ProtocolError
from fakedev.wire.queue_messages import MAX_LINE_BYTES

Message = TypeVar("Message")


@implementer(IPushProducer)
class JsonClient(LineOnlyReceiver, Generic[Message]):
    """One connection to a frontend that speaks JSON lines.

    :param parse: the message of a line, None for one that does not matter here; raises ProtocolError.
    :param received: called with each message.
    :param lost: called once, when the connection is closed, with FrontendLost or FrontendRefused.
    :param writable: called when the frontend reads again after it did not keep up.
    :param log: a method of a Logger, which logs all lines; None: they are not logged.
    :ivar is_full: the frontend does not read what was sent: the caller should send nothing more now.
    :ivar is_lost: the connection is closed.
    """

    delimiter = b"\n"
    MAX_LENGTH = MAX_LINE_BYTES
    transport: ITCPTransport  # set before connectionMade

    def __init__(
        self,
        parse: Callable[[bytes], Message | None],
        received: Callable[[Message], None],
        lost: Callable[[Exception], None],
        *,
        writable: Callable[[], None] | None = None,
        log: Callable[..., None] | None = None,
    ) -> None:
        self.is_full = False
        self.is_lost = False
        self._parse = parse
        self._received = received
        self._lost = lost
        self._writable = writable
        self._log = log
        self._fault: Exception | None = None

    def connectionMade(self) -> None:
        """Let the transport report when the frontend does not keep up."""
        if self._writable is not None:
            cast(IConsumer, self.transport).registerProducer(self, True)

    def send(self, line: bytes) -> None:
        """Send a line, which ends with a newline."""
        if self._log is not None:
            self._log("sends {line!r}", line=line)
        self.transport.write(line)

    def fail(self, fault: Exception) -> None:
        """Close the connection now; ``lost`` gets this fault."""
        self._fault = fault
        self.abort()

    def close(self) -> None:
        """Close the connection when all is sent."""
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close the connection now, without sending what is still buffered."""
        self.transport.abortConnection()

    def lineReceived(self, line: bytes) -> None:
        """Parse a line, and pass the message on."""
        if self._log is not None:
            self._log("received {line!r}", line=line)
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
        """Report why the connection is closed."""
        self.is_lost = True
        text = reason.getErrorMessage().rstrip(".")
        self._lost(self._fault or FrontendLost(f"the frontend closed the connection: {text}"))

    def pauseProducing(self) -> None:
        """The transport's buffer is full (called by the transport)."""
        self.is_full = True

    def resumeProducing(self) -> None:
        """The transport's buffer has room again (called by the transport)."""
        self.is_full = False
        if self._writable is not None:
            self._writable()

    def stopProducing(self) -> None:
        """The connection is closed (called by the transport before connectionLost)."""
