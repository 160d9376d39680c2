"""Whatever boards are in a fleet and whatever runs on them: some things are always so.

The power limit is kept without overshoot, unless what the work draws at the idle clock is over it already:
the clock goes no lower.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.sim.device_types import WORK_KINDS, DeviceType, Dynamics, WorkKind
from fakedev.sim.events import DropWorkload, Stamped, StopWorkload
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal import Replay
from fakedev.sim.spec import FleetSpec
from tests.calibration import catalog_type
from tests.fleets import BOARD, pool_of, start

CATALOG = [
    catalog_type(name)
    for name in ("h100", "h200", "a100", "l40s", "t4", "v100", "dg1", "max-1550", "flex-170", "mi300x")
]
KINDS = [*WORK_KINDS, "odd"]
COUNTERS = (
    "energy_joules", "pcie_tx_bytes", "pcie_rx_bytes", "throttled_power_seconds", "throttled_thermal_seconds",
    "pcie_replays", "resets",
)  # fmt: skip


@st.composite
def device_types(draw: st.DrawFn) -> DeviceType:
    """A board of the catalog; some with other dynamics, so that they throttle, some without any."""
    found = draw(st.sampled_from([*CATALOG, BOARD]))
    if found.dynamics is None or draw(st.booleans()):
        return replace(found, dynamics=draw(st.sampled_from([found.dynamics, None])))
    power, heat = found.ranges["power_watts"], found.ranges["temperature_celsius"]
    slowdown = draw(st.floats(heat.low, heat.high + 20))
    odd = WorkKind(draw(st.floats(0, 1)), 0.5, 0.5, 0.5, 0.5, draw(st.floats(0, 3)), draw(st.floats(0.1, 3)))
    return replace(
        found,
        dynamics=Dynamics(
            draw(st.floats(power.low, power.high * 1.2)),
            clocked_power_share=draw(st.floats(0, 1)),
            clock_power_exponent=draw(st.floats(0.5, 4)),
            clock_step_mhz=draw(st.sampled_from([0.1, 7.5, 15, 100, 5000])),
            clock_fall_seconds=draw(st.floats(0.1, 20)),
            thermal_seconds=draw(st.floats(0.1, 100)),
            memory_thermal_seconds=draw(st.floats(0.1, 100)),
            slowdown_celsius=slowdown,
            resume_celsius=draw(st.floats(heat.low - 5, slowdown)),
            pcie_bytes_per_second=draw(st.sampled_from([0.0, 1e9, 63e9])),
            kinds={**WORK_KINDS, "odd": odd},
        ),
    )


PERCENTS = st.sampled_from([0, 1, 20, 50, 90, 100]) | st.floats(0, 100).map(lambda value: round(value, 3))
ACTIVITIES = st.tuples(PERCENTS, st.sampled_from([0, 0, 5, 50]), st.sampled_from([0.5, 3, 20, 90])).map(
    lambda each: [each[0], min(each[0], 100 - each[0], each[1]), each[2]]
)
WORKLOADS = st.fixed_dictionaries({
    "devices": st.sampled_from(["all", "odd", "p0-0/0", "p0-0/*", "p0-0/card1"]),
    "kind": st.sampled_from(KINDS),
    "profile": st.lists(ACTIVITIES, min_size=1, max_size=3),
    "repeat": st.sampled_from([0, 1, 2]),
    "seconds_of": st.sampled_from(["time", "time", "work"]),
})  # fmt: skip
ENDS = st.tuples(st.integers(0, 9), st.sampled_from([StopWorkload, DropWorkload]))
#: (ticks to the next, what happens then): a workload, or the number of the one that goes, and how.
HAPPENINGS = st.lists(
    st.tuples(st.integers(0, 30), WORKLOADS | ENDS),
    max_size=8,
)  # fmt: skip


def check_level(fleet: Fleet, types: list[DeviceType]) -> None:
    """One tick: finite, in range, parts equal to wholes, the power limit kept, clocks within theirs."""
    level = fleet.state.levels["device"]
    for name, values in level.arrays.items():
        assert np.isfinite(values).all(), name
        assert (values >= 0).all(), name
        if name.endswith("_ratio"):
            assert (values <= 1).all(), name
    parts = fleet.memory_used_bytes + fleet.memory_free_bytes + fleet.memory_reserved_bytes
    assert (parts == fleet.memory_total_bytes).all()
    for number, board in enumerate(types):
        shown = {name: float(values[number]) for name, values in level.arrays.items()}
        if board.dynamics is None:
            for name, span in board.ranges.items():
                assert span.low <= shown[name] <= span.high, name
        else:
            check_board(shown, board, board.dynamics)


def check_board(shown: dict[str, float], board: DeviceType, dynamics: Dynamics) -> None:
    """One board with dynamics."""
    clock, power = board.ranges["core_frequency_mhz"], board.ranges["power_watts"]
    assert clock.low <= shown["core_frequency_mhz"] <= clock.high
    assert shown["power_watts"] >= power.low
    if shown["core_frequency_mhz"] > clock.low:
        assert shown["power_watts"] <= dynamics.power_limit_watts * (1 + 1e-6)
    assert shown["throttled_power"] + shown["throttled_thermal"] in (0, 1)
    if shown["throttled_power"] or shown["throttled_thermal"]:
        assert shown["core_frequency_mhz"] < clock.high
    elif shown["usage_ratio"] > 1e-6:
        assert shown["core_frequency_mhz"] == clock.high
    low, high = board.ranges["temperature_celsius"].low, board.ranges["temperature_celsius"].high
    most = low + (high - low) * max(3.0 * 2 * len(KINDS), 1.0)
    assert low <= shown["temperature_celsius"] <= most


def check_history(before: dict[str, np.ndarray], fleet: Fleet, tick_seconds: float) -> None:
    """From one tick to the next: integrals, counters, and throttled seconds that follow their flag."""
    after = fleet.state.levels["device"].arrays
    for name in COUNTERS:
        if name in after:
            assert (after[name] >= before[name]).all(), name
    assert np.allclose(after["energy_joules"], before["energy_joules"] + after["power_watts"] * tick_seconds)
    for reason in ("throttled_power", "throttled_thermal"):
        if reason in after:
            grown = after[f"{reason}_seconds"] - before[f"{reason}_seconds"]
            assert grown == pytest.approx(after[reason] * tick_seconds)


@settings(max_examples=100)
@given(
    types=st.lists(device_types(), min_size=1, max_size=3),
    happenings=HAPPENINGS,
    base=st.booleans(),
    tick_seconds=st.sampled_from([1.0, 0.25, 15.0]),
    seed=st.integers(0, 2**32),
)
def test_any_history(
    types: list[DeviceType], happenings: list[tuple[int, object]], base: bool, tick_seconds: float, seed: int
) -> None:
    """Some hundred ticks; then its record gives the same arrays again, to the last bit."""
    pools = tuple(pool_of(f"p{n}", device_type=each, devices_per_node=2 + (n == 0)) for n, each in enumerate(types))
    spec = FleetSpec(pools, seed=seed, tick_seconds=tick_seconds)
    kept: list[Stamped] = []
    fleet = Fleet(spec, kept.append)
    owners = [each for pool, each in zip(pools, types, strict=True) for _ in range(pool.devices_per_node)]
    begun: list[str] = []
    if base:
        begun.append(start(fleet, "all", "100:0:0", kind="tensor"))
    known = set(WORK_KINDS) | {kind for each in types if each.dynamics for kind in each.dynamics.kinds}
    for ticks, what in [*happenings, (40, None)]:
        for _ in range(ticks):
            before = dict(fleet.state.levels["device"].arrays)
            fleet.advance()
            check_level(fleet, owners)
            check_history(before, fleet, tick_seconds)
        if isinstance(what, dict) and what["kind"] in known:
            begun.append(start(fleet, **what))
        elif isinstance(what, tuple) and begun:
            number, event = what
            workload_id = begun[number % len(begun)]
            if workload_id in fleet.workloads.by_id and not fleet.is_ending(workload_id):
                fleet.apply(event(workload_id))
    again, replay = Fleet(spec), Replay(kept)
    while again.state.tick < fleet.state.tick:
        replay.advance(again)
    for name, values in fleet.state.levels["device"].arrays.items():
        assert np.array_equal(again.state.levels["device"].arrays[name], values), name


@settings(max_examples=30)
@given(device_type=device_types(), kind=st.sampled_from(list(WORK_KINDS)), load=PERCENTS)
def test_idle_again(device_type: DeviceType, kind: str, load: float) -> None:
    """After any work: idle power and clock, and after the lag the idle temperatures."""
    fleet = Fleet(FleetSpec((pool_of(device_type=device_type),), tick_seconds=20))
    start(fleet, "card0", f"{load}:0:100", kind=kind)
    for _ in range(100):
        fleet.advance()
    for name in ("usage_ratio", "core_frequency_mhz", "power_watts"):
        assert getattr(fleet, name)[0] == device_type.ranges[name].low, name
    for name in ("temperature_celsius", "memory_temperature_celsius"):
        if name in device_type.ranges:
            assert getattr(fleet, name)[0] == pytest.approx(device_type.ranges[name].low, abs=1e-3), name
