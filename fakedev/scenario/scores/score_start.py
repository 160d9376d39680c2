"""Composition of the score of alert rules: a scenario in virtual time, a Prometheus of its own, the marks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twisted.python.failure import Failure

from fakedev.base.errors import Refused, did_you_mean
from fakedev.runtime.application import run_task
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.threads import TaskService
from fakedev.scenario.entries import NOTHING
from fakedev.scenario.rules.alert_rules import AlertRule, metrics_of
from fakedev.scenario.rules.expected import Word, read_word
from fakedev.scenario.rules.prometheus import Prometheus, PrometheusError, prometheus_path
from fakedev.scenario.rules.rule_files import RuleFile, read_rules
from fakedev.scenario.samples.series import Scraped
from fakedev.scenario.scores.evaluation import ScoreRun
from fakedev.scenario.scores.score import RuleRun, Score, score
from fakedev.scenario.settings import LoadedScenario
from fakedev.scenario.start import make_run
from fakedev.scenario.timeline import Played
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.places import Place, Report


@dataclass(frozen=True)
class RulesToScore:
    """Rule files, and what their alerts are to find.

    :ivar expects: by file and name of the alert, in place of annotations.
    """

    files: tuple[RuleFile, ...]
    expects: Mapping[tuple[str, str], tuple[Word, ...]]
    entries: frozenset[str]

    def expected(self, file: str, rule: AlertRule) -> tuple[Word, ...] | None:
        """What a rule is to find; None if nothing is said of it."""
        found = self.expects.get((file, rule.name))
        if found is None and rule.expects is not None:
            return tuple(read_word(word, self.entries) for word in rule.expects)
        return found


def load_rules(loaded: LoadedScenario, paths: Sequence[str]) -> RulesToScore:
    """The rules of a scenario, or of other files.

    :param paths: rule files; none: those that the scenario names.
    :raises ConfigurationError: with every problem.
    """
    report, files = Report(), Files(environ=os.environ)
    scenario = loaded.scenario
    entries = frozenset(entry.name for entry in scenario.entries if entry.name)
    sources = {os.path.realpath(rule.file): rule for rule in scenario.rules}
    found: list[RuleFile] = []
    expects: dict[tuple[str, str], tuple[Word, ...]] = {}
    if not paths and not sources:
        report.problem(Place(scenario.name), "names no rules: give --rules FILE, or the key rules of the scenario")
    for path in paths or [_shown(rule.file) for rule in scenario.rules]:
        try:
            rules = read_rules(files.read(path), path)
        except Unreadable as error:
            report.problem(Place(path, error.line), str(error))
            continue
        found.append(rules)
        for rule in rules.alerts:
            _check_words(rule, entries, report)
        source = sources.get(os.path.realpath(path))
        names = {rule.name for rule in rules.alerts}
        for alert, words in source.expects.items() if source is not None else ():
            if source is not None and alert not in names:
                report.problem(Place(source.place), f"expects: {path} has no alert {alert}{did_you_mean(alert, names)}")
            expects[path, alert] = tuple(read_word(word, entries) for word in words if word != NOTHING)
    report.raise_if_any()
    return RulesToScore(tuple(found), expects, entries)


def _check_words(rule: AlertRule, entries: frozenset[str], report: Report) -> None:
    file, _, line = rule.place.rpartition(":")
    place = Place(file, int(line)) if line.isdecimal() else Place(rule.place)
    for word in rule.expects or ():
        report.tried(place, f"{rule.name}: ", read_word, word, entries)


def _shown(path: str) -> str:
    """A path as short as it can be from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


@dataclass(frozen=True, kw_only=True)
class ScoreOrder:
    """What to score.

    :ivar epoch_seconds: when the history begins, since 1970.
    :ivar prometheus: the program; empty: the one on the PATH.
    :ivar done: called with the share that is done, 0 to 1.
    :ivar on_played: called with each occurrence of the timeline.
    :ivar observe: called with the samples of each scrape: the number of its instant, and the samples.
    """

    loaded: LoadedScenario
    epoch_seconds: float
    rules: RulesToScore
    prometheus: str = ""
    done: Callable[[float], None]
    on_played: Callable[[Played], None]
    observe: Callable[[int, Scraped], None] | None = None


@dataclass(frozen=True)
class ScoreEnd:
    """How it ended.

    :ivar score: None if it ended early.
    :ivar problem: why it ended early; ``is_refused``: the scenario is the reason.
    :ivar signal_name: the signal that stopped it; empty for none.
    """

    score: Score | None = None
    problem: str = ""
    is_refused: bool = False
    signal_name: str = ""


@dataclass(eq=False)
class _InTurn(TaskService):
    """Runs scores one after the other: a process has one reactor, which runs once.

    :ivar is_refused: the scenario is the reason of the problem.
    """

    expected = (PrometheusError, Refused)
    what = "The score"

    runs: Sequence[ScoreRun]
    over: Callable[[], None]
    is_refused: bool = field(default=False, init=False)

    async def run_to_end(self) -> None:
        for run in self.runs:
            await run.run_to_end()
            await run.prometheus.stop()

    async def clean_up(self) -> None:
        for run in self.runs:
            await run.prometheus.stop()

    def failed(self, failure: Failure) -> None:
        self.is_refused = not self.problem and failure.check(Refused) is not None
        super().failed(failure)


def run_score(order: ScoreOrder) -> ScoreEnd:
    """Run the scenario, evaluate the rules, and mark them; Prometheus has ended then, and its folder is gone."""
    return run_scores([order])[0]


def run_scores(orders: Sequence[ScoreOrder]) -> list[ScoreEnd]:
    """Run several, one after the other; when one fails, all end as it does."""
    try:
        programs = [prometheus_path(order.prometheus) for order in orders]
    except PrometheusError as error:
        return [ScoreEnd(problem=str(error))] * len(orders)
    runs = [make_run(order.loaded, order.epoch_seconds, on_played=order.on_played)[0] for order in orders]

    def make(reactor: IReactor, over: Callable[[], None]) -> _InTurn:
        return _InTurn(
            [
                ScoreRun(
                    run, Prometheus(reactor, program),
                    [(rules.file, group) for rules in order.rules.files for group in rules.groups], reactor,
                    order.done, order.observe,
                )
                for order, run, program in zip(orders, runs, programs, strict=True)
            ],
            over,
        )  # fmt: skip

    done, signal_name = run_task(make)
    if done.problem:
        return [ScoreEnd(None, done.problem, done.is_refused, signal_name)] * len(orders)
    return [ScoreEnd(_score(order, run)) for order, run in zip(orders, done.runs, strict=True)]


def _score(order: ScoreOrder, done: ScoreRun) -> Score:
    scenario = done.run.scenario
    runs = _rule_runs(done, order.rules)
    return score(runs, done.run.truth, done.labels, scenario.span_seconds, scenario.scraping.interval_seconds)


def _rule_runs(scored: ScoreRun, rules: RulesToScore) -> list[RuleRun]:
    """What each alert rule did, in the order of the files."""
    recorded = {name: expression for file in rules.files for name, expression in file.recorded.items()}
    needs = scored.coverage.needs(recorded)
    states = [state for group in scored.evaluated for state in group.rules]
    problems = {state.rule.name: state.problem for state in states if state.problem and state.rule.name in recorded}
    runs: dict[tuple[str, int], RuleRun] = {}
    for group in scored.evaluated:
        for state in group.rules:
            rule = state.rule
            if isinstance(rule, AlertRule):
                used = metrics_of(rule.expression)
                runs[group.file, rule.number] = RuleRun(
                    rule, group.file, group.group.name, group.interval_ms / 1000, state.states.all_firings(),
                    rules.expected(group.file, rule), needs.missing_of(rule.expression), state.problem,
                    (*state.notes, *(f"{name}: {problems[name]}" for name in sorted(used & set(problems)))),
                    state.states.all_pendings(),
                )  # fmt: skip
    return [runs[file.file, rule.number] for file in rules.files for rule in file.alerts]
