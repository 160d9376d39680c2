"""``topo -m`` and ``nvlink -s``: how boards are connected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fakedev.nvml.smi.listing import title_of
from fakedev.nvml.smi.snapshot import Board

_LEGEND: Final = (
    "Legend:",
    "",
    "  X    = the board itself",
    "  SYS  = PCIe, and the connection between NUMA nodes",
    "  NODE = PCIe, within a NUMA node",
    "  NV#  = # links of NVLink",
)


def matrix(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``topo -m``: which connection each pair of boards has."""
    yield "\t" + "".join(f"GPU{board.number}\t" for board in boards) + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    for board in boards:
        cells = "".join(f"{_connection(board, other)}\t" for other in boards)
        numa = board.view.number("numa_node")
        affinity = board.view.text("cpu_affinity") or "N/A"
        yield f"GPU{board.number}\t{cells}{affinity}\t{'N/A' if numa is None else numa}\t\tN/A"
    yield from ("", *_LEGEND)


def _connection(board: Board, other: Board) -> str:
    if board.place == other.place:
        return " X "
    up = [link for link in board.links if link.number("up") == 1]
    direct = sum(link.number("remote_board") == other.place for link in up)
    through = min(_to_switches(board), _to_switches(other))
    if direct or through:
        return f"NV{direct or through}"
    return "NODE" if board.view.number("numa_node") == other.view.number("numa_node") else "SYS"


def _to_switches(board: Board) -> int:
    return sum(link.number("up") == 1 and link.number("switch_number") is not None for link in board.links)


def link_states(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``nvlink -s``: the speed of each link, in one direction."""
    for board in boards:
        yield title_of(board)
        speed = board.view.count("link_bandwidth") / 1e9
        for link in board.links:
            state = f"{speed:.3f} GB/s" if link.number("up") == 1 else "<inactive>"
            yield f"\t Link {link.count('number')}: {state}"
