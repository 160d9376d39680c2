"""What becomes of alerts and queries, by what they do on the pages of both releases; and the reports."""

from __future__ import annotations

import pytest

from fakedev.scenario.scores.upgrade_report import (
    Finding,
    Measured,
    as_html,
    as_markdown,
    by_file,
    verdict_of_fires,
    verdict_of_values,
)

BUSY = Measured(4, 10, 80)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({1, 2}, {1, 2}, "unchanged"),
        ({1, 2}, set(), "silent"),
        ({1, 2}, {2, 3}, "misses 1 of 2"),
        ({1}, {1, 2}, "false alarms"),
        (set(), {1}, "false alarms"),
        ({1, -1, -2}, {1, -1}, "unchanged"),
        (set(), {-1}, "false alarms"),
        (set(), set(), "not tried"),
    ],
)
def test_an_alert(before: set[int], after: set[int], verdict: str) -> None:
    """By the faults with which it fires; without any it was not tried, if something of it changes."""
    assert verdict_of_fires(before, after, ["a is b"]) == verdict
    assert verdict_of_fires(set(), set(), []) == "unchanged"


@pytest.mark.parametrize(("before", "verdict"), [(set(), "appears"), ({1}, "false alarms")])
def test_an_alert_on_a_metric_of_the_new_release(before: set[int], verdict: str) -> None:
    """What could not fire before is no false alarm when it fires; what did (by another metric of it) is one."""
    assert verdict_of_fires(before, {1, 2}, [], is_new=True) == verdict


@pytest.mark.parametrize(
    ("before", "after", "verdict", "factor"),
    [
        (BUSY, BUSY, "unchanged", None),
        (BUSY, Measured(4, 10.2, 79), "unchanged", None),
        (BUSY, None, "silent", None),
        (BUSY, "a wrong expression", "silent", None),
        # That of the units where the values agree with it.
        (BUSY, Measured(4, 0.1, 0.795), "divided by 100", 0.01),
        (BUSY, Measured(4, 70, 560), "7 times as large", 7),
        (BUSY, Measured(1, 10, 80), "1 instead of 4 series", None),
        (BUSY, Measured(4, 20, 100), "other values", None),
        (Measured(1, 0, 0), Measured(1, 5, 5), "other values", None),
        (Measured(1, float("nan"), float("inf")), Measured(1, float("nan"), float("inf")), "unchanged", None),
        (None, BUSY, "appears", None),
        (None, None, "not tried", None),
        ("a wrong expression", None, "not tried", None),
    ],
)
def test_a_query(
    before: Measured | str | None, after: Measured | str | None, verdict: str, factor: float | None
) -> None:
    """By its results; exporters round."""
    assert verdict_of_values(before, after, ["a is b"], {1.0, 0.01}) == (verdict, factor)


def test_reports() -> None:
    """All name each expression, and those that are rewritten; texts of the user's are escaped."""
    same = Finding("r.yml:3", "Down", "up == 0", "unchanged", [], "up == 0")
    gone = Finding("b.json", "<b>|Heat", "a<3", "silent", ["a is b"], "b<3", True, False)
    assert [list(row.values()) for row in by_file([same, gone])] == [
        ["r.yml", "1", "0", "0", "0"], ["b.json", "1", "1", "0", "1"],
    ]  # fmt: skip
    assert by_file([gone]) == []
    markdown = as_markdown("From a to b", [same, gone])
    assert markdown.startswith("# From a to b\n\n2 expressions")
    assert "| <b>\\|Heat | silent | as before | not as before | a is b |\n" in markdown
    page = as_html("From a to b", [same, gone])
    assert "&lt;b&gt;|Heat" in page and "<b>" not in page and "b&lt;3" in page
