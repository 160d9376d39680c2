"""One run of a load, with its time limit and its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.tester.service import LoadTester
from fakedev.tester.report_text import progress_text


@dataclass(eq=False)
class LoadRun(Service):
    """Runs a tester for a time, or until all its requests have ended; then calls ``over``.

    :param duration_seconds: how long requests are started; 0: until stopped.
    :param grace_seconds: how long the run waits for pending requests after that.
    :param tell_seconds: how often.
    """

    log = Logger()

    tester: LoadTester
    clock: IReactorTime
    over: Callable[[], None]
    duration_seconds: float = 0.0
    grace_seconds: float = 5.0
    tell: Callable[[str], None] | None = None
    tell_seconds: float = 1.0
    _progress: LoopingCall | None = None
    _timer: IDelayedCall | None = None

    def startService(self) -> None:
        super().startService()
        self.tester.startService()
        if self.duration_seconds:
            self._timer = self.clock.callLater(self.duration_seconds, self._time_is_up)
        self.tester.when_over().addCallback(self._is_over)
        if self.tell is not None:
            self._progress = LoopingCall(self._show_progress)
            self._progress.clock = self.clock
            self._progress.start(self.tell_seconds, now=False).addErrback(self._report)

    def stopService(self) -> None:
        """Stop at once, whatever the frontends do."""
        if not self.running:
            return
        super().stopService()
        if self._progress is not None and self._progress.running:
            self._progress.stop()
            self._show_progress()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self.tester.stopService()

    def stop_now(self) -> Deferred[None]:
        """Stop; the Deferred has fired already."""
        self.stopService()
        return succeed(None)

    def _time_is_up(self) -> None:
        self._timer = self.clock.callLater(self.grace_seconds, self._grace_is_over)
        self.tester.halt()

    def _grace_is_over(self) -> None:
        self.tester.end(f"not ended {self.grace_seconds:g} s after the end of the run")
        self._is_over(None)

    def _is_over(self, _: None) -> None:
        if self.running:
            self.stopService()
            self.over()

    def _show_progress(self) -> None:
        assert self.tell is not None
        self.tell(progress_text(self.tester.total, self.tester.now))

    def _report(self, failure: Failure) -> None:
        self.log.failure("Showing the progress failed", failure)
