"""The client of a frontend in bare JSON, as the original programs have it: a connection for each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from fakedev.net.lines.frontend_errors import FrontendLost
from fakedev.wire.bare_queue import BareReader
from fakedev.wire.errors import ProtocolError

Answer = TypeVar("Answer")


class BareClient(Protocol, Generic[Answer]):
    """One connection: a request and its answer, and for a backend the result after that.

    :param parse: the answer of an object's bytes; raises ProtocolError.
    :param lost: called with the reason when the connection is closed.
    :param log: a method of a Logger, which logs all bytes; None: they are not logged.
    :ivar is_lost: the connection is closed.
    """

    transport: ITCPTransport  # set before connectionMade

    def __init__(
        self,
        parse: Callable[[bytes], Answer],
        *,
        lost: Callable[[str], None] | None = None,
        log: Callable[..., None] | None = None,
    ) -> None:
        self.is_lost = False
        self._reader = BareReader(parse)
        self._lost = lost
        self._log = log
        self._answered: Callable[[Answer], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def request(
        self, message: bytes, answered: Callable[[Answer], None], failed: Callable[[Exception], None]
    ) -> None:
        """Send the request; one of the two is called once.

        :param failed: called with FrontendLost when the connection is closed before the answer, and with ProtocolError
            when the frontend says something else (``busy``: it has no room for the connection now).
        """
        self._answered, self._failed = answered, failed
        self.send(message)

    def send(self, message: bytes) -> None:
        """Send a message in one write: the original reads once."""
        if self._log is not None:
            self._log("sends {message!r}", message=message)
        self.transport.write(message)

    def close(self) -> None:
        """Close the connection when all is sent."""
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close the connection now; nothing more is reported of a pending request."""
        self._answered = self._failed = None
        self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Take bytes of the answer; later bytes are ignored."""
        if self._log is not None:
            self._log("received {data!r}", data=data)
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
        """Report why the connection is closed."""
        self.is_lost = True
        text = reason.getErrorMessage().rstrip(".")
        self._fail(FrontendLost(f"the frontend closed the connection without an answer: {text}"))
        if self._lost is not None:
            self._lost(text)

    def _fail(self, fault: Exception) -> None:
        failed, self._answered, self._failed = self._failed, None, None
        if failed is not None:
            failed(fault)
