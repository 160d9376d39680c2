"""One run of a load, from its start to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.tester.service import LoadTester
from fakedev.tester.report_text import progress_text


class LoadRun(Service):
    """Runs a tester for so long, or until there is nothing more to do; then calls ``over``.

    :param duration_seconds: how long requests are started; 0: until stopped.
    :param grace_seconds: how long those under way are waited for after that.
    :param tell: is told how it goes.
    :param tell_seconds: how often.
    """

    log = Logger()

    def __init__(
        self,
        tester: LoadTester,
        reactor: Any,
        over: Callable[[], None],
        *,
        duration_seconds: float = 0.0,
        grace_seconds: float = 5.0,
        tell: Callable[[str], None] | None = None,
        tell_seconds: float = 1.0,
    ) -> None:
        self._tester = tester
        self._reactor = reactor
        self._over = over
        self._duration_seconds = duration_seconds
        self._grace_seconds = grace_seconds
        self._tell = tell
        self._tell_seconds = tell_seconds
        self._telling: LoopingCall | None = None
        self._timer: IDelayedCall | None = None

    def startService(self) -> None:
        """Begin."""
        super().startService()
        self._tester.startService()
        if self._duration_seconds:
            self._timer = self._reactor.callLater(self._duration_seconds, self._time_is_up)
        self._tester.when_over().addCallback(self._is_over)
        if self._tell is not None:
            self._telling = LoopingCall(self._say_how_it_goes)
            self._telling.clock = self._reactor
            self._telling.start(self._tell_seconds, now=False).addErrback(self._report)

    def stopService(self) -> None:
        """End at once, whatever the frontends do."""
        if not self.running:
            return
        super().stopService()
        if self._telling is not None and self._telling.running:
            self._telling.stop()
            self._say_how_it_goes()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._tester.stopService()

    def stop_now(self) -> Deferred[None]:
        """As stopService, as a thing that could take long, and does not."""
        self.stopService()
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def _time_is_up(self) -> None:
        self._timer = self._reactor.callLater(self._grace_seconds, self._grace_is_over)
        self._tester.halt()

    def _grace_is_over(self) -> None:
        self._tester.end(f"not over {self._grace_seconds:g} s after the end of the run")
        self._is_over(None)

    def _is_over(self, _: None) -> None:
        if self.running:
            self.stopService()
            self._over()

    def _say_how_it_goes(self) -> None:
        assert self._tell is not None
        self._tell(progress_text(self._tester.total, self._tester.now))

    def _report(self, failure: Failure) -> None:
        self.log.failure("Telling how it goes failed", failure)
