"""Boards under any demand and conditions, and random days of every board of the catalog, in which no rule is broken.

The rules are in tests/support: board_checks.py, link_checks.py and divided_devices.py. ``python benchmarks/run.py
invariants`` checks 25 times as much as all examples. The power limit is kept but for the stated overshoot, unless what
the work draws at the idle clock is over it already: the clock goes no lower.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import SWITCHES, DeviceType, Dynamics, Range
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.quantities import ASKABLE, COUNTED
from fakedev.fleet.spec.work_kinds import WORK_KINDS, WorkKind
from fakedev.fleet.workloads.demand import Demand
from tests.support.examples import examples
from tests.support.fleet.board_checks import BoardRules, changed, check_level, check_step
from tests.support.fleet.calibration import catalog_names, catalog_type
from tests.support.fleet.faulty_fleets import busy
from tests.support.fleet.fleets import BOARD, pool_of, start
from tests.support.fleet.invariants import POOLS, TICKS, random_days

KINDS = [*WORK_KINDS, "odd"]
SHARES = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
LAGS = st.sampled_from([0.0, 0.3, 3.0]) | st.floats(0.01, 100)


@st.composite
def dynamics(draw: st.DrawFn, ranges: dict[str, Range]) -> Dynamics:
    power, heat = ranges["power_watts"], ranges["temperature_celsius"]
    slowdown = draw(st.floats(heat.low, heat.high + 20))
    odd = WorkKind(
        **{name: draw(SHARES) for name in ("usage", "plain", "tensor", "memory", "read", "transfer", "fabric")},
        power=draw(st.floats(0, 3)),
        power_exponent=draw(st.sampled_from([0.5, 1.0]) | st.floats(0.1, 3)),
        clock_sensitivity=draw(SHARES),
    )
    return Dynamics(
        draw(st.floats(power.low, power.high * 1.2)),
        power_limit_seconds=draw(LAGS),
        clocked_power_share=draw(SHARES),
        clock_power_exponent=draw(st.floats(1, 4)),
        hang_power_share=draw(SHARES),
        clock_step_mhz=draw(st.sampled_from([0.1, 7.5, 15, 100, 5000])),
        clock_fall_seconds=draw(LAGS),
        thermal_seconds=draw(LAGS),
        memory_thermal_seconds=draw(LAGS),
        fan_seconds=draw(LAGS),
        inlet_celsius=draw(st.none() | st.floats(-20, heat.low)),
        slowdown_celsius=slowdown,
        resume_celsius=draw(st.floats(heat.low - 5, slowdown)),
        hardware_slowdown_celsius=slowdown + draw(st.floats(0, 20)),
        shutdown_celsius=slowdown + draw(st.floats(20, 60)),
        pcie_bytes_per_second=draw(st.sampled_from([0.0, 1e9, 63e9])),
        fabric_bytes_per_second=draw(st.sampled_from([0.0, 450e9])),
        memory_bytes_per_second=draw(st.sampled_from([0.0, 1e12])),
        idle_performance_state=draw(st.sampled_from([None, 8.0])),
        spread=draw(st.sampled_from([0.0, 0.02, 0.3])),
        kinds={**WORK_KINDS, "odd": odd},
        without=tuple(draw(st.lists(st.sampled_from(list(SWITCHES)), max_size=2, unique=True))),
    )


@st.composite
def device_types(draw: st.DrawFn) -> DeviceType:
    name = draw(st.sampled_from([*catalog_names(), ""]))
    found = catalog_type(name) if name else BOARD
    if draw(st.booleans()):
        found = replace(found, ranges={**found.ranges, "fan_speed_ratio": Range(0.2, 0.9)})
    if found.dynamics is None or draw(st.booleans()):
        return replace(found, dynamics=draw(st.sampled_from([found.dynamics, None])))
    return replace(found, dynamics=draw(dynamics(dict(found.ranges))))


PERCENTS = st.sampled_from([0, 1, 20, 50, 90, 100]) | st.floats(0, 100).map(lambda value: round(value, 3))
LENGTHS = st.sampled_from([1.0, 0.25, 15.0])


@st.composite
def conditions(draw: st.DrawFn, count: int) -> Conditions:
    values = {
        "inlet_celsius": st.floats(-10, 60),
        "power_limit_watts": st.floats(30, 1000),
        "highest_mhz": st.floats(0, 3000),
        "resistance": st.floats(0.5, 5),
        "braked": st.sampled_from([0.0, 1.0]),
        "fan_stopped": st.just(1.0),
        "hung": st.just(1.0),
        "lost": st.just(1.0),
    }
    found = Conditions()
    for name in draw(st.lists(st.sampled_from(list(values)), max_size=3)):
        devices = np.array(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2)))
        found = changed(found, name, count, devices, draw(values[name]))
    return found


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(data=st.data(), types=st.lists(device_types(), min_size=1, max_size=3), seconds=LENGTHS)
def test_whatever_is_asked_and_done(data: st.DataObject, types: list[DeviceType], seconds: float) -> None:
    pools = tuple(pool_of(f"p{n}", device_type=each, devices_per_node=2) for n, each in enumerate(types))
    owners = [each for each in types for _ in range(2)]
    count = len(owners)
    relations = Relations(Roster(pools), 0.0, 1)
    arrays = st.lists(SHARES, min_size=count, max_size=count).map(np.array)
    level = relations.device_level(Demand({}, np.zeros(count)), None, 0.0)
    for _ in range(data.draw(st.integers(1, 6))):
        now = data.draw(conditions(count))
        relations.change_conditions(now)
        loads = data.draw(st.dictionaries(st.sampled_from(KINDS), arrays, max_size=3))
        whole = np.maximum(sum(loads.values(), np.zeros(count)), 1.0)
        shares = data.draw(st.dictionaries(st.sampled_from(list(ASKABLE)), arrays, max_size=3))
        asked = {}
        for name, share in shares.items():
            most = relations.maxima.get(name, np.ones(count)) if name not in COUNTED else np.full(count, 5.0)
            asked[name] = share * most * 1.5
        demand = Demand({kind: load / whole for kind, load in loads.items()}, data.draw(arrays), asked)
        for _ in range(data.draw(st.sampled_from([1, 3, 40]))):
            before, level = level, relations.device_level(demand, level, seconds)
            check_level(level, owners)
            check_step(before, level, owners, seconds, now)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(device_type=device_types(), kind=st.sampled_from(list(WORK_KINDS)), load=PERCENTS)
def test_idle_again(device_type: DeviceType, kind: str, load: float) -> None:
    if device_type.dynamics is not None:
        steady = replace(device_type.dynamics, power_noise=0.0, inlet_drift_celsius=0.0)
        device_type = replace(device_type, dynamics=steady)
    fleet = Fleet(FleetSpec((pool_of(device_type=device_type),), tick_seconds=20, exact_sensors=True))
    idle = {name: values[0] for name, values in fleet.state.levels["device"].arrays.items()}
    start(fleet, "card0", f"{load}:0:100", kind=kind)
    for _ in range(100):
        fleet.advance()
    level = fleet.state.levels["device"]
    if "lost" in level.arrays and level.arrays["lost"][0]:
        return
    dynamics = device_type.dynamics
    if dynamics is not None and "core-clock" in dynamics.without:
        # Its clock is the highest when it idles too: it must not be too hot for that.
        assume(idle["temperature_celsius"] < min(dynamics.resume_celsius, dynamics.hardware_slowdown_celsius))
    else:
        for name in ("usage_ratio", "core_frequency_mhz"):
            assert getattr(fleet, name)[0] == device_type.ranges[name].low, name
    # A guest of a vGPU sees neither power nor temperatures.
    if "power_watts" in device_type.ranges:
        assert fleet.power_watts[0] == idle["power_watts"]
    for name in ("temperature_celsius", "memory_temperature_celsius", "fan_speed_ratio"):
        if name in device_type.ranges:
            assert level.arrays[name][0] == pytest.approx(idle[name], abs=1e-3), name


#: Devices times ticks, of all lengths of ticks together.
DEVICE_TICKS = examples(20) * 10_000


@pytest.mark.slow
def test_every_board() -> None:
    """But the virtual GPUs, whose power and heat are the host's."""
    boards = {name for name in catalog_names() if not name.startswith("grid-")}
    assert {catalog_type(name).name for name in POOLS} == boards


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("tick_seconds", TICKS)
def test_random_days(tick_seconds: float) -> None:
    device_ticks = round(DEVICE_TICKS * TICKS[tick_seconds])
    found = random_days(device_ticks, tick_seconds)
    assert not found.broken, found.examples
    assert found.device_ticks >= device_ticks


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("power_watts", 900.0, "the power is within its limit"),
        ("core_frequency_mhz", 1501.0, "core_frequency_mhz is supported"),
        ("memory_used_bytes", 1.0, "memory used, free and reserved are all"),
        ("memory_read_bytes_per_second", 0.0, "reads and writes are the memory's traffic"),
        ("usage_ratio", 1.5, "usage_ratio is at most 1"),
        ("temperature_celsius", 99.0, "no board passes its shutdown temperature"),
        ("energy_joules", 0.0, "energy_joules never falls"),
        ("pcie_tx_bytes_per_second", 70e9, "pcie_tx_bytes_per_second fits on the link"),
        ("throttled_hardware", 1.0, "throttled_hardware has a cause"),
        ("xid", 48.0, "XID 48 comes with its errors"),
        ("lost", 1.0, "a lost board shows nothing but its error"),
    ],
)
def test_rules_find_what_is_wrong(name: str, value: float, rule: str) -> None:
    """A board with one impossible value breaks the rule that forbids it; without it, no rule."""
    fleet = busy()
    before = fleet.state.levels["device"]
    fleet.advance()
    after = fleet.state.levels["device"]
    rules = BoardRules([catalog_type("h100")] * after.count)

    def broken(level: Level) -> dict[str, list[int]]:
        found = [*rules.of_level(level), *rules.of_step(before, level, 1.0)]
        return {rule: np.flatnonzero(where).tolist() for rule, where in found}

    assert not broken(after)
    values = after.arrays[name].copy()
    values[2] = value
    assert broken(Level(after.count, {**after.arrays, name: values}, after.present))[rule] == [2]
