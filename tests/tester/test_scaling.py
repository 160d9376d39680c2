"""Scaling: the law is found in data that follow it, and the words say what it means."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.tester.scaling import (
    Law,
    ScaleStep,
    fit,
    limiting_cause,
    scaling_of,
    scaling_text,
    scaling_values,
    verdicts,
)

DOUBLED = (1, 2, 4, 8, 16)


def steps_of(law: Law, counts: tuple[int, ...] = DOUBLED, noise: float = 0.0) -> list[ScaleStep]:
    """Steps as a law has them; ``noise``: stretches are off by this share, to either side in turn."""
    return [ScaleStep(count, tuple(law.rate(count) * (1 + noise * sign) for sign in (1, -1) * 5)) for count in counts]


@given(st.floats(0.1, 1e4), st.floats(0, 0.5), st.floats(0, 0.05))
def test_a_law_is_found_in_its_own_data(single: float, contention: float, coherency: float) -> None:
    law = Law(single, contention, coherency)
    backends = np.array([float(count) for count in DOUBLED])
    found = fit(backends, np.array([law.rate(count) for count in DOUBLED]))
    assert found.single == pytest.approx(single, rel=1e-4)
    assert found.contention == pytest.approx(contention, abs=1e-4)
    assert found.coherency == pytest.approx(coherency, abs=1e-5)


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=6))
def test_any_data_have_a_law(rates: list[float]) -> None:
    """Throughput that falls at once, or more than doubles: coefficients stay within what they mean."""
    found = fit(np.array([2.0**place for place in range(len(rates))]), np.array(rates))
    assert found.single > 0 and 0 <= found.contention <= 1 and found.coherency >= 0


def test_a_straight_line() -> None:
    """Twice the backends, twice the throughput: no knee, and no limit."""
    scaling = scaling_of(steps_of(Law(2.0, 0.0, 0.0)))
    assert scaling.law is not None
    assert [doubling.speed_up for doubling in scaling.doublings] == pytest.approx([2.0] * 4)
    assert math.isinf(scaling.law.knee_backends) or scaling.law.knee_backends > 1e6
    assert "none up to 16 backends" in limiting_cause(scaling, scaling.law)
    assert verdicts(scaling, 1.9) == []
    assert "PASS" in scaling_text(scaling, 1.9)


def test_the_knee_of_a_known_law() -> None:
    """Ceiling and knee by arithmetic, within the interval also with noise of 2 %."""
    law = Law(10.0, 0.1, 0.0)
    assert (law.ceiling, law.knee_backends) == (100.0, 10.0)
    scaling = scaling_of(steps_of(law, noise=0.02))
    low, high = scaling.knee_interval
    assert low < 10.0 < high
    assert high - low < 3.0


def test_a_peak() -> None:
    """Coherency: throughput has a highest point and falls behind it."""
    law = Law(1.0, 0.0, 0.01)
    assert law.peak_backends == pytest.approx(10.0)
    assert law.rate(10) > law.rate(9) and law.rate(10) > law.rate(11)
    scaling = scaling_of(steps_of(law))
    assert scaling.law is not None
    assert limiting_cause(scaling, scaling.law).startswith("coordination")
    assert "Peak: 10.0 backends" in scaling_text(scaling, 1.5)


def test_a_shared_bottleneck() -> None:
    """All that four backends can do is all there is: the knee is found near four, and doubling on fails."""
    rates = {1: 10.0, 2: 20.0, 4: 39.0, 8: 40.0, 16: 40.0}
    steps = [
        ScaleStep(count, (rate * 0.99, rate * 1.01), run_seconds=0.1 * max(1, count / 4))
        for count, rate in rates.items()
    ]
    scaling = scaling_of(steps)
    assert scaling.law is not None
    assert scaling.law.knee_backends == pytest.approx(4.0, rel=0.4)
    assert scaling.knee_interval[0] <= 4.5
    limit = limiting_cause(scaling, scaling.law)
    assert limit.startswith("a ceiling: something that all share is fully used; runs get longer")
    assert "Peak" not in scaling_text(scaling, 1.5)
    assert [line.split(" brought")[0] for line in verdicts(scaling, 1.5)] == [
        "FAIL: doubling to 8 backends", "FAIL: doubling to 16 backends",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_same_data_give_the_same_interval() -> None:
    """Its draws are a function of the seed."""
    steps = steps_of(Law(10.0, 0.1, 0.001), noise=0.05)
    assert scaling_of(steps, 3) == scaling_of(steps, 3)


def test_failures_and_nothing_at_all() -> None:
    """They are reported; what cannot be fitted is not."""
    scaling = scaling_of([ScaleStep(1, (0.0,), failures=7), ScaleStep(2, (5.0,))])
    assert scaling.law is None
    assert len(verdicts(scaling, 1.5)) == 3
    assert "Universal" not in scaling_text(scaling, 1.5)


@pytest.mark.slow
def test_values_are_json() -> None:
    for law in (Law(2.0, 0.0, 0.0), Law(2.0, 0.1, 0.01)):
        values = json.loads(json.dumps(scaling_values(scaling_of(steps_of(law)), 1.5), allow_nan=False))
        assert len(values["steps"]) == 5
