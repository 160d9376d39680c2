"""The client of a frontend in bare JSON, as the original programs have it: a connection for each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
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
    :param log: a method of a Logger, which logs all bytes; None: they are not logged.
    :ivar closed: fires with the reason when the connection is closed.
    """

    transport: ITCPTransport  # set before connectionMade

    def __init__(self, parse: Callable[[bytes], Answer], log: Callable[..., None] | None = None) -> None:
        self.closed: Deferred[str] = Deferred()
        self._reader = BareReader(parse)
        self._answer: Deferred[Answer] | None = None
        self._log = log

    def request(self, message: bytes) -> Deferred[Answer]:
        """Send the request, in one write: the original reads once.

        :returns: fires with the answer; fails with FrontendLost when the connection is closed before, and with
            ProtocolError when the frontend says something else (``busy``: it has no room for the connection now).
        """
        answer = self._answer = Deferred()
        self.send(message)
        return answer

    def send(self, message: bytes) -> None:
        """Send a message in one write."""
        if self._log is not None:
            self._log("sends {message!r}", message=message)
        self.transport.write(message)

    def close(self) -> None:
        """Close the connection when all is sent."""
        self.transport.loseConnection()

    def abort(self) -> None:
        """Close the connection now; a pending answer never fires."""
        self._answer = None
        self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Take bytes of the answer; what comes after it is ignored."""
        if self._log is not None:
            self._log("received {data!r}", data=data)
        if self._answer is None:
            return
        try:
            message = self._reader.feed(data)
        except ProtocolError as error:
            self._take_answer().errback(error)
            return
        if message is not None:
            self._take_answer().callback(message)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Report why the connection is closed."""
        text = reason.getErrorMessage().rstrip(".")
        if self._answer is not None:
            fault = FrontendLost(f"the frontend closed the connection without an answer: {text}")
            self._take_answer().errback(fault)
        self.closed.callback(text)

    def _take_answer(self) -> Deferred[Answer]:
        answer, self._answer = self._answer, None
        assert answer is not None
        return answer
