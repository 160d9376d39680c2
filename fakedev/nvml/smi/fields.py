"""The tables of ``catalog/nvidia-smi``: their rows, the values in them, and the fields of ``--query-gpu``.

A value is ``SOURCE [/ DIVISOR] [& MASK] [: WORD, ...] [as FORM] [if TEST ...] [unless TEST ...] [else TEXT]``.

- SOURCE: a field of a record of :mod:`fakedev.nvml.records`, as ``power`` of the board or ``node.driver_version``; the
  sum or difference of fields; a function, as ``@date``; a text in quotes; or ``-`` for what is not simulated.
- A number divided by DIVISOR is a whole number, unless FORM has decimals; with MASK it is 1 if one of the bits is set.
- WORD: the words for 0, 1, 2 and so on. FORM is that of ``str.format``.
- TEST: ``field=NUMBER``, or ``field=None`` for a field without a value. All tests after ``if`` must hold.
- TEXT is shown in place of a value that a board does not have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import mul
from os.path import join
from typing import Any, Final, NamedTuple

import fakedev
from fakedev.nvml.records import RECORDS
from fakedev.nvml.smi.boards import Board, View

#: A value of a board as text, without its unit; None: the board does not have it.
Read = Callable[[Board], str | None]
_Source = Callable[[Board], int | str | None]
MIB: Final = 1 << 20
_KMD_BRANCH: Final = 610
#: Captured with drivers up to 566 (catalog/identities/nvidia-gpu-exporter@1.yaml), and deprecated by 590.
_DEPRECATING_BRANCH: Final = 570
_TEXTS: Final = {(record.name, field.name) for record in RECORDS for field in record.fields if field.text_bytes}


def blocks(name: str) -> dict[str, list[str]]:
    """The lines of a file of the catalog by the name in brackets above them; also from an archive."""
    loader: Any = fakedev.__spec__.loader
    text = loader.get_data(join(fakedev.__path__[0], "catalog", "nvidia-smi", name)).decode()
    parts = (part.partition("]\n") for part in text.removesuffix("\n").split("\n[")[1:])
    return {title: body.split("\n") for title, _, body in parts}


def cells(line: str) -> list[str]:
    """The cells of a row."""
    return [cell.strip() for cell in line.split("|")]


def _peer_type(board: Board) -> str | None:
    """How NVLink connects a board to others: switches may be outside of the node."""
    if board.view.number("platform_host_id") is None:
        return None
    to_boards = any(link.number("remote_board") is not None for link in board.links)
    return "Direct Connected" if to_boards else "Switch Connected"


def _compute_capability(board: Board) -> str | None:
    major, minor = board.view.number("compute_major"), board.view.number("compute_minor")
    return None if major is None or minor is None else f"{major}.{minor}"


def cuda_version(node: View) -> str:
    """As ``13.1``."""
    number = node.number("cuda_version")
    return "N/A" if number is None else f"{number // 1000}.{number % 1000 // 10}"


def has_kmd_version(node: View) -> bool:
    """Whether the driver calls its versions KMD and CUDA UMD version, as 610.57.04 does and 595.71.05 does not."""
    return _branch(node) >= _KMD_BRANCH


def _branch(node: View) -> int:
    """The first number of the driver's version; 0 where it is unknown."""
    branch = node.text("driver_version").partition(".")[0]
    return int(branch) if branch.isdecimal() else 0


def _once_enabled(board: Board) -> str:
    """What later drivers do not tell any more."""
    is_told = 0 < _branch(board.node) < _DEPRECATING_BRANCH
    return "Enabled" if is_told else "[Requested functionality has been deprecated]"


def _board_id(board: Board) -> str | None:
    """The PCI address as a number."""
    domain, bus, device = (board.view.number(f"pci_{part}") for part in ("domain", "bus", "device"))
    return None if domain is None or bus is None or device is None else f"0x{domain << 16 | bus << 8 | device:x}"


#: Atomic operations over PCIe: NVML_PCIE_ATOMICS_CAP_*, from the lowest bit.
_ATOMICS: Final = ("FETCHADD_32", "FETCHADD_64", "SWAP_32", "SWAP_64", "CAS_32", "CAS_64", "CAS_128")


def _atomics(mask: int) -> str | None:
    return "".join(f"{name} " for bit, name in enumerate(_ATOMICS) if mask >> bit & 1) or None


def _timestamp(board: Board) -> str:
    """When the tick was due."""
    return _clock(board.slot.count("wall_time"))


def _clock(microseconds: int) -> str:
    """A time in local time: ``2026/07/14 08:12:53.500``."""
    seconds, microseconds = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y/%m/%d %H:%M:%S', time.localtime(seconds))}.{microseconds // 1000:03}"


def _fabric_summary(board: Board) -> str | None:
    """The health mask in a word: bad routes, timeouts and a wrong configuration are no health."""
    mask = board.view.number("fabric_health")
    if not mask:
        return None
    if mask >> 8 > 1 or 1 in (mask >> 4 & 0x3, mask >> 6 & 0x3):
        return "Unhealthy"
    return "Limited Capacity" if mask & 0x3 == 1 else "Healthy"


#: What ``@`` calls in tables.
_FUNCTIONS: Final[Mapping[str, _Source]] = {
    "timestamp": _timestamp,
    "date": lambda board: time.asctime(time.localtime(board.slot.count("wall_time") // 1_000_000)),
    "cuda_version": lambda board: cuda_version(board.node),
    "architecture": lambda board: board.view.text("architecture").title() or None,
    "compute_capability": _compute_capability,
    "peer_type": _peer_type,
    "once_enabled": _once_enabled,
    "fabric_summary": _fabric_summary,
    "board_id": _board_id,
    "chassis": lambda board: None if _peer_type(board) is None else board.view.text("chassis_serial"),
    "flushed": lambda board: _clock(board.view.count("created")) if board.view.number("inforom_flush") else None,
    "atomics_inbound": lambda board: _atomics(board.view.count("atomics_inbound")),
    "atomics_outbound": lambda board: _atomics(board.view.count("atomics_outbound")),
    "part_index": lambda board: next((at for at, part in enumerate(board.of_parts()) if part.part is board.part), None),
    "number": lambda board: board.number,
    "count": lambda board: board.count_seen,
    "clock": lambda board: board.clock,
}


def _field(term: str) -> _Source:
    """A number or a text of a record, or what a function returns; None if there is none."""
    if term.startswith("@"):
        return _FUNCTIONS[term[1:]]
    record, _, name = term.rpartition(".")
    is_text = (record or "board", name) in _TEXTS

    def read(board: Board) -> int | str | None:
        view: View | None = getattr(board, record or "view")
        if view is None:
            return None
        return view.text(name) or None if is_text else view.number(name)

    return read


def _source(text: str) -> _Source:
    if text[0] in '"-':
        return lambda board: text[1:-1] if text != "-" else None
    words = text.split(" ")
    if len(words) == 1:
        return _field(text)
    terms = [_field(word) for word in words[::2]]
    signs = [1, *(1 if word == "+" else -1 for word in words[1::2])]

    def read(board: Board) -> int | None:
        numbers = [number for term in terms if isinstance(number := term(board), int)]
        return sum(map(mul, signs, numbers)) if len(numbers) == len(terms) else None

    return read


def _tests(text: str) -> Callable[[Board], bool]:
    pairs = (word.partition("=")[::2] for word in text.split())
    tests = [(_field(term), None if number == "None" else int(number)) for term, number in pairs]
    return lambda board: all(read(board) == number for read, number in tests)


@cache
def reader(value: str) -> Read:
    """What reads a value."""
    value, _, missing = value.partition(" else ")
    value, _, unless = value.partition(" unless ")
    value, _, condition = value.partition(" if ")
    value, _, form = value.partition(" as ")
    value, _, words = value.partition(": ")
    value, _, mask = value.partition(" & ")
    value, _, divisor = value.partition(" / ")
    source, is_shown, is_hidden = _source(value), _tests(condition), _tests(unless)
    otherwise, names = missing.strip('"') if missing else None, words.split(", ")
    bits, unit = int(mask or "0", 0), int(divisor or 1)

    def read(board: Board) -> str | None:
        found = source(board) if is_shown(board) and not (unless and is_hidden(board)) else None
        if isinstance(found, int):
            if mask:
                found = (found & bits) // (bits & -bits)
            if words:
                found = names[found] if 0 <= found < len(names) else None
            elif divisor and "f}" in form:
                return form.format(found / unit)
            else:
                found = (found + unit // 2) // unit
        return otherwise if found is None else (form or "{}").format(found)

    return read


#: In place of a value that a board does not have.
ABSENT_CELL: Final = "[N/A]"


class Column(NamedTuple):
    """A field.

    :ivar value: what it shows, as tables write it.
    :ivar doc: for ``--help-query-gpu``.
    :ivar unit: after the values, and in brackets in the head of a column; empty: none.
    :ivar aliases: its other names.
    """

    name: str
    value: str
    doc: str
    unit: str
    aliases: tuple[str, ...]

    @property
    def read(self) -> Read:
        return reader(self.value)

    def with_unit(self, board: Board) -> str | None:
        """A value with its unit; None if the board does not have it."""
        found = self.read(board)
        return f"{found} {self.unit}" if found is not None and self.unit and not found.startswith("[") else found

    def cell(self, board: Board, *, has_unit: bool) -> str:
        """A value in a table of comma-separated values."""
        found = self.with_unit(board) if has_unit else self.read(board)
        return ABSENT_CELL if found is None else found


_BLOCKS: Final = blocks("columns.txt")


def columns(block: str, known: Mapping[str, Column]) -> Iterator[Column]:
    """The columns of a block of ``columns.txt``.

    :param known: fields that its values may name.
    """
    for line in _BLOCKS[block]:
        names, value, doc = cells(line)
        first, *aliases = names.split(", ")
        name, _, unit = first.removesuffix("]").partition(" [")
        yield Column(name, known[value].value if value in known else value, doc, unit, tuple(aliases))


#: All fields of ``--query-gpu``, in the order of the driver.
COLUMNS: Final = tuple(columns("query-gpu", {}))
_LATER: Final = tuple(columns("query-gpu-since-595", {}))
BY_NAME: Final = {name: column for column in (*COLUMNS, *_LATER) for name in (column.name, *column.aliases)}


def shown(value: str) -> Read:
    """What reads a field of ``--query-gpu``, without its unit, or another value."""
    return BY_NAME[value].read if value in BY_NAME else reader(value)
