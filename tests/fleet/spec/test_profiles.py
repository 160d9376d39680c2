"""Profiles as people write them: 98:1:0,50:5:30."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakedev.fleet.spec.profiles import MAX_ACTIVITIES, format_profile, profile_from
from fakedev.fleet.spec.workload_spec import FOREVER, Activity


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "activity 1: '' is no number"),
        ("98:1:0,", "activity 2: '' is no number"),
        ("1:2:3:4:5", "activity 1: '1:2:3:4:5' is not load:fluctuation:seconds, as 98:1:0"),
        ("ten:1:0", "activity 1: 'ten' is no number"),
        ("1_0:0:0", "activity 1: '1_0' is no number"),
        ("10:0:5,20::5", "activity 2: '' is no number"),
        ("10:0:5x", "activity 1: '5x' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"),
        ("101:0:0", "activity 1: load 101 is not within 0 to 100"),
        ("-1:0:0", "activity 1: load -1 is not within 0 to 100"),
        ("50:60:0", "activity 1: fluctuation 60 is not within 0 and the load 50"),
        ("50:-1:0", "activity 1: fluctuation -1 is not within 0 and the load 50"),
        ("98:3:0", "activity 1: load 98 + fluctuation 3 is over 100"),
        ("50:0:-5", "activity 1: -5 seconds is not within 0 to 1e+10"),
        ("50:0:1e11", "activity 1: 1e+11 seconds is not within 0 to 1e+10"),
        ("50:0:1e-320", "activity 1: 9.99989e-321 seconds is less than a microsecond"),
        ("50:0:0,60:0:1", "activity 1: 0 seconds (until stopped) is for the last activity only"),
        ("nan:0:0", "activity 1: numbers must be finite"),
        ("50:NaN:0", "activity 1: numbers must be finite"),
        ("50:0:inf", "activity 1: 'inf' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"),
        ("50:0:1e999", "activity 1: numbers must be finite"),
        ("1e999:0:0", "activity 1: numbers must be finite"),
        ("10:0:5,101:0:5", "activity 2: load 101 is not within 0 to 100"),
        (",".join(["1:0:1"] * 10_001), "10001 activities are too many: at most 10000"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        profile_from(text)


@st.composite
def profiles(draw: st.DrawFn) -> tuple[Activity, ...]:
    found = []
    for _ in range(draw(st.integers(1, 6))):
        load = draw(st.floats(0, 100))
        most = min(load, 100 - load)
        fluctuation = draw(st.floats(0, most))
        if load + fluctuation > 100:  # the sum was rounded up
            fluctuation = 0.0
        found.append(Activity(load, fluctuation, draw(st.floats(1e-6, 1e10))))
    if draw(st.booleans()):
        found[-1] = Activity(found[-1].value, found[-1].fluctuation)
    return tuple(found)


@pytest.mark.parametrize(
    ("text", "activities"),
    [
        ("98:1:10,50:5:0", [Activity(98, 1, 10), Activity(50, 5, FOREVER)]),
        ("40", [Activity(40, 0, FOREVER)]),
        ("40:3", [Activity(40, 3, FOREVER)]),
        (" 10.5:0.5:2.25 , 1e1:0:1e3 ", [Activity(10.5, 0.5, 2.25), Activity(10, 0, 1000)]),
        ("10:0:1m30s,20:0:250ms", [Activity(10, 0, 90), Activity(20, 0, 0.25)]),
        ("0:0:1,100:0:1,50:50:1", [Activity(0, 0, 1), Activity(100, 0, 1), Activity(50, 50, 1)]),
        (",".join(["1:0:1"] * MAX_ACTIVITIES), [Activity(1, 0, 1)] * MAX_ACTIVITIES),
    ],
)
def test_what_is_taken(text: str, activities: list[Activity]) -> None:
    """0 seconds in the last: until stopped; omitted fluctuation and seconds are 0; durations have units."""
    assert profile_from(text) == tuple(activities)


def test_no_activities_at_all() -> None:
    with pytest.raises(ValueError, match=r"^a profile needs at least one activity$"):
        profile_from([])


@given(profiles())
def test_format_and_parse(profile: tuple[Activity, ...]) -> None:
    """What is written is read again to the last digit: a record depends on it."""
    assert profile_from(format_profile(profile)) == profile


def test_format_is_short() -> None:
    assert format_profile((Activity(98, 1, 30), Activity(12.5, 0, FOREVER))) == "98:1:30,12.5:0:0"


#: Random letters are hardly ever a profile of several activities.
NEARLY_GOOD = st.lists(st.sampled_from(["60", "60:5", "60:5:1", "1e1:0:2.5", "101:0:1", "5:9:1", ""]), max_size=4)


@given(st.text(alphabet="0123456789.:,-+eEinfa_ ", max_size=30) | NEARLY_GOOD.map(",".join))
@example("60:5:1,1e1:0:2.5,60:5")
def test_any_text_is_a_profile_or_a_fault(text: str) -> None:
    try:
        profile = profile_from(text)
    except ValueError:
        return
    for activity in profile:
        assert 0 <= activity.fluctuation <= activity.value <= activity.value + activity.fluctuation <= 100
        assert 1e-6 <= activity.seconds <= 1e10 or activity.seconds == FOREVER
    assert all(activity.seconds < FOREVER for activity in profile[:-1])


@given(st.lists(st.lists(st.sampled_from(["0", "1", "50", "100", "7.5", ".5", "5.", "", ".", "1e3"]), min_size=1,
                         max_size=4).map(":".join), min_size=1, max_size=4).map(",".join))  # fmt: skip
def test_plain_numbers_are_read_as_all_others(text: str) -> None:
    """A blank makes them other texts, which are read word by word."""

    def outcome(text: str) -> object:
        try:
            return profile_from(text)
        except ValueError as error:
            return str(error)

    assert outcome(text) == outcome(f" {text}")
