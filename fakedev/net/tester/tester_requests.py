"""What a load's driver and its way to the frontend know of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.workqueue.outcome import Answer, Outcome

_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 5.0


class Requests(Protocol):
    """A way to send requests to one queue of a frontend.

    :ivar can_start: whether ``send`` may be called now; ``Asker.may_start`` is called when that becomes so.
    """

    @property
    def can_start(self) -> bool:
        """Whether there is a frontend, and room."""

    def start(self) -> None:
        """Look for the frontend."""

    def send(self, number: int) -> None:
        """Send a request; ``Asker.answered`` is told of its end, once."""

    def take_back(self, number: int) -> None:
        """Cancel a request; nothing is told of it any more."""

    def stop(self) -> None:
        """Close all connections at once, whatever the frontend does; nothing is told any more."""


class Asker(Protocol):
    """Who sends requests."""

    def answered(self, number: int, answer: Answer) -> None:
        """A request is over."""

    def may_start(self) -> None:
        """Requests can be sent (again)."""

    def reconnected(self) -> None:
        """There is a connection again, after one was lost or could not be had."""


class Comeback:
    """When a frontend that is away is tried again: soon at first, then less and less often."""

    def __init__(self, attempt: Callable[[], None], clock: IReactorTime) -> None:
        self._attempt = attempt
        self._clock = clock
        self._wait_seconds = _FIRST_WAIT_SECONDS
        self._call: IDelayedCall | None = None

    def later(self) -> None:
        """Try after the next, longer wait."""
        self.stop()
        self._call = self._clock.callLater(self._wait_seconds, self._attempt)
        self._wait_seconds = min(2 * self._wait_seconds, _LONGEST_WAIT_SECONDS)

    def succeeded(self) -> None:
        """It is back: the next wait is short again."""
        self._wait_seconds = _FIRST_WAIT_SECONDS

    def stop(self) -> None:
        """Try no more."""
        if self._call is not None and self._call.active():
            self._call.cancel()


def lost(error: str) -> Answer:
    """What becomes of a request whose connection did not bear it to its end."""
    return Answer(Outcome.LOST, error=error)
