"""Evaluates alert rules over the series of trials, by ``promtool test rules``.

promtool reports only what differs from what a test expects. The tests expect nothing, so what fires is reported.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fakedev.app.promtool import SHOWN, PromtoolError, run_promtool
from fakedev.commands.alert_rules.trials import BEGIN_SECONDS, SCRAPE_SECONDS, Scraped
from fakedev.config.alert_rules import RULE_LABEL, RuleFile
from fakedev.scenario.promtool_tests import series_values

_TRIAL_LABEL: Final = "fakedev_trial"
#: What promtool says of a sample with the two labels of ours.
_GOT: Final = re.compile(r'\{fakedev_rule="(\d++)", fakedev_trial="(\d++)"\} (\S++)')
_RULES: Final = "rules.json"
#: A line of the file that we have written.
_OF_OUR_FILE: Final = re.compile(r"\n  line \d++: ")
#: How promtool names a rule.
_OF_RULE: Final = re.compile(r'(?:\d++:\d++: )?+group "([^"\n]*+)", rule (\d++), "[^"\n]*+": ')


def check_rules(rules: RuleFile) -> None:
    """Check that promtool is there and takes the rules.

    :raises PromtoolError: with what is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _RULES).write_text(json.dumps({"groups": rules.numbered_trees}), encoding="utf-8")
        code, said = run_promtool(folder, "check", "rules", _RULES)
    if code:
        words = _OF_OUR_FILE.sub(" ", said.rpartition("FAILED:")[2]).strip().replace(f"{_RULES}: ", "")
        text = "\n".join(_placed(line, rules) for line in words.splitlines())
        raise PromtoolError(text[:SHOWN], is_of_rules=True)


def _placed(line: str, rules: RuleFile) -> str:
    """What promtool says of a rule, after the rule's place in its file."""
    found = _OF_RULE.match(line)
    if found is None:
        return f"{rules.file}: {line}"
    group = next(each for each in rules.groups if each.name == found[1])
    return f"{group.rules[int(found[2]) - 1].place}: {line[found.end() :]}"


def fired(rules: RuleFile, scraped: Sequence[Scraped], last_seconds: float) -> dict[tuple[int, int], float]:
    """When rules fired first, from when the faults began: (rule, place of the trial) to seconds since then.

    :raises PromtoolError: when promtool cannot evaluate them.
    """
    scrapes = int(last_seconds // SCRAPE_SECONDS)
    tests = {
        "rule_files": [_RULES],
        "evaluation_interval": f"{SCRAPE_SECONDS}s",
        "tests": [
            {
                "interval": f"{SCRAPE_SECONDS}s",
                "input_series": [
                    {"series": series, "values": " ".join(series_values(samples, scrapes))}
                    for series, samples in each.series.items()
                ],
                "promql_expr_test": [_test(rule.number, place, scrapes) for rule in rules.alerts],
            }
            for place, each in enumerate(scraped)
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _RULES).write_text(json.dumps({"groups": rules.numbered_trees}), encoding="utf-8")
        Path(folder, "tests.json").write_text(json.dumps(tests), encoding="utf-8")
        code, said = run_promtool(folder, "test", "rules", "tests.json")
    found = {(int(rule), int(trial)): float(at) - BEGIN_SECONDS for rule, trial, at in _GOT.findall(said)}
    if code and not found:
        raise PromtoolError(f"promtool cannot evaluate the rules: {said[:SHOWN].strip()}")
    return found


def _test(rule: int, place: int, scrapes: int) -> dict[str, Any]:
    """A test that expects that a rule does not fire after the faults began; promtool says when it fired first."""
    window = scrapes * SCRAPE_SECONDS - BEGIN_SECONDS
    alerts = f'ALERTS{{alertstate="firing",{RULE_LABEL}="{rule}"}}'
    first = f"min(min_over_time(timestamp({alerts})[{window}s:{SCRAPE_SECONDS}s]))"
    for label, value in ((RULE_LABEL, rule), (_TRIAL_LABEL, place)):
        first = f'label_replace({first}, "{label}", "{value}", "", "")'
    return {"expr": first, "eval_time": f"{scrapes * SCRAPE_SECONDS}s", "exp_samples": []}
