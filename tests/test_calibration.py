"""The boards of the catalog show what real ones have shown, and the documentation says so truly."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from fakedev.sim.device_types import WORK_KINDS, Dynamics
from tests.calibration import HEAT_TOLERANCE, HOW, PAGE, POINTS, POWER_TOLERANCE, Point, settled, with_table

WANTED = [point for point in POINTS if point.is_wanted]


@pytest.mark.parametrize("tick_seconds", [1.0, 10.0])
@pytest.mark.parametrize("point", WANTED, ids=lambda point: f"{point.board}-{point.load:g}")
def test_steady_states(point: Point, tick_seconds: float) -> None:
    """After ten minutes of a point's work: power within 5 %, temperatures within 2 kelvins, the clock exactly."""
    fleet = settled(point, tick_seconds)
    assert fleet.power_watts[0] == pytest.approx(point.power_watts, rel=POWER_TOLERANCE)
    assert fleet.temperature_celsius[0] == pytest.approx(point.temperature_celsius, abs=HEAT_TOLERANCE)
    assert fleet.core_frequency_mhz[0] == point.core_frequency_mhz
    if point.memory_temperature_celsius is not None:
        memory = fleet.memory_temperature_celsius[0]
        assert memory == pytest.approx(point.memory_temperature_celsius, abs=HEAT_TOLERANCE)
    assert not fleet.throttled_power.any()
    assert not fleet.throttled_thermal.any()


def test_which_points() -> None:
    """H100 and H200 idle and loaded, L40S busy, A100 idle."""
    assert [(point.board, point.load > 0) for point in WANTED] == [
        ("h100", False), ("h100", True), ("h200", False), ("h200", True), ("l40s", True), ("a100", False),
    ]  # fmt: skip


def test_the_table_of_kinds() -> None:
    """doc/simulation.md says of each kind of work what the program does."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for name, kind in WORK_KINDS.items():
        assert f"| {' | '.join([f'`{name}`', *(f'{value:g}' for value in astuple(kind))])} |" in lines, name


def test_the_table_of_constants() -> None:
    """So it does of the constants that a type need not give."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for name in ("clocked_power_share", "clock_power_exponent", "clock_fall_seconds", "thermal_seconds"):
        start = f"| `{name.replace('_', '-')}` | {getattr(Dynamics, name):g} | "
        assert any(line.startswith(start) for line in lines), name


def test_the_table_is_current() -> None:
    """doc/simulation.md has what the simulation gives today."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, HOW
