"""One run of a request, whatever runs it."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from fakedev.workqueue.outcome import Report


class CannotRun(Exception):
    """Nothing can be run, whatever the request; the text says why."""


class Run(Protocol):
    """Something that runs.

    :ivar ended: fires with the Report when it is over and nothing of it is left; never fails.
    """

    ended: Deferred[Report]

    def stop(self) -> None:
        """End it, if need be after a grace period."""

    def kill(self) -> None:
        """End it now."""
