"""``fakedev faults --for RULES``: the fault that makes each alert rule fire, or why none does."""

from __future__ import annotations

import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fakedev.base.console import Progress, table, write_text
from fakedev.base.units import format_duration
from fakedev.commands.reach import write_json
from fakedev.config.sample_page import sample_page
from fakedev.exporters.identity import Identity
from fakedev.exporters.samples import read_page
from fakedev.fleet.spec.fault_kinds import KINDS, Scope
from fakedev.scenario.rules.alert_rules import AlertRule, selectors_of, thresholds_of
from fakedev.scenario.rules.promtool import PromtoolError, check_rules, fired
from fakedev.scenario.rules.rule_files import RuleFile, read_rules
from fakedev.scenario.rules.thresholds import Threshold
from fakedev.scenario.rules.trials import (
    BEGIN_SECONDS,
    FULL,
    MOST_BOARDS,
    SCRAPE_SECONDS,
    USUAL,
    Scraped,
    board_limits,
    quantities_of,
    scrape,
)
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.places import ConfigurationError, Problem

#: Boards of each vendor: of an identity that names none, the one that shows most is tried, of equal ones the first.
_BOARDS: Final = ("max-1550", "mi300x", "flex-170", "h100")
#: Rules that wait longer for an alert are not tried.
_LONGEST_SECONDS: Final = 7200.0
#: For what heats up, for the scrape, and for the evaluation.
_SLACK_SECONDS: Final = 900.0
#: How many faults, or values of a label, a row of the table names.
_SHOWN: Final = 3
_ORDER: Final = {
    Scope.BOARD: 0, Scope.TRAY: 1, Scope.RACK: 1, Scope.ROW: 1, Scope.NODE: 1, Scope.PAGE: 2, Scope.SERIES: 3,
}  # fmt: skip


class Answer(NamedTuple):
    """What makes a rule fire.

    :ivar fires: trials with their seconds from the fault to the alert, the plainest first.
    :ivar reason: why no fault does, or which work does without one; else empty.
    """

    rule: AlertRule
    fires: Sequence[tuple[Scraped, float]]
    reason: str


def faults_for(file: str, identity: str, device: str, labels: Mapping[str, str], *, as_json: bool) -> int:
    """Print which fault makes which rule of a file fire.

    :param device: of the catalog; empty for the board that shows most of the identity.
    :param labels: added to all series.
    :returns: 0; 1 when promtool is missing or fails; 2 when the file or an option cannot be used.
    :raises ConfigurationError: for what cannot be read.
    """
    try:
        rules = checked_rules(file)
        with Progress("fakedev faults", sys.stderr) as progress:
            answers = answer(rules, identity, device or board_of(identity), labels, progress.show)
    except PromtoolError as error:
        write_text(sys.stderr, f"fakedev faults: {error}\n")
        return 2 if error.is_rule_error else 1
    if as_json:
        write_json([_as_json(each) for each in answers])
    else:
        write_text(sys.stdout, table([_row(each) for each in answers]))
    return 0


def checked_rules(file: str, *, needs_alerts: bool = True) -> RuleFile:
    """The rules of a file, which promtool takes.

    :param needs_alerts: whether a file of recording rules only is a problem.
    :raises ConfigurationError: for what cannot be read.
    :raises PromtoolError: when promtool is missing or refuses them.
    """
    rules = read_rules(text_of(file), file, needs_alerts=needs_alerts)
    check_rules(rules)
    return rules


def text_of(file: str) -> str:
    """The text of a file that a command was given.

    :raises ConfigurationError: for what cannot be read.
    """
    try:
        return Files(environ=os.environ).read(file)
    except Unreadable as error:
        raise ConfigurationError([Problem(file, error.line, str(error))]) from None


def board_of(identity: str) -> str:
    """The board that an identity names; else the board of whose quantities it shows most.

    :raises ConfigurationError: when there is no such identity.
    """
    shown: dict[str, int] = {}
    problem: ConfigurationError | None = None
    for board in _BOARDS:
        try:
            found, page = sample_page(identity, board)
        except ConfigurationError as error:
            problem = problem or error
            continue
        if found.board:
            return found.board
        has = quantities_of(board)
        # Some rows are there only with a fault; boards of several tiles have further kinds of rows.
        samples = ((name, sample.label_names) for name, of in read_page(page).families.items() for sample in of.samples)
        shown[board] = len(set(samples)) + sum(row.quantity in has for family in found.families for row in family.rows)
    if problem is not None and not shown:
        raise problem
    return max(shown, key=shown.__getitem__)


@dataclass(frozen=True)
class Trials:
    """What is tried for the rules of a file, on boards of a type with an identity.

    :param labels: of all series, as a scrape configuration adds them.
    """

    rules: RuleFile
    identity: str
    device: str
    labels: Mapping[str, str]
    progress: Callable[[float], None]

    @property
    def last_seconds(self) -> float:
        """The time of the last scrape."""
        waits = [rule.for_seconds + rule.window_seconds for rule in self.rules.alerts]
        longest = max((wait for wait in waits if wait <= _LONGEST_SECONDS), default=0.0)
        return SCRAPE_SECONDS * -(-(BEGIN_SECONDS + longest + _SLACK_SECONDS) // SCRAPE_SECONDS)

    def scraped(
        self, compared: Collection[str] = (), shown: Identity | None = None, names: Mapping[str, str] | None = None
    ) -> list[Scraped]:
        """The pages of all trials.

        :param compared: metrics that have faults of their own.
        :param shown: another identity in which the same boards are shown; ``names``: its names of metrics, by the
            identity's own.
        """
        rules = self.rules
        expressions = [rule.expression for group in rules.groups for rule in group.rules]
        metrics = None if rules.takes_all else {(names or {}).get(name, name) for name in rules.metrics}
        return scrape(
            self.identity, self.device, {code for rule in rules.alerts for code in rule.codes}, metrics, self.labels,
            self.last_seconds, self.progress, compared,
            [matchers for expression in expressions for matchers in selectors_of(expression)],
            [Threshold(alert.metrics, *of) for alert in rules.alerts for of in thresholds_of(alert.expression)],
            shown,
        )  # fmt: skip


def answer(
    rules: RuleFile, identity: str, device: str, labels: Mapping[str, str], progress: Callable[[float], None]
) -> list[Answer]:
    """What makes each rule fire on boards of a type with an identity.

    :raises PromtoolError: when promtool cannot evaluate the rules.
    """
    trials = Trials(rules, identity, device, labels, progress)
    # Rules that compare series fire when one of them is wrong.
    scraped = trials.scraped({name for rule in rules.alerts if len(rule.metrics) > 1 for name in rule.metrics})
    found = fired(rules, scraped, trials.last_seconds)
    names, known = set().union(*(trial.names for trial in scraped)), defaultdict[str, set[str]](set)
    for trial in scraped:
        for label, values in trial.labels.items():
            known[label] |= values
    return [_answer(rule, scraped, found, identity, device, names, known) for rule in rules.alerts]


def _answer(
    rule: AlertRule, scraped: Sequence[Scraped], found: Mapping[tuple[int, int], float],
    identity: str, device: str, names: set[str], labels: Mapping[str, set[str]],
) -> Answer:
    """
    :param names, labels: all metrics and labels of the pages, labels with their values.
    """  # fmt: skip
    fires = [(trial, found[rule.number, place]) for place, trial in enumerate(scraped) if (rule.number, place) in found]
    work = [trial.trial.work for trial, _ in fires if not trial.trial.kind]
    work = [each for each in work if each in USUAL] or work
    # What a full board does without a fault, it does with one.
    fires = _plainest(fire for fire in fires if fire[0].trial.kind and fire[0].trial.work not in work)
    of_boards = any(_scope(trial) is Scope.BOARD for trial, _ in fires)
    if work and not (work == [FULL] and of_boards):
        return Answer(rule, (), f"no fault is needed: {', '.join(work)} makes it fire")
    if fires:
        is_false = not work and all(_scope(trial) is Scope.SERIES for trial, _ in fires)
        reason = f"only false readings make it fire: {reached(rule, scraped, device)}" if is_false else ""
        return Answer(rule, fires, f"{FULL}, too" if work else reason)
    wait = rule.for_seconds + rule.window_seconds
    missing = sorted(rule.metrics - names - {"ALERTS"})
    unknown = sorted(rule.labels - labels.keys())
    unmatched = [
        matcher for matchers in selectors_of(rule.expression) for matcher in matchers
        if matcher.label in labels and not any(map(matcher.matches, (*labels[matcher.label], "")))
    ]  # fmt: skip
    if wait > _LONGEST_SECONDS:
        reason = f"not tried: it waits for {format_duration(wait)}, more than {format_duration(_LONGEST_SECONDS)}"
    elif missing:
        reason = f"{', '.join(missing)}: on no page of {identity} with {device}"
    elif unknown:
        reason = f"it requires the label {', '.join(unknown)}, which no series has: add it with --label NAME=VALUE"
    elif unmatched:
        shown = [f'{label}{kind}"{text}"' for label, kind, text in unmatched]
        values = {label.label: " or ".join(sorted(labels[label.label])[:_SHOWN]) for label in unmatched}
        here = ", ".join(f"{label} is {of}" for label, of in values.items())
        reason = f"no series has {', '.join(shown)}: {here}; give it with --label NAME=VALUE, if a scrape adds it"
    else:
        reason = "; ".join(filter(None, ("no fault that was tried makes it fire", reached(rule, scraped, device))))
    return Answer(rule, (), reason)


def reached(rule: AlertRule, scraped: Sequence[Scraped], device: str) -> str:
    """How far the metrics of a rule came without false readings, and the limits of the boards, as text.

    Empty for a rule that compares nothing with a number.
    """
    compared = thresholds_of(rule.expression)
    if not compared:
        return ""
    is_low = compared[0][0].startswith("<")
    words = []
    for metric in sorted(rule.metrics):
        found = [
            (float(value), trial.trial.words)
            for trial in scraped
            if not trial.trial.kind or _scope(trial) is not Scope.SERIES
            for series, samples in trial.series.items()
            if series.partition("{")[0] == metric
            for _, value in samples
        ]
        found = [pair for pair in found if math.isfinite(pair[0])]
        if found:
            value, trial = min(found) if is_low else max(found)
            words.append(f"{metric} came {'down' if is_low else 'up'} to {value:g} ({trial})")
    limits = board_limits(device)
    return "; ".join([*words, *([limits] if limits else [])])


def _plainest(fires: Iterable[tuple[Scraped, float]]) -> list[tuple[Scraped, float]]:
    """Trials by their rank, of each fault the first one."""
    found: dict[str, tuple[Scraped, float]] = {}
    for fire in sorted(fires, key=lambda each: _rank(*each)):
        found.setdefault(fire[0].trial.words, fire)
    return list(found.values())


def _scope(scraped: Scraped) -> Scope:
    return KINDS[scraped.trial.kind].scope


def _rank(scraped: Scraped, seconds: float) -> tuple[int, bool, int, int, int, str, float]:
    """Faults of boards before those of exporters, once before again and again, few values before many.

    Then those of a metric after those of all series, and of other boards after those of the first one, a busy one.
    """
    trial = scraped.trial
    board = trial.board % MOST_BOARDS  # all boards come after each single one
    return (
        _ORDER[_scope(scraped)], trial.flaps, trial.every_seconds, len(trial.values) + bool(trial.metric), board,
        trial.place, seconds,
    )  # fmt: skip


def _row(answer: Answer) -> dict[str, str]:
    fires = [(trial.trial, seconds) for trial, seconds in answer.fires[:_SHOWN]]
    shown = [f"{' '.join(filter(None, (trial.words, trial.place)))} ({seconds:.0f} s)" for trial, seconds in fires]
    more = len(answer.fires) - _SHOWN
    also = ", ".join(shown[1:]) + (f", {more} more" if more > 0 else "")
    notes = "; ".join(note for note in (also, answer.reason) if note)
    return {"ALERT": answer.rule.name, "FAULT": shown[0] if shown else "-", "ALSO": notes}


def _as_json(answer: Answer) -> dict[str, Any]:
    rule = answer.rule
    return {
        "alert": rule.name,
        "for-seconds": rule.for_seconds,
        "metrics": sorted(rule.metrics),
        "faults": [
            {
                "fault": trial.trial.words, **trial.trial.fields, "after-seconds": seconds,
                "work": trial.trial.work, "board": trial.trial.board,
            }
            for trial, seconds in answer.fires
        ],
        "reason": answer.reason,
    }  # fmt: skip
