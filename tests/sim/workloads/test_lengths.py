"""Activities whose lengths are drawn, and activities that run once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.entities.randomness import Floats, normal
from fakedev.sim.fleet import Fleet
from fakedev.sim.workloads.lengths import pace_of
from fakedev.spec.value_functions import MAX_LENGTHS
from tests.support.fleets import advance, ended, make_fleet, pool_of, start, workload


def loads_of(profile: str, ticks: int, tick_seconds: float = 1.0, **fields: object) -> Floats:
    """The load of one workload in each of some ticks, in percent."""
    fleet = make_fleet(pool_of(devices_per_node=1), tick_seconds=tick_seconds)
    start(fleet, "card0", profile, **{"repeat": 0, **fields})
    advance(fleet, 1)
    found = [fleet.usage_ratio[0]]
    for _ in range(ticks - 1):
        fleet.advance()
        found.append(fleet.usage_ratio[0])
    return 100 * np.array(found)


def lengths_of(profile: str, ticks: int, tick_seconds: float = 0.1, **fields: object) -> Floats:
    """The lengths of the activities of a profile of two loads, 0 and 100, in seconds."""
    is_high = loads_of(profile, ticks, tick_seconds, **fields) > 50
    changes = np.flatnonzero(is_high[1:] != is_high[:-1]) + 1
    return np.diff(changes) * tick_seconds


class TestDrawn:
    """A spread after the seconds."""

    @pytest.mark.slow
    def test_each_run_has_its_own_length(self) -> None:
        """Around the seconds, as often above as below; most of them within seconds / spread to seconds * spread."""
        lengths = lengths_of("0:0:5:1.3,100:0:5:1.3", 8000)
        middle = float(np.median(lengths))
        assert 5 / 1.6 < middle < 5 * 1.6  # the pace of this workload
        within = np.mean((lengths > middle / 1.3) & (lengths < middle * 1.3))
        assert 0.6 < within < 0.76
        assert len(set(np.round(lengths, 1))) > 30

    @pytest.mark.slow
    def test_without_a_spread_it_always_lasts_its_seconds(self) -> None:
        """Also beside an activity that has one."""
        lengths = lengths_of("0:0:5:2,100:0:3", 5000)
        assert min(np.ptp(lengths[1::2]), np.ptp(lengths[::2])) == pytest.approx(0, abs=0.21)

    def test_workloads_have_paces_of_their_own(self) -> None:
        """Not all jobs have steps of the same length: a factor for each, mostly within 1 / 1.25 to 1.25."""
        paces = pace_of(5, np.arange(10_000, dtype=np.uint64))
        assert np.median(paces) == pytest.approx(1, abs=0.01)
        assert np.quantile(paces, [0.16, 0.84]) == pytest.approx([1 / 1.25, 1.25], rel=0.02)

    def test_the_factor_is_log_normal(self) -> None:
        """Products stand in for the exponential, whose bits depend on the machine."""
        keys = np.arange(1000, dtype=np.uint64)
        assert pace_of(5, keys) == pytest.approx(1.25 ** normal(5, keys, "pace", 0), rel=1e-3)

    def test_two_workloads_do_not_step_together(self) -> None:
        """They started in the same tick with the same profile."""
        fleet = make_fleet(pool_of(devices_per_node=2))
        start(fleet, "card0", "0:0:9:1.2,100:0:9:1.2", name="a", repeat=0)
        start(fleet, "card1", "0:0:9:1.2,100:0:9:1.2", name="b", repeat=0)
        seen = []
        for _ in range(400):
            fleet.advance()
            seen.append(fleet.usage_ratio)
        assert abs(np.corrcoef(np.transpose(seen))[0, 1]) < 0.5

    def test_functions_are_spread_over_the_drawn_length(self) -> None:
        """A ramp ends where its activity does."""
        loads = loads_of("ramp(0,100):0:20:1.5", 300)
        assert loads.max() > 90
        assert loads[:3].max() < 30
        rises = np.diff(loads)
        assert np.sum(rises < -50) == pytest.approx(300 / 20, abs=8)

    def test_metrics_follow_the_same_lengths(self) -> None:
        """The activities of a metric pass as those of the load do."""
        fleet = make_fleet(pool_of(devices_per_node=1))
        profile, memory = "0:0:7:1.5,80:0:7:1.5", "0:0:7,800MiB:0:7"
        start(fleet, "card0", profile, repeat=0, metrics={"memory": memory})
        for _ in range(200):
            fleet.advance()
            assert fleet.memory_used_bytes[0] / 2**20 == pytest.approx(1000 * fleet.usage_ratio[0], abs=4)


class TestEnds:
    """A profile with drawn lengths ends when all of it is done."""

    def test_the_end_is_that_of_the_last_activity(self) -> None:
        """Not after the written seconds; its load until then is what it asked for."""
        ends = set()
        for name in ("a", "b", "c", "d"):
            fleet = make_fleet(pool_of(devices_per_node=1))
            start(fleet, "card0", "60:0:20:2,30:0:10:2", repeat=2, name=name)
            verdicts = []
            while not verdicts:
                verdicts = ended(fleet)
            ((tick, _, code, text),) = verdicts
            assert (code, text) == (0, "OK")
            ends.add(tick)
        assert len(ends) > 2
        assert all(15 < tick < 300 for tick in ends)

    def test_progress_and_what_remains(self) -> None:
        """Of the profile as it is written; the list of workloads shows it."""
        fleet = make_fleet(pool_of(devices_per_node=1))
        start(fleet, "card0", "60:0:20:2,30:0:10:2")
        progress = []
        for _ in range(10):
            fleet.advance()
            arrays = fleet.workloads.level(fleet.state.seconds).arrays
            progress.append((arrays["progress_ratio"][0], arrays["remaining_seconds"][0]))
        assert all(one[0] < other[0] and one[1] > other[1] for one, other in pairwise(progress))
        assert all(ratio == pytest.approx(1 - left / 30) for ratio, left in progress)

    def test_a_run_time_limit_holds(self) -> None:
        """It is in simulated seconds."""
        fleet = make_fleet(pool_of(devices_per_node=1))
        start(fleet, "card0", "60:0:1000:2", run_time_limit="7s")
        assert [(tick, code) for tick, _, code, _ in ended(fleet, 12)] == [(7, 1)]


class TestOnce:
    """What belongs to the beginning of a workload."""

    def test_it_does_not_repeat(self) -> None:
        """The rest does, from its own beginning."""
        loads = loads_of("10:0:3:once,20:0:1:once,50:0:2,80:0:1", 13)
        assert loads.round(6).tolist() == [10, 10, 10, 20, 50, 50, 80, 50, 50, 80, 50, 50, 80]

    def test_repeat_counts_the_rest(self) -> None:
        """Twice through the rest ends after 4 + 2 x 3 seconds."""
        fleet = make_fleet(pool_of(devices_per_node=1))
        start(fleet, "card0", "10:0:4:once,50:0:2,80:0:1", repeat=2)
        assert [tick for tick, *_ in ended(fleet, 20)] == [10]

    def test_random_values_after_it_are_drawn_for_each_run(self) -> None:
        """And stay within their bounds."""
        loads = loads_of("10:0:3:once,random(40,60,2):0:4,5:0:1", 203)
        assert loads[:3].round(6).tolist() == [10, 10, 10]
        drawn = [loads[3 + 5 * run + place] for run in range(40) for place in (0, 2)]
        assert len(set(np.round(drawn, 4))) == 80
        assert min(drawn) >= 40
        assert max(drawn) <= 60

    def test_with_a_function_of_several_parts(self) -> None:
        """Each value of steps is a part; they all run once."""
        assert loads_of("steps(10,20):0:2:once,70:0:1,30:0:1", 6).round(6).tolist() == [10, 20, 70, 30, 70, 30]


PROFILES = st.lists(
    st.tuples(
        st.sampled_from(["0", "30", "90", "ramp(5,80)", "random(20,60,3s)", "sine(50,20,7s)", "steps(5,50)"]),
        st.sampled_from([2.0, 5.0, 11.0]),
        st.sampled_from([1.0, 1.2, 2.0]),
    ),
    min_size=2,
    max_size=5,
).flatmap(
    lambda parts: st.integers(0, len(parts) - 1).map(
        lambda once: ",".join(
            f"{value}:0:{seconds:g}:{spread:g}" + (":once" if place < once else "")
            for place, (value, seconds, spread) in enumerate(parts)
        )
    )
)


def course(profile: str, steps: list[float]) -> list[float]:
    """The load of a workload in ticks of some lengths, in percent seconds."""
    fleet: Fleet = make_fleet(pool_of(devices_per_node=1), tick_seconds=1.0)
    start(fleet, "card0", profile, repeat=0, intensity=50)
    fleet.advance()
    now, found = 1.0, []
    for number, step in enumerate(steps):
        demand = fleet.workloads.demand(2 + number, now, now + step)
        assert demand.activity["compute"][0] == pytest.approx(0.5 * demand.loads["compute"][0], abs=1e-6)
        found.append(100 * step * demand.loads["compute"][0])
        now += step
    return found


@given(PROFILES, st.lists(st.sampled_from([0.25, 1.0, 2.5, 4.0]), min_size=1, max_size=40))
def test_how_ticks_are_grouped_changes_nothing(profile: str, steps: list[float]) -> None:
    """The short ticks of a long one have its sum, whatever is drawn in them."""
    whole = sum(steps)
    few = [whole / 4] * 4 if whole < MAX_LENGTHS else [4.0] * int(whole // 4) + [whole % 4 or 4.0]
    assert sum(few) == pytest.approx(whole) or whole % 4 == 0
    if sum(few) == pytest.approx(whole):
        assert sum(course(profile, steps)) == pytest.approx(sum(course(profile, few)), abs=1e-3 * whole)


@pytest.mark.slow
def test_long_ticks_draw_only_the_first_lengths() -> None:
    """Those after them last as long as is written: a tick of an hour costs little, and its mean is hardly another."""
    minutes = loads_of("100:0:5:1.3,0:0:5:1.3", 600, 60.0)
    hours = loads_of("100:0:5:1.3,0:0:5:1.3", 10, 3600.0)
    assert hours.mean() == pytest.approx(minutes.mean(), abs=1)
    assert np.std(hours) < 2


def test_neighbours_change_no_bit() -> None:
    """Workloads with drawn lengths elsewhere, and their ends: values follow from names alone."""

    def seen(more: bool) -> list[bytes]:
        fleet = make_fleet(pool_of(nodes=2, devices_per_node=2))
        if more:
            start(fleet, "dgx-0/*", "20:5:7:2:once,90:5:3:2,10:5:4", name="other", repeat=3, intensity="30,50,70")
        start(fleet, "dgx-1/*", "20:5:5:1.5:once,90:5:3:2,10:5:4", name="one", repeat=0, intensity="20:5,45:9,80")
        found = []
        for _ in range(60):
            demand = fleet.workloads.demand(fleet.state.tick + 1, fleet.state.seconds, fleet.state.seconds + 1)
            found.append(b"".join(each["compute"][2:].tobytes() for each in (demand.loads, demand.activity)))
            fleet.advance()
        return found

    assert seen(more=True)[2:] == seen(more=False)[2:]


def test_a_workload_says_that_its_end_is_open() -> None:
    """Drawn lengths, or work."""
    assert workload("card0", "5:0:3:2").has_open_end
    assert workload("card0", "5:0:3", seconds_of="work").has_open_end
    assert not workload("card0", "5:0:3").has_open_end
