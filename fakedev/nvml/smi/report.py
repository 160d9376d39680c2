"""``-q``: all about boards, as text or as XML, from the tree of entries in ``catalog/nvidia-smi/report.txt``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.nvml.smi.boards import Board, bad_argument
from fakedev.nvml.smi.fields import BY_NAME, blocks, cells, has_kmd_version, reader
from fakedev.nvml.smi.tables import SIMULATED

#: Clocks above are those of a damaged file.
_MAX_MHZ: Final = 100_000
#: The number before the dot of Ampere's compute capability.
_AMPERE: Final = 8


#: The numbers of a driver's version.
Driver = tuple[int, ...]
#: Which drivers have an entry.
_LIMIT: Final = re.compile(r"(?:since|before) ")


def driver_of(version: str) -> Driver:
    """The numbers of a version; none for a text without any."""
    return tuple(map(int, re.findall(r"[0-9]{1,9}", version)))


class Entry(NamedTuple):
    """A value, a group of entries, or both.

    :ivar label: in the text; empty: it is in the XML only.
    :ivar tag: in the XML; empty: it is in the text only.
    :ivar value: as tables write it; empty: it has none.
    :ivar repeats: what it is repeated for; empty: it is there once.
    :ivar section: the section of ``-d`` that it belongs to; empty: of none.
    :ivar drivers: the first driver that has it, and the first that does not any more; an empty tuple: no limit.
    """

    label: str
    tag: str
    value: str
    repeats: str
    section: str
    drivers: tuple[Driver, Driver]
    entries: list[Entry]


def _entries(lines: Sequence[str]) -> list[Entry]:
    """The tree of the lines, by their indentation."""
    levels: list[list[Entry]] = [[]]
    for line in lines:
        label, tag, value, *rest = (*cells(line), "", "")
        limits = {limit: driver_of(version) for limit, version in map(str.split, filter(_LIMIT.match, rest))}
        section = next((word for word in rest if word and not _LIMIT.match(word)), "")
        depth = (len(line) - len(line.lstrip())) // 4
        value, _, repeats = value.rpartition("for ") if "for " in value else (value, "", "")
        drivers = limits.get("since", ()), limits.get("before", ())
        entry = Entry(label, tag, value.strip(), repeats, section, drivers, [])
        levels[depth].append(entry)
        levels[depth + 1 :] = [entry.entries]
    return levels[0]


_BLOCKS: Final = blocks("report.txt")
_HEAD: Final = _entries(_BLOCKS["head"])
_ENTRIES: Final = _entries(_BLOCKS["board"])
#: Where the values of the text begin.
_COLUMN: Final = 55
_INDENT: Final = "    "
#: The text has this section only when it is asked for: it is long.
_ON_REQUEST: Final = "SUPPORTED_CLOCKS"
#: The group that has ``None`` in the XML when it is empty.
_UNNAMED: Final = "mig_devices"
SECTIONS: Final = frozenset(entry.section for entry in _ENTRIES if entry.section)
_ESCAPES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))


def _has_margin(board: Board) -> bool:
    """Whether the board shows how far it is below its limit: then thresholds are degrees below the limit, too."""
    has_both = None not in (board.view.number("temperature_margin"), board.view.number("temperature"))
    return has_both and board.view.number("has_margin") == 1


def _has_detailed_errors(board: Board) -> bool:
    """Whether errors of caches have kinds and places: not before Ampere, and not of old drivers."""
    return board.view.count("compute_major") >= _AMPERE and driver_of(board.node.text("driver_version")) >= (550,)


def _maps_rows(board: Board) -> bool:
    return board.view.number("remapped_corrected") is not None


def _has(entry: Entry, board: Board) -> bool:
    """Whether the driver of a board has an entry."""
    driver, (first, end) = driver_of(board.node.text("driver_version")), entry.drivers
    return not driver or (driver >= first and (not end or driver < end))


def _core_clocks(board: Board) -> range | None:
    """The core clocks that a board can be set to, in MHz from the highest; None for a board without any."""
    view = board.view
    top, low, step = view.number("core_clock_max"), view.number("core_clock_min"), view.count("clock_step") // 1000
    if top is None or low is None or step < 1 or top > _MAX_MHZ or low < 0:
        return None
    return range(top, low - 1, -step)


def _memory_clocks(board: Board) -> list[Board]:
    """The board for each memory clock; none without core clocks."""
    clocks = {board.view.count("memory_clock_max"), board.view.count("memory_clock_min")} - {0}
    return [board._replace(clock=clock) for clock in sorted(clocks, reverse=True) if _core_clocks(board) is not None]


#: What entries are repeated for.
_REPEATS: Final[Mapping[str, Callable[[Board], list[Board]]]] = {
    "": lambda board: [board],
    "parts": Board.of_parts,
    "processes": Board.of_processes,
    "margins": lambda board: [board] if _has_margin(board) else [],
    "limits": lambda board: [] if _has_margin(board) else [board],
    "detailed_errors": lambda board: [board] if _has_detailed_errors(board) else [],
    "plain_errors": lambda board: [] if _has_detailed_errors(board) else [board],
    "mapped_rows": lambda board: [board] if _maps_rows(board) else [],
    "unmapped_rows": lambda board: [] if _maps_rows(board) else [board],
    "steep_power": lambda board: [board] if board.view.number("smoothing_floor") is None else [],
    "smooth_power": lambda board: [] if board.view.number("smoothing_floor") is None else [board],
    "memory_clocks": _memory_clocks,
    "core_clocks": lambda board: [board._replace(clock=clock) for clock in _core_clocks(board) or ()],
    "kmd_drivers": lambda board: [board] if has_kmd_version(board.node) else [],
    "usual_drivers": lambda board: [] if has_kmd_version(board.node) else [board],
}


def sections_of(given: str) -> frozenset[str]:
    """The sections that ``-d`` names.

    :raises Failure: for an unknown one.
    """
    words = [word.strip().upper() for word in given.split(",")]
    wrong = [word for word in words if word not in SECTIONS]
    if wrong:
        text = f"ERROR: Unknown section {', '.join(wrong)}; there are {', '.join(sorted(SECTIONS))}.\n"
        raise bad_argument(text)
    return frozenset(words)


def text_report(boards: Sequence[Board], sections: frozenset[str] | None) -> Iterator[str]:
    """The lines of the text.

    :param sections: only these; None: all.
    """
    *versions, count = (line for entry in _HEAD for line in _text(entry, boards[0], ""))
    yield from ("", "==============NVSMI LOG==============", "", *versions, "", count)
    for board in boards:
        yield f"GPU {board.view.text('pci_bus_id')}"
        for entry in _ENTRIES:
            if entry.section in sections if sections is not None else entry.section != _ON_REQUEST:
                yield from _text(entry, board, _INDENT)
        yield ""


def _value(entry: Entry, board: Board) -> str:
    """A field with its unit, or another value."""
    if entry.value in BY_NAME:
        found = BY_NAME[entry.value].with_unit(board)
        return "N/A" if found is None else found.strip("[]")
    found = reader(entry.value)(board)
    return "N/A" if found is None else found


def _text(entry: Entry, board: Board, indent: str) -> Iterator[str]:
    inner = indent + _INDENT if entry.label else indent
    for row in _REPEATS[entry.repeats](board) if _has(entry, board) else ():
        lines = [line for child in entry.entries for line in _text(child, row, inner)]
        if entry.label and (entry.value or not lines):
            yield f"{indent + entry.label:<{_COLUMN}}: {_value(entry, row) if entry.value else None}"
        elif entry.label:
            yield indent + entry.label
        yield from lines


def xml_report(boards: Sequence[Board]) -> Iterator[str]:
    yield '<?xml version="1.0" ?>'
    # Captures of 570 have 12, those of 580 have 13.
    schema = 12 if () < driver_of(boards[0].node.text("driver_version")) < (580,) else 13
    yield f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{schema}.dtd">'
    yield f"<!-- {SIMULATED} -->"
    yield "<nvidia_smi_log>"
    for entry in _HEAD:
        yield from _xml(entry, boards[0], "\t")
    for board in boards:
        yield f'\t<gpu id="{board.view.text("pci_bus_id")}">'
        for entry in _ENTRIES:
            yield from _xml(entry, board, "\t\t")
        yield "\t</gpu>"
    yield "</nvidia_smi_log>"


def _xml(entry: Entry, board: Board, indent: str) -> Iterator[str]:
    for row in _REPEATS[entry.repeats](board) if _has(entry, board) else ():
        inner = indent + "\t" if entry.tag and not entry.value else indent
        lines = [line for child in entry.entries for line in _xml(child, row, inner)]
        if entry.tag and entry.value:
            value = _value(entry, row)
            # Numbers of PCI are without 0x here.
            value = value.removeprefix("0x") if entry.tag.startswith("pci_") else value
            for character, name in _ESCAPES:
                value = value.replace(character, name)
            lines.insert(0, f"{indent}<{entry.tag}>{value}</{entry.tag}>")
        elif entry.tag:
            empty = [f"{inner}None"] if entry.tag == _UNNAMED else []
            lines = [f"{indent}<{entry.tag}>", *(lines or empty), f"{indent}</{entry.tag}>"]
        yield from lines
