"""The limits of workloads as arrays, when workloads join and leave."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.workloads.table import LimitRows
from fakedev.sim.workloads.workload import Limit

LIMITS = st.builds(Limit, st.just("m"), st.sampled_from("pqr"), st.just(1.0), st.floats(0, 9))
TABLES = st.lists(st.lists(LIMITS, max_size=3), max_size=4)


def said(rows: LimitRows) -> list[list[tuple[int, int, float]]]:
    """(workload, order, value) of the rows of each quantity."""
    return [
        list(zip(*(column[places].tolist() for column in (rows.workload, rows.order, rows.value)), strict=True))
        for _, places in sorted(rows.by_quantity.items())
    ]


@given(TABLES, TABLES, st.data())
def test_joined_and_kept(first: list[list[Limit]], second: list[list[Limit]], data: st.DataObject) -> None:
    """The remaining rows are as if only the remaining workloads had ever been there."""
    both = [*first, *second]
    keep = data.draw(st.lists(st.booleans(), min_size=len(both), max_size=len(both)))
    rows = LimitRows.of(first).joined(LimitRows.of(second), len(first)).kept(np.array(keep, dtype=np.bool_))
    alone = LimitRows.of([each for each, stays in zip(both, keep, strict=True) if stays])
    assert said(rows) == said(alone)
    assert len(rows) == len(alone)
    assert rows.by_quantity.keys() == alone.by_quantity.keys()
