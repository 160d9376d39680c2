"""A backend: its workers, which take jobs, run one at a time and send results; its job sources; and its exit code.

A worker gets its jobs from a source for the protocol of the frontend.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from shlex import join
from typing import Any, Final, TypeVar, assert_never

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorCore, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from fakedev.queues.frontend_client import BareClient, FrontendConnector, FrontendLost, FrontendRefused, JsonClient
from fakedev.queues.job import Report
from fakedev.queues.process_runs import CannotRun, IRun
from fakedev.queues.run_reports import Ask, BackendCommand, End, Pace, RequestFault, Retry, Step, unfinished_report
from fakedev.runtime.clock import PatientCall
from fakedev.runtime.signals import stop_reactor

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
        self._client: BareClient[Any] | JsonClient[Any] | None = None

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
        """Request no more work, and wait only briefly for answers; the held job may still be finished."""
        self._leaving = True
        if self._pending is not None:
            self._cancel_soon(self._pending)

    def cut(self) -> None:
        self._leaving = True
        if self._pending is not None:
            self._pending.cancel()
        if self._client is not None:
            self._client.abort()

    @abstractmethod
    async def _take(self, idle_seconds: float) -> TakenJob | None: ...

    def _wait(self, pending: Deferred[T]) -> Deferred[T]:
        """Watch over this Deferred: it is cancelled when the program stops and it has not fired in time."""
        self._pending = pending
        if self._leaving:
            self._cancel_soon(pending)
        return pending

    def _cancel_soon(self, pending: Deferred[Any]) -> None:
        PatientCall(self._clock, SHUTDOWN_SECONDS, pending.cancel)


#: Starts a command, a list of arguments, with a time limit in seconds; raises RequestFault and CannotRun.
Start = Callable[[Sequence[str], float], IRun]


@dataclass
class DeviceFile:
    """The device file that replaces FILENAME: the first one that matches a pattern.

    It is searched until one is found, which is then kept.

    :param find: returns the files that match the pattern now.
    """

    log = Logger()

    _pattern: str
    _find: Callable[[str], Sequence[str]]
    _path: str = ""
    _is_missing: bool = False

    def path(self) -> str:
        """The file's path; empty when there is no pattern, or no file matches it."""
        if self._pattern and not self._path:
            paths = sorted(self._find(self._pattern))
            if len(paths) > 1:
                self.log.warn(
                    "{count} files match {pattern!r}: using the first", count=len(paths), pattern=self._pattern
                )
            if paths:
                self._path = paths[0]
                self.log.info("{pattern!r} is {path}", pattern=self._pattern, path=self._path)
            elif not self._is_missing:
                self._is_missing = True
                self.log.warn(
                    "no file matches {pattern!r}: requests for one fail until there is one", pattern=self._pattern
                )
        return self._path


def run_location(pod: str, node: str, device: DeviceFile) -> dict[str, str]:
    """Where a backend runs, for its results: pod, node, and the device file's base name (empty when there is none)."""
    return {"pod": pod, "node": node, "device": os.path.basename(device.path())}


@dataclass
class BackendWorker:
    """Takes jobs until its pace, its frontend or :meth:`leave` ends it.

    :param grace_seconds: how long a job may still run after :meth:`leave`.
    """

    log = Logger()

    source: JobSource
    start: Start
    command: BackendCommand
    device: DeviceFile
    pace: Pace
    grace_seconds: float
    clock: IReactorTime
    _pause: Deferred[None] | None = None
    _leaving: bool = False
    _grace_over: bool = False
    _run: IRun | None = None

    async def work(self) -> End:
        """Take and run jobs; returns how the worker ended."""
        step: Step = Ask()
        while not self._leaving:
            match step:
                case Ask():
                    step = await self._ask(step.idle_seconds)
                case Retry():
                    await self._sleep(step.after_seconds)
                    step = Ask()
                case End():
                    return step
                case _:
                    assert_never(step)
        return step if isinstance(step, End) else End(0, "stopped by a signal")

    def leave(self) -> None:
        """Take no more jobs; finish the running one, or give it back when the grace period is over."""
        if self._leaving:
            return
        self._leaving = True
        self._interrupt()
        self.source.leave()
        PatientCall(self.clock, self.grace_seconds, self._end_grace)

    def cut(self) -> None:
        """Stop at once, and kill the run; the frontend notices the closed connection."""
        self._leaving = True
        self._interrupt()
        self.source.cut()
        if self._run is not None:
            self._run.kill()

    async def _ask(self, idle_seconds: float) -> Step:
        """Take a job and run it; returns the next step."""
        try:
            if idle_seconds and not self.source.waits_for_work:
                await self._sleep(idle_seconds)
                if self._leaving:
                    return Ask()
            job = await self.source.take(idle_seconds)
            if job is not None:
                return await self._run_job(job)
        except FrontendRefused as refused:
            return self.pace.refused(str(refused))
        except FrontendLost as lost:
            step = self.pace.frontend_lost(str(lost), self.clock.seconds())
            if isinstance(step, Retry):
                self.log.warn("{lost}; trying again in {seconds:g} s", lost=lost, seconds=step.after_seconds)
            return step
        return Ask() if self._leaving else self.pace.queue_empty()

    async def _run_job(self, job: TakenJob) -> Step:
        if self._leaving and self.source.takes_back:
            await self.source.give_back(job, "the backend ends")
            return Ask()
        try:
            report = await self._report_of(job)
        except CannotRun as fault:
            await self.source.give_back(job, str(fault))
            return End(1, str(fault))
        if job.withdrawn:
            self.log.warn("a job was not finished: {reason}", reason=job.withdrawn)
        elif self._grace_over:
            self.log.warn(
                "a job had not ended {seconds:g} s after the signal to stop: {what}", seconds=self.grace_seconds,
                what="it waits again" if self.source.takes_back else "its client gets an error",
            )  # fmt: skip
            await self.source.give_back(job, "the backend ended before the job did", report.run_seconds or 0.0)
        else:
            await self.source.finish(job, report)
        return self.pace.got_work()

    async def _report_of(self, job: TakenJob) -> Report:
        """Run a job; the report says why when it cannot be run.

        :raises CannotRun: when no job can be run.
        """
        try:
            words = self.command.for_request(job.arguments, self.device.path())
            self._run = run = self.start(words, self.command.limit_of(job.limit_seconds))
        except RequestFault as fault:
            self.log.warn("a request cannot be run: {fault}", fault=fault)
            return unfinished_report(str(fault))
        job.watch(run.stop)
        if self._grace_over:
            run.stop()
        report = await run.ended
        self._run = None
        self.log.info(
            "{words}: exit code {code} after {seconds:.3f} s{error}",
            words=join(words), code=report.exit_code, seconds=report.run_seconds,
            error=report.error and f", {report.error}",
        )  # fmt: skip
        return report

    async def _sleep(self, seconds: float) -> None:
        """Wait, unless the worker is stopped meanwhile."""
        self._pause = deferLater(self.clock, seconds)
        with suppress(CancelledError):
            await self._pause

    def _interrupt(self) -> None:
        if self._pause is not None:
            self._pause.cancel()

    def _end_grace(self) -> None:
        self._grace_over = True
        if self._run is not None:
            self._run.stop()


@dataclass
class OneRun:
    """Runs the command once, as for a request without arguments, without a frontend. See BackendWorker.

    :param grace_seconds: how long it may still run after :meth:`leave`.
    """

    start: Start
    command: BackendCommand
    device: DeviceFile
    grace_seconds: float
    clock: IReactorTime
    _run: IRun | None = field(default=None, init=False)

    async def work(self) -> End:
        try:
            words = self.command.for_request((), self.device.path())
            self._run = self.start(words, self.command.limit_of(0))
        except (RequestFault, CannotRun) as fault:
            return End(1, str(fault))
        report = await self._run.ended
        if report.error:
            return End(1, report.error)
        return End(0, f"{words[0]} took {report.run_seconds or 0.0:.3f} s")

    def leave(self) -> None:
        """Stop the run when the grace period is over."""
        if self._run is not None:
            PatientCall(self.clock, self.grace_seconds, self._run.stop)

    def cut(self) -> None:
        if self._run is not None:
            self._run.kill()


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
        for worker in self._workers:
            Deferred.fromCoroutine(worker.work()).addCallbacks(self._ended, self._failed)

    def leave(self, signal_name: str) -> None:
        """Stop when the running jobs have ended, or their grace period is over."""
        self.log.info("{signal}: stops taking jobs", signal=signal_name)
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
