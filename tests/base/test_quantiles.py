"""The histogram of the tester: whatever is counted, its quantiles are near."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.histograms import COARSE, FINE, MIN_SECONDS, QuantileSketch

SECONDS = st.floats(0, 1e6) | st.floats(MIN_SECONDS, 0.1)


def nearest_rank(values: list[float], share: float) -> float:
    """The definition: the smallest value that this share of all is not above."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def filled(values: list[float], error: float = FINE) -> QuantileSketch:
    """A histogram of these values."""
    histogram = QuantileSketch(error)
    for value in values:
        histogram.observe(value)
    return histogram


@given(
    st.lists(SECONDS, min_size=1),
    st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]),
    st.sampled_from([FINE, COARSE]),
)
def test_quantiles_are_within_the_error(values: list[float], share: float, error: float) -> None:
    """Of any values, any quantile is wrong by at most the share that the histogram promises."""
    exact = nearest_rank(values, share)
    found = filled(values, error).quantile(share)
    assert abs(found - exact) <= error * exact * (1 + 1e-9) + MIN_SECONDS


@given(st.lists(SECONDS, min_size=1))
def test_number_sum_and_extremes_are_exact(values: list[float]) -> None:
    histogram = filled(values)
    assert (histogram.count, histogram.minimum, histogram.maximum) == (len(values), min(values), max(values))
    assert histogram.mean == pytest.approx(sum(values) / len(values))
    assert sum(count for _, count in histogram.buckets()) == len(values)


@given(st.lists(SECONDS), st.lists(SECONDS))
def test_merging_is_counting_both(first: list[float], second: list[float]) -> None:
    merged = filled(first)
    merged.merge(filled(second))
    together = filled(first + second)
    assert list(merged.buckets()) == list(together.buckets())
    assert (merged.count, merged.minimum, merged.maximum) == (together.count, together.minimum, together.maximum)


@given(st.lists(SECONDS, min_size=1), st.lists(st.floats(0, 1), min_size=2))
def test_quantiles_rise(values: list[float], shares: list[float]) -> None:
    histogram = filled(values)
    found = [histogram.quantile(share) for share in sorted(shares)]
    assert found == sorted(found)
    assert min(values) <= found[0] and found[-1] <= max(values)


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    for error, most in ((FINE, 3456), (COARSE, 348)):
        histogram = filled([1e-7 * 1.0004**step for step in range(100_000)], error)
        assert len(list(histogram.buckets())) <= most


def test_an_empty_one_is_all_zero() -> None:
    empty = QuantileSketch()
    assert (empty.count, empty.mean, empty.minimum, empty.maximum, empty.quantile(0.99)) == (0, 0, 0, 0, 0)


def test_what_is_below_zero_counts_as_zero() -> None:
    histogram = filled([-5.0, 1.0])
    assert (histogram.minimum, histogram.total_seconds) == (0, 1)


def test_different_errors_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="different errors"):
        QuantileSketch(FINE).merge(QuantileSketch(COARSE))


@given(st.lists(SECONDS), st.lists(SECONDS, min_size=1, max_size=8, unique=True).map(sorted))
def test_ranges_lose_nothing(values: list[float], bounds: list[float]) -> None:
    """Each value is counted once; those farther from a bound than the error are on their side of it."""
    counts = filled(values).histogram(bounds).counts
    assert (len(counts), sum(counts)) == (len(bounds) + 1, len(values))
    for place, bound in enumerate(bounds, 1):
        clear = bound * 2 * FINE + MIN_SECONDS
        least = sum(value < bound - clear for value in values)
        assert least <= sum(counts[:place]) <= sum(value <= bound + clear for value in values)
