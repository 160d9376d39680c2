"""Heat: resistance times capacity, the shutdown temperature in long ticks, resets."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import Dynamics, Range
from tests.support.examples import only_long
from tests.support.fleet.calibration import catalog_type, mean_type
from tests.support.fleet.faulty_fleets import cleared, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start
from tests.support.fleet.invariants import POOLS
from tests.support.fleet.round_board import ROUND, board, under


@pytest.mark.slow
def test_a_failed_fan_warms_an_a100_by_what_was_measured() -> None:
    """About 1.3 K/s at full power: the time constant grows with the resistance."""
    fleet = make_fleet(pool_of(device_type=mean_type("a100")))
    start(fleet, "all", "100:0:0")
    advance(fleet, 300)
    before = fleet.temperature_celsius[0]
    inject(fleet, kind="fan", devices="all")
    advance(fleet, 10)
    assert (fleet.temperature_celsius[0] - before) / 10 == pytest.approx(1.3, abs=0.2)


def boards_of(fleet: Fleet, name: str) -> list[int]:
    """The boards of the only node of a pool."""
    node = fleet.roster.node(f"{name}-0")
    assert node is not None
    return list(node.devices)


@pytest.mark.slow
@pytest.mark.parametrize("tick_seconds", [1.0, 10.0, 60.0])
def test_no_board_gets_hotter_than_its_shutdown(tick_seconds: float) -> None:
    types = {name: mean_type(name) for name in ("h100", "a100", "l40s", "t4", "v100", "max-1550", "mi300x", "gaudi-3",
                                                "dg1")} | {"round": ROUND}  # fmt: skip
    fleet = make_fleet(*(pool_of(name, device_type=found) for name, found in types.items()), tick_seconds=tick_seconds)
    for name, found in types.items():
        start(fleet, f"{name}-0/*", "100:0:0", kind="tensor" if "tensor_active_ratio" in found.ranges else "compute")
    advance(fleet, 2)
    for name in types:
        inject(fleet, kind="inlet", devices=f"{name}-0/0", celsius=100)
    hottest = np.zeros(fleet.roster.device_count)
    for _ in range(round(600 / tick_seconds)):
        fleet.advance()
        hottest = np.maximum(hottest, fleet.state.levels["device"].arrays["temperature_celsius"])
    for name, found in types.items():
        boards = boards_of(fleet, name)
        assert found.dynamics is not None
        assert fleet.lost[boards[0]] == 1, name
        shutdown = found.dynamics.shutdown_celsius
        assert shutdown - 1 <= hottest[boards].max() <= shutdown, name


def test_a_reset_restarts_the_seconds_of_throttling() -> None:
    """As the driver's counters: they count from the tick of the reset on. Those of other boards go on."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    for device in (0, 1):
        start(fleet, f"dgx-0/{device}", "100:0:0", kind="tensor")
    advance(fleet, 20)
    assert fleet.throttled_power_seconds.tolist()[:2] == [20, 20]
    inject(fleet, kind="reset", devices="dgx-0/0")
    advance(fleet, 5)
    assert fleet.throttled_power_seconds.tolist()[:2] == [1, 25]


@pytest.mark.slow
def test_a_lost_board_cools_down() -> None:
    """It is off: after a short loss it is nearly as warm as before, after a long one as its air; so is its memory."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    start(fleet, "all", "100:0:0")
    advance(fleet, 300)
    before = float(fleet.temperature_celsius[0])
    short, long = (inject(fleet, kind="lost", devices=f"dgx-0/{device}") for device in (0, 1))
    advance(fleet, 3)
    cleared(fleet, short)
    assert before - 6 < fleet.temperature_celsius[0] < before
    advance(fleet, 800)
    cleared(fleet, long)
    for warm in (fleet.temperature_celsius[1], fleet.memory_temperature_celsius[1]):
        assert warm == pytest.approx(fleet.inlet_temperature_celsius[1], abs=1)


@pytest.mark.parametrize(
    ("inlet", "drift", "expected"), [(None, None, 25), (None, 3.0, 27), (20.0, None, 20), (20.0, 3.0, 23)]
)
def test_a_room_that_drifts(inlet: float | None, drift: float | None, expected: float) -> None:
    """At its warmest hour: by the type's drift where the inlet is the type's, or by that of the pool."""
    dynamics = replace(mean_type("h100").dynamics or Dynamics(0.0), inlet_celsius=24.0, inlet_drift_celsius=1.0)
    pool = pool_of(device_type=replace(mean_type("h100"), dynamics=dynamics))
    fleet = make_fleet(replace(pool, inlet_celsius=inlet, inlet_drift_celsius=drift), epoch_seconds=16 * 3600.0)
    advance(fleet, 1)
    assert fleet.inlet_temperature_celsius[0] == pytest.approx(expected, abs=0.1)


#: A board whose memory warms up by 30 kelvins more than its core, and carries ten times the traffic of plain full load.
WARM_MEMORY = replace(
    ROUND,
    facts={"memory_max_operating_celsius": "95"},
    ranges={**ROUND.ranges, "memory_temperature_celsius": Range(42, 112)},
)


class TestMemory:
    @pytest.mark.slow
    @pytest.mark.parametrize("resistance", [1.0, 4.0, 7.0])
    def test_it_is_as_far_over_an_idle_core_as_with_the_fan(self, resistance: float) -> None:
        """Worse cooling warms the heat sink: it multiplies nothing that the memory has over it."""
        fleet = board(tick_seconds=10.0)
        inject(fleet, kind="fan", devices="all", resistance=resistance)
        advance(fleet, 300)
        assert fleet.temperature_celsius[0] == pytest.approx(30 + 10 * resistance)
        assert fleet.memory_temperature_celsius[0] == pytest.approx(fleet.temperature_celsius[0] + 5, abs=0.01)

    @pytest.mark.slow
    @pytest.mark.parametrize("tick_seconds", [1.0, 10.0, 60.0])
    def test_it_is_held_at_its_limit(self, tick_seconds: float) -> None:
        """As the core is, whatever the length of the ticks; types without a thermal throttle have no such limit."""
        fleet = board(WARM_MEMORY, tick_seconds, slowdown_celsius=200.0, shutdown_celsius=250.0)
        free = board(WARM_MEMORY, tick_seconds, without=("thermal-throttle",))  # type: ignore[arg-type]
        for each in (fleet, free):
            start(each, "card0", "100:0:0")
            advance(each, round(1200 / tick_seconds))
        assert fleet.memory_temperature_celsius[0] == pytest.approx(95, abs=0.5)
        assert (fleet.throttled_thermal[0], fleet.throttled_hardware[0]) == (1, 0)
        assert 300 == fleet.core_frequency_mhz[1] < fleet.core_frequency_mhz[0] < 1300
        assert free.memory_temperature_celsius[0] == pytest.approx(112)
        assert free.throttled_thermal[0] == 0


class TestLimits:
    def stopped(self, resistance: float, kind: str = "compute", **dynamics: float) -> Fleet:
        fleet = under(kind, slowdown_celsius=82, resume_celsius=79, shutdown_celsius=110, **dynamics)
        inject(fleet, kind="fan", devices="dgx-0/0", resistance=resistance)
        return fleet

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("kind", "resistance"),
        [("compute", 7.0), ("memory", 7.0), ("tensor", 4.0),
         *only_long(("compute", 4.0), ("memory", 4.0), ("tensor", 7.0))],
    )  # fmt: skip
    def test_a_hardware_slowdown_does_not_raise_the_clock(self, kind: str, resistance: float) -> None:
        """Not even where the driver has lowered it further already; it is the reason that is shown."""
        fleet = self.stopped(resistance, kind, hardware_slowdown_celsius=84.0)
        slowed = 0
        for _ in range(900):
            before = float(fleet.core_frequency_mean_mhz[0])
            fleet.advance()
            if fleet.throttled_hardware[0]:
                slowed += 1
                assert fleet.core_frequency_mean_mhz[0] <= before + 1e-6
        assert slowed or resistance < 7

    @pytest.mark.slow
    def test_between_slowdown_and_where_it_is_held(self) -> None:
        fleet = self.stopped(4.0, hardware_slowdown_celsius=100.0)
        full, found = float(fleet.power_watts[0]), []
        for _ in range(900):
            fleet.advance()
            found.append((float(fleet.temperature_celsius[0]), float(fleet.power_watts[0])))
        assert max(celsius for celsius, _ in found) <= 100
        warm = [watts for celsius, watts in found if celsius > 84]
        assert max(warm) < 0.97 * full
        assert all(after <= before + 0.5 for before, after in pairwise(warm))
        assert fleet.throttled_thermal[0] == 1

    @pytest.mark.slow
    def test_both_limits_at_once(self) -> None:
        fleet = under("compute", power_limit_watts=250, slowdown_celsius=60, resume_celsius=57,
                      hardware_slowdown_celsius=80.0)  # fmt: skip
        fleet.compiled.relations.change_conditions(Conditions(inlet_celsius=np.full(4, 36.0)))
        advance(fleet, 300)
        assert (fleet.throttled_power[0], fleet.throttled_thermal[0]) == (1, 0)
        assert fleet.temperature_celsius[0] > 60


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compute", "tensor"])
def test_the_documented_stopped_fan_holds_boards_between_their_limits(kind: str) -> None:
    """`fan resistance=8` at full load (doc/faults.md): no board of NVIDIA is lost by it, also in the warmest slot."""
    types = {name: each for name in POOLS if (each := catalog_type(name)).facts["vendor"] == "NVIDIA"}
    fleet = make_fleet(*(pool_of(name, device_type=found) for name, found in types.items()), tick_seconds=5.0)
    start(fleet, "all", "100:0:0", kind=kind)
    for name, found in types.items():
        assert found.dynamics is not None
        warmest = found.dynamics.inlet_spread_celsius * 2 + found.dynamics.inlet_drift_celsius
        inject(fleet, kind="inlet", devices=f"{name}-0/*", celsius=warmest)
    inject(fleet, kind="fan", devices="all", resistance=8)
    advance(fleet, 240)
    for name, found in types.items():
        boards = boards_of(fleet, name)
        assert found.dynamics is not None
        assert not fleet.lost[boards].any(), name
        assert (fleet.temperature_celsius[boards] > found.dynamics.slowdown_celsius - 3).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h100", "t4", *only_long("a100", "l40s")])
def test_the_faulty_profile_is_hot(name: str) -> None:
    """Within half an hour some of eight boards are as hot as heat may make them, as the original's are."""
    found = catalog_type(name)
    assert found.dynamics is not None
    fleet = make_fleet(pool_of(device_type=found, devices_per_node=8), tick_seconds=5.0)
    for device in range(8):
        start(fleet, f"dgx-0/{device}", "faulty")
    hottest = 0.0
    for _ in range(360):
        fleet.advance()
        hottest = max(hottest, float(fleet.temperature_celsius.max()))
    assert max(85.0, found.dynamics.slowdown_celsius - 1) <= hottest < found.dynamics.shutdown_celsius
    assert not fleet.lost.any()
