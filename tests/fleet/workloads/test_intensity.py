"""Intensity: how much of the engines a workload uses while it runs a kernel; and the context that it holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fakedev.fleet.faults.per_tick import FaultTick
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.parts.part_demand import device_demand
from fakedev.fleet.spec.device_types import Range
from fakedev.fleet.spec.fleet_spec import PartSpec
from fakedev.fleet.workloads.demand import Demand
from tests.support.fleet.fleets import BOARD, advance, make_fleet, pool_of, start


def plain(**given: object) -> Fleet:
    return make_fleet(pool_of(device_type=BOARD, devices_per_node=2, **given))


def demand(fleet: Fleet, seconds: float = 1.0) -> Demand:
    now = fleet.state.seconds
    return fleet.workloads.demand(fleet.state.tick + 1, now, now + seconds)


def shares(fleet: Fleet) -> tuple[list[float], list[float]]:
    asked = demand(fleet)
    loads, activity = (
        sum(each.values(), np.zeros(fleet.roster.device_count)) for each in (asked.loads, asked.activity)
    )
    return loads.tolist(), activity.tolist()


def test_activity_is_load_times_intensity() -> None:
    """The load is the time with a kernel, and does not change; loads over 100 % get their share, as activity does."""
    fleet = plain()
    start(fleet, "card0", "80:0:0", intensity=25)
    start(fleet, "card1", "100:0:0", intensity=50)
    start(fleet, "card1", "100:0:0", kind="tensor")
    advance(fleet, 1)
    asked = demand(fleet)
    assert (asked.loads["compute"].tolist(), asked.loads["tensor"].tolist()) == ([0.8, 0.5], [0, 0.5])
    assert (asked.activity["compute"].tolist(), asked.activity["tensor"].tolist()) == ([0.2, 0.25], [0, 0.5])


def test_each_activity_has_its_own() -> None:
    """An all-reduce keeps the board at full usage while its engines wait; a tick shows the mean of load x intensity."""
    fleet = plain()
    start(fleet, "card0", "100:0:3,100:0:1,20:0:0.5,40:0:0", intensity="45,10,50,100")
    advance(fleet, 1)
    seen = []
    for _ in range(5):
        seen.append([share[0] for share in shares(fleet)])
        advance(fleet, 1)
    expected = [[1.0, 0.45], [1.0, 0.45], [1.0, 0.1], [0.3, 0.25], [0.4, 0.4]]
    assert seen == [pytest.approx(each, abs=1e-7) for each in expected]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.25, 1.0, 7.0, 60.0])
def test_the_mean_does_not_depend_on_the_length_of_the_tick(seconds: float) -> None:
    """The sum over a minute, for loads that change within their activity and are drawn at random."""
    means = []
    for step in (60.0, seconds):
        fleet = make_fleet(pool_of(device_type=BOARD), tick_seconds=step)
        start(fleet, "card0", "ramp(0,90):0:7,random(20,80,2s):0:9,50:0:4", intensity="30,80,50", repeat=0)
        fleet.advance()
        total = 0.0
        for number in range(int(420 / step)):
            asked = fleet.workloads.demand(number + 2, step * (number + 1), step * (number + 2))
            total += step * asked.activity["compute"][0]
        means.append(total)
    assert means[0] == pytest.approx(means[1], rel=0.02)


def test_without_intensity_the_arrays_are_shared() -> None:
    """It costs nothing where all kernels use all engines; one workload that does not changes no bit elsewhere."""
    fleet = plain()
    start(fleet, "card1", "70:20:0")
    advance(fleet, 1)
    alone = demand(fleet)
    assert alone.activity is alone.loads
    other = plain()
    start(other, "card1", "70:20:0")
    start(other, "card0", "70:20:0", intensity="50:10")
    advance(other, 1)
    beside = demand(other)
    assert beside.activity["compute"][1] == beside.loads["compute"][1] == alone.loads["compute"][1]


def test_it_fluctuates_and_is_never_over_the_load() -> None:
    """Power differs between ranks at equal usage; a fluctuation up to 100 % stays within the load."""
    fleet = plain()
    start(fleet, "all", "90:10:0", intensity="60:40")
    advance(fleet, 1)
    seen = []
    for _ in range(200):
        load, activity = shares(fleet)
        assert all(busy <= whole + 1e-12 for busy, whole in zip(activity, load, strict=True))
        seen.append(activity)
        advance(fleet, 1)
    assert np.std(seen, axis=0).min() > 0.05
    assert np.corrcoef(np.transpose(seen))[0, 1] < 0.5


def test_series_show_usage_by_load_and_traffic_by_activity() -> None:
    board = replace(BOARD, ranges={**BOARD.ranges, "memory_bandwidth_ratio": Range(0, 1)})
    fleet = make_fleet(pool_of(device_type=board))
    start(fleet, "card0", "80:0:0", intensity=25)
    advance(fleet, 2)
    arrays = fleet.workloads.level(fleet.state.seconds).arrays
    assert (arrays["usage_ratio"][0], arrays["memory_bandwidth_ratio"][0]) == (0.8, 0.2)


class TestContexts:
    def test_while_a_workload_runs(self) -> None:
        fleet = plain()
        assert demand(fleet).contexts.tolist() == [False, False]
        start(fleet, "card1", "0:0:3")
        advance(fleet, 1)
        assert demand(fleet).contexts.tolist() == [False, True]
        assert demand(fleet).contexts is demand(fleet).contexts
        advance(fleet, 3)
        assert demand(fleet).contexts.tolist() == [False, False]

    def test_a_device_has_one_if_a_part_has(self) -> None:
        fleet = plain(parts=(PartSpec("1g", 1, 1), PartSpec("1g", 1, 1)))
        start(fleet, "dgx-0/1/1", "50:0:0", intensity=50)
        advance(fleet, 1)
        parts = fleet.roster.parts
        asked = demand(fleet)
        assert asked.contexts.tolist() == [False] * 5 + [True]
        folded = device_demand(asked, parts, np.zeros(parts.count), np.zeros(2))
        assert folded.contexts.tolist() == [False, True]
        assert folded.activity["compute"][1] == 0.5 * folded.loads["compute"][1] > 0

    def test_a_fault_that_ends_work_ends_the_context(self) -> None:
        fleet = plain()
        start(fleet, "all", "50:0:0", intensity=50)
        advance(fleet, 1)
        tick = FaultTick(fleet.roster.parts, 1.0, 1.0)
        tick.put("idled", np.array([0]), 1.0)
        left = tick.on(demand(fleet))
        assert (left.contexts.tolist(), left.activity["compute"].tolist()) == ([False, True], [0.0, 0.25])
