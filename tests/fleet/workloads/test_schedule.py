"""Profiles over time: the mean load of a tick, activities whose lengths are drawn, and activities that run once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.entities.randomness import Floats, normal
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.value_functions import MAX_LENGTHS
from fakedev.fleet.spec.workload_spec import FOREVER, Activity
from fakedev.fleet.workloads.lengths import pace_of
from fakedev.fleet.workloads.profile import Profiles
from tests.support.fleet.fleets import ended, make_fleet, pool_of, start, workload
from tests.support.fleet.value_reference import tick_means

#: Means are rounded to a millionth of a percent.
ROUNDING = 1e-6


def reference_means(activities: Sequence[Activity], begin: float, end: float, seconds: float) -> tuple[float, float]:
    """Mean load and fluctuation by walking through each of the repeated activities."""
    load = fluctuation = passed = 0.0
    while passed < end:
        for activity in activities:
            overlap = max(0.0, min(end, passed + activity.seconds) - max(begin, passed))
            load += activity.value * overlap
            fluctuation += activity.fluctuation * overlap
            passed += activity.seconds
            if passed >= end:
                break
    return load / seconds, fluctuation / seconds


@st.composite
def activities_of(draw: st.DrawFn, shortest: float = 0.01) -> tuple[Activity, ...]:
    lengths = st.one_of(st.floats(shortest, 0.3), st.floats(0.3, 30), st.integers(1, 5).map(float))
    found = []
    for _ in range(draw(st.integers(1, 8))):
        load = draw(st.floats(0, 100))
        found.append(Activity(load, draw(st.floats(0, min(load, 100 - load))), draw(lengths)))
    if draw(st.booleans()):
        found[-1] = Activity(found[-1].value, found[-1].fluctuation, FOREVER)
    return tuple(found)


def means(profile: Sequence[Activity], begin: float, end: float, seconds: float) -> tuple[float, float]:
    load, fluctuation = tick_means(Profiles.of([profile]), np.array([begin]), np.array([end]), seconds)
    return float(load[0]), float(fluctuation[0])


class TestMeans:
    @pytest.mark.parametrize(
        ("profile", "begin", "end", "seconds", "expected"),
        [
            ([Activity(40, 5, 10)], 3, 4, 1, (40, 5)),
            ([Activity(80, 8, 1.25), Activity(20, 4, 5)], 1, 2, 1, (35, 5)),
            ([Activity(100, 0, 0.003), Activity(0, 0, 0.007)], 0, 1, 1, (30, 0)),  # a hundred switches a second
            ([Activity(100, 0, 0.003), Activity(0, 0, 0.007)], 1000, 1001, 1, (30, 0)),
            ([Activity(60, 6, 10)], 0, 0.5, 1, (30, 3)),  # it begins in the middle of a tick
            ([Activity(10, 0, 2), Activity(90, 0, 3)], 17, 18, 1, (90, 0)),
            ([Activity(10, 0, 2), Activity(90, 9, FOREVER)], 1, 3, 2, (50, 4.5)),
            ([Activity(10, 0, 2), Activity(90, 9, FOREVER)], 3e8, 3e8 + 1, 1, (90, 9)),
        ],
    )
    def test_by_hand(
        self, profile: list[Activity], begin: float, end: float, seconds: float, expected: tuple[float, float]
    ) -> None:
        assert means(profile, begin, end, seconds) == pytest.approx(expected)

    @pytest.mark.parametrize("seconds", [0.1, 0.3, 0.001])
    def test_a_constant_load_is_constant(self, seconds: float) -> None:
        """Also in ticks whose length no float holds exactly: no last digit dances, not even after days."""
        ticks = np.concatenate((np.arange(0, 300), np.arange(3_000_000, 3_000_300)))
        for tick in ticks.tolist():
            assert means([Activity(98, 1, FOREVER)], tick * seconds, (tick + 1) * seconds, seconds) == (98, 1)

    @given(activities_of(), st.floats(0, 200), st.floats(0.001, 60))
    def test_equals_the_slow_integration(
        self, profile: tuple[Activity, ...], begin: float, seconds: float
    ) -> None:
        end = begin + seconds
        assert means(profile, begin, end, seconds) == pytest.approx(
            reference_means(profile, begin, end, seconds), abs=2 * ROUNDING
        )

    @given(activities_of(), st.lists(st.floats(0, 30), min_size=2, max_size=20).map(sorted))
    def test_ticks_grouped_differently_have_the_same_sum(
        self, profile: tuple[Activity, ...], times: list[float]
    ) -> None:
        # A tick of one second: what comes out is percent seconds.
        parts = np.array([means(profile, begin, end, 1) for begin, end in pairwise(times)])
        assert parts.sum(axis=0) == pytest.approx(means(profile, times[0], times[-1], 1), abs=len(times) * ROUNDING)

    @given(activities_of(), st.floats(0, 1e6))
    def test_stays_within_the_loads_of_the_profile(self, profile: tuple[Activity, ...], begin: float) -> None:
        load, fluctuation = means(profile, begin, begin + 1, 1)
        for value, parts in ((load, [a.value for a in profile]), (fluctuation, [a.fluctuation for a in profile])):
            assert min(parts) - 1e-5 <= value <= max(parts) + 1e-5


def rows_of(profiles: Profiles, place: int) -> list[list[float]]:
    segments = np.arange(profiles.firsts[place], profiles.lasts[place] + 1)
    which = {"profile": profiles.profile[[place]], "segment": segments}
    axes = {name: each.metadata["axis"] for name, each in Profiles.__dataclass_fields__.items() if name != "profile"}
    return [getattr(profiles, name)[which[axis]].tolist() for name, axis in axes.items()]


class TestManyProfiles:
    @given(st.lists(activities_of(), min_size=1, max_size=12), st.floats(0, 100))
    def test_each_as_if_it_were_alone(self, profiles: list[tuple[Activity, ...]], begin: float) -> None:
        begins = begin + np.arange(len(profiles), dtype=np.float64)
        load, fluctuation = tick_means(Profiles.of(profiles), begins, begins + 1, 1)
        for place, profile in enumerate(profiles):
            alone = means(profile, begins[place], begins[place] + 1, 1)
            assert (load[place], fluctuation[place]) == alone

    @given(st.lists(activities_of(), max_size=6), st.lists(activities_of(), max_size=6), st.data())
    def test_kept_and_joined(
        self, some: list[tuple[Activity, ...]], others: list[tuple[Activity, ...]], data: st.DataObject
    ) -> None:
        some = some + data.draw(st.lists(st.sampled_from(some), max_size=3)) if some else some
        keep = data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
        changed = Profiles.of(some).kept(np.array(keep, dtype=np.bool_)).joined(Profiles.of(others))
        fresh = Profiles.of([profile for profile, stays in zip(some, keep, strict=True) if stays] + others)
        assert len(changed.profile) == len(fresh.profile)
        assert sorted(changed.key.tolist()) == sorted(fresh.key.tolist())
        assert all(rows_of(changed, place) == rows_of(fresh, place) for place in range(len(fresh.profile)))

    @pytest.mark.slow
    def test_equal_profiles_are_kept_once(self) -> None:
        long = [Activity(40 + step % 7, 1, 5) for step in range(100)]
        profiles = Profiles.of([long] * 10)
        for _ in range(990):
            profiles = profiles.joined(Profiles.of([list(long)]))
        assert (len(profiles.profile), len(profiles.key), len(profiles.starts)) == (1000, 1, 100)
        other = Profiles.of([long, long[:50]]).kept(np.array([False, True]))
        profiles = profiles.kept(np.arange(1000) < 2).joined(other)
        assert (profiles.profile.tolist(), profiles.counts.tolist()) == ([0, 0, 1], [100, 50])

    def test_long_profiles_that_go_are_removed_together(self) -> None:
        """Of ten long profiles the first two that go stay in the arrays, the third takes them along."""
        profiles = Profiles.of([[Activity(step + each, 0, 5) for step in range(2500)] for each in range(10)])
        alone, keys = rows_of(profiles, 9), []
        for _ in range(3):
            profiles = profiles.kept(np.arange(len(profiles.profile)) > 0)
            keys.append(len(profiles.key))
        assert keys == [10, 10, 7]
        assert rows_of(profiles, 6) == alone


def loads_of(profile: str, ticks: int, tick_seconds: float = 1.0, **fields: object) -> Floats:
    """The load of one workload in each of some ticks, in percent."""
    fleet = make_fleet(pool_of(devices_per_node=1), tick_seconds=tick_seconds)
    start(fleet, "card0", profile, **{"repeat": 0, **fields})
    found = []
    for _ in range(ticks):
        fleet.advance()
        found.append(fleet.usage_ratio[0])
    return 100 * np.array(found)


def lengths_of(profile: str, ticks: int, tick_seconds: float = 0.1, **fields: object) -> Floats:
    """The lengths of the activities of a profile of two loads, 0 and 100, in seconds."""
    is_high = loads_of(profile, ticks, tick_seconds, **fields) > 50
    changes = np.flatnonzero(is_high[1:] != is_high[:-1]) + 1
    return np.diff(changes) * tick_seconds


class TestDrawn:
    @pytest.mark.slow
    def test_each_run_has_its_own_length(self) -> None:
        """Around the seconds, as often above as below; most of them within seconds / spread to seconds * spread."""
        lengths = lengths_of("0:0:5:1.3,100:0:5:1.3", 3000)
        middle = float(np.median(lengths))
        assert 5 / 1.6 < middle < 5 * 1.6  # the pace of this workload
        within = np.mean((lengths > middle / 1.3) & (lengths < middle * 1.3))
        assert 0.6 < within < 0.76
        assert len(set(np.round(lengths, 1))) > 30

    @pytest.mark.slow
    def test_without_a_spread_it_always_lasts_its_seconds(self) -> None:
        lengths = lengths_of("0:0:5:2,100:0:3", 1000)
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

    @pytest.mark.slow
    def test_functions_are_spread_over_the_drawn_length(self) -> None:
        loads = loads_of("ramp(0,100):0:20:1.5", 300)
        assert loads.max() > 90
        assert loads[:3].max() < 30
        rises = np.diff(loads)
        assert np.sum(rises < -50) == pytest.approx(300 / 20, abs=8)

    @pytest.mark.slow
    def test_metrics_follow_the_same_lengths(self) -> None:
        fleet = make_fleet(pool_of(devices_per_node=1))
        profile, memory = "0:0:7:1.5,80:0:7:1.5", "0:0:7,800MiB:0:7"
        start(fleet, "card0", profile, repeat=0, metrics={"memory": memory})
        for _ in range(200):
            fleet.advance()
            assert fleet.memory_used_bytes[0] / 2**20 == pytest.approx(1000 * fleet.usage_ratio[0], abs=4)


class TestEnds:
    @pytest.mark.slow
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
        fleet = make_fleet(pool_of(devices_per_node=1))
        start(fleet, "card0", "60:0:20:2,30:0:10:2")
        progress = []
        for _ in range(10):
            fleet.advance()
            arrays = fleet.workloads.level(fleet.state.seconds).arrays
            progress.append((arrays["progress_ratio"][0], arrays["remaining_seconds"][0]))
        assert all(one[0] < other[0] and one[1] > other[1] for one, other in pairwise(progress))
        assert all(ratio == pytest.approx(1 - left / 30) for ratio, left in progress)


class TestOnce:
    @pytest.mark.parametrize(
        ("profile", "loads"),
        [
            ("10:0:3:once,20:0:1:once,50:0:2,80:0:1", [10, 10, 10, 20, 50, 50, 80, 50, 50, 80, 50, 50, 80]),
            ("steps(10,20):0:2:once,70:0:1,30:0:1", [10, 20, 70, 30, 70, 30]),
        ],
    )
    def test_it_does_not_repeat(self, profile: str, loads: list[float]) -> None:
        assert loads_of(profile, len(loads)).round(6).tolist() == loads

    def test_repeat_counts_the_rest(self) -> None:
        fleet = make_fleet(pool_of(devices_per_node=1))
        start(fleet, "card0", "10:0:4:once,50:0:2,80:0:1", repeat=2)
        assert [tick for tick, *_ in ended(fleet, 20)] == [4 + 2 * 3]

    def test_random_values_after_it_are_drawn_for_each_run(self) -> None:
        loads = loads_of("10:0:3:once,random(40,60,2):0:4,5:0:1", 203)
        assert loads[:3].round(6).tolist() == [10, 10, 10]
        drawn = [loads[3 + 5 * run + place] for run in range(40) for place in (0, 2)]
        assert len(set(np.round(drawn, 4))) == 80
        assert min(drawn) >= 40
        assert max(drawn) <= 60


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
    whole = sum(steps)
    few = [whole / 4] * 4 if whole < MAX_LENGTHS else [4.0] * int(whole // 4) + [whole % 4 or 4.0]
    assert sum(few) == pytest.approx(whole) or whole % 4 == 0
    if sum(few) == pytest.approx(whole):
        assert sum(course(profile, steps)) == pytest.approx(sum(course(profile, few)), abs=1e-3 * whole)


@pytest.mark.slow
def test_long_ticks_draw_only_the_first_lengths() -> None:
    """Those after them last as long as is written: a tick of an hour costs little, and its mean is hardly another."""
    minutes = loads_of("100:0:5:1.3,0:0:5:1.3", 240, 60.0)
    hours = loads_of("100:0:5:1.3,0:0:5:1.3", 4, 3600.0)
    assert hours.mean() == pytest.approx(minutes.mean(), abs=1)
    assert np.std(hours) < 2


def test_a_workload_says_that_its_end_is_open() -> None:
    assert workload("card0", "5:0:3:2").has_open_end
    assert workload("card0", "5:0:3", seconds_of="work").has_open_end
    assert not workload("card0", "5:0:3").has_open_end
