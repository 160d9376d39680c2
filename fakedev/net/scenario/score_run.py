"""A scenario in virtual time beside a Prometheus of its own, which stores its samples and evaluates its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from fakedev.net.scenario.evaluation import Evaluation, GroupState, Points
from fakedev.net.scenario.prometheus import Prometheus, PrometheusError
from fakedev.net.system.task_service import TaskService
from fakedev.scenario.coverage import Coverage
from fakedev.scenario.device_labels import DeviceLabels
from fakedev.scenario.rules import RuleGroup
from fakedev.scenario.run import Run
from fakedev.scenario.samples import FleetSamples, Scraped, Series
from fakedev.scenario.scrapes import Instant
from fakedev.scenario.write_request import WriteRequest
from fakedev.spec.errors import Refused

#: So many samples are written at once.
_BATCH: Final = 20_000
#: How long the reactor may wait for a turn.
_TURN_SECONDS: Final = 0.01


@dataclass(eq=False)
class ScoreRun(TaskService):
    """Runs the scenario to its end, then calls ``over``.

    :param groups: the groups of rules, with their files.
    :param observe: called with the samples of each scrape: the number of the instant, and the samples.
    :param done: called with the share of the run that is done, 0 to 1.
    :ivar is_refused: the scenario is the reason of the problem.
    """

    expected = (PrometheusError, Refused)
    what = "The score"

    run: Run
    prometheus: Prometheus
    groups: Sequence[tuple[str, RuleGroup]]
    reactor: Any
    over: Callable[[], None]
    done: Callable[[float], None]
    observe: Callable[[int, Scraped], None] | None = None
    is_refused: bool = field(default=False, init=False)
    labels: DeviceLabels = field(default_factory=DeviceLabels, init=False)
    coverage: Coverage = field(default_factory=Coverage, init=False)
    evaluated: Sequence[GroupState] = field(default=(), init=False)
    _samples: FleetSamples = field(init=False)
    _compiled: Any = field(default=None, init=False)
    _request: WriteRequest = field(default_factory=WriteRequest, init=False)
    _evaluation: Evaluation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._samples = FleetSamples(self.run.targets)

    async def clean_up(self) -> None:
        """Stop Prometheus, and remove its folder."""
        await self.prometheus.stop()

    async def run_to_end(self) -> None:
        """Run the scenario, and evaluate the rules on the way."""
        await self.prometheus.start()
        self.coverage.add_rules(group for _, group in self.groups)
        last_seconds, step_begin, turn, number = 0.0, 0.0, self.reactor.seconds(), 0
        for instant in self.run.instants():
            if instant is not None:
                if self._evaluation is not None and instant.seconds > step_begin + self._evaluation.step_seconds:
                    await self._evaluate(last_seconds)
                    step_begin = last_seconds
                self._take(instant, number)
                number += 1
                last_seconds = instant.seconds
                if self._request.count >= _BATCH:
                    await self._flush()
            self.done(self.run.share_done)
            if self.reactor.seconds() - turn > _TURN_SECONDS:
                await deferLater(self.reactor, 0)
                turn = self.reactor.seconds()
        await self._evaluate(last_seconds)

    async def _evaluate(self, end_seconds: float) -> None:
        """Store what there is, and evaluate the rules up to a time, included."""
        await self._flush()
        if self._evaluation is not None:
            await self._evaluation.evaluate(end_seconds)

    async def _flush(self) -> None:
        if self._request.count:
            await self.prometheus.write(self._request.message())

    async def _store(self, points: Mapping[Series, Points]) -> None:
        """Store what was recorded."""
        self._request.add(points)
        await self._flush()

    def _take(self, instant: Instant, number: int) -> None:
        """Read the pages of an instant, and keep their samples to be written.

        :param number: of the instant.
        """
        ms = round(1000 * instant.wall_seconds)
        if self._evaluation is None:
            epoch_ms = ms - round(1000 * instant.seconds)
            interval = self.run.scenario.scraping.evaluation_seconds
            self._evaluation = Evaluation(self.prometheus, self._store, self.groups, epoch_ms, interval)
            self.evaluated = self._evaluation.groups
        if self.run.fleet.compiled is not self._compiled:
            self._compiled = self.run.fleet.compiled
            self._learn()
        for place, scraped in enumerate(self._samples.scrape(instant).scraped):
            self.coverage.see(place, scraped.series)
            self._request.add_scrape(scraped, ms)
            if self.observe is not None:
                self.observe(number, scraped)

    def _learn(self) -> None:
        """Note the labels and families of the fleet as it is now."""
        fleet, identities = self.run.fleet, self.run.pool_identities
        self.labels.add(fleet.roster, fleet.spec.seed, identities, self.run.targets)
        self.coverage.add(identities.values(), fleet.state)

    def failed(self, failure: Failure) -> None:
        """Note why it has ended early, and whether the scenario is the reason."""
        self.is_refused = not self.problem and failure.check(Refused) is not None
        super().failed(failure)
