"""Profiles that are work: their seconds are seconds at the highest clock, so a throttled board takes longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.events import StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from fakedev.fleet.spec.fleet_spec import FleetSpec, NodeSpec, PoolSpec
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.workloads.workload import Verdict
from tests.support.fleet.calibration import catalog_type

BOARD = DeviceType(
    "board",
    {
        "usage_ratio": Range(0, 1),
        "core_frequency_mhz": Range(300, 1500),
        "power_watts": Range(50, 450),
        "temperature_celsius": Range(30, 70),
    },
    dynamics=Dynamics(power_limit_watts=500, slowdown_celsius=90, resume_celsius=87),
)


def fleet(device_type: DeviceType = BOARD, tick_seconds: float = 1.0) -> Fleet:
    pool = PoolSpec("p", (NodeSpec("n"),), device_type, 2)
    return Fleet(FleetSpec((pool,), tick_seconds=tick_seconds, exact_sensors=True))


def capped(watts: float) -> DeviceType:
    assert BOARD.dynamics is not None
    return replace(BOARD, dynamics=replace(BOARD.dynamics, power_limit_watts=watts))


def start(what: Fleet, **fields: object) -> None:
    """Start a workload: sixty seconds of full work on the first device, unless said otherwise."""
    given_fields = {"name": "job", "devices": "n/0", "profile": "100:0:60", "seconds-of": "work", **fields}
    what.apply(StartWorkload(workload_from_fields(given_fields)))


def end_of(what: Fleet) -> float:
    for _ in range(100_000):
        for verdict in what.advance():
            assert (verdict.name, verdict.code, verdict.text) == ("job", 0, "OK")
            return what.state.seconds
    raise AssertionError("it never ended")


def run(what: Fleet, **fields: object) -> float:
    start(what, **fields)
    return end_of(what)


def test_a_power_cap_makes_it_longer():
    """At a clock of 0.8 of the highest the same work takes 60 / 0.8 s; the same profile of time takes 60 s still."""
    slow = fleet(capped(250))
    start(slow)
    for _ in range(10):
        slow.advance()
    ratio = slow.core_frequency_mhz[0] / 1500
    assert 0.5 < ratio < 0.9
    assert end_of(slow) == pytest.approx(1 + 59 / ratio, abs=1.001)  # the first tick knows of no throttle yet
    assert run(fleet(capped(250)), **{"seconds-of": "time"}) == 60


@pytest.mark.parametrize(("loads", "seconds"), [((100,), 120), ((100, 100), 180), ((30,), 78), ((0,), 60)])
def test_a_shared_board_gives_each_its_part(loads, seconds):
    """Two full jobs on one board take twice as long; the first tick knows of no other work yet."""
    shared = fleet()
    for load in loads:
        start(shared, name="other", profile=f"{load}:0:0", **{"seconds-of": "time"})
    assert run(shared) == pytest.approx(seconds, abs=max(1, len(loads)))
    assert run(fleet(), devices="n/1") == 60


@pytest.mark.parametrize("tick_seconds", [0.25, 1.0, 10.0])
@pytest.mark.parametrize(
    ("metric", "one", "other", "seconds"),
    [("pcie_rx", "60%", "60%", 72), ("memory-bandwidth", "70%", "80%", 90), ("pcie_tx", "40%", "60%", 60)],
)
def test_a_shared_link_gives_each_its_part(
    metric: str, one: str, other: str, seconds: int, tick_seconds: float
) -> None:
    """Two workloads that ask for 120 % of a link need 1.2 times as long; the first tick has no past."""
    shared = fleet(catalog_type("h100"), tick_seconds)
    start(shared, profile="10:0:0", metrics={metric: other})
    assert run(shared, profile="10:0:60", metrics={metric: one}) == pytest.approx(seconds, abs=2 * tick_seconds)


@pytest.mark.slow
def test_memory_bound_work_hardly_minds():
    """It loses a tenth of what the clock loses; transfers lose nothing."""
    limit = 150
    compute, memory, transfer = (run(fleet(capped(limit)), kind=kind) for kind in ("compute", "memory", "transfer"))
    assert transfer == 60
    assert 60 < memory < 60 + 0.2 * (compute - 60)


def test_the_slowest_device_decides():
    """On two devices, one of them kept busy by another workload too and so throttled, work goes at that one's pace."""
    alone = fleet(capped(300))
    shared = fleet(capped(300))
    start(shared, name="other", devices="n/1", profile="50:0:0", kind="tensor")
    assert run(shared, devices="n/*", profile="50:0:60") > run(alone, devices="n/*", profile="50:0:60") + 5


def test_without_throttling_work_is_time():
    """On a free board, and on devices without dynamics, which have no clock to lose."""
    assert run(fleet()) == run(fleet(replace(BOARD, dynamics=None))) == 60


def test_deadlines_stay_time():
    slow = fleet(capped(150))
    start(slow, **{"run-time-limit": 61})
    told = [verdict for _ in range(62) for verdict in slow.advance()]
    assert told == [Verdict("w1", "job", 1, "Limit run-time reached, terminated")]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 40)), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from([120.0, 200.0, 300.0, 500.0]),
    st.sampled_from([0.5, 1.0, 4.0]),
)
def test_all_the_work_is_done(activities, repeat, limit, tick_seconds):
    """With any throttling, the load put on the board by its pace is exactly the whole profile in the end."""
    what = fleet(capped(limit), tick_seconds)
    start(what, profile=",".join(f"{load}:0:{seconds}" for load, seconds in activities), repeat=repeat)
    done, pace = 0.0, 1.0
    for _ in range(5000):
        told = what.advance()
        done += float(what.usage_ratio[0]) * pace * tick_seconds
        pace = float(what.work_clock_ratio[0])
        if told:
            break
    wanted = repeat * sum(load / 100 * seconds for load, seconds in activities)
    assert told
    assert done == pytest.approx(wanted, rel=1e-3, abs=1e-3)
    assert np.isfinite(what.power_watts).all()
