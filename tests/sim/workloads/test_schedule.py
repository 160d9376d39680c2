
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.workloads.schedule import Profiles
from fakedev.spec.fleet import FOREVER, Activity

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
    """Random activities, some far shorter than a tick; the last one may be without end."""
    lengths = st.one_of(st.floats(shortest, 0.3), st.floats(0.3, 30), st.integers(1, 5).map(float))
    found = []
    for _ in range(draw(st.integers(1, 8))):
        load = draw(st.floats(0, 100))
        found.append(Activity(load, draw(st.floats(0, min(load, 100 - load))), draw(lengths)))
    if draw(st.booleans()):
        found[-1] = Activity(found[-1].value, found[-1].fluctuation, FOREVER)
    return tuple(found)


def means(profile: Sequence[Activity], begin: float, end: float, seconds: float) -> tuple[float, float]:
    """The means of a single profile."""
    load, fluctuation = Profiles.of([profile]).means(np.array([begin]), np.array([end]), seconds)
    return float(load[0]), float(fluctuation[0])


class TestMeans:
    """Profiles.means over part of a tick."""

    def test_one_activity_is_its_load(self) -> None:
        """A tick inside one activity has its load and fluctuation."""
        assert means([Activity(40, 5, 10)], 3, 4, 1) == (40, 5)

    def test_a_tick_over_two_activities_is_the_mean_by_time(self) -> None:
        """A quarter of the tick at 80 %, the rest at 20 %."""
        assert means([Activity(80, 8, 1.25), Activity(20, 4, 5)], 1, 2, 1) == (35, 5)

    def test_many_activities_inside_one_tick(self) -> None:
        """A hundred switches a second: no aliasing, the mean is the share of the time."""
        profile = [Activity(100, 0, 0.003), Activity(0, 0, 0.007)]
        assert means(profile, 0, 1, 1)[0] == pytest.approx(30)
        assert means(profile, 1000, 1001, 1)[0] == pytest.approx(30)

    def test_time_outside_the_part_counts_as_idle(self) -> None:
        """A workload that begins in the middle of a tick fills half of it."""
        assert means([Activity(60, 6, 10)], 0, 0.5, 1) == (30, 3)

    def test_repeats_begin_again_at_the_first_activity(self) -> None:
        """Second 17 of a profile of 5 s is its second 2."""
        profile = [Activity(10, 0, 2), Activity(90, 0, 3)]
        assert means(profile, 17, 18, 1) == means(profile, 2, 3, 1) == (90, 0)

    def test_a_last_activity_without_end_lasts(self) -> None:
        """After a lead-in the last load stays, also after years."""
        profile = [Activity(10, 0, 2), Activity(90, 9, FOREVER)]
        assert means(profile, 1, 3, 2) == (50, 4.5)
        assert means(profile, 3e8, 3e8 + 1, 1) == (90, 9)

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
        """For any profile, at any time, for a tick of any length."""
        end = begin + seconds
        assert means(profile, begin, end, seconds) == pytest.approx(
            reference_means(profile, begin, end, seconds), abs=2 * ROUNDING
        )

    @given(activities_of(), st.lists(st.floats(0, 30), min_size=2, max_size=20).map(sorted))
    def test_ticks_grouped_differently_have_the_same_sum(
        self, profile: tuple[Activity, ...], times: list[float]
    ) -> None:
        """One long tick is the sum of the short ones it is made of: no load is lost or seen twice."""
        # A tick of one second: what comes out is percent seconds.
        parts = np.array([means(profile, begin, end, 1) for begin, end in pairwise(times)])
        assert parts.sum(axis=0) == pytest.approx(means(profile, times[0], times[-1], 1), abs=len(times) * ROUNDING)

    @given(activities_of(), st.floats(0, 1e6))
    def test_stays_within_the_loads_of_the_profile(self, profile: tuple[Activity, ...], begin: float) -> None:
        """A mean is never below the lowest or above the highest activity."""
        load, fluctuation = means(profile, begin, begin + 1, 1)
        for value, parts in ((load, [a.value for a in profile]), (fluctuation, [a.fluctuation for a in profile])):
            assert min(parts) - 1e-5 <= value <= max(parts) + 1e-5


def rows_of(profiles: Profiles, place: int) -> list[list[float]]:
    """All numbers of a workload's profile."""
    segments = np.arange(profiles.firsts[place], profiles.lasts[place] + 1)
    which = {"profile": profiles.profile[[place]], "segment": segments}
    axes = {name: each.metadata["axis"] for name, each in Profiles.__dataclass_fields__.items() if name != "profile"}
    return [getattr(profiles, name)[which[axis]].tolist() for name, axis in axes.items()]


class TestManyProfiles:
    """Profiles as one set of arrays: each workload is on its own."""

    @given(st.lists(activities_of(), min_size=1, max_size=12), st.floats(0, 100))
    def test_each_as_if_it_were_alone(self, profiles: list[tuple[Activity, ...]], begin: float) -> None:
        """Workloads with different numbers of activities do not get into each other's way."""
        begins = begin + np.arange(len(profiles), dtype=np.float64)
        load, fluctuation = Profiles.of(profiles).means(begins, begins + 1, 1)
        for place, profile in enumerate(profiles):
            alone = means(profile, begins[place], begins[place] + 1, 1)
            assert (load[place], fluctuation[place]) == alone

    @given(st.lists(activities_of(), max_size=6), st.lists(activities_of(), max_size=6), st.data())
    def test_kept_and_joined(
        self, some: list[tuple[Activity, ...]], others: list[tuple[Activity, ...]], data: st.DataObject
    ) -> None:
        """Taking workloads out and putting others in gives each the rows that only the remaining ones would have."""
        some = some + data.draw(st.lists(st.sampled_from(some), max_size=3)) if some else some
        keep = data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
        changed = Profiles.of(some).kept(np.array(keep, dtype=np.bool_)).joined(Profiles.of(others))
        fresh = Profiles.of([profile for profile, stays in zip(some, keep, strict=True) if stays] + others)
        assert len(changed.profile) == len(fresh.profile)
        assert sorted(changed.key.tolist()) == sorted(fresh.key.tolist())
        assert all(rows_of(changed, place) == rows_of(fresh, place) for place in range(len(fresh.profile)))

    def test_equal_profiles_are_kept_once(self) -> None:
        """A thousand workloads with the same profile take the segments of one, also when they start one by one."""
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

    def test_no_profiles(self) -> None:
        """A fleet without workloads has no means."""
        load, fluctuation = Profiles.of([]).means(np.zeros(0), np.zeros(0), 1)
        assert load.shape == fluctuation.shape == (0,)
