"""The boards of the catalog show what real ones have shown, and the documentation says so truly."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from fakedev.fleet.spec.work_kinds import WORK_KINDS
from tests.support.fleet.calibration import (
    CLOCK_TOLERANCE,
    HEAT_TOLERANCE,
    HOW,
    PAGE,
    POINTS,
    POWER_TOLERANCE,
    SHOWN,
    Point,
    settled,
    with_table,
)

WANTED = [point for point in POINTS if point.is_wanted]


@pytest.mark.slow
@pytest.mark.parametrize("tick_seconds", [1.0, 10.0])
@pytest.mark.parametrize("point", WANTED, ids=lambda point: f"{point.board}-{point.what}")
def test_steady_states(point: Point, tick_seconds: float) -> None:
    """After ten minutes of a point's work: power within 10 %, temperatures within 4 kelvins, the clock within 1 %."""
    shown = settled(tick_seconds)[point]
    for quantity in SHOWN:
        measured = getattr(point, quantity)
        if measured is not None:
            near = {"abs": HEAT_TOLERANCE} if quantity.endswith("_celsius") else {"rel": POWER_TOLERANCE}
            if quantity == "core_frequency_mhz":
                near = {"rel": CLOCK_TOLERANCE}
            assert shown[quantity] == pytest.approx(measured, **near), quantity


def test_which_points() -> None:
    assert len(WANTED) == 88
    assert {point.board for point in WANTED} == {
        "h100", "h200", "a100", "l40s", "t4", "v100", "mi300x", "l4", "a10", "a30", "rtx-4000-ada", "rtx-4090", "p100",
        "v100-32gb", "a800", "h800", "b200", "gb200", "mi250x", "mi325x", "gaudi-3", "a10g", "l40",
        "a40", "h20", "l20", "b300", "rtx-pro-6000", "gh200", "gb300", "gb10", "rtx-pro-4500", "rtx-2080-super",
        "rtx-4080-super", "mi355x", "mi300a", "w7900",
    }  # fmt: skip


def test_the_table_of_kinds() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for name, kind in WORK_KINDS.items():
        assert f"| {' | '.join([f'`{name}`', *(f'{value:g}' for value in astuple(kind))])} |" in lines, name


@pytest.mark.slow
def test_the_table_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, HOW
