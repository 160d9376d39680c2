"""A service that does one thing: it runs a coroutine until that has ended, or somebody stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.system.timing import no_op


class TaskService(Service):
    """Runs :meth:`run_to_end` from its start on, and calls ``over`` when that has ended by itself.

    :cvar expected: exceptions that end the task early, with their texts as the problem.
    :cvar what: the task in a few words, for the log of an unexpected end.
    :ivar over: called at the end, but not when the task was stopped.
    :ivar problem: why it ended early; empty when it did not.
    """

    log = Logger()
    expected: ClassVar[tuple[type[Exception], ...]]
    what: ClassVar[str]
    over: Callable[[], None]
    problem = ""
    _running: Deferred[None] | None = None

    async def run_to_end(self) -> None:
        """Do the task."""
        raise NotImplementedError

    async def clean_up(self) -> None:
        """End what the task has started outside of the process: connections, programs."""
        raise NotImplementedError

    def startService(self) -> None:
        super().startService()
        self._running = Deferred.fromCoroutine(self.run_to_end())
        self._running.addErrback(self.failed)
        self._running.addCallback(lambda _: self.over())

    def stop_all(self) -> Deferred[None]:
        """Stop at once; fires when all is cleaned up."""
        if self._running is not None and not self._running.called:
            self.over = no_op
            self.problem = self.problem or "it was stopped"
            self._running.cancel()
        return Deferred.fromCoroutine(self.clean_up())

    def failed(self, failure: Failure) -> None:
        """Note why the task has ended early."""
        if self.problem:
            return  # it was stopped, and has failed in whatever way by that
        if failure.check(*self.expected):
            self.problem = str(failure.value)
        else:
            self.log.failure("{what} failed", failure, what=self.what)
            self.problem = "an internal error of fakedev"
