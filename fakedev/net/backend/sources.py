"""Where a backend's worker gets its jobs from, whichever protocol the frontend speaks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime

from fakedev.net.lines.frontend_errors import FrontendLost, FrontendRefused
from fakedev.workqueue.outcome import Report

#: How long a program that stops waits for an answer.
SHUTDOWN_SECONDS: Final = 0.5

T = TypeVar("T")


class BackendNames(Protocol):
    """Where a backend runs, for the results."""

    def shown(self) -> dict[str, str]:
        """Its ``pod``, ``node`` and ``device``, each empty when not known."""


class TakenJob:
    """A job that a worker holds.

    :param limit_seconds: run-time limit; 0 for none.
    :ivar withdrawn: why the frontend does not want the result any more; empty while it does.
    """

    def __init__(self, arguments: tuple[str, ...], limit_seconds: float) -> None:
        self.arguments = arguments
        self.limit_seconds = limit_seconds
        self.withdrawn = ""
        self._watcher: Callable[[], None] | None = None

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` when the job is withdrawn; at once when it already is."""
        self._watcher = watcher
        if self.withdrawn:
            watcher()

    def withdraw(self, reason: str) -> None:
        """Mark the job as withdrawn, the first time this is called."""
        if not self.withdrawn:
            self.withdrawn = reason
            if self._watcher is not None:
                self._watcher()


class JobSource(Protocol):
    """A worker's connection to its frontend. It holds one job at most.

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
        """Send the result of a job.

        :raises FrontendLost: when it could not be sent, or the job was withdrawn.
        """

    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """Give back a job that did not run to its end.

        :param run_seconds: how long it ran.
        :raises FrontendLost: when that could not be sent.
        """

    def leave(self) -> None:
        """Wait for no more work, and only a moment for any answer; the held job may still be finished."""

    def cut(self) -> None:
        """Close the connection now."""


class Shutdown:
    """Waits for one answer at a time; after :meth:`leave` no wait lasts longer than SHUTDOWN_SECONDS.

    :ivar leaving: whether the program is stopping.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._pending: Deferred[Any] | None = None
        self.leaving = False

    async def ask(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """The result of a coroutine; None when the program stops before there is one."""
        try:
            return await self.wait(Deferred.fromCoroutine(asking))
        except (FrontendLost, FrontendRefused, CancelledError, ConnectingCancelledError):
            if self.leaving:
                return None
            raise

    def wait(self, pending: Deferred[T]) -> Deferred[T]:
        """Watch over this Deferred: it is cancelled when the program stops and it has not fired in time."""
        self._pending = pending
        if self.leaving:
            self._cancel_soon(pending)
        return pending

    def leave(self) -> None:
        """Cancel the pending wait, and later ones, when they do not end soon."""
        self.leaving = True
        if self._pending is not None:
            self._cancel_soon(self._pending)

    def cut(self) -> None:
        """Cancel the pending wait now."""
        self.leaving = True
        if self._pending is not None:
            self._pending.cancel()

    def _cancel_soon(self, pending: Deferred[Any]) -> None:
        self._clock.callLater(SHUTDOWN_SECONDS, pending.cancel)
