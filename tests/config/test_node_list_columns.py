"""A list of nodes with very many columns is refused in short time."""

from __future__ import annotations

from itertools import islice

from fakedev.config.pools.node_lists import _wrong_columns


class CountedText(str):
    """A text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_column_is_compared_a_few_times() -> None:
    """Twenty thousand empty columns took minutes: each was compared with all before it."""
    columns: list[str] = ["name", *(CountedText("") for _ in range(20_000))]
    problems = list(islice(_wrong_columns(columns), 20_000))
    assert problems[1] == "has the column '' twice"
    assert CountedText.compared < 20 * len(columns)
