"""One metric family on a page: its rows as a template, and the numbers of a tick in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.identity import UNITS, FamilySpec, LabelSpec
from fakedev.exposition.labels import escaped_help
from fakedev.exposition.numbers import formatted
from fakedev.sim.state import State

#: Stands for a line's timestamp in templates: a byte that no UTF-8 text can hold.
_TIMESTAMP: Final = b"\xff"

#: (level, a row's own labels) to (index into the level's arrays, label text) of each entity.
RowTexts = Callable[[str, tuple[LabelSpec, ...]], Sequence[tuple[int, str]]]


@dataclass(frozen=True)
class Lines:
    """Rows of one family: N lines.

    :ivar template: all lines, ``%b`` for each number; empty when there are none.
    :ivar rows: which of the family's row specifications each line shows, shape (N,).
    :ivar positions: each line's index into the arrays of its level, shape (N,).
    :ivar single: the lines one by one, for layouts that sort them across groups; else empty.
    """

    template: bytes
    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    single: tuple[bytes, ...] = ()

    @classmethod
    def sorted_of(cls, parts: Sequence[Lines]) -> Lines:
        """The lines of several groups as one, sorted as text; each part must have its single lines."""
        entries = [
            entry
            for part in parts
            for entry in zip(part.single, part.rows.tolist(), part.positions.tolist(), strict=True)
        ]
        return cls.of(sorted(entries), keep_single=False)

    @classmethod
    def of(cls, entries: Sequence[tuple[bytes, int, int]], keep_single: bool) -> Lines:
        """Lines from (text, row, position) of each."""
        single = tuple(entry[0] for entry in entries)
        rows = np.array([entry[1] for entry in entries], dtype=np.int64)
        positions = np.array([entry[2] for entry in entries], dtype=np.int64)
        return cls(b"".join(single), rows, positions, single if keep_single else ())


class Family:
    """A family of an identity, ready to be compiled for some entities and rendered.

    :ivar header: its HELP and TYPE lines.
    """

    def __init__(self, spec: FamilySpec, timestamps: bool) -> None:
        self.name = spec.name
        self.header = f"# HELP {spec.name} {escaped_help(spec.help)}\n# TYPE {spec.name} {spec.kind}\n".encode()
        self._rows = spec.rows
        self._number = spec.number
        self._line_end = b" %b" + (_TIMESTAMP if timestamps else b"") + b"\n"

    def compiled(self, texts: RowTexts, state: State, keep_single: bool) -> Lines:
        """The lines of some entities: entity by entity, each with its rows in order."""
        entries: list[tuple[int, tuple[bytes, int, int]]] = []
        for number, row in enumerate(self._rows):
            level = state.levels.get(row.level)
            if level is None or row.quantity not in level.arrays:
                continue
            present = level.present.get(row.quantity)
            for order, (position, text) in enumerate(texts(row.level, row.labels)):
                if present is None or present[position]:
                    labels = f"{{{text}}}" if text else ""
                    line = f"{self.name}{labels}".replace("%", "%%").encode() + self._line_end
                    entries.append((order, (line, number, position)))
        if len(self._rows) > 1:
            entries.sort(key=lambda entry: (entry[0], entry[1][1]))
        return Lines.of([entry for _, entry in entries], keep_single)

    def rendered(self, lines: Lines, state: State, timestamp: bytes) -> bytes:
        """The lines with the numbers of a tick; without the header.

        :param timestamp: what ends each line of an identity with timestamps.
        """
        values = np.empty(len(lines.rows))
        for number, row in enumerate(self._rows):
            level = state.levels.get(row.level)
            if level is None or row.quantity not in level.arrays:
                continue
            array, factor = level.arrays[row.quantity], UNITS[row.unit]
            if len(self._rows) == 1:
                values = array[lines.positions] * factor
            else:
                chosen = np.flatnonzero(lines.rows == number)
                values[chosen] = array[lines.positions[chosen]] * factor
        template = lines.template
        if _TIMESTAMP in self._line_end:
            template = template.replace(_TIMESTAMP, b" " + timestamp)
        return template % tuple(formatted(values, self._number))


def joined(parts: Sequence[Lines]) -> Lines:
    """The lines of several groups as one."""
    if len(parts) == 1:
        return parts[0]
    return Lines(
        b"".join([part.template for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.positions for part in parts]),
    )
