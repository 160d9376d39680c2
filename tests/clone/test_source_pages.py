"""Orders of families and labels that are joined, compared with plain implementations that insert name by name."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fakedev.clone.identity_changes import merged
from fakedev.clone.scraped import PageGroup, SourcePage, in_order
from fakedev.exporters.samples import read_page

NAMES = st.lists(st.sampled_from("abcdefghij"), unique=True)


@given(NAMES, NAMES)
def test_in_order(order: list[str], usual: list[str]) -> None:
    """Each other name goes after all that usually go before it."""
    others = [name for name in usual if name not in order]
    placed = list(order)
    for name in others:
        befores = [placed.index(each) for each in usual[: usual.index(name)] if each in placed]
        placed.insert(max(befores, default=-1) + 1, name)
    assert in_order(order, usual, others) == placed


@given(st.lists(NAMES))
def test_merged(sequences: list[list[str]]) -> None:
    """The longest sequence first; each other name directly after the one before it."""
    order: list[str] = []
    for sequence in sorted(sequences, key=len, reverse=True):
        for place, name in enumerate(sequence):
            if name not in order:
                order.insert(order.index(sequence[place - 1]) + 1 if place else 0, name)
    assert merged(sequences) == order


def joined(pages: Sequence[str]) -> list[str]:
    """The families of some pages, given as names of one letter, as one page."""
    sources = [SourcePage("p", read_page("".join(f"{name} 1\n" for name in page))) for page in pages]
    return list(PageGroup(tuple(sources)).joined().families)


def test_joined_pages() -> None:
    """A family that only a later page has goes after the one before it there."""
    assert joined(["abc", "axbyc", "zc"]) == list("zaxbyc")
    assert joined(["ab", "ba", "bxa"]) == ["a", "b", "x"]
