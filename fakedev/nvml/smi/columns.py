"""The fields of ``--query-gpu``, each declared once: name, unit, how it is read, what it means, its other names.

The names, and the order of all of them, are those of driver 590.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from fakedev.nvml.smi.failures import bad_argument
from fakedev.nvml.smi.snapshot import Board
from fakedev.nvml.smi.values import Read

#: In place of a value that a board does not have.
ABSENT_CELL: Final = "[N/A]"
_C = TypeVar("_C")


class Column(NamedTuple):
    """A field.

    :ivar unit: after the values, and in brackets in the head of a column; empty: none.
    :ivar doc: for ``--help-query-gpu``.
    :ivar aliases: its other names.
    """

    name: str
    read: Read
    doc: str
    unit: str = ""
    aliases: tuple[str, ...] = ()

    def value(self, board: Board) -> str | None:
        """A value with its unit; None if the board does not have it."""
        found = self.read(board)
        has_unit = found is not None and self.unit and not found.startswith("[")
        return f"{found} {self.unit}" if has_unit else found

    def cell(self, board: Board, *, has_unit: bool) -> str:
        """A value in a table of comma-separated values."""
        found = self.value(board) if has_unit else self.read(board)
        return ABSENT_CELL if found is None else found


def by_name(columns: Iterable[Column]) -> Mapping[str, Column]:
    """Fields by all of their names."""
    return {name: column for column in columns for name in (column.name, *column.aliases)}


def chosen(given: str, known: Mapping[str, _C]) -> list[_C]:
    """The fields of a comma-separated list.

    :raises Failure: for a name that is no field.
    """
    found = []
    for word in given.split(","):
        name = word.strip()
        if name not in known:
            raise bad_argument(f'Field "{name}" is not a valid field to query.\n')
        found.append(known[name])
    return found
