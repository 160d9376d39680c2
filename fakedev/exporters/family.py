"""One metric family: its declaration, its rows with the numbers of a tick, and its lines on a page.

The lines of a family have entities, an order and label texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from itertools import chain, compress
from typing import Final, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from fakedev.exporters.identity import UNITS, FamilySpec, RowSpec
from fakedev.exporters.labels import escaped_help
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, State


@dataclass(frozen=True)
class Labelled:
    """N entities of one group with rows of one kind, in the order of their rows.

    :ivar positions: their indices into the arrays of their level, shape (N,).
    :ivar texts: the text between name and number, with the space before the number.
    :ivar numbers: the numbers of their facts, NaN where there is none, shape (N,); of random rows, the keys of their
        entities; None for rows of quantities.
    :ivar owners: the indices of their devices, or of those that have the rows among all entities of the level, next to
        whose rows they are listed, shape (N,); None for rows that are listed separately, or that all entities have.
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
    def last_choices(self) -> dict[bytes, tuple[NDArray[np.bool_], Lines | None]]:
        """For families, by name: the lines that they had in the last state, shape (N,), and these lines; None: all."""
        return {}

    def chosen(self, family: bytes, chosen: NDArray[np.bool_]) -> Lines:
        """As :meth:`only`: the same object as for the last state of a family if it had the same lines."""
        last = self.last_choices.get(family)
        if last is None or not np.array_equal(last[0], chosen):
            last = self.last_choices[family] = chosen, None if chosen.all() else self.only(chosen)
        return self if last[1] is None else last[1]

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
        texts = list(chain.from_iterable([part.texts for part in parts]))
        rows = [part.rows for part in parts if part.rows is not None]
        return cls(texts, _joined([part.positions for part in parts]), _joined(rows) if rows else None, _numbers(parts))

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
        texts = [text for group in groups for text in group.texts]
        return cls(texts, _joined([group.positions for group in groups]), None, numbers)

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
        sizes = [np.array([len(group.texts) for group in groups], dtype=np.int64) for groups in columns]
        rows = _joined([np.full(int(size.sum()), number) for number, size in enumerate(sizes)])
        group = _joined([np.repeat(np.arange(len(size)), size) for size in sizes])
        place = _joined([
            np.arange(len(each.texts)) if each.owners is None else each.owners for groups in columns for each in groups
        ])  # fmt: skip
        every = cls(
            [text for groups in columns for group in groups for text in group.texts],
            _joined([group.positions for groups in columns for group in groups]),
            rows,
            _numbers([group for groups in columns for group in groups]),
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
    if all(group.numbers is None for group in groups):
        return None
    return np.concatenate(
        [np.full(len(group.texts), np.nan) if group.numbers is None else group.numbers for group in groups]
    )


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


#: The lowest number without a mask of 64 bits.
_TOO_LARGE: Final = 2.0**63
#: Sums of the lengths of ticks differ from whole numbers by less than this.
_ROUNDING: Final = 1e-6
_NOWHERE: Final = np.zeros(0, dtype=np.int64)
_OF_HISTOGRAM: Final = re.compile(r"_(?:bucket|sum|count)$")
#: Levels whose entities are devices, or devices and their parts.
_OF_UNITS: Final = ("device", "unit", "repeated", "whole")


class _Doubt(Enum):
    """Why some entities may not have a row."""

    NONE_HAS_IT = auto()
    QUANTITIES = auto()
    FACT = auto()  # it may be no number


class Family:
    """A family of an identity, ready to render.

    :param openmetrics: as OpenMetrics instead of text 0.0.4.
    :ivar name: the name in each line.
    :ivar header: its HELP and TYPE lines.
    :ivar kinds: the kinds of its rows.
    :ivar number: the format of its numbers.
    """

    def __init__(self, spec: FamilySpec, kinds: RowKinds, openmetrics: bool = False) -> None:
        declared, kind = _as_openmetrics(spec) if openmetrics else (spec.name, spec.kind)
        self.name = spec.name.encode()
        self.header = f"# HELP {declared} {escaped_help(spec.help)}\n# TYPE {declared} {kind}\n".encode()
        self.kinds = kinds
        # Rows that differ in their labels only, as those of the dies of a board, are handled as one.
        self._are_alike = len({replace(row, labels=()) for row in spec.rows}) == 1
        self._rows = spec.rows[:1] if self._are_alike else spec.rows
        self._levels = tuple(row.state_level for row in self._rows)
        self._units = tuple(UNITS[row.unit] for row in self._rows)
        self._factors = tuple(unit * row.times for unit, row in zip(self._units, self._rows, strict=True))
        self._needed = tuple(frozenset(row.needed) for row in self._rows)
        self.number = spec.number
        self._is_counter = spec.kind == "counter"
        #: Of random rows: the series of a histogram move together.
        self._text = _OF_HISTOGRAM.sub("", spec.name)
        #: The last state, which all pages of a tick show, and the rows that some entities do not have in it.
        self._state: ref[State] | None = None
        self._doubtful: Sequence[tuple[int, _Doubt]] = ()

    @classmethod
    def showing(cls, families: Iterable[FamilySpec], quantity: str) -> Iterator[Family]:
        """The rows that show a quantity of all devices or units alone, each as a family of its own."""
        for spec in families:
            for row in spec.rows:
                is_alone = not (row.per or row.plus or row.fact or row.is_per_fact or row.bits or row.is_of_some)
                if row.quantity == quantity and is_alone and row.without_it is None and row.level in _OF_UNITS:
                    yield cls(replace(spec, rows=(row,)), RowKinds((0,), True))

    def shown_of(self, units: NDArray[np.int64], state: State) -> tuple[NDArray[np.int64], Floats]:
        """What it shows of some units, for a family of :meth:`showing`.

        :returns: the places among these units of those with a row, and their values in the quantity's own unit.
        """
        level = state.levels.get(self._levels[0])
        here = np.flatnonzero(units < (level.count if level is not None else 0))
        lines = Lines([str(place).encode() for place in here.tolist()], units[here])
        present = self.present(lines, state)
        places = np.array([int(text) for text in present.texts], dtype=np.int64)
        return places, self.values(present, state) / self._factors[0]

    def present(self, lines: Lines, state: State) -> Lines:
        """The lines whose entities have their rows in a state."""
        if self._state is None or self._state() is not state:
            self._state, self._doubtful = ref(state), self._find_doubtful_rows(state)
        rows = None if self._are_alike else lines.rows
        found: list[tuple[int, NDArray[np.bool_] | bool]] = []
        for number, doubt in self._doubtful:
            if doubt is _Doubt.NONE_HAS_IT:
                found.append((number, False))
            else:
                row = self._rows[number]
                level = state.levels[self._levels[number]]
                if doubt is _Doubt.FACT and lines.are_numbers and lines.end <= level.count:
                    continue
                is_of_fact = bool(row.fact) and lines.numbers is not None
                if is_of_fact and not (lines.numbered_rows if rows is None else number in lines.numbered_rows):
                    found.append((number, False))
                    continue
                where = slice(None) if rows is None else lines.places_of_rows.get(number, _NOWHERE)
                is_there = _is_there(level, row, self._needed[number], lines.positions[where])
                if is_of_fact and lines.numbers is not None:
                    is_there = is_there & ~np.isnan(lines.numbers[where])
                found.append((number, is_there))
        if not found:
            return lines
        if len(found) == len(self._rows) and all(is_there is False for _, is_there in found):
            return NO_LINES
        chosen = np.ones(len(lines.texts), dtype=np.bool_)
        for number, is_there in found:
            chosen[slice(None) if rows is None else lines.places_of_rows.get(number, _NOWHERE)] = is_there
        return lines.chosen(self.name, chosen)

    def _find_doubtful_rows(self, state: State) -> list[tuple[int, _Doubt]]:
        """The numbers of rows that some entities may not have in a state, and why."""
        rows: list[tuple[int, _Doubt]] = []
        for number, (row, needed) in enumerate(zip(self._rows, self._needed, strict=True)):
            level = state.levels.get(self._levels[number])
            if level is None or not needed <= level.arrays.keys():
                rows.append((number, _Doubt.NONE_HAS_IT))
            elif row.where or row.unless or row.without or needed & level.present.keys():
                rows.append((number, _Doubt.QUANTITIES))
            elif row.fact:
                rows.append((number, _Doubt.FACT))
        return rows

    def values(self, lines: Lines, state: State) -> Floats:
        """The numbers of lines, in the units of their rows, shape (N,); all lines must be present."""
        if not lines.texts:
            return np.empty(0)  # of declarations alone
        if lines.rows is None or self._are_alike:
            return self._shown(0, state, lines.positions, lines.numbers)
        values = np.empty(len(lines.rows))
        for number, chosen in lines.places_of_rows.items():
            numbers = None if lines.numbers is None else lines.numbers[chosen]
            values[chosen] = self._shown(number, state, lines.positions[chosen], numbers)
        return values

    def _shown(self, number: int, state: State, positions: NDArray[np.int64], of_facts: Floats | None) -> Floats:
        """The numbers of a row, in its unit: shape as ``positions``.

        :param number: the number of the row.
        :param of_facts: numbers of facts, if the row shows a fact; keys of entities, if it is random.
        """
        row, level = self._rows[number], state.levels[self._levels[number]]
        if row.random is not None and of_facts is not None:
            return row.random.values(self._text, of_facts.astype(np.uint64), state.seconds, state.tick)
        if row.fact and of_facts is not None and not row.is_per_fact:
            return of_facts * self._units[number]
        if not row.quantity:
            values = np.full(len(positions), row.constant)
        elif row.without_it is not None and any(
            name not in level.arrays or name in level.present for name in (row.quantity, *row.plus)
        ):
            values = _with_substitute(level, row, row.without_it, positions)
        else:
            values = level.arrays[row.quantity][positions]
            for name in row.plus:
                values = values + level.arrays[name][positions]
        for whole in (level.arrays[row.per][positions] if row.per else None, of_facts if row.is_per_fact else None):
            if whole is not None:
                values = np.divide(values, whole, out=np.zeros(len(values)), where=whole != 0)
        if row.bits:
            values = _any_set(values, row.bits)
        shown = values * self._factors[number]
        # Of things that take a while those that are complete count.
        return np.floor(shown + _ROUNDING) if row.times != 1.0 and self._is_counter else shown


def _any_set(values: Floats, bits: int) -> Floats:
    """1 where any of some bits is set, else 0; NaN and numbers without bits, as faults show them, stay."""
    has_bits = np.abs(values) < _TOO_LARGE
    is_set = (np.where(has_bits, values, 0.0).astype(np.int64) & bits) != 0
    return np.where(has_bits, is_set.astype(np.float64), values)


def _with_substitute(level: Level, row: RowSpec, substitute: float, positions: NDArray[np.int64]) -> Floats:
    """The sum of a row's quantities, and the substitute for entities without one of them; shape as ``positions``."""
    values, has = np.zeros(len(positions)), np.ones(len(positions), dtype=np.bool_)
    for name in (row.quantity, *row.plus):
        if name not in level.arrays:
            return np.full(len(positions), substitute)
        values += level.arrays[name][positions]
        if name in level.present:
            has &= level.present[name][positions]
    return np.where(has, values, substitute)


def _is_there(
    level: Level, row: RowSpec, needed: Collection[str], positions: NDArray[np.int64]
) -> NDArray[np.bool_] | bool:
    """Whether entities have a row; shape as ``positions``. A held state may be older than some entities."""
    if not level.count:
        return False
    known: NDArray[np.bool_] = positions < level.count
    at = positions if known.all() else np.where(known, positions, 0)
    conditions = [known, *(level.present[name][at] for name in needed if name in level.present)]
    if row.where:
        conditions.append(_is_any(level, row.where, at))
    if row.unless:
        conditions.append(~_is_any(level, row.unless, at))
    for name in row.without:
        if name in level.arrays:
            conditions.append(~level.present[name][at] if name in level.present else np.zeros(len(at), dtype=np.bool_))
    is_there: NDArray[np.bool_] = np.logical_and.reduce(conditions)
    return is_there


def _is_any(level: Level, names: Sequence[str], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether any of some quantities of entities is not 0; shape as ``positions``."""
    found = np.zeros(len(positions), dtype=np.bool_)
    for name in names:
        if name in level.arrays:
            is_set = level.arrays[name][positions] != 0
            found |= is_set & level.present[name][positions] if name in level.present else is_set
    return found


def _as_openmetrics(spec: FamilySpec) -> tuple[str, str]:
    """Name and kind of a family in OpenMetrics, which declares counters without their ``_total``."""
    if spec.kind != "counter":
        return spec.name, "unknown" if spec.kind == "untyped" else spec.kind
    if spec.name.endswith("_total"):
        return spec.name.removesuffix("_total"), "counter"
    return spec.name, "unknown"
