"""A worker of a backend: takes jobs, runs one at a time, and sends the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from shlex import join
from typing import assert_never

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from fakedev.net.backend.sources import JobSource, TakenJob
from fakedev.net.lines.client import FrontendLost, FrontendRefused
from fakedev.net.system.commands import CannotRun, Run
from fakedev.net.system.timing import PatientCall
from fakedev.workqueue.backend_run import BackendCommand, RequestFault, unfinished_report
from fakedev.workqueue.backend_steps import Ask, End, Pace, Retry, Step
from fakedev.workqueue.outcome import Report

#: Starts a command, a list of arguments, with a time limit in seconds; raises RequestFault and CannotRun.
Start = Callable[[Sequence[str], float], Run]


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
    _run: Run | None = None

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
    _run: Run | None = field(default=None, init=False)

    async def work(self) -> End:
        """Run the command; returns how it ended."""
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
        """Kill the run."""
        if self._run is not None:
            self._run.kill()
