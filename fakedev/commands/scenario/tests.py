"""``fakedev scenario tests FILE``: writes a run, and the alerts in it, as a file for ``promtool test rules``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from fakedev.app.scenario import begin_of
from fakedev.commands.console import Progress, tell_notes, write_text
from fakedev.commands.parser import Parser
from fakedev.commands.scenario.run import tell_refused
from fakedev.commands.scenario.score import add_rule_options, are_good, exit_code
from fakedev.config.alert_rules import RuleFile
from fakedev.config.scenarios import load_scenario
from fakedev.config.schema.nodes import ConfigurationError, Problem
from fakedev.scenario.promql import metrics_of
from fakedev.scenario.promtool_tests import InputSeries, promtool_tests
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import format_duration

_PROGRAM: Final = "fakedev scenario tests"


def tests(arguments: Sequence[str]) -> int:
    """Run the scenario, evaluate the rules and write the file.

    :returns: 0; 1 when Prometheus is missing or fails, or the file cannot be written; 2 when the options, the scenario
        or the rules cannot be used; 130.
    :raises ConfigurationError: when the scenario or the rules cannot be used.
    """
    parser = Parser(_PROGRAM, description=__doc__)
    add_rule_options(parser)
    parser.add_argument("--output", metavar="FILE", help="the file; default standard output")
    options = parser.parse_args(list(arguments))
    loaded = load_scenario(options.file, os.environ, options.config, options.set)
    from fakedev.app.scenario_score import ScoreOrder, load_rules, run_score  # noqa: PLC0415 - others need no Twisted

    rules = load_rules(loaded, options.rules)
    if len(rules.files) != 1:
        parser.error(f"--rules: a test file is of one rule file, not of {len(rules.files)}")
    (file,) = rules.files
    scraping = loaded.scenario.scraping
    interval_seconds = _interval(file, scraping.evaluation_seconds)
    tell_notes(loaded.notes)
    if not are_good(_PROGRAM, rules.files):
        return 2
    inputs = InputSeries(None if file.takes_all else file.metrics | _recorded_from(file))
    progress = Progress(_PROGRAM, sys.stderr)
    ended = run_score(
        ScoreOrder(
            loaded=loaded, epoch_seconds=begin_of(loaded, options.end), rules=rules, prometheus=options.prometheus,
            done=progress.show, on_played=partial(tell_refused, progress), observe=inputs.add,
        )
    )  # fmt: skip
    progress.clear()
    if ended.score is None:
        write_text(sys.stderr, f"{_PROGRAM}: {ended.problem}\n")
        return exit_code(ended.signal_name, is_refused=ended.is_refused)
    runs = [each.run for each in ended.score.rules]
    for run in runs:
        if run.problem:
            write_text(sys.stderr, f"note: {run.rule.place}: {run.rule.name} is left out: it fails: {run.problem}\n")
    folder = os.path.dirname(os.path.abspath(options.output)) if options.output else os.getcwd()
    text = promtool_tests(
        os.path.relpath(file.file, folder), file.groups, loaded.scenario.name, inputs, runs,
        round(1000 * scraping.interval_seconds), round(1000 * interval_seconds),
    )  # fmt: skip
    if not options.output:
        write_text(sys.stdout, text)
        return 0
    try:
        Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        write_text(sys.stderr, f"{_PROGRAM}: {options.output}: {plain_reason(error)}\n")
        return 1
    return 0


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
        f"the group {group.name} has query_offset, which promtool does not know" for group in file.groups
        if group.offset_seconds
    ]  # fmt: skip
    if problems:
        raise ConfigurationError([Problem(file.file, 0, each) for each in problems])
    return next(iter(intervals))


def _recorded_from(file: RuleFile) -> frozenset[str]:
    """The metrics that recording rules need."""
    return frozenset().union(*(metrics_of(expression) for expression in file.recorded.values()))
