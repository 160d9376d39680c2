"""Value functions: what a tick shows of them is their exact mean, against slow numeric integration."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.sim.workloads.draws import drawn_integrals
from fakedev.sim.workloads.schedule import Profiles
from fakedev.spec.fleet import FOREVER, Activity
from fakedev.spec.profiles import parse_profile
from fakedev.spec.value_functions import FORMS, Function, bounds
from tests.support.examples import examples
from tests.support.value_reference import draws_of, mean_of

SEED, KEY = 5, 0x1234_5678_9ABC_DEF0
SECONDS = st.floats(0.5, 40)
VALUES = st.floats(0, 100)
#: Those of the time since an activity began; ``daily`` is in test_days.py.
NAMES = sorted(set(FORMS) - {"daily"})


def means(profiles: list[tuple[Activity, ...]], begin: float, end: float, keys: list[int] | None = None) -> list[float]:
    """The mean values of some profiles between two times."""
    table = Profiles.of(profiles)
    own = np.array(keys or [KEY] * len(profiles), dtype=np.uint64)
    starts, ends = np.full(len(profiles), begin), np.full(len(profiles), end)
    drawn = drawn_integrals(table, SEED, own, "load", starts, ends)
    return table.means(starts, ends, end - begin, drawn)[0].tolist()


def mean(text: str, begin: float, end: float) -> float:
    """The mean of one profile."""
    return means([parse_profile(text)], begin, end)[0]


@st.composite
def functions(draw: st.DrawFn, name: str = "") -> Function:
    """Any function, of moderate speed."""
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
    """Some functions and plain loads, one after the other, the last one perhaps without end."""
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
    """Means that can be had in one's head."""
    assert mean(text, begin, end) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
@settings(max_examples=examples(40))
def test_each_closed_form_is_the_integral(name: str, data: st.DataObject) -> None:
    """Of every function, over any stretch of its activity, for one that is repeated too."""
    profile = (Activity(data.draw(functions(name)), 0.0, data.draw(SECONDS)),)
    begin, length = data.draw(st.floats(0, 100)), data.draw(st.floats(0.1, 30))
    expected = mean_of(profile, begin, begin + length, draws_of(SEED, KEY))
    assert means([profile], begin, begin + length) == pytest.approx([expected], abs=1e-3)


@given(profiles(), st.floats(0, 100), st.floats(0.1, 30))
@settings(max_examples=examples(100))
def test_mixed_profiles(profile: tuple[Activity, ...], begin: float, length: float) -> None:
    """Functions one after the other, repeated, across the boundaries of activities and runs."""
    expected = mean_of(profile, begin, begin + length, draws_of(SEED, KEY))
    assert means([profile], begin, begin + length) == pytest.approx([expected], abs=1e-3)


@given(profiles(), st.lists(st.floats(0, 200), min_size=2, max_size=12, unique=True).map(sorted))
def test_how_ticks_are_grouped_changes_nothing(profile: tuple[Activity, ...], times: list[float]) -> None:
    """The short ticks of a long one have its sum."""
    parts = [means([profile], begin, end)[0] * (end - begin) for begin, end in pairwise(times)]
    whole = means([profile], times[0], times[-1])[0] * (times[-1] - times[0])
    assert sum(parts) == pytest.approx(whole, abs=1e-3)


@given(st.lists(profiles(), min_size=2, max_size=6), st.floats(0, 100))
def test_each_as_if_it_were_alone(several: list[tuple[Activity, ...]], begin: float) -> None:
    """Workloads with different functions do not get into each other's way."""
    keys = list(range(len(several)))
    together = means(several, begin, begin + 1, keys)
    assert together == [means([profile], begin, begin + 1, [key])[0] for key, profile in enumerate(several)]


@given(profiles(), st.floats(0, 1e6), st.floats(0.1, 10))
def test_stays_within_its_bounds(profile: tuple[Activity, ...], begin: float, length: float) -> None:
    """No mean is outside the lowest and the highest value, not even after days; nothing is NaN."""
    low = min(bounds(activity.value)[0] for activity in profile)
    high = max(bounds(activity.value)[1] for activity in profile)
    assert low - 1e-4 <= means([profile], begin, begin + length)[0] <= high + 1e-4


@given(functions("increase"), st.floats(1, 100))
def test_an_increase_only_increases(function: Function, seconds: float) -> None:
    """From draw to draw it goes up, from its low to its high."""
    every = function.arguments[2]
    profile = (Activity(function, 0.0, seconds),)
    times = np.append(np.arange(0.0, seconds, every), seconds)
    found = [means([profile], begin, end)[0] for begin, end in pairwise(times.tolist()) if end - begin > 1e-6]
    assert all(one <= other + 1e-5 for one, other in pairwise(found))


def test_random_values_are_drawn_anew() -> None:
    """In every run through the profile, every activity and for every workload; and each is uniform in its range."""
    profile = parse_profile("random(20,60,5):0:10,random(20,60,5):0:10")
    found = [means([profile], begin, begin + 5)[0] for begin in range(0, 4000, 5)]
    assert len(set(found)) == len(found)
    assert (min(found), max(found)) == (pytest.approx(20.25, abs=0.25), pytest.approx(59.75, abs=0.25))
    assert np.mean(found) == pytest.approx(40, abs=1.5)
    assert means([profile, profile], 0, 5, [1, 2])[0] != means([profile, profile], 0, 5, [1, 2])[1]
