"""One metric family: its declaration, and its rows with the numbers of a tick."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.identity import UNITS, FamilySpec, RowSpec
from fakedev.exposition.labels import escaped_help
from fakedev.exposition.lines import NO_LINES, Lines, RowKinds
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level, State

#: The lowest number without a mask of 64 bits.
_TOO_LARGE: Final = 2.0**63
#: Sums of the lengths of ticks differ from whole numbers by less than this.
_ROUNDING: Final = 1e-6
_NOWHERE: Final = np.zeros(0, dtype=np.int64)


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
        #: The last state, which all pages of a tick show, and the rows that some entities do not have in it.
        self._state: ref[State] | None = None
        self._doubtful: Sequence[tuple[int, _Doubt]] = ()

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
            elif row.where or row.unless or needed & level.present.keys():
                rows.append((number, _Doubt.QUANTITIES))
            elif row.fact:
                rows.append((number, _Doubt.FACT))
        return rows

    def values(self, lines: Lines, state: State) -> Floats:
        """The numbers of lines, in the units of their rows, shape (N,); all lines must be present."""
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
        :param of_facts: numbers of facts, if the row shows a fact.
        """
        row, level = self._rows[number], state.levels[self._levels[number]]
        if row.fact and of_facts is not None and not row.is_per_fact:
            return of_facts * self._units[number]
        if not row.quantity:
            values = np.full(len(positions), row.constant)
        elif row.without_it is not None and not _has_all(level, row):
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


def _has_all(level: Level, row: RowSpec) -> bool:
    """Whether all entities of a level have the quantities of a row."""
    return all(name in level.arrays and name not in level.present for name in (row.quantity, *row.plus))


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
