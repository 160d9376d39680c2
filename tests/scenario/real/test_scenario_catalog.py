"""The scenarios that come with fakedev, with our alert rules: all that happens is found, and nothing else."""

from __future__ import annotations

import pytest

from tests.support.documents.scenario_scores import NAMES, PAGE, SETS, row, scored

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.requires_program("prometheus")]

_FOUND = ("precision>=1", "recall>=1", "silent==0")
#: Where nothing happens there is no share to measure.
_QUIET = ("firings==0",)


@pytest.mark.parametrize("name", NAMES)
def test_our_rules(name: str) -> None:
    """The command ends with 0, and the table of the page has its figures."""
    requirements = (*(_QUIET if name == "quiet-day" else _FOUND), "false==0", "blind==0", "failed==0")
    (ours, *_) = SETS
    score = scored(name, ours.rules, ours.identity, requirements)
    assert all(each["met"] for each in score["expectations"])
    assert row(name, ours, score) in PAGE.read_text(encoding="utf-8").splitlines()
