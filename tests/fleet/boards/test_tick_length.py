"""The length of a tick decides neither energy nor throttled seconds, also where the work changes within it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fakedev.fleet.workloads.demand import Swing
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start

SECONDS = 120


@cache
def after(profile: str, tick_seconds: float) -> tuple[float, float]:
    """Joules and throttled seconds of an H100 in some minutes of tensor work."""
    fleet = make_fleet(pool_of(device_type=catalog_type("h100"), devices_per_node=1), tick_seconds=tick_seconds)
    start(fleet, "card0", profile, kind="tensor", repeat=0)
    advance(fleet, round(SECONDS / tick_seconds))
    return float(fleet.energy_joules[0]), float(fleet.throttled_power_seconds[0])


@pytest.mark.parametrize("tick_seconds", [0.25, 5, 60])
@pytest.mark.parametrize("profile", ["square(20,100,40):0:0", "95:0:7,30:0:5", "spike(10,100,6,20):0:0"])
def test_any_length(profile: str, tick_seconds: float) -> None:
    usual, other = after(profile, 1.0), after(profile, tick_seconds)
    assert other[0] == pytest.approx(usual[0], rel=0.03)
    assert other[1] == pytest.approx(usual[1], rel=0.1)


@pytest.mark.parametrize("values", [(0.2, 1.0, 0.5), (0.3, 0.95, 7 / 12), (0.1, 1.0, 0.3)])
def test_two_values_are_found_again(values: tuple[float, float, float]) -> None:
    """What has two values is described by three moments."""
    low, high, share = values
    mean = share * high + (1 - share) * low
    variance, third = (share * (high - mean) ** k + (1 - share) * (low - mean) ** k for k in (2, 3))
    swing = Swing.of(*(np.array([each]) for each in (mean, variance, third)))
    assert [float(each[0]) for each in swing] == pytest.approx([high / mean, low / mean, share])
