"""The program of a backend: its workers, from their start to the exit code."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from fakedev.net.backend.worker import BackendWorker, OneRun
from fakedev.net.system.signals import stop_reactor
from fakedev.workqueue.backend_steps import End


class BackendProgram:
    """Runs workers until all have ended, and then stops the reactor; when one fails, it stops the others.

    :ivar exit_code: the highest exit code of the workers.
    """

    log = Logger()

    def __init__(self, workers: Sequence[BackendWorker | OneRun], reactor: IReactorCore) -> None:
        self._workers = tuple(workers)
        self._reactor = reactor
        self._running = len(self._workers)
        self._reasons: set[str] = set()
        self.exit_code = 0

    def start(self) -> None:
        """Start the workers."""
        for worker in self._workers:
            Deferred.fromCoroutine(worker.work()).addCallbacks(self._ended, self._failed)

    def leave(self, signal_name: str) -> None:
        """Stop when the running jobs have ended, or their grace period is over."""
        self.log.info("{signal}: takes no more jobs", signal=signal_name)
        self._leave_all()

    def cut(self, signal_name: str) -> None:
        """Stop now: kill the jobs; the frontend notices the closed connections."""
        self.log.warn("{signal} again: stops at once", signal=signal_name)
        for worker in self._workers:
            worker.cut()
        stop_reactor(self._reactor)

    def _leave_all(self) -> None:
        for worker in self._workers:
            worker.leave()

    def _ended(self, end: End) -> None:
        self.exit_code = max(self.exit_code, end.exit_code)
        if end.reason not in self._reasons:  # mostly all workers end for the same reason
            self._reasons.add(end.reason)
            self.log.emit(LogLevel.error if end.exit_code else LogLevel.info, "stops: {reason}", reason=end.reason)
        self._running -= 1
        if not self._running:
            stop_reactor(self._reactor)
        elif end.exit_code:
            self._leave_all()

    def _failed(self, failure: Failure) -> None:
        self.log.failure("a worker failed", failure=failure)
        self._ended(End(1, "an internal error of fakedev"))
