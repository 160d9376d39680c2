"""One metric family on a page: its rows as templates, and the numbers of a tick in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.identity import UNITS, FamilySpec, LabelSpec, RowSpec
from fakedev.exposition.labels import escaped_help
from fakedev.exposition.numbers import formatted
from fakedev.sim.randomness import Floats
from fakedev.sim.state import Level, State

#: Stands for a line's timestamp in templates: a byte that no UTF-8 text can hold.
_TIMESTAMP: Final = b"\xff"
#: A template's size, about: what is made of it is still in the processor's cache when it is used.
_TEMPLATE_BYTES: Final = 40 * 1024
#: Lines whose numbers are formatted by one call.
_LINES_AT_ONCE: Final = 4096

#: What kind of row it is: its entity level, and its own labels.
RowKind = tuple[str, tuple[LabelSpec, ...]]
#: For each kind of row, of each entity: its index into the level's arrays, and the text between name and number.
RowTexts = Mapping[RowKind, Sequence[tuple[int, bytes]]]
#: A line as template, which of the family's rows it shows, and the index of its entity.
Entry = tuple[bytes, int, int]


@dataclass(frozen=True)
class Lines:
    """Some lines of one family: N of them.

    :ivar template: all lines, ``%b`` for each number.
    :ivar rows: which of the family's row specifications each line shows, shape (N,).
    :ivar positions: each line's index into the arrays of its level, shape (N,).
    :ivar single: the lines one by one, for layouts that sort them; else empty.
    """

    template: bytes
    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    single: tuple[bytes, ...] = ()

    @classmethod
    def sorted_of(cls, parts: Sequence[Lines]) -> list[Lines]:
        """All lines sorted as text; each part must have its single lines."""
        entries = [
            entry
            for part in parts
            for entry in zip(part.single, part.rows.tolist(), part.positions.tolist(), strict=True)
        ]
        return cls.cut(sorted(entries), keep_single=False)

    @classmethod
    def cut(cls, entries: Sequence[Entry], keep_single: bool) -> list[Lines]:
        """Lines from their entries, in parts of a good size; none when there are no entries."""
        parts = []
        first = size = 0
        for place, entry in enumerate(entries):
            if size + len(entry[0]) > _TEMPLATE_BYTES and place > first:
                parts.append(cls.of(entries[first:place], keep_single))
                first, size = place, 0
            size += len(entry[0])
        return [*parts, cls.of(entries[first:], keep_single)] if entries else []

    @classmethod
    def of(cls, entries: Sequence[Entry], keep_single: bool) -> Lines:
        """Lines from their entries, as one part."""
        single = tuple(entry[0] for entry in entries)
        rows = np.array([entry[1] for entry in entries], dtype=np.int64)
        positions = np.array([entry[2] for entry in entries], dtype=np.int64)
        return cls(b"".join(single), rows, positions, single if keep_single else ())


class Family:
    """A family of an identity, ready to be compiled for some entities and rendered.

    :param openmetrics: as OpenMetrics instead of text 0.0.4.
    :ivar header: its HELP and TYPE lines.
    """

    def __init__(self, spec: FamilySpec, timestamps: bool, openmetrics: bool = False) -> None:
        self.name = spec.name
        declared, kind = _as_openmetrics(spec) if openmetrics else (spec.name, spec.kind)
        self.header = f"# HELP {declared} {escaped_help(spec.help)}\n# TYPE {declared} {kind}\n".encode()
        self._rows = spec.rows
        self._number = spec.number
        self._line_begin = spec.name.encode().replace(b"%", b"%%")
        self._line_end = b" %b" + (_TIMESTAMP if timestamps else b"") + b"\n"

    def entries(self, texts: RowTexts, state: State) -> list[Entry]:
        """The lines of some entities: entity by entity, each with its rows in order."""
        begin, end = self._line_begin, self._line_end
        found: list[tuple[int, int, Entry]] = []
        for number, row in enumerate(self._rows):
            level = state.levels.get(row.level)
            if level is None or row.quantity not in level.arrays:
                continue
            present = _present(level, row)
            found += [
                (order, number, (begin + text + end, number, position))
                for order, (position, text) in enumerate(texts[row.level, row.labels])
                if present is None or present[position]
            ]
        if len(self._rows) > 1:
            found.sort(key=lambda each: each[:2])
        return [entry for _, _, entry in found]

    def rendered(self, parts: Sequence[Lines], state: State, timestamp: bytes) -> Iterator[bytes]:
        """Each part with the numbers of a tick; without the header.

        :param timestamp: what ends each line of an identity with timestamps.
        """
        for some in _spans(parts):
            values = self._values(some, state)
            numbers = formatted(values, self._number)
            first = 0
            for lines in some:
                template = lines.template
                if _TIMESTAMP in self._line_end:
                    template = template.replace(_TIMESTAMP, b" " + timestamp)
                last = first + len(lines.rows)
                yield template % tuple(numbers[first:last])
                first = last

    def _values(self, parts: Sequence[Lines], state: State) -> Floats:
        """What each line shows, in the unit that it is shown in: shape (all their lines,)."""
        positions = parts[0].positions if len(parts) == 1 else np.concatenate([part.positions for part in parts])
        if len(self._rows) == 1:
            row = self._rows[0]
            only: Floats = state.levels[row.level].arrays[row.quantity][positions] * UNITS[row.unit]
            return only
        rows = np.concatenate([part.rows for part in parts])
        values = np.empty(len(rows))
        for number in np.unique(rows).tolist():
            row = self._rows[number]
            chosen = np.flatnonzero(rows == number)
            values[chosen] = state.levels[row.level].arrays[row.quantity][positions[chosen]] * UNITS[row.unit]
        return values


def _spans(parts: Sequence[Lines]) -> Iterator[Sequence[Lines]]:
    """Parts together, so many that they have 4096 lines or a little more."""
    first = count = 0
    for place, part in enumerate(parts, 1):
        count += len(part.rows)
        if count >= _LINES_AT_ONCE or place == len(parts):
            yield parts[first:place]
            first, count = place, 0


def _present(level: Level, row: RowSpec) -> NDArray[np.bool_] | None:
    """Which entities have a row, shape (entities,); None for all."""
    if row.requires and row.requires not in level.arrays:
        return np.zeros(level.count, dtype=np.bool_)
    masks = [level.present[name] for name in (row.quantity, row.requires) if name in level.present]
    return np.logical_and.reduce(masks) if masks else None


def _as_openmetrics(spec: FamilySpec) -> tuple[str, str]:
    """Name and kind of a family in OpenMetrics: a counter ends in _total and is declared without it."""
    if spec.kind != "counter":
        return spec.name, "unknown" if spec.kind == "untyped" else spec.kind
    if spec.name.endswith("_total"):
        return spec.name.removesuffix("_total"), "counter"
    return spec.name, "unknown"
