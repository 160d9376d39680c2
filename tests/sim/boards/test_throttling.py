"""Heat and the power limit take clock away, and work takes longer then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fakedev.sim.boards.conditions import Conditions
from fakedev.spec.device_types import WORK_KINDS, Range, WorkKind
from tests.support.calibration import catalog_type
from tests.support.fleets import advance, start, stop
from tests.support.round_board import DYNAMICS, ROUND, board, under


class TestWork:
    """Workloads that count seconds as work: throttled clocks slow them."""

    @pytest.mark.parametrize(("kind", "sensitivity"), [("compute", 1), ("memory", 0.1), ("transfer", 0)])
    def test_a_throttled_clock(self, kind: str, sensitivity: float) -> None:
        """Work that lives of the clock takes longer in proportion, other work hardly, copies not at all."""
        fleet = board(power_limit_watts=150)
        start(fleet, profile="100:0:100", kind=kind, seconds_of="work")
        advance(fleet, 10)
        pace = 1 - sensitivity * (1 - fleet.core_frequency_mhz[0] / 1300)
        while fleet.workloads.by_id:
            fleet.advance()
        assert fleet.core_frequency_mhz[0] < 1300 or sensitivity == 0
        assert fleet.state.tick == pytest.approx(100 / pace, abs=3)

    def test_a_clock_of_0(self) -> None:
        """It continues very slowly, and all numbers stay finite."""
        gated = replace(ROUND, ranges={**ROUND.ranges, "core_frequency_mhz": Range(0, 1300)})
        fleet = board(gated, power_limit_watts=100)
        start(fleet, profile="100:0:5", seconds_of="work")
        advance(fleet, 20)
        assert fleet.core_frequency_mhz[0] == 0
        assert fleet.usage_ratio[0] == 1
        assert fleet.workloads.work_left({"w1": 0}) == pytest.approx({"w1": 4 - 19 * 0.001})


class TestPowerLimit:
    """The power limit takes clock away."""

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
        """For any length of a tick."""
        fleet = board(tick_seconds=0.25, power_limit_watts=400)
        start(fleet, profile="100:0:2.5")
        advance(fleet, 40)
        assert fleet.throttled_power_seconds[0] == 2.5

    def test_a_load_that_stays_within_it(self) -> None:
        """Is not throttled: the clock is the highest."""
        fleet = under("tensor", 90)
        assert (fleet.throttled_power[0], fleet.core_frequency_mhz[0]) == (0, 1300)
        assert fleet.power_watts[0] == pytest.approx(124 + 376 * 1.4 * 0.9)

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
        """A cap costs little speed at first: an H100 at 400 of its 629 W keeps more than three quarters."""
        fleet = board(catalog_type("h100"), power_limit_watts=400)
        start(fleet, profile="100:0:0")
        advance(fleet, 5)
        assert 0.75 * 1980 < fleet.core_frequency_mhz[0] < 0.85 * 1980

    def test_a_limit_under_what_the_idle_clock_draws(self) -> None:
        """The clock stops at idle, and this is the one case in which the power stays over the limit."""
        fleet = under("compute", power_limit_watts=101)
        assert fleet.core_frequency_mhz[0] == 300
        assert fleet.throttled_power[0] == 1
        assert fleet.power_watts[0] == pytest.approx(100 + 376 * (300 / 1300) ** 2.5)

    def test_a_limit_under_what_the_highest_clock_draws(self) -> None:
        """Even for work that draws nothing the clock rises only as far as the raised clock itself fits."""
        kinds = {**WORK_KINDS, "wait": WorkKind(power=0)}
        fleet = board(replace(ROUND, dynamics=replace(DYNAMICS, kinds=kinds)), power_limit_watts=120)
        start(fleet, profile="100:0:0", kind="wait")
        advance(fleet, 4)
        assert (fleet.core_frequency_mhz[0], fleet.throttled_power[0]) == (1130, 1)
        assert fleet.power_watts[0] == pytest.approx(120)

    def test_the_end_of_the_work(self) -> None:
        """Ends it: from there on the clock falls from where it was."""
        fleet = under("tensor", power_limit_watts=400)
        clock = fleet.core_frequency_mean_mhz[0]
        stop(fleet, "w1")
        advance(fleet, 1)
        assert fleet.throttled_power[0] == 0
        assert fleet.core_frequency_mean_mhz[0] == pytest.approx(max(clock - 1000 / 3, 300))
        assert fleet.throttled_power_seconds[0] == 600


class TestThermalThrottle:
    """Heat takes clock away: as much as keeps the core from getting warmer."""

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
        assert fleet.power_watts[0] == pytest.approx(400)
        assert 100 + 24 * (fleet.core_frequency_mean_mhz[0] - 300) / 1000 + 376 * (
            fleet.core_frequency_mean_mhz[0] / 1300
        ) ** 2.5 == pytest.approx(400, abs=0.1)
        assert fleet.throttled_power_seconds[0] == 0

    def test_the_more_it_has_to_lose_the_warmer_it_is_held(self) -> None:
        """Up to the hardware's slowdown, where there is one."""
        found = []
        for inlet in (31, 40, 60):
            fleet = board(slowdown_celsius=80, resume_celsius=77, hardware_slowdown_celsius=84.0, inlet_celsius=30)
            for card in range(4):
                start(fleet, f"card{card}", profile="100:0:0")
            fleet.compiled.relations.change_conditions(Conditions(inlet_celsius=np.full(4, float(inlet))))
            advance(fleet, 600)
            assert fleet.throttled_thermal[0] == 1
            assert fleet.throttled_hardware[0] == 0
            found.append(float(fleet.temperature_celsius[0]))
        assert 80 < found[0] < found[1] < found[2] < 84

    def test_recovery(self) -> None:
        """Less work that the board can cool: nothing takes clock any more, and the flag is off at once."""
        fleet = under("compute", slowdown_celsius=70, resume_celsius=60)
        assert fleet.core_frequency_mhz[0] < 1300
        stop(fleet, "w1")
        start(fleet, profile="30:0:0")
        advance(fleet, 1)
        assert (fleet.core_frequency_mhz[0], fleet.throttled_thermal[0]) == (1300, 0)

    def test_without_work(self) -> None:
        """There is nothing to take: the flag is off and the seconds do not grow, however hot the board is."""
        fleet = under("compute", slowdown_celsius=70, resume_celsius=66)
        stop(fleet, "w1")
        advance(fleet, 4)
        seconds = fleet.throttled_thermal_seconds[0]
        advance(fleet, 5)
        assert fleet.throttled_thermal[0] == 0
        assert fleet.throttled_thermal_seconds[0] == seconds

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
