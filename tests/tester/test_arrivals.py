"""When requests of the open model arrive."""

from __future__ import annotations

import math
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.tester.plan import (
    Lines,
    OpenLoad,
    RateCurve,
    Sine,
    Spacing,
    constant,
    even_arrivals,
    poisson_arrivals,
    ramp,
    spike,
    steps,
)

CURVES = {
    "constant": constant(20.0),
    "ramp": ramp(1.0, 50.0, 30.0),
    "falling": ramp(50.0, 0.5, 30.0),
    "steps": steps([5.0, 0.0, 20.0], 10.0),
    "sine": Sine(20.0, 20.0, 13.0),
    "spike": spike(10.0, 100.0, 8.0, 2.0),
    "lines": Lines([(0.0, 0.0), (5.0, 10.0), (5.0, 0.0), (9.0, 3.0)]),
}


def area(curve: RateCurve, begin: float, end: float) -> float:
    """The arrivals to be expected between two times, added up in small steps."""
    count = 20_000
    width = (end - begin) / count
    return sum(curve.rate(begin + (place + 0.5) * width) for place in range(count)) * width


@pytest.mark.parametrize("name", CURVES)
def test_time_of_is_the_inverse_of_the_area(name: str) -> None:
    """When n arrivals are to be expected, the area under the rate is n."""
    curve = CURVES[name]
    for count in (0.5, 3.0, 17.25, 120.0, 300.0):
        assert area(curve, 0.0, curve.time_of(count)) == pytest.approx(count, abs=0.2)


@pytest.mark.parametrize("name", CURVES)
def test_even_arrivals_follow_the_curve(name: str) -> None:
    """In every stretch there are as many as its area, but for one at each end; they never go back."""
    arrivals = list(islice(even_arrivals(CURVES[name]), 400))
    assert all(one <= other for one, other in pairwise(arrivals))
    for begin, end in ((0.0, 5.0), (3.0, 11.0), (7.0, 14.0)):
        if end < arrivals[-1]:
            found = sum(begin <= arrival < end for arrival in arrivals)
            assert abs(found - area(CURVES[name], begin, end)) <= 1.1


@pytest.mark.parametrize("name", CURVES)
def test_poisson_arrivals_follow_the_curve(name: str) -> None:
    """Over many arrivals their number is the area, within five standard deviations."""
    curve = CURVES[name]
    arrivals = list(islice(poisson_arrivals(curve, 7, "plan"), 2000))
    expected = area(curve, 0.0, arrivals[-1])
    assert abs(len(arrivals) - expected) < 5 * math.sqrt(expected)


def test_poisson_gaps_are_exponential() -> None:
    """Mean and deviation are equal, and the shares beyond multiples of the mean are those of the distribution."""
    arrivals = list(islice(poisson_arrivals(constant(10.0), 1, "a"), 20_000))
    gaps = [other - one for one, other in pairwise([0.0, *arrivals])]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(0.1, rel=0.03)
    assert deviation == pytest.approx(0.1, rel=0.05)
    for times in (0.5, 1.0, 3.0):
        share = sum(gap > times * 0.1 for gap in gaps) / len(gaps)
        assert share == pytest.approx(math.exp(-times), abs=0.02)


def test_poisson_arrivals_are_a_function_of_seed_and_name() -> None:
    """The same two give the same arrivals; either other gives others."""

    def some(seed: int, name: str) -> list[float]:
        return list(islice(OpenLoad(constant(5.0), spacing=Spacing.POISSON, seed=seed).arrivals(name), 20))

    assert some(1, "a") == some(1, "a")
    assert len({tuple(some(seed, name)) for seed in (1, 2) for name in ("a", "b")}) == 4


def test_a_curve_that_ends_ends_the_arrivals() -> None:
    """After its last point nothing arrives: 5 a second for two seconds are ten."""
    curve = Lines([(0.0, 5.0), (2.0, 5.0)], ends=True)
    assert len(list(even_arrivals(curve))) == 10
    assert list(even_arrivals(constant(0.0))) == []
    assert all(arrival <= 2.0 for arrival in poisson_arrivals(curve, 1, "a"))


def test_listed_arrivals_are_taken_as_they_are() -> None:
    assert list(OpenLoad(listed_seconds=(0.0, 0.5, 0.5)).arrivals("a")) == [0.0, 0.5, 0.5]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1000)), min_size=1, max_size=8), st.floats(0, 1e4))
def test_any_lines_have_an_inverse_that_rises(points: list[tuple[float, float]], count: float) -> None:
    times = sorted(seconds for seconds, _ in points)
    times[0] = 0.0
    curve = Lines([(seconds, rate) for seconds, (_, rate) in zip(times, points, strict=True)])
    assert 0 <= curve.time_of(count) <= curve.time_of(count + 1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Lines([(1.0, 5.0)]), "begins at 0"),
        (lambda: Lines([(0.0, 5.0), (2.0, 1.0), (1.0, 1.0)]), "must not fall"),
        (lambda: constant(-1.0), "below 0"),
        (lambda: Sine(5.0, 6.0, 10.0), "amplitude"),
        (lambda: Sine(5.0, 1.0, 0.0), "period"),
    ],
)
def test_what_is_no_curve_is_refused(make: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()  # type: ignore[operator]
