"""Heat, the power limit and power caps take clock away, and work takes longer then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.boards.clocks import PEAK_SHARE
from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import Range
from fakedev.fleet.spec.work_kinds import WORK_KINDS, WorkKind
from tests.support.fleet.board_checks import overshoot
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start, stop
from tests.support.fleet.invariants import POOLS
from tests.support.fleet.round_board import DYNAMICS, ROUND, board, under


class TestWork:
    @pytest.mark.slow
    @pytest.mark.parametrize(("kind", "sensitivity"), [("compute", 1), ("memory", 0.1), ("transfer", 0)])
    def test_a_throttled_clock(self, kind: str, sensitivity: float) -> None:
        fleet = board(power_limit_watts=150)
        start(fleet, profile="100:0:100", kind=kind, seconds_of="work")
        advance(fleet, 10)
        pace = 1 - sensitivity * (1 - fleet.core_frequency_mhz[0] / 1300)
        while fleet.workloads.by_id:
            fleet.advance()
        assert fleet.core_frequency_mhz[0] < 1300 or sensitivity == 0
        assert fleet.state.tick == pytest.approx(100 / pace, abs=3)

    def test_a_clock_of_0(self) -> None:
        gated = replace(ROUND, ranges={**ROUND.ranges, "core_frequency_mhz": Range(0, 1300)})
        fleet = board(gated, power_limit_watts=100)
        start(fleet, profile="100:0:5", seconds_of="work")
        advance(fleet, 20)
        assert fleet.core_frequency_mhz[0] == 0
        assert fleet.usage_ratio[0] == 1
        assert fleet.workloads.work_left({"w1": 0}) == pytest.approx({"w1": 4 - 19 * 0.001})


class TestPowerLimit:
    def test_tensor_work_reaches_it(self) -> None:
        """650 W without a limit: throttled to 580 W, with a part of the excess in the first second."""
        fleet = board(power_limit_watts=580)
        start(fleet, profile="100:0:0", kind="tensor")
        for _ in range(100):
            fleet.advance()
            assert fleet.throttled_power[0] == 1
            assert fleet.power_watts[0] == pytest.approx(580, abs=0.29 * 71 if fleet.state.tick == 1 else 0.2)
            assert fleet.core_frequency_mhz[0] < 1300
        assert fleet.throttled_power_seconds.tolist() == [100, 0, 0, 0]

    def test_seconds_are_simulated_ones(self) -> None:
        fleet = board(tick_seconds=0.25, power_limit_watts=400)
        start(fleet, profile="100:0:2.5")
        advance(fleet, 40)
        assert fleet.throttled_power_seconds[0] == 2.5

    @pytest.mark.slow
    def test_a_load_that_stays_within_it(self) -> None:
        fleet = under("tensor", 90)
        assert (fleet.throttled_power[0], fleet.core_frequency_mhz[0]) == (0, 1300)
        assert fleet.power_watts[0] == pytest.approx(124 + 376 * 1.4 * 0.9)

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", [490, 400, 300, 200])
    @pytest.mark.parametrize("exponent", [2, 2.5, 3])
    def test_a_lowered_limit(self, limit: float, exponent: float) -> None:
        """The mean clock is that at which the power meets the limit; the clock shown is the supported one below it."""
        fleet = under("compute", power_limit_watts=limit, clock_power_exponent=exponent)
        mean, shown = float(fleet.core_frequency_mean_mhz[0]), float(fleet.core_frequency_mhz[0])
        assert 100 + 24 * (mean - 300) / 1000 + 376 * (mean / 1300) ** exponent == pytest.approx(limit, abs=0.05)
        assert fleet.power_watts[0] == pytest.approx(limit, abs=0.05)
        assert 0 <= mean - shown < 10
        assert shown % 10 == 0

    def test_half_the_power_is_most_of_the_clock(self) -> None:
        fleet = board(catalog_type("h100"), power_limit_watts=400)
        start(fleet, profile="100:0:0")
        advance(fleet, 5)
        assert 0.75 * 1980 < fleet.core_frequency_mhz[0] < 0.85 * 1980

    @pytest.mark.slow
    def test_a_limit_under_what_the_idle_clock_draws(self) -> None:
        """The clock stops at idle, and this is the one case in which the power stays over the limit."""
        fleet = under("compute", power_limit_watts=101)
        assert (fleet.core_frequency_mhz[0], fleet.throttled_power[0]) == (300, 1)
        assert fleet.power_watts[0] == pytest.approx(100 + 376 * (300 / 1300) ** 2.5)

    def test_a_limit_under_what_the_highest_clock_draws(self) -> None:
        """Even for work that draws nothing the clock rises only as far as the raised clock itself fits."""
        kinds = {**WORK_KINDS, "wait": WorkKind(power=0)}
        fleet = board(replace(ROUND, dynamics=replace(DYNAMICS, kinds=kinds)), power_limit_watts=120)
        start(fleet, profile="100:0:0", kind="wait")
        advance(fleet, 4)
        assert (fleet.core_frequency_mhz[0], fleet.throttled_power[0]) == (1130, 1)
        assert fleet.power_watts[0] == pytest.approx(120)

    @pytest.mark.slow
    def test_the_end_of_the_work(self) -> None:
        fleet = under("tensor", power_limit_watts=400)
        clock = fleet.core_frequency_mean_mhz[0]
        stop(fleet, "w1")
        advance(fleet, 1)
        assert fleet.throttled_power[0] == 0
        assert fleet.core_frequency_mean_mhz[0] == pytest.approx(max(clock - 1000 / 3, 300))
        assert fleet.throttled_power_seconds[0] == 600


class TestThermalThrottle:
    @pytest.mark.parametrize("tick_seconds", [1.0, 10.0, 60.0])
    def test_from_the_slowdown_temperature_on(self, tick_seconds: float) -> None:
        """Not before; then the board has the clock at which it holds this temperature, whatever the ticks."""
        fleet = board(tick_seconds=tick_seconds, slowdown_celsius=70, resume_celsius=66)
        start(fleet, profile="100:0:0")
        while fleet.temperature_celsius[0] < 69.999:
            assert fleet.throttled_thermal_seconds[0] == 0
            fleet.advance()
        began = fleet.throttled_thermal_seconds[0]
        for number in range(1, 101):
            fleet.advance()
            assert fleet.temperature_celsius[0] == pytest.approx(70)
            assert fleet.throttled_thermal[0] == 1
            assert fleet.throttled_thermal_seconds[0] == began + number * tick_seconds
        mean = float(fleet.core_frequency_mean_mhz[0])
        assert fleet.power_watts[0] == pytest.approx(400)
        assert 100 + 24 * (mean - 300) / 1000 + 376 * (mean / 1300) ** 2.5 == pytest.approx(400, abs=0.1)
        assert fleet.throttled_power_seconds[0] == 0

    @pytest.mark.slow
    def test_the_more_it_has_to_lose_the_warmer_it_is_held(self) -> None:
        found = []
        for inlet in (31.0, 40.0, 60.0):
            fleet = board(slowdown_celsius=80, resume_celsius=77, hardware_slowdown_celsius=84.0, inlet_celsius=30)
            start(fleet, "all", profile="100:0:0")
            fleet.compiled.relations.change_conditions(Conditions(inlet_celsius=np.full(4, inlet)))
            advance(fleet, 600)
            assert (fleet.throttled_thermal[0], fleet.throttled_hardware[0]) == (1, 0)
            found.append(float(fleet.temperature_celsius[0]))
        assert 80 < found[0] < found[1] < found[2] < 84

    @pytest.mark.slow
    def test_when_the_work_ends(self) -> None:
        """Nothing takes clock any more, at once: the seconds do not grow, however hot the board is."""
        fleet = under("compute", slowdown_celsius=70, resume_celsius=60)
        assert (fleet.core_frequency_mhz[0] < 1300, fleet.throttled_thermal[0]) == (True, 1)
        stop(fleet, "w1")
        seconds = fleet.throttled_thermal_seconds[0]
        for load, clock in ((30, 1300), (0, 1300)):
            start(fleet, profile=f"{load}:0:2")
            advance(fleet, 2)
            assert (fleet.core_frequency_mhz[0], fleet.throttled_thermal[0]) == (clock, 0)
        advance(fleet, 5)
        assert (fleet.throttled_thermal[0], fleet.throttled_thermal_seconds[0]) == (0, seconds)

    @pytest.mark.slow
    def test_only_one_reason_at_a_time(self) -> None:
        """The one that takes more; so the seconds of both add up to the time throttled."""
        fleet = under("compute", 100, 0, power_limit_watts=400, slowdown_celsius=60, resume_celsius=58)
        throttled = 0
        for _ in range(300):
            fleet.advance()
            assert fleet.throttled_power[0] + fleet.throttled_thermal[0] <= 1
            throttled += int(fleet.core_frequency_mhz[0] < 1300)
        assert fleet.throttled_power_seconds[0] > 0
        assert fleet.throttled_thermal_seconds[0] > 0
        assert fleet.throttled_power_seconds[0] + fleet.throttled_thermal_seconds[0] == throttled


def capped(name: str, watts: float, kind: str = "compute") -> Fleet:
    fleet = make_fleet(boards_of(name, nodes=1, devices=1))
    start(fleet, "all", "100:0:0", kind=kind)
    advance(fleet, 5)
    inject(fleet, kind="power-cap", devices="all", watts=watts)
    advance(fleet, 30)
    return fleet


@pytest.mark.parametrize(
    ("name", "watts", "megahertz"),
    [("l40s", 100, 1680), ("l40s", 110, 1830), ("h100", 200, 1050), ("t4", 60, 1500), ("v100", 150, 1080)],
)
def test_it_is_met(name: str, watts: float, megahertz: float) -> None:
    """Within 0.1 W, also at the least that the driver accepts. Of real boards 1 W is known (an RTX 3090)."""
    fleet = capped(name, watts)
    assert fleet.power_watts[0] == pytest.approx(watts, abs=0.1)
    assert fleet.throttled_power[0] == 1
    assert fleet.core_frequency_mhz[0] == pytest.approx(megahertz, rel=0.05)


@pytest.mark.parametrize("name", ["h100", "a100", "l40s", "t4", "v100", "mi300x", "max-1550", "flex-170", "dg1"])
def test_clocks_are_supported_ones(name: str) -> None:
    """Whole steps, or an end of the range: throttled, locked between two steps, and on the way down to idle."""
    dynamics = catalog_type(name).dynamics
    assert dynamics is not None
    fleet = capped(name, 0.9 * dynamics.power_limit_watts, "tensor")
    inject(fleet, kind="clock-lock", devices="all", megahertz=777.7, start=5)
    seen = []
    for tick in range(20):
        if tick == 10:
            inject(fleet, kind="reset", devices="all")
        fleet.advance()
        seen.append(float(fleet.core_frequency_mhz[0]))
    assert len(set(seen)) >= 3
    assert np.mod(np.array(seen) / dynamics.clock_step_mhz, 1).tolist() == [0] * len(seen)


def test_the_transient() -> None:
    """Whatever the work asks for at once, a second shows at most 6 % over the cap; afterwards the cap."""
    fleet = make_fleet(boards_of("h100", nodes=1, devices=8))
    advance(fleet, 5)
    start(fleet, "all", "100:0:0", kind="tensor", metrics={"memory-bandwidth": "100%", "fabric-tx": "100%"})
    fleet.advance()
    dynamics = catalog_type("h100").dynamics
    assert dynamics is not None
    most = 700 * (1 + PEAK_SHARE * overshoot(dynamics, 1.0))
    assert 1.05 < most / 700 < 1.06
    assert 720 < fleet.power_watts.max() <= most
    advance(fleet, 3)
    assert fleet.power_watts == pytest.approx(np.full(8, 700), abs=0.1)


def test_refused_outside_of_the_range() -> None:
    """Without a range of the driver, the least is what plain full load draws at the idle clock."""
    for name, text, wrong in (("l40s", "l40s-48gb takes 100 to 350 W", (50, 351)),
                              ("mi300x", "amd-mi300x takes 132 to 750 W", (1, 131, 751))):  # fmt: skip
        fleet = make_fleet(boards_of(name, nodes=1, devices=1))
        for watts in wrong:
            with pytest.raises(Refused, match=f"accepts a power limit of {watts} W: {text}"):
                inject(fleet, kind="power-cap", devices="all", watts=watts)


@pytest.mark.parametrize(("watts", "limits"), [(150, [700, 150]), (500, [500, 350])])
def test_of_several_boards_those_that_accept_a_cap_have_it(watts: float, limits: list[float]) -> None:
    fleet = make_fleet(boards_of("h100", devices=1), boards_of("l40s", devices=1), pool_of("plain"))
    inject(fleet, kind="power-cap", devices="all", watts=watts)
    advance(fleet, 1)
    assert fleet.power_limit_watts[:2].tolist() == limits


@pytest.mark.parametrize("name", sorted(POOLS))
def test_what_is_accepted_is_held(name: str) -> None:
    fleet = make_fleet(boards_of(name, devices=1))
    lowest, _ = fleet.spec.pools[0].device_type.power_limit_ends()
    start(fleet, "all", "100:0:0")
    inject(fleet, kind="power-cap", devices="all", watts=lowest)
    advance(fleet, 30)
    assert fleet.power_limit_watts[0] == lowest
    assert fleet.power_watts[0] < 1.05 * lowest
