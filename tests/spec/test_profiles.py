"""Profiles as people write them: 98:1:0,50:5:30."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakedev.spec.fleet import FOREVER, Activity
from fakedev.spec.profiles import MAX_ACTIVITIES, checked_profile, format_profile, parse_profile


def fault(text: str) -> str:
    """The error of a profile that cannot be used."""
    with pytest.raises(ValueError) as caught:
        parse_profile(text)
    return str(caught.value)


@st.composite
def profiles(draw: st.DrawFn) -> tuple[Activity, ...]:
    """Any profile that is allowed."""
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


class TestParse:
    """What is taken."""

    def test_several_activities(self) -> None:
        """Load, fluctuation and seconds, one after the other; 0 seconds in the last: until stopped."""
        assert parse_profile("98:1:10,50:5:0") == (Activity(98, 1, 10), Activity(50, 5, FOREVER))

    def test_fluctuation_and_seconds_may_be_left_out(self) -> None:
        """A load without anything else is steady and lasts until stopped."""
        assert parse_profile("40") == (Activity(40, 0, FOREVER),)
        assert parse_profile("40:3") == (Activity(40, 3, FOREVER),)

    def test_blanks_and_fractions(self) -> None:
        """Blanks around the commas do no harm, and numbers need not be whole."""
        assert parse_profile(" 10.5:0.5:2.25 , 1e1:0:1e3 ") == (Activity(10.5, 0.5, 2.25), Activity(10, 0, 1000))
        assert parse_profile("10:0:1m30s,20:0:250ms") == (Activity(10, 0, 90), Activity(20, 0, 0.25))

    def test_bounds_are_allowed(self) -> None:
        """0 and 100 %, all of the load as fluctuation, and as many activities as there may be."""
        assert parse_profile("0:0:1,100:0:1,50:50:1") == (Activity(0, 0, 1), Activity(100, 0, 1), Activity(50, 50, 1))
        assert len(parse_profile(",".join(["1:0:1"] * MAX_ACTIVITIES))) == MAX_ACTIVITIES


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
    """Each fault is named, with the activity that has it."""
    assert fault(text) == message


def test_no_activities_at_all() -> None:
    """A profile from a list may be empty; that is refused too."""
    with pytest.raises(ValueError, match=r"^a profile needs at least one activity$"):
        checked_profile([])


@given(profiles())
def test_format_and_parse(profile: tuple[Activity, ...]) -> None:
    """What is written is read again to the last digit: a record depends on it."""
    assert parse_profile(format_profile(profile)) == profile


def test_format_is_short() -> None:
    """Whole numbers are written without a point."""
    assert format_profile((Activity(98, 1, 30), Activity(12.5, 0, FOREVER))) == "98:1:30,12.5:0:0"


#: Random letters are hardly ever a profile of several activities.
NEARLY_GOOD = st.lists(st.sampled_from(["60", "60:5", "60:5:1", "1e1:0:2.5", "101:0:1", "5:9:1", ""]), max_size=4)


@given(st.text(alphabet="0123456789.:,-+eEinfa_ ", max_size=30) | NEARLY_GOOD.map(",".join))
@example("60:5:1,1e1:0:2.5,60:5")
def test_any_text_is_a_profile_or_a_fault(text: str) -> None:
    """Nothing but ValueError comes out, and what is accepted keeps all the rules."""
    try:
        profile = parse_profile(text)
    except ValueError:
        return
    for activity in profile:
        assert 0 <= activity.fluctuation <= activity.value <= activity.value + activity.fluctuation <= 100
        assert 1e-6 <= activity.seconds <= 1e10 or activity.seconds == FOREVER
    assert all(activity.seconds < FOREVER for activity in profile[:-1])
