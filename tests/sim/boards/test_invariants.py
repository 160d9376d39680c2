"""Random histories of boards, workloads and faults: some properties always hold.

tests/support/board_checks.py has them. The power limit is kept but for the stated overshoot, unless what the
work draws at the idle clock is over it already: the clock goes no lower.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.roster import Roster
from fakedev.sim.events import DropWorkload, Stamped, StopWorkload
from fakedev.sim.fleet import Fleet
from fakedev.sim.record import Replay
from fakedev.sim.workloads.demand import Demand
from fakedev.spec.device_types import SWITCHES, WORK_KINDS, DeviceType, Dynamics, Range, WorkKind
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.metrics_of_work import ASKABLE, COUNTED
from tests.support.board_checks import changed, check_level, check_step
from tests.support.calibration import catalog_names, catalog_type
from tests.support.examples import examples
from tests.support.fleets import BOARD, pool_of, start

CATALOG = [catalog_type(name) for name in catalog_names()]
KINDS = [*WORK_KINDS, "odd"]
SHARES = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
LAGS = st.sampled_from([0.0, 0.3, 3.0]) | st.floats(0.01, 100)


@st.composite
def dynamics(draw: st.DrawFn, ranges: dict[str, Range]) -> Dynamics:
    """Dynamics that throttle, differ, or leave relations out."""
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
    """A board of the catalog; some with a fan, with other dynamics or without any; some of round numbers."""
    found = draw(st.sampled_from([*CATALOG, BOARD]))
    if draw(st.booleans()):
        found = replace(found, ranges={**found.ranges, "fan_speed_ratio": Range(0.2, 0.9)})
    if found.dynamics is None or draw(st.booleans()):
        return replace(found, dynamics=draw(st.sampled_from([found.dynamics, None])))
    return replace(found, dynamics=draw(dynamics(dict(found.ranges))))


PERCENTS = st.sampled_from([0, 1, 20, 50, 90, 100]) | st.floats(0, 100).map(lambda value: round(value, 3))
ACTIVITIES = st.tuples(PERCENTS, st.sampled_from([0, 0, 5, 50]), st.sampled_from([0.5, 3, 20, 90])).map(
    lambda each: [each[0], min(each[0], 100 - each[0], each[1]), each[2]]
)
METRICS = st.dictionaries(
    st.sampled_from(["tensor", "copy", "memory-bandwidth", "fabric-tx", "pcie-rx", "memory", "hung", "pcie-replays"]),
    st.sampled_from(["0:0:5,1:0:5", "1", "0.4:0:20"]),
    max_size=2,
)
WORKLOADS = st.fixed_dictionaries({
    "devices": st.sampled_from(["all", "odd", "p0-0/0", "p0-0/*", "p0-0/card1"]),
    "kind": st.sampled_from(KINDS),
    "profile": st.lists(ACTIVITIES, min_size=1, max_size=3),
    "repeat": st.sampled_from([0, 1, 2]),
    "seconds_of": st.sampled_from(["time", "time", "work"]),
    "metrics": st.just({}) | METRICS,
})  # fmt: skip
ENDS = st.tuples(st.integers(0, 9), st.sampled_from([StopWorkload, DropWorkload]))
#: (ticks to the next, what happens then): a workload, or the number of the one that goes, and how.
INTERVENTIONS = st.lists(
    st.tuples(st.integers(0, 30), WORKLOADS | ENDS),
    max_size=8,
)  # fmt: skip
TICKS = st.sampled_from([1.0, 0.25, 15.0])


@settings(max_examples=examples(50))
@given(
    types=st.lists(device_types(), min_size=1, max_size=3),
    interventions=INTERVENTIONS,
    base=st.booleans(),
    tick_seconds=TICKS,
    seed=st.integers(0, 2**32),
)
def test_any_history(
    types: list[DeviceType], interventions: list[tuple[int, object]], base: bool, tick_seconds: float, seed: int
) -> None:
    """Some hundred ticks of workloads; then the record gives the same arrays again, to the last bit."""
    pools = tuple(pool_of(f"p{n}", device_type=each, devices_per_node=2 + (n == 0)) for n, each in enumerate(types))
    spec = FleetSpec(pools, seed=seed, tick_seconds=tick_seconds)
    kept: list[Stamped] = []
    fleet = Fleet(spec, kept.append)
    owners = [each for pool, each in zip(pools, types, strict=True) for _ in range(pool.devices_per_node)]
    begun: list[str] = []
    if base:
        begun.append(start(fleet, "all", "100:0:0", kind="tensor"))
    for ticks, what in [*interventions, (40, None)]:
        for _ in range(ticks):
            before = fleet.state.levels["device"]
            fleet.advance()
            check_level(fleet.state.levels["device"], owners)
            check_step(before, fleet.state.levels["device"], owners, tick_seconds)
        if isinstance(what, dict):
            begun.extend(started(fleet, what))
        elif isinstance(what, tuple) and begun:
            number, event = what
            workload_id = begun[number % len(begun)]
            if workload_id in fleet.workloads.by_id and not fleet.intake.is_ending(workload_id):
                fleet.apply(event(workload_id))
    again, replay = Fleet(spec), Replay(kept)
    while again.state.tick < fleet.state.tick:
        replay.advance(again)
    for name, values in fleet.state.levels["device"].arrays.items():
        assert np.array_equal(again.state.levels["device"].arrays[name], values), name


@st.composite
def conditions(draw: st.DrawFn, count: int) -> Conditions:
    """Something done to some devices, or nothing."""
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


@settings(max_examples=examples(30))
@given(data=st.data(), types=st.lists(device_types(), min_size=1, max_size=3), seconds=TICKS)
def test_whatever_is_asked_and_done(data: st.DataObject, types: list[DeviceType], seconds: float) -> None:
    """Any demand, also one that no workload could make, under any conditions."""
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
    """After any work: idle power and clock, and after the lag the idle temperatures; but a board that is gone."""
    if device_type.dynamics is not None:
        steady = replace(device_type.dynamics, power_noise=0.0, inlet_drift_celsius=0.0)
        device_type = replace(device_type, dynamics=steady)
    fleet = Fleet(FleetSpec((pool_of(device_type=device_type),), tick_seconds=20))
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
    assert fleet.power_watts[0] == idle["power_watts"]
    for name in ("temperature_celsius", "memory_temperature_celsius", "fan_speed_ratio"):
        if name in device_type.ranges:
            assert level.arrays[name][0] == pytest.approx(idle[name], abs=1e-3), name


def started(fleet: Fleet, what: dict[str, object]) -> list[str]:
    """A workload that is started, when the fleet can take it: one of its metrics or its kind may not be there."""
    try:
        return [start(fleet, **what)]
    except Refused:
        return []
