"""Heat: resistance times capacity, the shutdown temperature in long ticks, resets."""

from __future__ import annotations

import pytest

from tests.support.calibration import mean_type
from tests.support.faulty_fleets import cleared, inject
from tests.support.fleets import advance, make_fleet, pool_of, start


def test_a_failed_fan_warms_an_a100_by_what_was_measured() -> None:
    """About 1.3 K/s at full power: the time constant grows with the resistance."""
    fleet = make_fleet(pool_of(device_type=mean_type("a100")))
    start(fleet, "all", "100:0:0")
    advance(fleet, 300)
    before = fleet.temperature_celsius[0]
    inject(fleet, kind="fan", devices="all")
    advance(fleet, 10)
    assert (fleet.temperature_celsius[0] - before) / 10 == pytest.approx(1.3, abs=0.2)


@pytest.mark.parametrize("tick_seconds", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("name", ["h100", "a100", "l40s", "t4", "v100", "max-1550"])
def test_no_board_gets_hotter_than_its_shutdown(name: str, tick_seconds: float) -> None:
    """Whatever the length of a tick, and however bad the air: it switches itself off there."""
    found = mean_type(name)
    assert found.dynamics is not None
    fleet = make_fleet(pool_of(device_type=found), tick_seconds=tick_seconds)
    start(fleet, "all", "100:0:0", kind="tensor" if name != "max-1550" else "compute")
    advance(fleet, 2)
    inject(fleet, kind="inlet", devices="dgx-0/0", celsius=100)
    hottest = 0.0
    for _ in range(round(600 / tick_seconds)):
        fleet.advance()
        hottest = max(hottest, float(fleet.state.levels["device"].arrays["temperature_celsius"].max()))
    assert fleet.lost[0] == 1
    assert found.dynamics.shutdown_celsius - 1 <= hottest <= found.dynamics.shutdown_celsius


def test_a_reset_restarts_the_seconds_of_throttling() -> None:
    """As the driver's counters: they count from the tick of the reset on. Those of other boards go on."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    start(fleet, "dgx-0/1", "100:0:0", kind="tensor")
    start(fleet, "dgx-0/0", "100:0:0", kind="tensor")
    advance(fleet, 20)
    assert fleet.throttled_power_seconds.tolist()[:2] == [20, 20]
    inject(fleet, kind="reset", devices="dgx-0/0")
    advance(fleet, 5)
    assert fleet.throttled_power_seconds.tolist()[:2] == [1, 25]


def test_a_lost_board_cools_down() -> None:
    """It is off: after a short loss it is nearly as warm as before, after a long one as its air."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    start(fleet, "all", "100:0:0")
    advance(fleet, 300)
    before = float(fleet.temperature_celsius[0])
    short = inject(fleet, kind="lost", devices="dgx-0/0")
    long = inject(fleet, kind="lost", devices="dgx-0/1")
    advance(fleet, 3)
    cleared(fleet, short)
    assert before - 6 < fleet.temperature_celsius[0] < before
    advance(fleet, 200)
    cleared(fleet, long)
    assert fleet.temperature_celsius[1] == pytest.approx(fleet.inlet_temperature_celsius[1], abs=1)
