"""From the entities of one fleet to those of another: numbers and places follow them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.entities.reindex import Reindex

COUNT = 9
#: Of each new place the old one, -1 of an entity that has come.
OLD = st.lists(st.integers(-1, COUNT - 1), max_size=12).map(
    lambda places: [place if place not in places[:at] else -1 for at, place in enumerate(places)]
)


def reindex(old: list[int]) -> Reindex:
    new_of = np.full(COUNT, -1, dtype=np.int64)
    for place, was in enumerate(old):
        if was >= 0:
            new_of[was] = place
    return Reindex(new_of, len(old))


@given(OLD)
def test_carried(old: list[int]) -> None:
    before, fresh = np.arange(COUNT) * 10, -np.arange(len(old)) - 1
    expected = [was * 10 if was >= 0 else -place - 1 for place, was in enumerate(old)]
    assert reindex(old).carried(before, fresh).tolist() == expected


@given(OLD, st.lists(st.lists(st.integers(0, COUNT - 1)), min_size=1))
def test_followed(old: list[int], every: list[list[int]]) -> None:
    """The places of those that live on, in the order in which they were named; of several lists as of each."""
    moves, lists = reindex(old), [np.array(each, dtype=np.int64) for each in every]
    expected = [[old.index(entity) for entity in each if entity in old] for each in every]
    assert [moves.followed(each).tolist() for each in lists] == expected
    assert [each.tolist() for each in moves.each_followed(lists)] == expected
