"""Runs the tester: the load of all its plans, with a time limit, progress, and report files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.base.errors import CannotWrite, Refused
from fakedev.runtime.clock import SteadySeconds
from fakedev.runtime.disk import replace_file
from fakedev.tester.driver import MakeRequests, PlanDriver
from fakedev.tester.expectation import Finding
from fakedev.tester.plan import ClosedLoad, Plan
from fakedev.tester.report import Report, progress_text
from fakedev.tester.statistics import Statistics


class UnknownPlan(Refused):
    """There is no such plan, or the request does not fit it; the text says what is possible."""

    def __init__(self, text: str) -> None:
        super().__init__("unknown-name", text, "plan")


class LoadTester(Service):
    """Puts load on the queues of its plans while it runs.

    :ivar total: the statistics of all plans together.
    :ivar drivers: by the name of the plan.
    """

    log = Logger()

    def __init__(self, plans: Sequence[Plan], make_requests: MakeRequests, clock: IReactorTime) -> None:
        self.setName("tester")
        self._seconds = SteadySeconds(clock)
        self._ended_at: float | None = None
        self._over: list[Deferred[None]] = []
        now = self._seconds()
        self.total = Statistics(now)
        self._own = {plan.name: Statistics(now) for plan in plans} if len(plans) > 1 else {}
        self.drivers = {
            plan.name: PlanDriver(
                plan, make_requests, (self.total, self._own[plan.name]) if self._own else (self.total,), clock,
                self._seconds, self._one_is_over,
            )
            for plan in plans
        }  # fmt: skip

    @property
    def now(self) -> float:
        """The time of the statistics: now, or the end of the run."""
        return self._seconds() if self._ended_at is None else self._ended_at

    @property
    def waiting(self) -> int:
        """The number of waiting arrivals, in all plans."""
        return sum(driver.waiting for driver in self.drivers.values())

    def startService(self) -> None:
        super().startService()
        self.reset()
        for driver in self.drivers.values():
            driver.start()

    def stopService(self) -> None:
        """Stop at once, whatever the frontends do."""
        if not self.running:
            return
        super().stopService()
        self._end()
        for driver in self.drivers.values():
            driver.stop()

    def statistics(self, name: str = "") -> Statistics:
        """The statistics of a plan; of all plans without a name.

        :raises UnknownPlan: when there is no such plan.
        """
        if not name:
            return self.total
        self._driver(name)
        return self._own.get(name, self.total)

    def report(self, title: str, findings: Sequence[Finding] = ()) -> Report:
        """The report of the statistics as they are now."""
        plans = {name: self.statistics(name) for name in self.drivers}
        return Report(title, self.now, self.total, plans, findings, self.waiting)

    def reset(self) -> None:
        for statistics in (self.total, *self._own.values()):
            statistics.reset(self._seconds())

    def parallel(self, name: str = "") -> int:
        """The number of parallel requests of a plan.

        :param name: may be empty when only one plan is of the closed model.
        :raises UnknownPlan: when there is no such plan.
        """
        parallel = self._plan_of_model(name, is_closed=True).parallel
        assert parallel is not None
        return parallel

    def set_parallel(self, parallel: int, name: str = "") -> int:
        """Change the number of parallel requests, within the limits of the plan; returns the new number.

        :raises UnknownPlan: when there is no such plan.
        """
        driver = self._plan_of_model(name, is_closed=True)
        assert isinstance(driver.plan.load, ClosedLoad)
        driver.set_parallel(min(max(parallel, 0), driver.plan.load.max_parallel))
        return self.parallel(name)

    def set_rate(self, rate: float, name: str = "") -> float:
        """Change the arrival rate of a plan of the open model; returns the new rate.

        :param rate: per second; 0: no arrivals until another rate is set.
        :param name: may be empty when only one plan is of the open model.
        :raises UnknownPlan: when there is no such plan.
        """
        self.open_plan(name).set_rate(rate)
        return rate

    def halt(self) -> None:
        """Stop starting requests; pending ones continue."""
        for driver in self.drivers.values():
            driver.halt()
        self._one_is_over()

    def end(self, error: str) -> None:
        """End the run: pending requests end as cancelled, for this reason."""
        for driver in self.drivers.values():
            driver.end(error)
        self._end()

    def when_over(self) -> Deferred[None]:
        """Fires when nothing is pending and nothing will be due."""
        over: Deferred[None] = Deferred()
        self._over.append(over)
        self._one_is_over()
        return over

    def _end(self) -> None:
        if self._ended_at is None:
            self._ended_at = self._seconds()

    def _one_is_over(self) -> None:
        if self._over and all(driver.is_over for driver in self.drivers.values()):
            over, self._over = self._over, []
            self._end()
            for client in over:
                client.callback(None)

    def _driver(self, name: str) -> PlanDriver:
        driver = self.drivers.get(name)
        if driver is None:
            raise UnknownPlan(f"no plan {name[:100]!r}; there is {', '.join(self.drivers)}")
        return driver

    def open_plan(self, name: str = "") -> PlanDriver:
        """A plan whose rate can be set.

        :param name: may be left out when only one plan is of the open model.
        :raises UnknownPlan: when there is no such plan.
        """
        return self._plan_of_model(name, is_closed=False)

    def _plan_of_model(self, name: str, *, is_closed: bool) -> PlanDriver:
        """The plan of this name, or the only one of the model when no name is given."""
        fitting = [driver for driver in self.drivers.values() if (driver.parallel is not None) == is_closed]
        if name and self._driver(name) not in fitting:
            raise UnknownPlan(
                f"plan {name[:100]!r} is of the open model: its rate decides, not a number in parallel" if is_closed
                else f"plan {name[:100]!r} is of the closed model: it has a number in parallel, no rate"
            )  # fmt: skip
        if name:
            return self._driver(name)
        if not fitting:
            raise UnknownPlan(
                "all plans are of the open model: a rate decides, not a number in parallel" if is_closed
                else "all plans are of the closed model: they have a number in parallel, no rate"
            )  # fmt: skip
        if len(fitting) > 1:
            names = ", ".join(driver.plan.name for driver in fitting)
            raise UnknownPlan(f"there are several plans, say which: plan=NAME, one of {names}")
        return fitting[0]


def save_report(report: Report, path: str) -> str:
    """Write a report to a file, in the form that its name asks for; returns why it could not be written, or nothing."""
    try:
        replace_file(path, report.as_file(path))
    except CannotWrite as reason:
        return str(reason)
    return ""


class ReportFiles(Service):
    """Writes the result of the load to the log and to files when it stops.

    :param paths: their extensions select the form.
    """

    log = Logger()

    def __init__(self, tester: LoadTester, paths: Sequence[str]) -> None:
        self._tester = tester
        self._paths = paths

    def stopService(self) -> None:
        """Stop the load, and write its result."""
        if not self.running:
            return
        super().stopService()
        self._tester.stopService()
        self.log.info("load: {text}", text=progress_text(self._tester.total, self._tester.now))
        report = self._tester.report("Load of fakedev")
        for path in self._paths:
            if reason := save_report(report, path):
                self.log.error("the report cannot be written: {reason}", reason=reason)


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
