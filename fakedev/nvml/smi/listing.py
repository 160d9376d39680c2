"""``-L``: a line for each board and instance; and the versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fakedev import __version__
from fakedev.nvml.smi.snapshot import Board, Snapshot
from fakedev.nvml.smi.values import cuda_version

SIMULATED: Final = f"All boards and values are simulated by fakedev {__version__}. This is no program of NVIDIA."


def title_of(board: Board) -> str:
    """A board with its UUID."""
    return f"GPU {board.number}: {board.view.text('name')} (UUID: {board.view.text('uuid')})"


def listed(boards: Sequence[Board]) -> Iterator[str]:
    """The boards, with their instances."""
    for board in boards:
        yield title_of(board)
        for number, part in enumerate(board.parts):
            yield f"  MIG {part.text('profile'):<12}Device {number:>2}: (UUID: {part.text('uuid')})"


def versions(snapshot: Snapshot) -> Iterator[str]:
    """What ``--version`` prints."""
    driver = snapshot.node.text("driver_version") or "N/A"
    yield f"NVIDIA-SMI version  : {driver}"
    yield f"NVML version        : {driver.rsplit('.', 1)[0] if driver.count('.') > 1 else driver}"
    yield f"DRIVER version      : {driver}"
    yield f"CUDA Version        : {cuda_version(snapshot.node)}"
    yield f"Simulated           : {SIMULATED}"
