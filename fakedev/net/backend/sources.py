"""Where a backend's worker gets its jobs from, whatever is spoken with the frontend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

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
