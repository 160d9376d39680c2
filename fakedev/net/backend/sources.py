"""Where a backend's worker gets its jobs from, for each protocol of the frontend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime

from fakedev.net.lines.client import FrontendConnector, FrontendLost, FrontendRefused
from fakedev.net.system.timing import PatientCall
from fakedev.workqueue.outcome import Report

#: How long a program that stops waits for an answer.
SHUTDOWN_SECONDS: Final = 0.5

T = TypeVar("T")


#: Returns where a backend runs, for the results: its ``pod``, ``node`` and ``device``, each empty when not known.
RunLocation = Callable[[], dict[str, str]]


class TakenJob:
    """A job that a worker holds.

    :param limit_seconds: run-time limit; 0 for none.
    :param job_id: the frontend's number of the job, in JSON lines.
    :ivar withdrawn: why the frontend does not want the result any more; empty while it does.
    """

    def __init__(self, arguments: tuple[str, ...], limit_seconds: float, job_id: int = 0) -> None:
        self.id = job_id
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


class JobSource(ABC):
    """A worker's connection to its frontend. It holds one job at most, and waits for one answer at a time.

    After :meth:`leave` no wait lasts longer than SHUTDOWN_SECONDS.

    :cvar waits_for_work: whether :meth:`take` can wait at the frontend.
    :cvar takes_back: whether a job that is given back waits again, instead of failing.
    """

    waits_for_work: bool
    takes_back: bool

    def __init__(self, connector: FrontendConnector, queue: str, location: RunLocation, clock: IReactorTime) -> None:
        self._connector = connector
        self._queue = queue
        self._location = location
        self._clock = clock
        self._leaving = False
        self._pending: Deferred[Any] | None = None

    async def take(self, idle_seconds: float) -> TakenJob | None:
        """A job; None when the queue is empty, or :meth:`leave` was called.

        :param idle_seconds: how long to wait for one, where that is possible.
        :raises FrontendLost:
        :raises FrontendRefused:
        """
        try:
            return await self._wait(Deferred.fromCoroutine(self._take(idle_seconds)))
        except (FrontendLost, FrontendRefused, CancelledError, ConnectingCancelledError):
            if self._leaving:
                return None
            raise

    @abstractmethod
    async def finish(self, job: TakenJob, report: Report) -> None:
        """Send the result of a job.

        :raises FrontendLost: when it could not be sent, or the job was withdrawn.
        """

    @abstractmethod
    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """Give back a job that did not run to its end.

        :param run_seconds: how long it ran.
        :raises FrontendLost: when that could not be sent.
        """

    def leave(self) -> None:
        """Wait for no more work, and only a moment for any answer; the held job may still be finished."""
        self._leaving = True
        if self._pending is not None:
            self._cancel_soon(self._pending)

    def cut(self) -> None:
        """Close the connection now."""
        self._leaving = True
        if self._pending is not None:
            self._pending.cancel()
        self._abort()

    @abstractmethod
    async def _take(self, idle_seconds: float) -> TakenJob | None: ...

    @abstractmethod
    def _abort(self) -> None: ...

    def _wait(self, pending: Deferred[T]) -> Deferred[T]:
        """Watch over this Deferred: it is cancelled when the program stops and it has not fired in time."""
        self._pending = pending
        if self._leaving:
            self._cancel_soon(pending)
        return pending

    def _cancel_soon(self, pending: Deferred[Any]) -> None:
        PatientCall(self._clock, SHUTDOWN_SECONDS, pending.cancel)
