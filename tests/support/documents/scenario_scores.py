"""The scores of doc/scenarios.md: our alert rules, and those of public repositories, on the scenarios of etc/scenarios.

Run it at the root of the project to bring them up to date, which takes about half an hour and needs Prometheus:
``PYTHONPATH=. python -m tests.support.documents.scenario_scores``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import yaml

from fakedev.base.units import format_duration
from fakedev.scenario.rules.rule_files import EXPECTS, read_rules
from tests.support.documents.sections import between
from tests.support.paths import DOCUMENTS, ROOT
from tests.support.programs.processes import console

PAGE: Final = DOCUMENTS / "scenarios.md"
SCENARIOS: Final = ROOT / "etc" / "scenarios"
RULES: Final = ROOT / "etc" / "prometheus" / "gpu.rules.yml"
EXPECTATIONS: Final = Path(__file__).with_name("rule_expectations.yaml")
_COMMUNITY: Final = ROOT / "etc" / "alert-rules"
_BEGIN: Final = "<!-- scores: begin -->\n"
_END: Final = "<!-- scores: end -->\n"
#: Each has a Prometheus of its own.
_AT_ONCE: Final = 2
#: In the order of the page: what can go wrong with boards, their links and nodes, what only seems wrong, a day of each.
NAMES: Final = (
    "heat", "power-brake", "xid-storm", "flapping-link", "lost-board", "dead-node", "lying-exporter", "full-memory",
    "quiet-day", "everything",
)  # fmt: skip


#: Scenarios of racks, whose rules and scores are in racks.md.
OF_RACKS: Final = ("bad-cable", "switch-tray")


class RuleSet(NamedTuple):
    """A file of rules, and what shows the metrics that they need.

    :ivar identity: in place of that of the scenarios; empty for theirs.
    """

    rules: Path
    identity: str = ""


SETS: Final = (
    RuleSet(RULES),
    RuleSet(_COMMUNITY / "dcgm.yml", str(_COMMUNITY / "dcgm-identity.yaml")),
    RuleSet(_COMMUNITY / "nvidia-gpu-exporter.yml", "nvidia-gpu-exporter"),
)


def scenario_of(name: str) -> Path:
    """The file of a scenario."""
    return SCENARIOS / f"{name}.yaml"


def scored(name: str, rules: Path, identity: str, requirements: Sequence[str] = ()) -> dict[str, Any]:
    """The score of rules on a scenario, as JSON.

    :raises subprocess.CalledProcessError: when a requirement is missed.
    """
    pools = yaml.safe_load(scenario_of(name).read_text(encoding="utf-8"))["config"]["fleet"]["pools"]
    options = [f"--set=fleet.pools.{place}.identity={identity}" for place in range(len(pools)) if identity]
    options += [f"--expect={requirement}" for requirement in requirements]
    command = [*console("fakedev"), "scenario", "score", str(scenario_of(name)), "--rules", str(rules), "--json"]
    ended = subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True, text=True)
    sys.stderr.write(f"{name}: {rules.name}\n")
    score: dict[str, Any] = json.loads(ended.stdout)
    return score


def _with_expectations(rules: Path, folder: Path) -> Path:
    """Rules with annotations that say what they are to find, without rules about use; our own have them."""
    expected = yaml.safe_load(EXPECTATIONS.read_text(encoding="utf-8")).get(rules.name)
    if expected is None:
        return rules
    # The rule of missing boards has their number: two in the tables of alert-rules.md, eight here.
    text = rules.read_text(encoding="utf-8").replace("(DCGM_FI_DEV_GPU_TEMP) < 2", "(DCGM_FI_DEV_GPU_TEMP) < 8")
    tree = yaml.safe_load(text)
    for group in tree["groups"]:
        rules_of_faults = [rule for rule in group["rules"] if rule["alert"] in expected]
        group["rules"] = [{**rule, "annotations": {EXPECTS: expected[rule["alert"]]}} for rule in rules_of_faults]
    file = folder / rules.name
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file


class Figures(NamedTuple):
    """What some rules did in some scenarios; None for what cannot be measured."""

    firings: int
    false: int
    incidents: int
    found: int
    detect_seconds: float | None

    @property
    def words(self) -> str:
        """Precision, recall and the median of the time to detect, as cells of a table."""
        precision = f"{1 - self.false / self.firings:.2f}" if self.firings else "-"
        recall = f"{self.found / self.incidents:.2f}" if self.incidents else "-"
        return f"{precision} | {recall} | {_seconds(self.detect_seconds)}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"


def figures(rules: Sequence[Mapping[str, Any]]) -> Figures:
    """The figures of some rules together."""
    firings = [firing for rule in rules for firing in rule["firings"]]
    incidents = [incident for rule in rules for incident in rule["incidents"]]
    found = [incident["detect-seconds"] for incident in incidents if incident["found"]]
    false = sum(firing["false"] for firing in firings)
    return Figures(len(firings), false, len(incidents), len(found), median(found) if found else None)


def tables(scores: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """The tables of the page.

    :param scores: by the name of a scenario and that of a file of rules.
    """
    return "\n".join([*_of_scenarios(scores), "", *_of_rules(scores)]) + "\n"


def _of_scenarios(scores: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    yield "| scenario | rules | fired | precision | recall | found after | silent | blind |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in NAMES:
        yield from (row(name, each, scores[name, each.rules.name]) for each in SETS)


def row(name: str, rules: RuleSet, score: Mapping[str, Any]) -> str:
    """The row of a scenario and a file of rules."""
    found = figures(score["rules"])
    blind = sum(rule["verdict"] == "blind" for rule in score["rules"])
    head = f"`{name}`" if rules is SETS[0] else ""
    return f"| {head} | {rules.rules.name} | {found.firings} | {found.words} | {len(score['silent'])} | {blind} |"


def _of_rules(scores: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    yield "| rule | finds | for | incidents | precision | recall | found after |"
    yield "|---|---|---|---|---|---|---|"
    for rule in read_rules(RULES.read_text(encoding="utf-8"), RULES.name).alerts:
        runs = [each for name in NAMES for each in scores[name, RULES.name]["rules"] if each["alert"] == rule.name]
        found = figures(runs)
        waits = format_duration(rule.for_seconds) if rule.for_seconds else "-"
        finds = ", ".join(f"`{word}`" for word in rule.expects or ())
        yield f"| {rule.name} | {finds} | {waits} | {found.incidents} | {found.words} |"


def main() -> None:
    """Write the tables."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        files = {each: _with_expectations(each.rules, Path(folder)) for each in SETS}
        running = {
            (name, each.rules.name): pool.submit(scored, name, files[each], each.identity)
            for name in NAMES
            for each in SETS
        }
        scores = {key: future.result() for key, future in running.items()}
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(between(page, _BEGIN, _END, tables(scores)), encoding="utf-8")


if __name__ == "__main__":
    main()
