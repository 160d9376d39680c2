"""Rows whose long columns of equal values are kept once; arrays that are made when they are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import MANY_ROWS, LazyArrays, Mask, Rows, column, overlaid

_VALUES = st.sampled_from([0.0, 1.0, 2.0])


@dataclass(frozen=True)
class Numbers(Rows):
    value: Floats = column("row")

    def joined(self, other: Numbers) -> Numbers:
        return Numbers(**self._joined(other))

    def kept(self, mask: Mask) -> Numbers:
        return Numbers(**self._kept(row=mask))


def numbers(value: float, last: float, count: int) -> Numbers:
    return Numbers(np.append(np.full(count - 1, value), last))


@given(st.lists(st.tuples(_VALUES, _VALUES, st.sampled_from([1, 3, MANY_ROWS])), min_size=2, max_size=4), st.data())
def test_long_columns_have_all_their_values(
    parts: list[tuple[float, float, int]], data: st.DataObject
) -> None:
    found, plain = Numbers(), np.zeros(0)
    for part in parts:
        new = numbers(*part)
        found, plain = found.joined(new), np.concatenate((plain, new.value))
        mask = np.arange(len(plain)) % data.draw(st.sampled_from([1, 2, len(plain)])) == 0
        found, plain = found.kept(mask), plain[mask]
        np.testing.assert_array_equal(found.value, plain)


@pytest.mark.parametrize(("last", "values"), [(1.0, 1), (2.0, 2 * MANY_ROWS)])
def test_equal_values_are_kept_once(last: float, values: int) -> None:
    joined = numbers(1.0, 1.0, MANY_ROWS).joined(numbers(1.0, last, MANY_ROWS)).value
    assert len(np.unique(joined)) <= 2
    base = joined if joined.base is None else joined.base
    assert np.asarray(base).size == values


@pytest.mark.parametrize("is_made", [False, True])
def test_overlaid(is_made: bool) -> None:
    """Others replace some, and are added; those below stay unchanged, and are not made before they are read."""
    asked: list[str] = []

    def make(name: str) -> int:
        asked.append(name)
        return {"a": 1, "b": 2}[name]

    below = LazyArrays(dict.fromkeys("ab"), make) if is_made else {"a": 1, "b": 2}
    over = overlaid(below)
    for name, value in (("b", 3), ("c", 4), ("c", 5)):
        over[name] = value
    assert (list(over), len(over), "a" in over, "d" in over, over.get("d")) == (["a", "b", "c"], 3, True, False, None)
    assert asked == []
    assert dict(over) == {"a": 1, "b": 3, "c": 5}
    assert dict(below) == {"a": 1, "b": 2}
