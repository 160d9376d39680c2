"""The scenarios and alert rules that come with fakedev. tests/scenario/real/test_scenario_catalog.py scores them."""

from __future__ import annotations

import pytest
import yaml

from fakedev.commands.main import main
from fakedev.scenario.entries import Inject
from fakedev.scenario.rules.rule_files import read_rules
from fakedev.scenario.scores.score_start import load_rules
from fakedev.scenario.settings import load_scenario
from tests.support.documents.scenario_scores import (
    EXPECTATIONS,
    NAMES,
    OF_RACKS,
    PAGE,
    RULES,
    SCENARIOS,
    SETS,
    scenario_of,
)

#: In the order of the first table of the page.
LISTED = [*NAMES[:-2], *OF_RACKS, *NAMES[-2:]]


def test_all_are_in_the_tables() -> None:
    """The list, the tables of the page, and the folder have the same scenarios and rules."""
    assert sorted((*NAMES, *OF_RACKS)) == sorted(path.stem for path in SCENARIOS.glob("*.yaml"))
    rows = [line.split("|")[1].strip() for line in PAGE.read_text(encoding="utf-8").splitlines() if "|" in line]
    assert [row.strip("`") for row in rows if row.strip("`") in (*NAMES, *OF_RACKS)] == [*LISTED, *NAMES]
    alerts = [rule.name for rule in read_rules(RULES.read_text(encoding="utf-8"), RULES.name).alerts]
    assert [row for row in rows if row in alerts] == alerts


@pytest.mark.parametrize("name", LISTED)
def test_a_scenario(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It has no mistakes, nor have its rules; it takes 1 to 24 hours, a cable that wears out a week."""
    assert main(["scenario", "run", str(scenario_of(name)), "--check"]) == 0
    assert "good: " in capfd.readouterr().out
    loaded = load_scenario(str(scenario_of(name)), {})
    assert 3600 <= loaded.scenario.span_seconds <= 86400 * (7 if name == "bad-cable" else 1)
    assert all(alert.expects for alert in load_rules(loaded, []).files[0].alerts)
    faults = [occurrence for occurrence in loaded.scenario.occurrences if isinstance(occurrence.action, Inject)]
    assert bool(faults) == (name not in ("quiet-day", "full-memory"))


def test_what_is_expected_of_common_rules() -> None:
    """Each rule of the list is in its file."""
    expected = yaml.safe_load(EXPECTATIONS.read_text(encoding="utf-8"))
    assert list(expected) == [each.rules.name for each in SETS[1:]]
    for each in SETS[1:]:
        alerts = {rule.name for rule in read_rules(each.rules.read_text(encoding="utf-8"), each.rules.name).alerts}
        assert set(expected[each.rules.name]) <= alerts
