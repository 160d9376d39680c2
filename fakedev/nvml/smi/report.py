"""``-q``: all about boards, as text or as XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fakedev.nvml.smi.failures import bad_argument
from fakedev.nvml.smi.listing import SIMULATED
from fakedev.nvml.smi.report_entries import ENTRIES, NOT_AVAILABLE, Entry, Group
from fakedev.nvml.smi.snapshot import Board, Snapshot
from fakedev.nvml.smi.values import cuda_version, date

#: Where the values of the text begin.
_COLUMN: Final = 55
_INDENT: Final = "    "
#: The text has this section only when it is asked for: it is long.
_ON_REQUEST: Final = "SUPPORTED_CLOCKS"
#: The groups whose name the text does not show, but that of their entries, and in the XML ``None`` when they are empty.
_UNNAMED: Final = "mig_devices"
#: Groups of the XML whose entries the text shows without a name.
_TRANSPARENT: Final = frozenset(("process_info", "supported_mem_clock"))
#: Numbers that the XML has without 0x.
_PLAIN: Final = frozenset(("pci_bus", "pci_device", "pci_domain", "pci_base_class", "pci_sub_class", "pci_device_id",
                           "pci_sub_system_id"))  # fmt: skip
SECTIONS: Final = frozenset(entry.display for entry in ENTRIES if entry.display)
_ESCAPES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))


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


def text_report(snapshot: Snapshot, boards: Sequence[Board], sections: frozenset[str] | None) -> Iterator[str]:
    """The lines of the text.

    :param sections: only these; None: all.
    """
    yield from ("", "==============NVSMI LOG==============", "")
    for label, value in _head(snapshot):
        if label == "Attached GPUs":
            yield ""
        yield f"{label:<{_COLUMN}}: {value}"
    for board in boards:
        yield f"GPU {board.view.text('pci_bus_id')}"
        for entry in ENTRIES:
            if entry.display in sections if sections is not None else entry.display != _ON_REQUEST:
                yield from _text(entry, board, 1)
        yield ""


def _head(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    yield "Timestamp", date(snapshot.slot)
    yield "Driver Version", snapshot.node.text("driver_version") or NOT_AVAILABLE
    yield "CUDA Version", cuda_version(snapshot.node)
    yield "Attached GPUs", str(snapshot.node.count("board_count"))


def _entries(entry: Entry, board: Board) -> tuple[Entry, ...] | None:
    """The entries of a group; None for a value."""
    if isinstance(entry.content, Group):
        return entry.content.make(board)
    return entry.content if isinstance(entry.content, tuple) else None


def _value(entry: Entry, board: Board) -> str:
    if isinstance(entry.content, str):
        return entry.content
    assert callable(entry.content)
    found = entry.content(board)
    return NOT_AVAILABLE if found is None else found


def _text(entry: Entry, board: Board, depth: int) -> Iterator[str]:
    indent, entries = _INDENT * depth, _entries(entry, board)
    if entries is None:
        if entry.label:
            yield f"{indent + entry.label:<{_COLUMN}}: {_value(entry, board)}"
        return
    if not entry.label and not isinstance(entry.content, Group) and entry.tag not in _TRANSPARENT:
        return
    if entry.label and not entries:
        yield f"{indent + entry.label:<{_COLUMN}}: None"
        return
    if entry.label:
        yield indent + entry.label
    for each in entries:
        yield from _text(each, board, depth + bool(entry.label))


def xml_report(snapshot: Snapshot, boards: Sequence[Board]) -> Iterator[str]:
    """The lines of the XML."""
    yield '<?xml version="1.0" ?>'
    yield '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">'
    yield f"<!-- {SIMULATED} -->"
    yield "<nvidia_smi_log>"
    for label, value in _head(snapshot):
        yield _element(label.lower().replace(" ", "_"), value, 1)
    for board in boards:
        yield f'\t<gpu id="{board.view.text("pci_bus_id")}">'
        for entry in ENTRIES:
            yield from _xml(entry, board, 2)
        yield "\t</gpu>"
    yield "</nvidia_smi_log>"


def _xml(entry: Entry, board: Board, depth: int) -> Iterator[str]:
    if not entry.tag:
        return
    entries, indent = _entries(entry, board), "\t" * depth
    if entries is None:
        value = _value(entry, board)
        yield _element(entry.tag, value.removeprefix("0x") if entry.tag in _PLAIN else value, depth)
        return
    yield f"{indent}<{entry.tag}>"
    for each in entries:
        yield from _xml(each, board, depth + 1)
    if not entries and entry.tag == _UNNAMED:
        yield f"{indent}\tNone"
    yield f"{indent}</{entry.tag}>"


def _element(tag: str, value: str, depth: int) -> str:
    for character, name in _ESCAPES:
        value = value.replace(character, name)
    return f"{chr(9) * depth}<{tag}>{value}</{tag}>"
