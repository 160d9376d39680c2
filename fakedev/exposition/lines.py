"""The lines of a family on a page: which entities, in which order, with which label texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats


@dataclass(frozen=True)
class Labelled:
    """The entities of one group that have rows of one kind: N of them, in the order of their rows.

    :ivar positions: their indices into the arrays of their level, shape (N,).
    :ivar texts: what stands between name and number, the space before the number included.
    :ivar numbers: of rows that show a number of the entities' facts that number, NaN where there is none, shape (N,).
    :ivar owners: of entities that belong to devices the indices of these, shape (N,): beside the rows of these they
        stand; None: they stand by themselves.
    """

    positions: NDArray[np.int64]
    texts: tuple[bytes, ...]
    numbers: Floats | None = None
    owners: NDArray[np.int64] | None = None


#: The entities of a group, for each kind of row by its number.
GroupTexts = Sequence[Labelled]


class RowKinds(NamedTuple):
    """The kinds of a family's rows.

    :ivar numbers: of each row.
    :ivar are_of_one_level: whether all are rows of the same entities.
    """

    numbers: tuple[int, ...]
    are_of_one_level: bool


@dataclass(frozen=True)
class Lines:
    """Lines whose rows are of certain kinds: N of them. Families with the same kinds of rows share them.

    :ivar texts: of each line what stands between name and number, the space before the number included.
    :ivar positions: each line's index into the arrays of its level, shape (N,).
    :ivar rows: which of a family's rows each line shows, shape (N,); None where there is only one.
    :ivar numbers: what lines of rows that show a number of the entities' facts show, NaN where there is none and on
        lines of other rows, shape (N,); None where there are no such rows.
    """

    texts: Sequence[bytes]
    positions: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None
    numbers: Floats | None = None

    @classmethod
    def of(cls, groups: Sequence[GroupTexts], kinds: RowKinds) -> Lines:
        """The lines of some groups: group by group, entity by entity, row by row."""
        columns = [[texts[number] for texts in groups] for number in kinds.numbers]
        if len(columns) == 1:
            return cls._of_one_kind(columns[0])
        if kinds.are_of_one_level:
            return cls._of_one_level(columns)
        return cls._of_kinds(columns)

    def order(self, near: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The places of the lines when they are sorted as text.

        :param near: such places of earlier lines: when few lines have changed since, this takes little time.
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
        """Of several kinds of rows that each entity has: for each kind its groups."""
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
        """Of several kinds of rows: for each kind its groups."""
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
        """The lines at some places, in their order, shape (N,)."""
        rows = None if self.rows is None else self.rows[order]
        numbers = None if self.numbers is None else self.numbers[order]
        return Lines([self.texts[place] for place in order.tolist()], self.positions[order], rows, numbers)

    def at_most(self, count: int) -> Sequence[Lines]:
        """The same lines, so many at a time."""
        if len(self.texts) <= count:
            return (self,)
        return [self._some(slice(start, start + count)) for start in range(0, len(self.texts), count)]

    def _some(self, chosen: slice) -> Lines:
        rows = None if self.rows is None else self.rows[chosen]
        numbers = None if self.numbers is None else self.numbers[chosen]
        return Lines(self.texts[chosen], self.positions[chosen], rows, numbers)

    def only(self, chosen: NDArray[np.bool_]) -> Lines:
        """Those that are chosen, shape (N,), in the same order."""
        rows = None if self.rows is None else self.rows[chosen]
        numbers = None if self.numbers is None else self.numbers[chosen]
        return Lines(list(compress(self.texts, chosen.tolist())), self.positions[chosen], rows, numbers)


NO_LINES: Final = Lines((), np.zeros(0, dtype=np.int64))


def _numbers(groups: Sequence[Labelled]) -> Floats | None:
    """The numbers of the entities' facts of some groups; None where none has such."""
    if all(each.numbers is None for each in groups):
        return None
    return np.concatenate(
        [np.full(len(each.texts), np.nan) if each.numbers is None else each.numbers for each in groups]
    )


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
