"""The built-in command: waits, and uses nothing while it does."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from fakedev.workqueue.backend import SLEEP
from fakedev.workqueue.outcome import Report
from fakedev.workqueue.run_reports import command_report, limit_report, stopped_report


class SleepRun:
    """One wait, which ends as a command would that does nothing else.

    :param limit_seconds: 0 for none.
    :ivar ended: fires with the Report.
    """

    def __init__(self, seconds: float, limit_seconds: float, clock: IReactorTime) -> None:
        self.ended: Deferred[Report] = Deferred()
        self._clock = clock
        self._began_seconds = clock.seconds()
        self._limit_seconds = limit_seconds if 0 < limit_seconds < seconds else 0.0
        self._call = clock.callLater(self._limit_seconds or seconds, self._over)

    def stop(self) -> None:
        """End it now."""
        if self._call.active():
            self._call.cancel()
            self.ended.callback(stopped_report(SLEEP, self._run_seconds()))

    kill = stop

    def _over(self) -> None:
        if self._limit_seconds:
            self.ended.callback(limit_report(SLEEP, self._limit_seconds, self._run_seconds()))
        else:
            self.ended.callback(command_report(SLEEP, 0, 0, self._run_seconds()))

    def _run_seconds(self) -> float:
        return self._clock.seconds() - self._began_seconds
