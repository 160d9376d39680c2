"""Evaluates alert rules over the series of trials, by ``promtool test rules``.

promtool reports only what differs from what a test expects. The tests expect nothing, so what fires is reported.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fakedev.commands.alert_rules.rules import RULE_LABEL, RuleFile
from fakedev.commands.alert_rules.trials import BEGIN_SECONDS, SCRAPE_SECONDS, Scraped

_TRIAL_LABEL: Final = "fakedev_trial"
#: What promtool says of a sample with the two labels of ours.
_GOT: Final = re.compile(r'\{fakedev_rule="(\d++)", fakedev_trial="(\d++)"\} (\S++)')
_RULES: Final = "rules.json"
#: After so long promtool is stopped.
_MAX_SECONDS: Final = 600
#: How many characters of what promtool says an error shows.
_SHOWN: Final = 2000


class PromtoolError(Exception):
    """promtool is missing, or cannot evaluate the rules."""

    def __init__(self, text: str, *, is_of_rules: bool = False) -> None:
        super().__init__(text)
        self.is_of_rules = is_of_rules


def check_rules(rules: RuleFile) -> None:
    """Check that promtool is there and takes the rules.

    :raises PromtoolError: with what is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _RULES).write_text(json.dumps({"groups": rules.groups}), encoding="utf-8")
        code, said = _run(folder, "check", "rules", _RULES)
    if code:
        raise PromtoolError(said.replace(f"{_RULES}: ", "")[:_SHOWN].strip(), is_of_rules=True)


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
        Path(folder, _RULES).write_text(json.dumps({"groups": rules.groups}), encoding="utf-8")
        Path(folder, "tests.json").write_text(json.dumps(tests), encoding="utf-8")
        code, said = _run(folder, "test", "rules", "tests.json")
    found = {(int(rule), int(trial)): float(at) - BEGIN_SECONDS for rule, trial, at in _GOT.findall(said)}
    if code and not found:
        raise PromtoolError(f"promtool cannot evaluate the rules: {said[:_SHOWN].strip()}")
    return found


def _test(rule: int, place: int, scrapes: int) -> dict[str, Any]:
    """A test that expects that a rule does not fire after the faults began; promtool says when it fired first."""
    window = scrapes * SCRAPE_SECONDS - BEGIN_SECONDS
    alerts = f'ALERTS{{alertstate="firing",{RULE_LABEL}="{rule}"}}'
    first = f"min(min_over_time(timestamp({alerts})[{window}s:{SCRAPE_SECONDS}s]))"
    for label, value in ((RULE_LABEL, rule), (_TRIAL_LABEL, place)):
        first = f'label_replace({first}, "{label}", "{value}", "", "")'
    return {"expr": first, "eval_time": f"{scrapes * SCRAPE_SECONDS}s", "exp_samples": []}


def series_values(samples: Sequence[tuple[int, str]], scrapes: int) -> Iterator[str]:
    """Samples in promtool's notation: what a scrape lacks is stale once, then missing."""
    next_number = 0
    run, length = "", 0
    for number, value in [*samples, (scrapes + 1, "")]:
        is_next = number == next_number and value == run
        if is_next:
            length += 1
        else:
            yield from _repeated(run, length)
            if number > next_number:
                missing = number - next_number
                yield from (["stale"] + ["_"] * (missing - 1) if next_number else ["_"] * missing)
            run, length = value, 1
        next_number = number + 1


def _repeated(value: str, length: int) -> Iterator[str]:
    if not length:
        return
    if length > 1 and math.isfinite(float(value)):
        yield f"{value}+0x{length - 1}"
    else:
        yield from [value] * length


def _run(folder: str, *arguments: str) -> tuple[int, str]:
    """Run promtool; its exit code and what it said."""
    program = shutil.which("promtool")
    if program is None:
        raise PromtoolError("promtool is needed, which comes with Prometheus, and it is not on the PATH")
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, capture_output=True, timeout=_MAX_SECONDS, check=False, text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"promtool took more than {_MAX_SECONDS} s, and was stopped: split the rule file"
        raise PromtoolError(text) from None
    return done.returncode, done.stdout + done.stderr
