"""Runs promtool, which comes with Prometheus, and evaluates alert rules by ``promtool test rules``.

promtool is found on the PATH; its errors are reported in its words. It reports only what differs from what a test
expects. The tests expect nothing, so what fires is reported.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from fakedev.scenario.rules.promtool_tests import series_values
from fakedev.scenario.rules.rule_files import RULE_LABEL, RuleFile
from fakedev.scenario.rules.trials import BEGIN_SECONDS, SCRAPE_SECONDS, Scraped
from fakedev.scenario.scores.upgrade_report import Measured

#: How many processes of promtool make blocks at once.
MOST_AT_ONCE: Final = 2
#: Time limit of promtool.
_MAX_SECONDS: Final = 600
#: How many characters of what promtool says an error shows.
SHOWN: Final = 2000


class PromtoolError(ValueError):
    """promtool is missing, or refuses what it is given."""

    def __init__(self, text: str, *, is_rule_error: bool = False) -> None:
        super().__init__(text)
        self.is_rule_error = is_rule_error


def promtool() -> str:
    """The path of promtool.

    :raises PromtoolError: without one.
    """
    program = shutil.which("promtool")
    if program is None:
        raise PromtoolError("promtool is needed, which comes with Prometheus, and it is not on the PATH")
    return program


def run_promtool(folder: str, *arguments: str) -> tuple[int, str]:
    """Run promtool in a folder; its exit code and what it said.

    :raises PromtoolError: when it is missing or takes too long.
    """
    program = promtool()
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, capture_output=True, timeout=_MAX_SECONDS, check=False, text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"promtool took more than {_MAX_SECONDS} s, and was stopped: split the rule file"
        raise PromtoolError(text) from None
    return done.returncode, done.stdout + done.stderr


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    file: Path
    said: IO[bytes]


class BlockMaker:
    """Makes blocks of OpenMetrics files by promtool, two at once, while the caller goes on.

    :param data: the folder of the blocks; it is created.
    :param removes: whether files are deleted when their blocks are made.
    :ivar made: of how many files blocks have been made.
    :raises PromtoolError: without promtool.
    """

    def __init__(self, data: Path, *, removes: bool = False) -> None:
        self._program = promtool()
        self._data = data
        self._removes = removes
        self._running: deque[_Running] = deque()
        self.made = 0

    def add(self, file: Path) -> None:
        """Make blocks of a file; it waits while two others are in work.

        :raises PromtoolError: when an earlier file is refused, in promtool's words.
        """
        while len(self._running) >= MOST_AT_ONCE:
            self._wait()
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        command = [self._program, "tsdb", "create-blocks-from", "openmetrics", str(file), str(self._data)]
        # In a group of its own: ^C in a terminal must not stop it half-way.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._running.append(_Running(process, file, said))

    def finish(self) -> None:
        """Wait for all files.

        :raises PromtoolError: when one is refused.
        """
        while self._running:
            self._wait()

    def stop(self) -> None:
        """Stop what is in work; what is made stays."""
        for process in self._running:
            with suppress(OSError):
                process.process.kill()
            process.process.wait()
            process.said.close()
        self._running.clear()

    def _wait(self) -> None:
        process, file, said = self._running[0]
        code = process.wait()
        self._running.popleft()
        with said:
            if code:
                said.seek(0)
                text = said.read(SHOWN).decode(errors="replace").strip() or f"exit code {code}"
                raise PromtoolError(f"{file}: promtool: {text}")
        self.made += 1
        if self._removes:
            file.unlink(missing_ok=True)


_TRIAL_LABEL: Final = "fakedev_trial"
#: Trials that one promtool evaluates: with 20 rules that takes it 20 s of CPU time, far from its limit.
_TRIALS_AT_ONCE: Final = 20
#: What promtool says of a sample with the two labels of ours.
_GOT: Final = re.compile(r'\{fakedev_rule="(\d++)", fakedev_trial="(\d++)"\} (\S++)')
#: In the text of an expression that it cannot evaluate.
_EXPRESSION_NUMBER: Final = re.compile(r'fakedev_rule\\", \\"(\d++)\\"')
_RULES: Final = "rules.json"
#: A line of the file that we have written.
_LINE_OF_INPUT: Final = re.compile(r"\n  line \d++: ")
#: How promtool names a rule.
_RULE_PLACE: Final = re.compile(r'(?:\d++:\d++: )?+group "([^"\n]*+)", rule (\d++), "[^"\n]*+": ')


def check_rules(rules: RuleFile) -> None:
    """Check that promtool is there and takes the rules.

    :raises PromtoolError: with what is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _RULES).write_text(json.dumps({"groups": rules.numbered_trees}), encoding="utf-8")
        code, said = run_promtool(folder, "check", "rules", _RULES)
    if code:
        words = _LINE_OF_INPUT.sub(" ", said.rpartition("FAILED:")[2]).strip().replace(f"{_RULES}: ", "")
        text = "\n".join(_placed(line, rules) for line in words.splitlines())
        raise PromtoolError(text[:SHOWN], is_rule_error=True)


def _placed(line: str, rules: RuleFile) -> str:
    """What promtool says of a rule, after the rule's place in its file."""
    found = _RULE_PLACE.match(line)
    if found is None:
        return f"{rules.file}: {line}"
    group = next(group for group in rules.groups if group.name == found[1])
    return f"{group.rules[int(found[2]) - 1].place}: {line[found.end() :]}"


def measured(
    groups: Sequence[Mapping[str, Any]], expressions: Sequence[str], scraped: Sequence[Scraped], last_seconds: float,
    scrape_seconds: int = SCRAPE_SECONDS,
) -> list[Measured | str | None]:
    """What expressions are at the last scrape, on the series of all trials together.

    :param groups: of recording rules, in the order in which they are evaluated.
    :param scrape_seconds: the interval of the scrapes, and of evaluations.
    :returns: for each expression its result; None for none, and a text for what promtool says of a wrong one.
    :raises PromtoolError: when promtool is missing or cannot evaluate anything.
    """
    scrapes = int(last_seconds // scrape_seconds)
    tests = {
        "rule_files": [_RULES],
        "group_eval_order": [group["name"] for group in groups],
        "evaluation_interval": f"{scrape_seconds}s",
        "tests": [
            {
                "interval": f"{scrape_seconds}s",
                "input_series": _input_series(scraped, scrapes),
                "promql_expr_test": [
                    {"expr": _labelled(f"{part}({expression}\n)", number, place),
                     "eval_time": f"{scrapes * scrape_seconds}s", "exp_samples": []}
                    for number, expression in enumerate(expressions)
                    for place, part in enumerate(("count", "min", "max"))
                ],
            }
        ],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _RULES).write_text(json.dumps({"groups": groups}), encoding="utf-8")
        Path(folder, "tests.json").write_text(json.dumps(tests), encoding="utf-8")
        code, said = run_promtool(folder, "test", "rules", "tests.json")
    values = {(int(number), int(part)): float(value) for number, part, value in _GOT.findall(said)}
    failed = (line.partition(", err: ") for line in said.splitlines())
    errors = {int(found[1]): why for text, _, why in failed if why and (found := _EXPRESSION_NUMBER.search(text))}
    if code and not values and not errors:
        raise PromtoolError(f"promtool cannot evaluate the queries: {said[:SHOWN].strip()}")
    return [
        Measured(*(values[number, part] for part in range(3))) if (number, 0) in values else errors.get(number)
        for number in range(len(expressions))
    ]


def fired(rules: RuleFile, scraped: Sequence[Scraped], last_seconds: float) -> dict[tuple[int, int], float]:
    """When rules fired first, from when the faults began: (rule, place of the trial) to seconds since then.

    :raises PromtoolError: when promtool cannot evaluate them.
    """
    scrapes = int(last_seconds // SCRAPE_SECONDS)
    found: dict[tuple[int, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _RULES).write_text(json.dumps({"groups": rules.numbered_trees}), encoding="utf-8")
        for first in range(0, len(scraped), _TRIALS_AT_ONCE):
            tests = {
                "rule_files": [_RULES],
                # Otherwise promtool takes groups in no particular order.
                "group_eval_order": rules.evaluation_order,
                "evaluation_interval": f"{SCRAPE_SECONDS}s",
                "tests": [
                    {
                        "interval": f"{SCRAPE_SECONDS}s",
                        "input_series": _input_series([trial], scrapes),
                        "promql_expr_test": [_test(rule.number, place, scrapes) for rule in rules.alerts],
                    }
                    for place, trial in enumerate(scraped[first : first + _TRIALS_AT_ONCE], first)
                ],
            }
            Path(folder, "tests.json").write_text(json.dumps(tests), encoding="utf-8")
            code, said = run_promtool(folder, "test", "rules", "tests.json")
            fires = {(int(rule), int(trial)): float(at) - BEGIN_SECONDS for rule, trial, at in _GOT.findall(said)}
            if code and not fires:
                raise PromtoolError(f"promtool cannot evaluate the rules: {said[:SHOWN].strip()}")
            found |= fires
    return found


def _test(rule: int, place: int, scrapes: int) -> dict[str, Any]:
    """A test that expects that a rule does not fire after the faults began; promtool says when it fired first."""
    window = scrapes * SCRAPE_SECONDS - BEGIN_SECONDS
    alerts = f'ALERTS{{alertstate="firing",{RULE_LABEL}="{rule}"}}'
    first = f"min(min_over_time(timestamp({alerts})[{window}s:{SCRAPE_SECONDS}s]))"
    return {"expr": _labelled(first, rule, place), "eval_time": f"{scrapes * SCRAPE_SECONDS}s", "exp_samples": []}


def _labelled(expression: str, rule: int, trial: int) -> str:
    """An expression of one series, by whose labels it is found in what promtool says."""
    for label, value in ((RULE_LABEL, rule), (_TRIAL_LABEL, trial)):
        expression = f'label_replace({expression}, "{label}", "{value}", "", "")'
    return expression


def _input_series(scraped: Sequence[Scraped], scrapes: int) -> list[dict[str, str]]:
    """The series of trials in promtool's notation."""
    return [
        {"series": series, "values": " ".join(series_values(samples, scrapes))}
        for trial in scraped
        for series, samples in trial.series.items()
    ]
