"""The scale test: doubles backends and load in steps, and measures the throughput of each step.

A command starts every single backend, or one command sets their number. With JSON lines the frontend is asked until
it has as many backends as there should be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.defer import TimeoutError as AnswerTimeout
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from fakedev.queues.frontend_client import FrontendConnector, FrontendLost, FrontendRefused, JsonClient
from fakedev.queues.job import Report
from fakedev.queues.process_runs import CannotRun, IRun, ProcessRunner
from fakedev.runtime.clock import no_op
from fakedev.runtime.threads import TaskService
from fakedev.tester.load_run import LoadTester
from fakedev.tester.scaling import ScaleStep
from fakedev.tester.statistics import Statistics

_POLL_SECONDS: Final = 0.5
_ANSWER_SECONDS: Final = 10.0


class CannotScale(Exception):
    """The number of backends cannot be reached; the text says why."""


class Backends:
    """The backends of the queue. This class stands for backends that others start; nothing is known of them."""

    async def become(self, count: int) -> None:
        """Change the number of backends.

        :raises CannotScale: when that fails.
        """

    def check(self) -> None:
        """Check that no backend has ended, where this can be known.

        :raises CannotScale: when one has.
        """

    async def end(self) -> None:
        """Stop the backends that were started here."""


class StartedBackends(Backends):
    """Backends that are started here, each by the same command.

    :param words: program and arguments.
    """

    def __init__(self, runner: ProcessRunner, words: Sequence[str]) -> None:
        self._runner = runner
        self._words = [command_path(words[0]), *words[1:]]
        self._runs: list[IRun] = []
        self._ending = False
        self._ended_early: list[str] = []

    async def become(self, count: int) -> None:
        while len(self._runs) < count:
            try:
                run = self._runner.start(self._words, 0.0)
            except CannotRun as reason:
                raise CannotScale(str(reason)) from None
            run.ended.addCallback(self._ended)
            self._runs.append(run)
        self.check()

    def check(self) -> None:
        if self._ended_early:
            raise CannotScale(f"a backend has ended: {self._ended_early[0]}")

    async def end(self) -> None:
        self._ending = True
        for run in self._runs:
            run.stop()
        await DeferredList([run.ended for run in self._runs])

    def _ended(self, report: Report) -> Report:
        if not self._ending:
            self._ended_early.append(f"{' '.join(self._words)}: exit code {report.exit_code}")
        return report


class CommandedBackends(Backends):
    """Backends whose number is set by a command, such as kubectl.

    :param words: program and arguments, with {n} in place of the number.
    """

    def __init__(self, runner: ProcessRunner, words: Sequence[str]) -> None:
        self._runner = runner
        self._words = [command_path(words[0]), *words[1:]]
        self._run: IRun | None = None

    async def become(self, count: int) -> None:
        words = [word.replace("{n}", str(count)) for word in self._words]
        try:
            self._run = run = self._runner.start(words, 0.0)
        except CannotRun as reason:
            raise CannotScale(str(reason)) from None
        # A Deferred only of this wait: cancelling the wait must not cancel the run's.
        waiter: Deferred[int] = Deferred()

        def ended(report: Report) -> Report:
            waiter.callback(report.exit_code)
            return report

        run.ended.addCallback(ended)
        exit_code = await waiter
        if exit_code:
            raise CannotScale(f"{' '.join(words)}: exit code {exit_code}")

    async def end(self) -> None:
        """See Backends; the number that the command has set stays."""
        if self._run is not None and not self._run.ended.called:
            self._run.kill()


@dataclass
class CountedBackends(Backends):
    """Waits until the expected number of backends is connected to the frontend.

    :param wait_seconds: how long to wait at most.
    :param tell: called with a line about what the test waits for.
    """

    connector: FrontendConnector
    queue: str
    starter: Backends
    clock: IReactorTime
    wait_seconds: float
    tell: Callable[[str], None]

    async def become(self, count: int) -> None:
        await self.starter.become(count)
        until = self.clock.seconds() + self.wait_seconds
        shown = -1
        while (found := await self._count()) != count:
            self.check()
            if found != shown:
                self.tell(f"waiting until there are backends: {found} of {count}")
                shown = found
            if self.clock.seconds() > until:
                raise CannotScale(f"after {self.wait_seconds:g} s the frontend has {found} backends, not {count}")
            await deferLater(self.clock, _POLL_SECONDS)

    def check(self) -> None:
        self.starter.check()

    async def end(self) -> None:
        await self.starter.end()

    async def _count(self) -> int:
        try:
            fields = json.loads(await self._queue_statistics())
        except AnswerTimeout:
            raise CannotScale(f"the frontend has not answered for {_ANSWER_SECONDS:g} s") from None
        except (FrontendLost, FrontendRefused, ValueError) as error:
            raise CannotScale(f"the frontend does not report the number of backends: {error}") from None
        if not isinstance(fields, dict) or not fields.get("ok"):
            raise CannotScale(f"the frontend does not report the queue {self.queue}: {str(fields)[:200]}")
        try:
            (queue,) = fields["queues"]
            return int(queue["workers-idle"]) + int(queue["workers-busy"])
        except (KeyError, TypeError, ValueError):
            raise CannotScale("the frontend does not report the number of backends") from None

    async def _queue_statistics(self) -> bytes:
        """The line that the frontend answers on a separate connection."""
        answer: Deferred[bytes] = Deferred()

        def received(line: bytes) -> None:
            if not answer.called:
                answer.callback(line)

        def lost(fault: Exception) -> None:
            if not answer.called:
                answer.errback(fault)

        client = await self.connector.connect(lambda: JsonClient(bytes, received, lost))
        client.send(json.dumps({"op": "stats", "queue": self.queue}).encode() + b"\n")
        try:
            line = await answer.addTimeout(_ANSWER_SECONDS, self.clock)
        except BaseException:
            client.abort()
            raise
        client.close()
        return line


def command_path(name: str) -> str:
    """The absolute path of a program.

    :raises CannotScale: when there is none.
    """
    path = shutil.which(name)
    if path is None:
        raise CannotScale(f"there is no program {name}")
    return path


#: A step is measured in this many intervals, to see how much its rate varies.
INTERVALS: Final = 10


@dataclass(frozen=True)
class ScaleSettings:
    """The settings of a scale test.

    :param most: backends of the last step, at most.
    :param per_backend: parallel requests for each backend.
    :param settle_seconds: under load before each measurement.
    :param measure_seconds: how long each step is measured.
    """

    most: int
    per_backend: int = 1
    settle_seconds: float = 3.0
    measure_seconds: float = 20.0


@dataclass(eq=False)
class ScaleTest(TaskService):
    """Runs all steps in turn, then calls ``over``.

    :param tester: has one plan, of the closed model.
    :param tell: called with each line of progress.
    :param done: called with the share of the test that is done, from 0 to 1, as far as its times are known.
    """

    expected = (CannotScale,)
    what = "The scale test"

    tester: LoadTester
    backends: Backends
    settings: ScaleSettings
    clock: IReactorTime
    over: Callable[[], None]
    tell: Callable[[str], None]
    done: Callable[[float], None] = no_op
    steps: list[ScaleStep] = field(default_factory=list)
    _intervals: int = 0

    async def clean_up(self) -> None:
        self.tester.stopService()
        await self.backends.end()

    async def run_to_end(self) -> None:
        self.tester.startService()
        count = 1
        while count <= self.settings.most:
            # The load first: the original's backends are connected only while they work.
            self.tester.set_parallel(count * self.settings.per_backend)
            await self.backends.become(count)
            step = await self._measured(count)
            self.backends.check()
            self.steps.append(step)
            noun = "backend" if count == 1 else "backends"
            self.tell(f"{count} {noun}: {step.rate:.3f} requests/s, {step.failures} failed")
            count *= 2
        self.tester.set_parallel(0)

    async def _measured(self, count: int) -> ScaleStep:
        settings, statistics = self.settings, self.tester.total
        await deferLater(self.clock, settings.settle_seconds)
        # A request belongs to the interval in which it ends. A reset would lose requests that are pending then.
        began = _Reading(statistics, self.clock.seconds())
        rates: list[float] = []
        before = now = began
        for _ in range(INTERVALS):
            await deferLater(self.clock, settings.measure_seconds / INTERVALS)
            self._intervals += 1
            self.done(self._intervals / (INTERVALS * settings.most.bit_length()))
            before, now = now, _Reading(statistics, self.clock.seconds())
            rates.append((now.successes - before.successes) / (now.seconds - before.seconds))
        means = {part: now.mean_since(began, part) for part in ("run", "wait", "communication")}
        return ScaleStep(
            count, tuple(rates), now.failed - began.failed, means["run"], means["wait"], means["communication"]
        )


class _Reading:
    """A copy of the counts at one time."""

    def __init__(self, statistics: Statistics, seconds: float) -> None:
        self.seconds = seconds
        self.successes = statistics.successes
        self.failed = statistics.failed
        self._sums = {part: (timing.count, timing.total_seconds) for part, timing in statistics.timings.items()}

    def mean_since(self, earlier: _Reading, part: str) -> float:
        """The mean of a part of the time of the requests that ended since then; 0 without requests."""
        count, total_seconds = self._sums[part]
        count_before, total_before = earlier._sums[part]
        return (total_seconds - total_before) / (count - count_before) if count > count_before else 0.0
