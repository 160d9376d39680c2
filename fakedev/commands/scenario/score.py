"""``fakedev scenario score FILE``: marks alert rules by what really happened in a scenario."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from fakedev.app.configuration_options import argument_type
from fakedev.app.promtool import PromtoolError
from fakedev.app.scenario import begin_of
from fakedev.commands.alert_rules.promtool import check_rules
from fakedev.commands.console import Progress, table, tell_notes, write_text
from fakedev.commands.parser import Parser
from fakedev.commands.scenario.run import add_scenario_options, tell_refused
from fakedev.commands.scenario.score_html import score_html
from fakedev.config.alert_rules import RuleFile
from fakedev.config.scenarios import load_scenario
from fakedev.scenario.report_score import finding_text, junit, notes, rule_rows, score_values
from fakedev.scenario.requirements import Finding, Requirement, judge, parse_requirement
from fakedev.scenario.score import Score
from fakedev.spec.errors import did_you_mean
from fakedev.spec.os_errors import plain_reason

_PROGRAM: Final = "fakedev scenario score"
#: The exit code when an expectation is missed.
NOT_MET: Final = 3


def score(arguments: Sequence[str]) -> int:
    """Run the scenario, evaluate the rules and print the marks.

    :returns: 0; 1 when Prometheus is missing or fails, or a report cannot be written; 2 when the options, the scenario
        or the rules cannot be used; 3 when an expectation is missed; 130.
    :raises ConfigurationError: when the scenario or the rules cannot be used.
    """
    parser = _parser()
    options = parser.parse_args(list(arguments))
    loaded = load_scenario(options.file, os.environ, options.config, options.set)
    from fakedev.app.scenario_score import ScoreOrder, load_rules, run_score  # noqa: PLC0415 - others need no Twisted

    rules = load_rules(loaded, options.rules)
    _check_names(parser, options.expect, rules.files)
    tell_notes(loaded.notes)
    if not are_good(_PROGRAM, rules.files):
        return 2
    progress = Progress(_PROGRAM, sys.stderr)
    ended = run_score(
        ScoreOrder(
            loaded=loaded, epoch_seconds=begin_of(loaded, options.end), rules=rules, prometheus=options.prometheus,
            done=progress.show, on_played=partial(tell_refused, progress),
        )
    )  # fmt: skip
    progress.clear()
    if ended.score is None:
        write_text(sys.stderr, f"{_PROGRAM}: {ended.problem}\n")
        return exit_code(ended.signal_name, is_refused=ended.is_refused)
    findings = judge(options.expect, ended.score)
    written = _write_files(options, ended.score, findings, loaded.scenario.name)
    if options.json:
        write_text(sys.stdout, json.dumps(score_values(ended.score, findings), indent=1) + "\n")
    else:
        write_text(sys.stdout, _text(ended.score, findings))
    if not written:
        return 1
    return 0 if all(each.is_met for each in findings) else NOT_MET


def add_rule_options(parser: argparse.ArgumentParser) -> None:
    """The options of all subcommands that evaluate rules."""
    add_scenario_options(parser)
    parser.add_argument(
        "--rules", metavar="FILE", action="extend", nargs="+", default=[],
        help="files with alert rules; default those that the scenario names",
    )  # fmt: skip
    parser.add_argument("--prometheus", metavar="FILE", default="", help="the program; default prometheus on the PATH")


def are_good(program: str, files: Sequence[RuleFile]) -> bool:
    """Whether promtool takes the rules; prints what it says. Without promtool they are taken as they are."""
    if shutil.which("promtool") is None:
        return True
    is_good = True
    for rules in files:
        try:
            check_rules(rules)
        except PromtoolError as error:
            write_text(sys.stderr, f"{program}: promtool does not take the rules:\n{error}\n")
            is_good = False
    return is_good


def exit_code(signal_name: str, *, is_refused: bool) -> int:
    """The exit code of a run that ended early."""
    if signal_name == "SIGINT":
        return 128 + signal.SIGINT
    return 2 if is_refused else 1


def _parser() -> Parser:
    parser = Parser(_PROGRAM, description=__doc__)
    add_rule_options(parser)
    parser.add_argument(
        "--expect", metavar="EXPECTATION", action="append", default=[], type=argument_type(parse_requirement),
        help="exit 3 if it is missed: recall>=0.9 or 'GpuHot: detect<=2m'; may be repeated",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--junit", metavar="FILE", help="write the marks as JUnit's XML, for continuous integration")
    parser.add_argument("--html", metavar="FILE", help="write one page with the timeline of truth and alerts")
    return parser


def _check_names(parser: Parser, requirements: Sequence[Requirement], files: Sequence[RuleFile]) -> None:
    """End with 2 when an expectation names an alert that no rule has."""
    names = {rule.name for rules in files for rule in rules.alerts}
    for each in requirements:
        if each.rule and each.rule not in names:
            parser.error(f"--expect: no rule has the alert {each.rule!r}{did_you_mean(each.rule, names)}")


def _text(score: Score, findings: Sequence[Finding]) -> str:
    said = [*notes(score), *(finding_text(each) for each in findings)]
    return table(rule_rows(score)) + "".join(f"{line}\n" for line in ([""] if said else []) + said)


def _write_files(options: argparse.Namespace, score: Score, findings: Sequence[Finding], name: str) -> bool:
    """Write the reports that are asked for; whether that was possible."""
    reports: dict[str, Callable[[], str]] = {}
    if options.junit:
        reports[options.junit] = lambda: junit(score, findings, name)
    if options.html:
        reports[options.html] = lambda: score_html(score, findings, name)
    is_good = True
    for path, made in reports.items():
        try:
            Path(path).write_text(made(), encoding="utf-8")
        except OSError as error:
            write_text(sys.stderr, f"{_PROGRAM}: {path}: {plain_reason(error)}\n")
            is_good = False
    return is_good
