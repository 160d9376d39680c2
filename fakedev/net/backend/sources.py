"""Where a backend's worker gets its jobs from, whatever is spoken with the frontend.

What a program that ends still waits for: an answer that is on its way, for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime

from fakedev.workqueue.outcome import Report


class FrontendLost(Exception):
    """The frontend cannot be reached, or left; it may come back."""


class FrontendRefused(Exception):
    """The frontend has no work for this backend, and will have none."""


class BackendNames(Protocol):
    """Where a backend runs, for the results."""

    def shown(self) -> dict[str, str]:
        """Its pod, node and device, each empty when not known."""


class TakenJob:
    """A job that a worker holds.

    :param limit_seconds: run-time limit; 0 for none.
    """

    def __init__(self, arguments: tuple[str, ...], limit_seconds: float) -> None:
        self.arguments = arguments
        self.limit_seconds = limit_seconds
        self.withdrawn = ""
        self._watcher: Callable[[], None] | None = None

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call this when nothing is wanted of the job any more; at once when that is so already."""
        self._watcher = watcher
        if self.withdrawn:
            watcher()

    def withdraw(self, reason: str) -> None:
        """Nothing is wanted of the job any more."""
        if not self.withdrawn:
            self.withdrawn = reason
            if self._watcher is not None:
                self._watcher()


class JobSource(Protocol):
    """A worker's way to its frontend. It holds one job at most.

    :ivar waits_for_work: whether :meth:`take` can wait at the frontend.
    :ivar takes_back: whether a job that is given back waits again, instead of failing.
    """

    waits_for_work: bool
    takes_back: bool

    async def take(self, idle_seconds: float) -> TakenJob | None:
        """A job; None when the queue is empty, or :meth:`leave` was called.

        :param idle_seconds: how long to wait for one, where that is possible.
        :raises FrontendLost:
        :raises FrontendRefused:
        """

    async def finish(self, job: TakenJob, report: Report) -> None:
        """Send the result of a job that was not withdrawn.

        :raises FrontendLost: when it could not be sent.
        """

    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """Send a job back that was not run to its end.

        :param run_seconds: how long it ran.
        :raises FrontendLost: when that could not be sent.
        """

    def leave(self) -> None:
        """Wait for no more work, and for no answer longer than a moment; a job that is held may still be finished."""

    def cut(self) -> None:
        """Drop the connection now."""

#: How long a program that ends waits for an answer.
LAST_WORDS_SECONDS: Final = 0.5

T = TypeVar("T")


class Shutdown:
    """Waits for one thing at a time; when the program is to end, each wait ends too, by CancelledError.

    :ivar leaving: whether the program is to end.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waited: Deferred[Any] | None = None
        self.leaving = False

    async def ask(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """What a frontend is asked for; None when the wait ended because the program is to end."""
        try:
            return await self.wait(Deferred.fromCoroutine(asking))
        except (FrontendLost, FrontendRefused, CancelledError, ConnectingCancelledError):
            if self.leaving:
                return None
            raise

    def wait(self, waited: Deferred[T]) -> Deferred[T]:
        """Wait for this, as the one that is cancelled when there is no more time for it."""
        self._waited = waited
        if self.leaving:
            self._hurry(waited)
        return waited

    def leave(self) -> None:
        """Let the wait, and those to come, take no longer than a moment."""
        self.leaving = True
        if self._waited is not None:
            self._hurry(self._waited)

    def cut(self) -> None:
        """End the wait now."""
        self.leaving = True
        if self._waited is not None:
            self._waited.cancel()

    def _hurry(self, waited: Deferred[Any]) -> None:
        self._clock.callLater(LAST_WORDS_SECONDS, waited.cancel)
