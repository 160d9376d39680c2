"""A backend as a whole: its workers, from their start to the program's exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from fakedev.net.system.signals import stop_reactor
from fakedev.workqueue.backend_steps import End


class Worker(Protocol):
    """Something that works until its end."""

    async def work(self) -> End:
        """Work; how it ended."""

    def leave(self) -> None:
        """End soon, in good order."""

    def cut(self) -> None:
        """End now."""


class BackendProgram:
    """Runs workers until all have ended, and then stops the reactor.

    One that fails brings the others to an end too.

    :ivar exit_code: the highest of the workers'.
    """

    log = Logger()

    def __init__(self, workers: Sequence[Worker], reactor: Any) -> None:
        self._workers = tuple(workers)
        self._reactor = reactor
        self._left = len(self._workers)
        self._reasons: set[str] = set()
        self.exit_code = 0

    def start(self) -> None:
        """Begin to work."""
        for worker in self._workers:
            Deferred.fromCoroutine(worker.work()).addCallbacks(self._ended, self._failed)

    def leave(self, signal_name: str) -> None:
        """End when the running jobs have ended, or their grace period has."""
        self.log.info("{signal}: no more jobs are taken", signal=signal_name)
        self._tell_all_to_leave()

    def cut(self, signal_name: str) -> None:
        """End now: the jobs are killed, and the frontend finds the connections closed."""
        self.log.warn("{signal} again: ends at once", signal=signal_name)
        for worker in self._workers:
            worker.cut()
        stop_reactor(self._reactor)

    def _tell_all_to_leave(self) -> None:
        for worker in self._workers:
            worker.leave()

    def _ended(self, end: End) -> None:
        self.exit_code = max(self.exit_code, end.exit_code)
        if end.reason not in self._reasons:  # all workers end for the same reason, as a rule
            self._reasons.add(end.reason)
            self.log.emit(LogLevel.error if end.exit_code else LogLevel.info, "ends: {reason}", reason=end.reason)
        self._left -= 1
        if not self._left:
            stop_reactor(self._reactor)
        elif end.exit_code:
            self._tell_all_to_leave()

    def _failed(self, failure: Failure) -> None:
        self.log.failure("a worker failed", failure=failure)
        self._ended(End(1, "a fault of fakedev"))
