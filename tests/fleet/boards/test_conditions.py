"""What is done to devices from outside: air, caps, locked clocks, brakes, fans, losses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.workloads.demand import Demand
from tests.fleet.boards.test_components import FULL
from tests.support.fleet.board_checks import changed
from tests.support.fleet.fleets import BOARD, pool_of


class Devices:
    """Two direct devices, then two boards, all at the same load.

    :param load: a share of 1, of plain work.
    """

    def __init__(self, load: float = 1.0, board: DeviceType = FULL) -> None:
        pools = (
            pool_of("a", device_type=BOARD, devices_per_node=2),
            pool_of("b", device_type=board, devices_per_node=2),
        )
        self.relations = Relations(Roster(pools), 0.0, 1)
        self._demand = Demand({"compute": np.full(4, load)}, np.zeros(4))
        self.level: Level = self.relations.device_level(self._demand, None, 0.0)

    def set(self, **values: float) -> None:
        for name, value in values.items():
            conditions = changed(self.relations.conditions, name, 4, np.array([1, 2]), value)
            self.relations.change_conditions(conditions)

    def after(self, ticks: int, *names: str, tick_seconds: float = 1.0) -> list[list[float]]:
        for _ in range(ticks):
            self.level = self.relations.device_level(self._demand, self.level, tick_seconds)
        return [[round(value, 6) for value in self.level.arrays[name].tolist()[2:]] for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("inlet_celsius", 35.0, {"inlet_temperature_celsius": 35, "temperature_celsius": 85, "power_watts": 500}),
        ("power_limit_watts", 350.0, {"power_limit_watts": 350, "throttled_power": 1, "throttle_reasons": 4}),
        ("highest_mhz", 800.0, {"core_frequency_mhz": 800, "throttle_reasons": 2, "work_clock_ratio": 0.615385}),
        ("highest_mhz", 1.0, {"core_frequency_mhz": 300, "throttle_reasons": 2}),
        ("highest_mhz", 5000.0, {"core_frequency_mhz": 1300, "throttle_reasons": 0}),
        ("resistance", 1.1, {"temperature_celsius": 85, "memory_temperature_celsius": 90}),
        ("braked", 1.0, {"core_frequency_mhz": 650, "throttled_hardware": 1, "throttle_reasons": 0x88}),
        ("fan_stopped", 1.0, {"fan_speed_ratio": 0, "temperature_celsius": 80}),
        ("hung", 1.0, {"hung": 1, "usage_ratio": 1, "memory_bandwidth_ratio": 0, "power_watts": 146.56}),
    ],
)  # fmt: skip
def test_a_condition(name: str, value: float, expected: dict[str, float]) -> None:
    devices = Devices()
    usual = devices.after(0, *expected)
    devices.set(**{name: value})
    found = devices.after(200, *expected, tick_seconds=5.0)
    assert [values[0] for values in found] == list(expected.values())
    assert [values[1] for values in found] == [values[1] for values in usual]
    devices.set(**{name: math.nan})
    assert devices.relations.conditions == Conditions()
    assert devices.after(400, *expected, tick_seconds=5.0) == [pytest.approx(values, abs=1e-3) for values in usual]


@pytest.mark.slow
def test_how_long_the_hardware_slowed_down_and_why() -> None:
    """By the brake 10 s; by heat, once it is over its own limit, some time; both count as the hardware's."""
    assert FULL.dynamics is not None
    devices = Devices(board=replace(FULL, dynamics=replace(FULL.dynamics, hardware_slowdown_celsius=94.0)))
    names = tuple(f"throttled_hardware_{why}seconds" for why in ("", "brake_", "heat_"))
    devices.set(braked=1)
    assert devices.after(10, *names) == [[10, 0], [10, 0], [0, 0]]
    devices.set(braked=math.nan, inlet_celsius=95)
    (both, _), (brake, _), (heat, _) = devices.after(300, *names)
    assert both == brake + heat > brake == 10


@pytest.mark.slow
def test_hot_air_throttles() -> None:
    devices = Devices()
    devices.set(inlet_celsius=45)
    assert devices.after(1, "inlet_temperature_celsius", "throttled_thermal") == [[45, 30], [0, 0]]
    ((throttled, never),) = devices.after(600, "throttled_thermal_seconds")
    assert throttled > 100
    assert never == 0
    assert devices.level.arrays["temperature_celsius"][2] < 92


def test_a_power_cap_takes_time() -> None:
    """Lowered to 300 W: it is passed by a part of a fifth in the first tick, and by hardly anything later."""
    devices = Devices()
    devices.set(power_limit_watts=300)
    over = [devices.after(1, "power_watts")[0][0] - 300 for _ in range(6)]
    assert 0.2 * 300 * 0.29 > over[0] > 0
    assert over[0] / 10 > over[1]
    assert over[5] == pytest.approx(0, abs=0.01)


def test_a_device_that_is_lost() -> None:
    """Also one without dynamics: nothing is shown. It is back with the condition gone; a board needs a reset."""
    devices = Devices()
    devices.after(5)
    energy = devices.level.arrays["energy_joules"].copy()
    devices.set(lost=1)
    devices.after(5)
    assert [devices.level.has("power_watts", device) for device in range(4)] == [True, False, False, True]
    assert (devices.level.arrays["energy_joules"] > energy).tolist() == [True, False, False, True]
    devices.set(lost=math.nan)
    devices.after(1)
    assert [devices.level.has("power_watts", device) for device in range(4)] == [True, True, False, True]


def test_devices_without_dynamics_know_no_others() -> None:
    devices = Devices()
    usual = {name: values.copy() for name, values in devices.level.arrays.items()}
    devices.set(inlet_celsius=60, power_limit_watts=60, highest_mhz=100, resistance=4, braked=1, hung=1)
    devices.after(3)
    for name in BOARD.ranges:
        assert devices.level.arrays[name][:2].tolist() == usual[name][:2].tolist(), name
