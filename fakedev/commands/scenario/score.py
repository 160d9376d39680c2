"""``fakedev scenario score`` scores alert rules by what happened; ``fakedev scenario tests`` writes a test of them.

Both run a scenario in virtual time, and let a Prometheus of their own evaluate the rules.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fakedev.base.console import Progress, table, tell_notes, write_text
from fakedev.base.errors import did_you_mean
from fakedev.base.units import format_duration
from fakedev.commands.scenario.run import SCENARIO, tell_refused
from fakedev.scenario.rules.alert_rules import metrics_of
from fakedev.scenario.rules.promtool import PromtoolError, check_rules
from fakedev.scenario.rules.promtool_tests import InputSeries, promtool_tests
from fakedev.scenario.rules.rule_files import RuleFile
from fakedev.scenario.scores.score import Score
from fakedev.scenario.scores.score_report import (
    Finding,
    Requirement,
    finding_text,
    judge,
    junit,
    notes,
    parse_requirement,
    rule_rows,
    score_html,
    score_values,
)
from fakedev.scenario.settings import LoadedScenario, load_scenario
from fakedev.scenario.start import begin_of
from fakedev.schema.options import Failed, Option, WrongUsage, command, write_file
from fakedev.schema.places import ConfigurationError, Problem

if TYPE_CHECKING:  # it needs Twisted, and wrong usage does not
    from fakedev.scenario.scores.score_start import RulesToScore

#: The exit code when an expectation is missed.
NOT_MET: Final = 3
_OPTIONS: Final = (
    *SCENARIO,
    Option(
        "rules", "FILE", "files with alert rules; default: those that the scenario names", is_repeated=True, count="+"
    ),
    Option("prometheus", "FILE", "the program; default: prometheus on the PATH", ""),
)


@command(
    "fakedev scenario score",
    "Scores alert rules by what really happened in a scenario.",
    *_OPTIONS,
    Option(
        "expect", "EXPECTATION", "exit 3 if it is missed: recall>=0.9 or 'GpuHot: detect<=2m'; may be repeated",
        parse=parse_requirement, is_repeated=True,
    ),
    Option("json", "", "print JSON instead of text"),
    Option("junit", "FILE", "write the scores as JUnit XML, for continuous integration"),
    Option("html", "FILE", "write one page with the timeline of truth and alerts"),
)  # fmt: skip
def score(options: Namespace) -> int:
    """Run the scenario, evaluate the rules and print the scores.

    :returns: 0; 1 when a report cannot be written; 3 when an expectation is missed.
    :raises ConfigurationError: when the scenario or the rules cannot be used.
    """
    loaded, rules = _loaded(options)
    _check_names(options.expect, rules.files)
    scored = _scored("fakedev scenario score", options, loaded, rules)
    findings = judge(options.expect, scored)
    problem = ""
    for path, report in ((options.junit, junit), (options.html, score_html)):
        if path:
            try:
                write_file(path, report(scored, findings, loaded.scenario.name))
            except Failed as error:
                problem = str(error)
                write_text(sys.stderr, f"fakedev scenario score: {problem}\n")
    if options.json:
        write_text(sys.stdout, json.dumps(score_values(scored, findings), indent=1) + "\n")
    else:
        write_text(sys.stdout, _text(scored, findings))
    if problem:
        return 1
    return 0 if all(finding.is_met for finding in findings) else NOT_MET


@command(
    "fakedev scenario tests",
    "Writes a run, and the alerts in it, as a file for promtool test rules.",
    *_OPTIONS,
    Option("output", "FILE", "the file; default: standard output"),
)
def tests(options: Namespace) -> None:
    """Run the scenario, evaluate the rules and write the file.

    :raises ConfigurationError: when the scenario or the rules cannot be used.
    """
    loaded, rules = _loaded(options)
    if len(rules.files) != 1:
        raise WrongUsage(f"--rules: a test file is of one rule file, not of {len(rules.files)}")
    (file,) = rules.files
    scraping = loaded.scenario.scraping
    interval_seconds = _interval(file, scraping.evaluation_seconds)
    inputs = InputSeries(None if file.takes_all else file.metrics.union(*map(metrics_of, file.recorded.values())))
    scored = _scored("fakedev scenario tests", options, loaded, rules, observe=inputs.add)
    runs = [rule.run for rule in scored.rules]
    for run in runs:
        if run.problem:
            write_text(sys.stderr, f"note: {run.rule.place}: {run.rule.name} is left out: it fails: {run.problem}\n")
    folder = os.path.dirname(os.path.abspath(options.output)) if options.output else os.getcwd()
    text = promtool_tests(
        os.path.relpath(file.file, folder), file.groups, loaded.scenario.name, inputs, runs,
        round(1000 * scraping.interval_seconds), round(1000 * interval_seconds),
    )  # fmt: skip
    if options.output:
        write_file(options.output, text)
    else:
        write_text(sys.stdout, text, is_document=True)


def _loaded(options: Namespace) -> tuple[LoadedScenario, RulesToScore]:
    loaded = load_scenario(options.file, os.environ, options.config, options.set)
    from fakedev.scenario.scores.score_start import load_rules  # noqa: PLC0415 - what ends before needs no Twisted

    return loaded, load_rules(loaded, options.rules)


def _scored(program: str, options: Namespace, loaded: LoadedScenario, rules: RulesToScore, **others: Any) -> Score:
    """Run the scenario, and evaluate and mark the rules.

    :param others: further attributes of the order.
    :raises Failed: when promtool or Prometheus is missing, fails, or refuses the rules; also after a signal.
    """
    from fakedev.scenario.scores.score_start import ScoreOrder, run_score  # noqa: PLC0415 - as above

    tell_notes(loaded.notes)
    problems = _problems_of(rules.files)
    if problems:
        raise Failed(f"\n{program}: ".join(problems), 2)
    with Progress(program, sys.stderr) as progress:
        ended = run_score(
            ScoreOrder(
                loaded=loaded, epoch_seconds=begin_of(loaded, options.end), rules=rules, prometheus=options.prometheus,
                done=progress.show, on_played=partial(tell_refused, progress), **others,
            )
        )  # fmt: skip
    if ended.score is None:
        refused = 2 if ended.is_refused else 1
        raise Failed(ended.problem, 128 + signal.SIGINT if ended.signal_name == "SIGINT" else refused)
    return ended.score


def _problems_of(files: Sequence[RuleFile]) -> list[str]:
    """What promtool says of the rules that it does not take; without promtool they are taken as they are."""
    problems: list[str] = []
    for rules in files if shutil.which("promtool") is not None else ():
        try:
            check_rules(rules)
        except PromtoolError as error:
            problems.append(f"promtool does not take the rules:\n{error}")
    return problems


def _check_names(requirements: Sequence[Requirement], files: Sequence[RuleFile]) -> None:
    """
    :raises WrongUsage: when an expectation names an alert that no rule has.
    """
    names = {rule.name for rules in files for rule in rules.alerts}
    for each in requirements:
        if each.rule and each.rule not in names:
            raise WrongUsage(f"--expect: no rule has the alert {each.rule!r}{did_you_mean(each.rule, names)}")


def _text(score: Score, findings: Sequence[Finding]) -> str:
    said = [*notes(score), *(finding_text(finding) for finding in findings)]
    return table(rule_rows(score)) + "".join(f"{line}\n" for line in ([""] if said else []) + said)


def _interval(file: RuleFile, usual_seconds: float) -> float:
    """The time between two evaluations of the file's groups.

    :raises ConfigurationError: when they are not evaluated as one: promtool evaluates all groups of a test so.
    """
    intervals = {group.interval_seconds or usual_seconds: group for group in file.groups}
    problems = []
    if len(intervals) > 1:
        texts = ", ".join(f"{group.name} {format_duration(seconds)}" for seconds, group in intervals.items())
        problems.append(f"groups have different intervals ({texts}), and promtool evaluates all groups of a test at "
                        "the same: split the file")  # fmt: skip
    problems += [
        f"the group {group.name} has query_offset, which promtool does not support" for group in file.groups
        if group.offset_seconds
    ]  # fmt: skip
    if problems:
        raise ConfigurationError([Problem(file.file, 0, problem) for problem in problems])
    return next(iter(intervals))
