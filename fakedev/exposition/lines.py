"""The lines of a family on a page: entities, order and label texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats


@dataclass(frozen=True)
class Labelled:
    """N entities of one group with rows of one kind, in the order of their rows.

    :ivar positions: their indices into the arrays of their level, shape (N,).
    :ivar texts: the text between name and number, with the space before the number.
    :ivar numbers: the numbers of their facts, NaN where there is none, shape (N,); None for rows of quantities.
    :ivar owners: the indices of their devices, next to whose rows they are listed, shape (N,); None for rows that are
        listed separately.
    """

    positions: NDArray[np.int64]
    texts: tuple[bytes, ...]
    numbers: Floats | None = None
    owners: NDArray[np.int64] | None = None


#: The entities of a group, by the number of the kind of row.
GroupTexts = Sequence[Labelled]


class RowKinds(NamedTuple):
    """The kinds of a family's rows.

    :ivar numbers: the number of each row's kind.
    :ivar are_of_one_level: whether all rows have the same entities.
    :ivar are_of_page: whether a page has them once, not for each group.
    """

    numbers: tuple[int, ...]
    are_of_one_level: bool
    are_of_page: bool = False


@dataclass(frozen=True)
class Lines:
    """N lines of some kinds of rows, shared by the families with these kinds.

    :ivar texts: the text between name and number, with the space before the number.
    :ivar positions: each line's index into the arrays of its level, shape (N,).
    :ivar rows: the row of the family that each line shows, shape (N,); None for only one row.
    :ivar numbers: numbers of facts, NaN where there is none and on lines of quantities, shape (N,); None for lines of
        quantities only.
    """

    texts: Sequence[bytes]
    positions: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None
    numbers: Floats | None = None

    @cached_property
    def numbered_rows(self) -> frozenset[int]:
        """The rows of the family of which some line has the number of a fact: the same as long as the labels are."""
        if self.numbers is None:
            return frozenset()
        has = ~np.isnan(self.numbers)
        return frozenset((np.zeros(len(has), dtype=np.int64) if self.rows is None else self.rows)[has].tolist())

    @cached_property
    def places_of_rows(self) -> dict[int, NDArray[np.int64]]:
        """The lines of each row of the family, where it has several."""
        assert self.rows is not None
        # Numbers of 16 bits are sorted in linear time.
        order = np.argsort(self.rows.astype(np.uint16), kind="stable")
        counts = np.bincount(self.rows)
        ends = np.cumsum(counts)
        starts, numbers = ends - counts, np.flatnonzero(counts).tolist()
        return {number: order[starts[number] : ends[number]] for number in numbers}

    @cached_property
    def last_choices(self) -> dict[bytes, tuple[NDArray[np.bool_], Lines]]:
        """For families, by name: the lines that they had in the last state, shape (N,), and these lines."""
        return {}

    def chosen(self, family: bytes, chosen: NDArray[np.bool_]) -> Lines:
        """As :meth:`only`: the same object as for the last state of a family if it had the same lines."""
        last = self.last_choices.get(family)
        if last is None or not np.array_equal(last[0], chosen):
            last = self.last_choices[family] = chosen, self if chosen.all() else self.only(chosen)
        return last[1]

    @cached_property
    def are_numbers(self) -> bool:
        """Whether each line shows a fact that is a number."""
        return self.numbers is not None and not np.isnan(self.numbers).any()

    @cached_property
    def end(self) -> int:
        """The first index that is larger than that of each line."""
        return int(self.positions.max(initial=-1)) + 1

    @classmethod
    def of(cls, groups: Sequence[GroupTexts], kinds: RowKinds) -> Lines:
        """The lines of some groups, ordered by group, entity and row."""
        columns = [[texts[number] for texts in groups] for number in kinds.numbers]
        if len(columns) == 1:
            return cls._of_one_kind(columns[0])
        if kinds.are_of_one_level:
            return cls._of_one_level(columns)
        return cls._of_kinds(columns)

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        """The lines of some groups, then those of the next, of the same kinds of rows."""
        if len(parts) <= 1:
            return parts[0] if parts else NO_LINES
        texts = list(chain.from_iterable([each.texts for each in parts]))
        rows = [each.rows for each in parts if each.rows is not None]
        return cls(texts, _joined([each.positions for each in parts]), _joined(rows) if rows else None, _numbers(parts))

    def order(self, near: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The order of the lines sorted as text.

        :param near: the order of earlier lines: sorting is fast if few lines have changed since.
        """
        start = range(len(self.texts)) if near is None or len(near) != len(self.texts) else near.tolist()
        return np.array(sorted(start, key=self.texts.__getitem__), dtype=np.int64)

    @classmethod
    def _of_one_kind(cls, groups: Sequence[Labelled]) -> Lines:
        numbers = _numbers(groups)
        if len(groups) == 1:
            return cls(groups[0].texts, groups[0].positions, None, numbers)
        texts = [text for each in groups for text in each.texts]
        return cls(texts, _joined([each.positions for each in groups]), None, numbers)

    @classmethod
    def _of_one_level(cls, columns: Sequence[Sequence[Labelled]]) -> Lines:
        """Lines of several kinds of rows of the same entities: the groups of each kind."""
        each_kind = [cls._of_one_kind(groups) for groups in columns]
        texts = [b""] * sum(len(lines.texts) for lines in each_kind)
        for number, lines in enumerate(each_kind):
            texts[number :: len(columns)] = lines.texts
        positions = each_kind[0].positions
        numbers = None
        if any(lines.numbers is not None for lines in each_kind):
            numbers = np.full(len(texts), np.nan)
            for number, lines in enumerate(each_kind):
                numbers[number :: len(columns)] = np.nan if lines.numbers is None else lines.numbers
        rows = np.tile(np.arange(len(columns)), len(positions))
        return cls(texts, np.repeat(positions, len(columns)), rows, numbers)

    @classmethod
    def _of_kinds(cls, columns: Sequence[Sequence[Labelled]]) -> Lines:
        """Lines of several kinds of rows: the groups of each kind."""
        sizes = [np.array([len(each.texts) for each in groups], dtype=np.int64) for groups in columns]
        rows = _joined([np.full(int(size.sum()), number) for number, size in enumerate(sizes)])
        group = _joined([np.repeat(np.arange(len(size)), size) for size in sizes])
        place = _joined([
            np.arange(len(each.texts)) if each.owners is None else each.owners for groups in columns for each in groups
        ])  # fmt: skip
        every = cls(
            [text for groups in columns for each in groups for text in each.texts],
            _joined([each.positions for groups in columns for each in groups]),
            rows,
            _numbers([each for groups in columns for each in groups]),
        )
        return every.in_order(np.lexsort((rows, place, group)))

    def in_order(self, order: NDArray[np.int64]) -> Lines:
        """The lines in another order, shape (N,)."""
        return self._some([self.texts[place] for place in order.tolist()], order)

    def batches(self, count: int) -> Sequence[Lines]:
        """The same lines in batches of at most ``count``."""
        if len(self.texts) <= count:
            return (self,)
        slices = [slice(start, start + count) for start in range(0, len(self.texts), count)]
        return [self._some(self.texts[chosen], chosen) for chosen in slices]

    def only(self, chosen: NDArray[np.bool_]) -> Lines:
        """Some of the lines in the same order.

        :param chosen: shape (N,).
        """
        return self._some(list(compress(self.texts, chosen.tolist())), chosen)

    def _some(self, texts: Sequence[bytes], chosen: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Lines:
        rows = None if self.rows is None else self.rows[chosen]
        numbers = None if self.numbers is None else self.numbers[chosen]
        return Lines(texts, self.positions[chosen], rows, numbers)


NO_LINES: Final = Lines((), np.zeros(0, dtype=np.int64))


def _numbers(groups: Sequence[Labelled | Lines]) -> Floats | None:
    """The numbers of facts of some groups, or of their lines; None if there are none."""
    if all(each.numbers is None for each in groups):
        return None
    return np.concatenate(
        [np.full(len(each.texts), np.nan) if each.numbers is None else each.numbers for each in groups]
    )


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
