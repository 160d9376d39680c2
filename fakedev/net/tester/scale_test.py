"""Doubles backends and load in steps, and measures the throughput of each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from fakedev.net.system.task_service import TaskService
from fakedev.net.system.timing import no_op
from fakedev.net.tester.scale_backends import Backends, CannotScale
from fakedev.net.tester.service import LoadTester
from fakedev.tester.scaling import ScaleStep
from fakedev.tester.statistics import Statistics

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
        """Stop the load and the started backends."""
        self.tester.stopService()
        await self.backends.end()

    async def run_to_end(self) -> None:
        """Run all steps."""
        self.tester.startService()
        count = 1
        while count <= self.settings.most:
            # The load first: the frontend knows backends of the original only while they work.
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
            self._interval_ended()
            before, now = now, _Reading(statistics, self.clock.seconds())
            rates.append((now.successes - before.successes) / (now.seconds - before.seconds))
        means = {part: now.mean_since(began, part) for part in ("run", "wait", "communication")}
        return ScaleStep(
            count, tuple(rates), now.failed - began.failed, means["run"], means["wait"], means["communication"]
        )

    def _interval_ended(self) -> None:
        self._intervals += 1
        self.done(self._intervals / (INTERVALS * self.settings.most.bit_length()))


class _Reading:
    """A copy of the counts at one time."""

    def __init__(self, statistics: Statistics, seconds: float) -> None:
        self.seconds = seconds
        self.successes = statistics.successes
        self.failed = statistics.failed
        self._sums = {part: (each.count, each.total_seconds) for part, each in statistics.timings.items()}

    def mean_since(self, earlier: _Reading, part: str) -> float:
        """The mean of a part of the time of the requests that ended since then; 0 without requests."""
        count, total_seconds = self._sums[part]
        count_before, total_before = earlier._sums[part]
        return (total_seconds - total_before) / (count - count_before) if count > count_before else 0.0
