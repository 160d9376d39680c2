"""Rows that are kept and joined: a long column of equal values is kept once, and means the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import MANY_ROWS, Mask, Rows, column

_VALUES = st.sampled_from([0.0, 1.0, 2.0])


@dataclass(frozen=True)
class Numbers(Rows):
    """Rows with one column."""

    value: Floats = column("row")

    def joined(self, other: Numbers) -> Numbers:
        """These rows, followed by others."""
        return Numbers(**self._joined(other))

    def kept(self, mask: Mask) -> Numbers:
        """Some of the rows."""
        return Numbers(**self._kept(row=mask))


def numbers(value: float, last: float, count: int) -> Numbers:
    """Rows of one value, but for the last one."""
    return Numbers(np.append(np.full(count - 1, value), last))


@given(st.lists(st.tuples(_VALUES, _VALUES, st.sampled_from([1, 3, MANY_ROWS])), min_size=2, max_size=4), st.data())
def test_long_columns_have_all_their_values(
    parts: list[tuple[float, float, int]], data: st.DataObject
) -> None:
    """Joined and kept in any order, the values are those of plain arrays."""
    found, plain = Numbers(), np.zeros(0)
    for part in parts:
        new = numbers(*part)
        found, plain = found.joined(new), np.concatenate((plain, new.value))
        mask = np.arange(len(plain)) % data.draw(st.sampled_from([1, 2, len(plain)])) == 0
        found, plain = found.kept(mask), plain[mask]
        np.testing.assert_array_equal(found.value, plain)


@pytest.mark.parametrize(("last", "values"), [(1.0, 1), (2.0, 2 * MANY_ROWS)])
def test_equal_values_are_kept_once(last: float, values: int) -> None:
    """Memory is taken for one value, and for each of a column with different ones."""
    joined = numbers(1.0, 1.0, MANY_ROWS).joined(numbers(1.0, last, MANY_ROWS)).value
    assert len(np.unique(joined)) <= 2
    base = joined if joined.base is None else joined.base
    assert np.asarray(base).size == values
