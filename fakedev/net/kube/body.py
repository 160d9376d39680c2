"""The body of an answer: whole and bounded, or line by line as it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IResponse

from fakedev.net.kube.api_error import NO_ANSWER, ApiError
from fakedev.net.kube.transport import no_answer

#: The longest answer: a page of 500 objects.
MOST_BODY_BYTES: Final = 32 * 2**20
#: The longest event: an object of the API is not longer than 3 MiB.
MOST_LINE_BYTES: Final = 8 * 2**20


class _Reader(Protocol):
    """Reads a body; its Deferred fires at the end of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._error: Exception | None = None
        self.done: Deferred[Any] = Deferred(lambda _: self.abort())

    def fail(self, error: Exception) -> None:
        """Close the connection; the Deferred fails with this error."""
        self._error = self._error or error
        self.abort()

    def abort(self) -> None:
        """Close the connection."""
        transport: Any = self.transport
        if transport is not None:
            getattr(transport, "abortConnection", transport.loseConnection)()

    def result(self) -> Any:
        """What the Deferred fires with."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body has ended, or broken off (called by Twisted)."""
        if self.done.called:
            return
        if self._error is not None:
            self.done.errback(self._error)
        elif reason.check(ResponseDone, PotentialDataLoss):
            self.done.callback(self.result())
        else:
            self.done.errback(no_answer(reason.value or ConnectionLost(), self._url))


class _Whole(_Reader):
    def __init__(self, url: str, most_bytes: int) -> None:
        super().__init__(url)
        self._most_bytes = most_bytes
        self._size = 0
        self._parts: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most_bytes:
            self._parts.clear()
            text = f"the answer of {self._url} is longer than {self._most_bytes // 2**20} MiB"
            self.fail(ApiError(NO_ANSWER, "TooLarge", text))
        elif self._error is None:
            self._parts.append(data)

    def result(self) -> bytes:
        return b"".join(self._parts)


class _Lines(_Reader):
    def __init__(
        self, url: str, received: Callable[[bytes], None], clock: IReactorTime, silence_seconds: float
    ) -> None:
        super().__init__(url)
        self._received = received
        self._silence_seconds = silence_seconds
        self._parts: list[bytes] = []
        self._size = 0
        self._timer: IDelayedCall = clock.callLater(silence_seconds, self._was_silent)

    def dataReceived(self, data: bytes) -> None:
        if self._error is not None or self.done.called:
            return
        self._timer.reset(self._silence_seconds)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._parts.append(line)
            whole = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            if whole:
                try:
                    self._received(whole)
                except ApiError as error:
                    self.fail(error)
                    return
            if self.done.called:
                return  # cancelled by the receiver
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > MOST_LINE_BYTES:
                self._parts.clear()
                text = f"{self._url} sends an event of more than {MOST_LINE_BYTES // 2**20} MiB"
                self.fail(ApiError(NO_ANSWER, "TooLarge", text))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._timer.active():
            self._timer.cancel()
        super().connectionLost(reason)

    def _was_silent(self) -> None:
        self.fail(ApiError(NO_ANSWER, "Silent", f"{self._url} has sent nothing for {self._silence_seconds:.0f} s"))


def read_whole(response: IResponse, url: str, most_bytes: int = MOST_BODY_BYTES) -> Deferred[bytes]:
    """The body; fails with ApiError when it is too long or breaks off. Cancelling closes the connection."""
    reader = _Whole(url, most_bytes)
    response.deliverBody(reader)
    return cast("Deferred[bytes]", reader.done)


def read_lines(
    response: IResponse, url: str, received: Callable[[bytes], None], clock: IReactorTime, silence_seconds: float
) -> Deferred[None]:
    """Calls ``received`` with each line that is not empty; fires when the body ends.

    Fails with the ApiError that ``received`` raises, and when the body breaks off, a line is too long, or nothing comes
    for ``silence_seconds``. Cancelling closes the connection.
    """
    reader = _Lines(url, received, clock, silence_seconds)
    response.deliverBody(reader)
    return cast("Deferred[None]", reader.done)
