"""Value functions: what a tick shows is their exact mean, against slow integration; loads that follow the day."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.profiles import profile_from
from fakedev.fleet.spec.value_functions import FORMS, Function, bounds
from fakedev.fleet.spec.workload_spec import FOREVER, Activity
from fakedev.fleet.workloads.profile import Profiles
from tests.support.examples import examples, only_long
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start
from tests.support.fleet.value_reference import draws_of, mean_of, tick_means

SEED, KEY = 5, 0x1234_5678_9ABC_DEF0
SECONDS = st.floats(0.5, 40)
VALUES = st.floats(0, 100)
#: Those of the time since an activity began; ``daily`` is in test_days.py.
NAMES = sorted(set(FORMS) - {"daily"})


def means(profiles: list[tuple[Activity, ...]], begin: float, end: float, keys: list[int] | None = None) -> list[float]:
    table = Profiles.of(profiles)
    own = np.array(keys or [KEY] * len(profiles), dtype=np.uint64)
    starts, ends = np.full(len(profiles), begin), np.full(len(profiles), end)
    return tick_means(table, starts, ends, end - begin, SEED, own)[0].tolist()


def mean(text: str, begin: float, end: float) -> float:
    return means([profile_from(text)], begin, end)[0]


@st.composite
def functions(draw: st.DrawFn, name: str = "") -> Function:
    name = name or draw(st.sampled_from(NAMES))
    low, high = sorted((draw(VALUES), draw(VALUES)))
    period = draw(SECONDS)
    rest = {
        "ramp": (), "sine": (period,), "square": (period, draw(st.floats(0, 1))),
        "spike": (period * draw(st.floats(0.01, 1)), period), "random": (period,), "increase": (period,),
    }  # fmt: skip
    if name == "steps":
        return Function(name, tuple(draw(st.lists(VALUES, min_size=1, max_size=5))))
    if name == "sine":
        return Function(name, ((low + high) / 2, (high - low) / 2, period))
    return Function(name, (low, high, *rest[name]))


@st.composite
def profiles(draw: st.DrawFn) -> tuple[Activity, ...]:
    found = [
        Activity(draw(st.one_of(VALUES, functions(), functions())), 0.0, draw(SECONDS))
        for _ in range(draw(st.integers(1, 4)))
    ]
    last = found[-1].value
    if not (isinstance(last, Function) and FORMS[last.name].has_end) and draw(st.booleans()):
        found[-1] = Activity(last, 0.0, FOREVER)
    return tuple(found)


@pytest.mark.parametrize(
    ("text", "begin", "end", "expected"),
    [
        ("ramp(0,90):0:60", 0, 60, 45),
        ("ramp(0,90):0:60", 20, 40, 45),
        ("ramp(90,30):0:60", 59, 60, 30.5),
        ("sine(50,30,60)", 0, 60, 50),
        ("sine(50,30,60)", 0, 30, 50 + 30 * 2 / np.pi),
        ("square(10,90,60)", 0, 30, 90),
        ("square(10,90,60)", 30, 60, 10),
        ("square(10,90,60,0.25)", 0, 120, 30),
        ("spike(20,95,30s,10m)", 0, 570, 20),
        ("spike(20,95,30s,10m)", 570, 600, 95),
        ("spike(20,95,30s,10m)", 0, 6000, 20 + 75 * 0.05),
        ("steps(10,40,80):0:90", 0, 30, 10),
        ("steps(10,40,80):0:90", 30, 90, 60),
        ("5:0:10,ramp(0,90):0:60", 10, 70, 45),
    ],
)
def test_by_hand(text: str, begin: float, end: float, expected: float) -> None:
    assert mean(text, begin, end) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
@settings(max_examples=examples(40))
def test_each_closed_form_is_the_integral(name: str, data: st.DataObject) -> None:
    profile = (Activity(data.draw(functions(name)), 0.0, data.draw(SECONDS)),)
    begin, length = data.draw(st.floats(0, 100)), data.draw(st.floats(0.1, 30))
    expected = mean_of(profile, begin, begin + length, draws_of(SEED, KEY))
    assert means([profile], begin, begin + length) == pytest.approx([expected], abs=1e-3)


@given(profiles(), st.floats(0, 100), st.floats(0.1, 30))
@settings(max_examples=examples(100))
def test_mixed_profiles(profile: tuple[Activity, ...], begin: float, length: float) -> None:
    expected = mean_of(profile, begin, begin + length, draws_of(SEED, KEY))
    assert means([profile], begin, begin + length) == pytest.approx([expected], abs=1e-3)


@given(profiles(), st.lists(st.floats(0, 200), min_size=2, max_size=12, unique=True).map(sorted))
def test_how_ticks_are_grouped_changes_nothing(profile: tuple[Activity, ...], times: list[float]) -> None:
    parts = [means([profile], begin, end)[0] * (end - begin) for begin, end in pairwise(times)]
    whole = means([profile], times[0], times[-1])[0] * (times[-1] - times[0])
    assert sum(parts) == pytest.approx(whole, abs=1e-3)


@given(st.lists(profiles(), min_size=2, max_size=6), st.floats(0, 100))
def test_each_as_if_it_were_alone(several: list[tuple[Activity, ...]], begin: float) -> None:
    keys = list(range(len(several)))
    together = means(several, begin, begin + 1, keys)
    assert together == [means([profile], begin, begin + 1, [key])[0] for key, profile in enumerate(several)]


@given(profiles(), st.floats(0, 1e6), st.floats(0.1, 10))
def test_stays_within_its_bounds(profile: tuple[Activity, ...], begin: float, length: float) -> None:
    low = min(bounds(activity.value)[0] for activity in profile)
    high = max(bounds(activity.value)[1] for activity in profile)
    assert low - 1e-4 <= means([profile], begin, begin + length)[0] <= high + 1e-4


@given(functions("increase"), st.floats(1, 100))
def test_an_increase_only_increases(function: Function, seconds: float) -> None:
    every = function.arguments[2]
    profile = (Activity(function, 0.0, seconds),)
    times = np.append(np.arange(0.0, seconds, every), seconds)
    found = [means([profile], begin, end)[0] for begin, end in pairwise(times.tolist()) if end - begin > 1e-6]
    assert all(one <= other + 1e-5 for one, other in pairwise(found))


@pytest.mark.slow
def test_random_values_are_drawn_anew() -> None:
    profile = profile_from("random(20,60,5):0:10,random(20,60,5):0:10")
    found = [means([profile], begin, begin + 5)[0] for begin in range(0, 4000, 5)]
    assert len(set(found)) == len(found)
    assert (min(found), max(found)) == (pytest.approx(20.25, abs=0.25), pytest.approx(59.75, abs=0.25))
    assert np.mean(found) == pytest.approx(40, abs=1.5)
    assert means([profile, profile], 0, 5, [1, 2])[0] != means([profile, profile], 0, 5, [1, 2])[1]


HOUR = 3600.0
DAY = 24 * HOUR


def day_of(fleet: Fleet, ticks: int) -> np.ndarray:
    """The usage of all devices, tick by tick, in percent: shape (ticks, devices)."""
    advance(fleet, 1)
    return np.array([100 * usage for usage in [fleet.usage_ratio, *(_next(fleet) for _ in range(ticks - 1))]])


def _next(fleet: Fleet) -> np.ndarray:
    fleet.advance()
    return fleet.usage_ratio


def hours(profile: str = "daily(10,90)", epoch: float = 0.0, devices: str = "card0", **fields: object) -> np.ndarray:
    """The mean load in each hour of a day that begins at ``epoch``."""
    fleet = make_fleet(pool_of(), tick_seconds=HOUR, epoch_seconds=epoch)
    start(fleet, devices, profile, **fields)
    return day_of(fleet, 24)[:, 0]


def test_it_is_high_around_its_peak_and_low_twelve_hours_later() -> None:
    for peak, found in ((15, hours()), (9, hours("daily(10,90,9h)"))):
        assert abs(int(found.argmax()) - peak) <= 1
        assert (int(found.argmin()) - peak) % 24 == pytest.approx(12, abs=2)
        assert 10 <= found.min() < 25
        assert 75 < found.max() <= 90


def test_the_epoch_decides_the_hour() -> None:
    from_midnight, from_noon = hours(), hours(epoch=DAY / 2)
    assert from_noon[:12] == pytest.approx(from_midnight[12:], abs=6)
    assert from_noon[0] > from_midnight[0] + 20


@pytest.mark.slow
def test_replicas_of_a_service_share_their_demand() -> None:
    """They start at different times and are on different nodes; another service has other waves, but the same day."""
    fleet = make_fleet(pool_of(nodes=3, devices_per_node=1), tick_seconds=60.0)
    start(fleet, "dgx-0/0", "daily(10,90)", service="chat", name="a")
    advance(fleet, 7)
    start(fleet, "dgx-1/0", "daily(10,90)", service="chat", name="b")
    start(fleet, "dgx-2/0", "daily(10,90)", name="c")
    first, second, other = day_of(fleet, 1440).T
    assert second == pytest.approx(first, abs=1e-5)
    assert np.abs(other - first).max() > 2
    assert np.corrcoef(first, other)[0, 1] > 0.95


@pytest.mark.slow
def test_a_balancer_gives_each_replica_its_noise() -> None:
    fleet = make_fleet(pool_of(devices_per_node=2))
    start(fleet, "all", "daily(10,90):10", service="chat")
    one, other = day_of(fleet, 600).T
    assert 1 < np.std(one - other) < 10


def test_names_decide_not_ids() -> None:
    fleet = make_fleet(pool_of(devices_per_node=2), tick_seconds=60.0)
    start(fleet, "card0", "daily(10,90)", name="chat")
    start(fleet, "card1", "daily(10,90)", name="chat")
    one, other = day_of(fleet, 100).T
    assert other.tolist() == one.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [*only_long(1.0, 10.0), 60.0, 977.0])
def test_the_mean_does_not_depend_on_the_length_of_the_tick(seconds: float) -> None:
    whole = 977.0 * 60
    totals = []
    for step in (seconds, whole):
        fleet = make_fleet(pool_of(), tick_seconds=step, epoch_seconds=5 * HOUR)
        start(fleet, "card0", "5:0:100:once,daily(10,90)")
        totals.append(day_of(fleet, round(whole / step))[:, 0].mean())
    assert totals[0] == pytest.approx(totals[1], abs=1e-4)
