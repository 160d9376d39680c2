"""Evaluates alert and recording rules over simulated time, by a Prometheus of its own and range queries.

The rules are evaluated as by a rule manager, but at once. Time goes in steps. When all samples of a step are stored,
each group evaluates its rules in order over all instants of the step; what a recording rule finds is stored before
the next rule is evaluated.

A scenario in virtual time runs with the Prometheus, which stores its samples and evaluates its rules.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults
from twisted.internet.task import deferLater

from fakedev.runtime.reactor import IReactor
from fakedev.scenario.rules.alert_rules import (
    ANY_METRIC,
    AlertRule,
    AlertState,
    AlertStates,
    LabelSet,
    RecordingRule,
    RuleGroup,
    evaluation_order,
    metrics_of,
    used_metrics,
)
from fakedev.scenario.rules.prometheus import Prometheus, QueryError, Result
from fakedev.scenario.run import Run
from fakedev.scenario.samples.remote_write import WriteRequest
from fakedev.scenario.samples.scrapes import Instant
from fakedev.scenario.samples.series import FleetSamples, Scraped, Series
from fakedev.scenario.scores.coverage import Coverage
from fakedev.scenario.scores.score import DeviceLabels

#: Maximum age of recorded samples, relative to the newest sample; Prometheus accepts an hour.
_STEP_SECONDS: Final = 1800.0
#: Where nothing is recorded; more would make long answers.
_LONG_STEP_SECONDS: Final = 7200.0
#: Prometheus gives at most 11,000 points of a series.
_MOST_INSTANTS: Final = 10_000
_AT_ONCE: Final = 4
_ALERTS: Final = "ALERTS"
_ALERTS_FOR_STATE: Final = "ALERTS_FOR_STATE"
_TEMPLATE: Final = re.compile(r"\{\{([^{}]*+)\}\}")
_LABEL_TEMPLATE: Final = re.compile(r"\s*+\$labels\.(\w++)\s*+")

#: Samples of a series in order: milliseconds since 1970, and the value as a text; None marks the series as stale.
Points = Sequence[tuple[int, str | None]]
#: Stores samples.
Write = Callable[[Mapping[Series, Points]], Awaitable[None]]
#: Returns the results of an expression at each step; the other arguments are the first and last instant and the step in
#: milliseconds. Fails with QueryError when the expression cannot be evaluated.
Query = Callable[[str, int, int, int], Awaitable[list[Result]]]


@dataclass(eq=False)
class RuleState:
    """A rule while it is evaluated.

    :ivar states: of an alert rule, its alerts.
    :ivar problem: why it could not be evaluated, at some time at least.
    :ivar notes: what differs from a rule manager.
    """

    rule: AlertRule | RecordingRule
    states: AlertStates
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    is_hopeless: bool = False
    #: All series that it has stored, and which of them at its last evaluation.
    known: dict[LabelSet, Series] = field(default_factory=dict)
    stored: frozenset[LabelSet] = frozenset()


@dataclass(eq=False)
class GroupState:
    """A group while it is evaluated.

    :ivar file: where it is from.
    :ivar one_by_one: a rule uses what a later one records: each instant is evaluated by itself.
    """

    file: str
    group: RuleGroup
    interval_ms: int
    rules: list[RuleState]
    one_by_one: bool
    next_number: int = 0


class Evaluation:
    """The evaluation of some groups.

    :param groups: with their files, in order.
    :param epoch_ms: the start of simulated time, milliseconds since 1970.
    :param interval_seconds: of groups without their own.
    """

    def __init__(
        self, query: Query, write: Write, groups: Iterable[tuple[str, RuleGroup]], epoch_ms: int,
        interval_seconds: float,
    ) -> None:  # fmt: skip
        self._query = query
        self._write = write
        self._epoch_ms = epoch_ms
        self._at_once = DeferredSemaphore(_AT_ONCE)
        made = [_group_state(file, group, interval_seconds) for file, group in groups]
        used = frozenset().union(*(used_metrics(group_state.group) for group_state in made))
        self._stores_alerts = bool({_ALERTS, _ALERTS_FOR_STATE, ANY_METRIC} & used)
        is_recording = self._stores_alerts or any(
            isinstance(state.rule, RecordingRule) for group_state in made for state in group_state.rules
        )
        #: Maximum simulated time that is stored before it is evaluated.
        self.step_seconds = _STEP_SECONDS if is_recording else _LONG_STEP_SECONDS
        places, in_circles = evaluation_order([group_state.group for group_state in made])
        #: In the order of evaluation.
        self.groups = [made[place] for place in places]
        for place in in_circles:
            for state in made[place].rules:
                state.notes.append("its group and others use what each other records: it sees that one step late")

    async def evaluate(self, end_seconds: float) -> None:
        """Evaluate all instants up to a time, included. All samples up to then must be stored.

        :raises PrometheusError: when Prometheus does not answer, or does not take what was recorded.
        """
        for group in self.groups:
            last = int(round(1000 * end_seconds, 6)) // group.interval_ms
            numbers = range(group.next_number, last + 1)
            group.next_number = max(group.next_number, last + 1)
            most = 1 if group.one_by_one else _MOST_INSTANTS
            for begin in range(numbers.start, numbers.stop, most):
                await self._evaluate(group, range(begin, min(begin + most, numbers.stop)))

    async def _evaluate(self, group: GroupState, numbers: range) -> None:
        alone: list[RuleState] = []
        for state in group.rules:
            if state.is_hopeless:
                continue
            if isinstance(state.rule, AlertRule) and not self._stores_alerts:
                # Nothing depends on it.
                alone.append(state)
                continue
            await self._together(group, alone, numbers)
            alone = []
            await self._evaluate_rule(group, state, numbers)
        await self._together(group, alone, numbers)

    async def _together(self, group: GroupState, states: Sequence[RuleState], numbers: range) -> None:
        def started(state: RuleState) -> Deferred[None]:
            return Deferred.fromCoroutine(self._evaluate_rule(group, state, numbers))

        waiting = [self._at_once.run(started, state) for state in states]
        await gatherResults(waiting, consumeErrors=True).addErrback(_first_error)

    async def _evaluate_rule(self, group: GroupState, state: RuleState, numbers: range) -> None:
        results, failed = await self._results(group, state, numbers)
        if state.is_hopeless:
            return
        if isinstance(state.rule, AlertRule):
            await self._alert(group, state, numbers, results, failed)
        else:
            await self._record(group, state, numbers, results, failed)

    async def _results(
        self, group: GroupState, state: RuleState, numbers: range
    ) -> tuple[list[Result], frozenset[int]]:
        """The results of a rule's expression, and the numbers of instants at which it fails."""
        try:
            return await self._asked(group, state, numbers), frozenset()
        except QueryError as error:
            state.problem = state.problem or str(error)
            if error.is_wrong_expression:
                state.is_hopeless = True
                return [], frozenset(numbers)
        results: list[Result] = []
        failed: set[int] = set()
        for number in numbers if len(numbers) > 1 else ():
            try:
                results += await self._asked(group, state, range(number, number + 1))
            except QueryError:
                failed.add(number)
        return results, frozenset(failed) if len(numbers) > 1 else frozenset(numbers)

    async def _asked(self, group: GroupState, state: RuleState, numbers: range) -> list[Result]:
        offset_ms = round(1000 * group.group.offset_seconds)
        begin, end = (self._epoch_ms + number * group.interval_ms - offset_ms for number in (numbers[0], numbers[-1]))
        found = await self._query(state.rule.expression, begin, end, group.interval_ms)
        if not offset_ms:
            return found
        return [Result(row.labels, [(ms + offset_ms, value) for ms, value in row.points]) for row in found]

    async def _alert(
        self, group: GroupState, state: RuleState, numbers: range, results: Sequence[Result], failed: frozenset[int]
    ) -> None:
        rule, states = state.rule, state.states
        assert isinstance(rule, AlertRule)
        if not results and states.is_idle:
            return
        present = self._by_instant(state, results, {"alertname": rule.name})
        stored: dict[Series, list[tuple[int, str | None]]] = {}
        before: list[LabelSet] = []
        has_doubles = False
        for number in numbers:
            ms = self._epoch_ms + number * group.interval_ms
            found = [labels for labels, _ in present.get(ms, ())]
            if found != before:
                before, has_doubles = found, _has_doubles(state, found)
            if number in failed or has_doubles:
                continue
            seconds = number * group.interval_ms / 1000
            shown = states.evaluate(seconds, found)
            if group.group.limit and len(shown) > group.group.limit:
                state.problem = f"exceeded limit of {group.group.limit} with {len(shown)} alerts"
                states.clear(seconds)
                shown = {}
            if self._stores_alerts:
                self._note_alerts(state, shown, ms, stored)
        if stored:
            await self._write(stored)

    def _note_alerts(
        self, state: RuleState, shown: Mapping[LabelSet, AlertState], ms: int,
        stored: dict[Series, list[tuple[int, str | None]]],
    ) -> None:  # fmt: skip
        """Add the samples of the alerts at one instant, and mark those that are gone."""
        found: dict[LabelSet, tuple[str, str]] = {}
        for labels, alert_state in shown.items():
            since = self._epoch_ms / 1000 + state.states.active_since(labels)
            found[*labels, ("alertstate", alert_state.value)] = (_ALERTS, "1")
            found[labels] = (_ALERTS_FOR_STATE, f"{since:.0f}")
        _add(state, found, ms, stored)

    async def _record(
        self, group: GroupState, state: RuleState, numbers: range, results: Sequence[Result], failed: frozenset[int]
    ) -> None:
        present = self._by_instant(state, results, {})
        if not present and not state.stored:
            return
        stored: dict[Series, list[tuple[int, str | None]]] = {}
        for number in numbers:
            ms = self._epoch_ms + number * group.interval_ms
            found = present.get(ms, [])
            if number in failed or _has_doubles(state, [labels for labels, _ in found]):
                continue
            if group.group.limit and len(found) > group.group.limit:
                state.problem = f"exceeded limit of {group.group.limit} with {len(found)} series"
                continue
            _add(state, {labels: (state.rule.name, value) for labels, value in found}, ms, stored)
        if stored:
            await self._write(stored)

    def _by_instant(
        self, state: RuleState, results: Sequence[Result], further: Mapping[str, str]
    ) -> dict[int, list[tuple[LabelSet, str]]]:
        """The label sets of the rule's alerts or recorded series, with their values, by milliseconds since 1970."""
        found: dict[int, list[tuple[LabelSet, str]]] = {}
        for result in results:
            own = {name: self._filled(state, text, result.labels) for name, text in state.rule.own_labels.items()}
            labels = {**result.labels, **own, **further}
            labels.pop("__name__", None)
            key = tuple(sorted((name, value) for name, value in labels.items() if value))
            for ms, value in result.points:
                found.setdefault(ms, []).append((key, value))
        return found

    def _filled(self, state: RuleState, text: str, labels: Mapping[str, str]) -> str:
        """A label's text with its templates of labels filled in."""
        if "{{" not in text or not isinstance(state.rule, AlertRule):
            return text

        def value(found: re.Match[str]) -> str:
            name = _LABEL_TEMPLATE.fullmatch(found[1])
            if name is None:
                note = f"the template {found[0]!r} of a label is not filled in"
                if note not in state.notes:
                    state.notes.append(note)
                return found[0]
            return labels.get(name[1], "")

        return _TEMPLATE.sub(value, text)


def _group_state(file: str, group: RuleGroup, interval_seconds: float) -> GroupState:
    interval_ms = round(1000 * (group.interval_seconds or interval_seconds))
    waits = [(rule.for_seconds, rule.keeps_seconds) if isinstance(rule, AlertRule) else () for rule in group.rules]
    rules = [RuleState(rule, AlertStates(*wait)) for rule, wait in zip(group.rules, waits, strict=True)]
    late = [rule.name for rule in group.rules if isinstance(rule, RecordingRule)]
    one_by_one = False
    for rule in group.rules:
        # What is not recorded yet when the rule is evaluated; its own result counts.
        one_by_one = one_by_one or not metrics_of(rule.expression).isdisjoint(late)
        if isinstance(rule, RecordingRule):
            late.remove(rule.name)
    return GroupState(file, group, interval_ms, rules, one_by_one)


def _has_doubles(state: RuleState, found: Sequence[LabelSet]) -> bool:
    """Whether several results have the same labels, which a rule manager refuses."""
    if len(set(found)) == len(found):
        return False
    what = "alert" if isinstance(state.rule, AlertRule) else "rule"
    state.problem = state.problem or f"vector contains metrics with the same labelset after applying {what} labels"
    return True


def _add(
    state: RuleState, found: Mapping[LabelSet, tuple[str, str]], ms: int,
    stored: dict[Series, list[tuple[int, str | None]]],
) -> None:  # fmt: skip
    """Add samples of an instant, and mark the series that are gone since the one before.

    :param found: labels to the name and the value of a series.
    """
    for labels, (name, value) in found.items():
        if labels not in state.known:
            state.known[labels] = Series(name, dict(labels))
        stored.setdefault(state.known[labels], []).append((ms, value))
    for labels in state.stored.difference(found):
        stored.setdefault(state.known[labels], []).append((ms, None))
    state.stored = frozenset(found)


def _first_error(failure: object) -> object:
    """The error itself, in place of the one that gatherResults makes of it."""
    return getattr(getattr(failure, "value", None), "subFailure", failure)


#: Samples per write.
_BATCH: Final = 20_000
#: How long the reactor may wait for a turn.
_TURN_SECONDS: Final = 0.01


@dataclass(eq=False)
class ScoreRun:
    """A run of a scenario whose rules are evaluated.

    :param groups: the groups of rules, with their files.
    :param observe: called with the samples of each scrape: the number of the instant, and the samples.
    :param done: called with the share of the run that is done, 0 to 1.
    """

    run: Run
    prometheus: Prometheus
    groups: Sequence[tuple[str, RuleGroup]]
    reactor: IReactor
    done: Callable[[float], None]
    observe: Callable[[int, Scraped], None] | None = None
    labels: DeviceLabels = field(default_factory=DeviceLabels, init=False)
    coverage: Coverage = field(default_factory=Coverage, init=False)
    evaluated: Sequence[GroupState] = field(default=(), init=False)
    _samples: FleetSamples = field(init=False)
    _compiled: Any = field(default=None, init=False)
    _request: WriteRequest = field(default_factory=WriteRequest, init=False)
    _evaluation: Evaluation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._samples = FleetSamples(self.run.targets)

    async def run_to_end(self) -> None:
        """Run the scenario to its end; Prometheus must be stopped afterwards, also after an error.

        :raises PrometheusError: when Prometheus does not start, has died, or does not take the samples.
        :raises Refused: if the identity of a page does not fit its devices.
        """
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
            self._evaluation = Evaluation(self.prometheus.query_range, self._store, self.groups, epoch_ms, interval)
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
