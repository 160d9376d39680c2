"""``mig -lgi`` and ``mig -lci``: the instances of boards in MIG mode, with their places.

Numbers of profiles: NVIDIA's MIG User Guide, tables of profiles by board; on all of them they follow from the share of
the memory. An instance has the number of its place in the tree of halves, as in :mod:`fakedev.sim.parts.mig`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from fakedev.nvml.smi.failures import NOT_FOUND, Failure
from fakedev.nvml.smi.snapshot import Board, View

#: Profiles by their share of the board's memory, as its divisor: a whole board, a half, a quarter, an eighth.
_PROFILES: Final = {1: 0, 2: 5, 4: 14, 8: 19}
#: Profiles with fewer compute slices than others of the same memory, and those with all media engines.
_THREE_SLICES, _ONE_SLICE_OF_A_QUARTER, _ALL_ENGINES = 9, 15, 20


class _Place(NamedTuple):
    start: int
    size: int
    profile: int


def _place_of(board: Board, part: View) -> _Place:
    """Where an instance is among the memory slices of its board, of which there is a power of two."""
    memory_slices = 1 << max(0, board.view.count("max_part_count") - 1).bit_length()
    number, share = part.count("gpu_instance") + 1, 1
    while number >= 2 * share and share < memory_slices:
        share *= 2
    slices = part.count("slices")
    profile = _PROFILES.get(share, 0)
    if part.text("profile").endswith("+me"):
        profile = _ALL_ENGINES
    elif share == 2 and slices == 3:
        profile = _THREE_SLICES
    elif share == 4 and slices == 1 and memory_slices == 8:
        profile = _ONE_SLICE_OF_A_QUARTER
    size = memory_slices // share
    return _Place((number - share) * size, size, profile)


def gpu_instances(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``mig -lgi``."""
    titles = (
        " GPU instances:                                          ",
        " GPU   Name               Profile  Instance   Placement  ",
        "                            ID       ID       Start:Size ",
    )

    def row(board: Board, part: View, place: _Place) -> str:
        name = f"MIG {part.text('profile')}"
        number, placement = part.count("gpu_instance"), f"{place.start}:{place.size}"
        return f" {board.number:>3}  {name:<19}{place.profile:>5}{number:>9}{placement:>13}     "

    return _box(boards, titles, row, "No GPU instances found: Not Found")


def compute_instances(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``mig -lci``: each GPU instance has one compute instance, which is all of it."""
    titles = (
        " Compute instances:                                                   ",
        " GPU     GPU       Name               Profile   Instance   Placement  ",
        "       Instance                         ID        ID       Start:Size ",
        "         ID                                                           ",
    )

    def row(board: Board, part: View, place: _Place) -> str:
        slices = max(1, part.count("slices"))
        name, placement = f"MIG {part.text('profile')}", f"0:{slices}"
        number = part.count("gpu_instance")
        # Numbers of these profiles count from the smallest: 1, 2, 3, 4 and all slices.
        profile = min(slices, 5) - 1
        return f" {board.number:>3}{number:>7}       {name:<19}{profile:>5}{0:>10}{placement:>13}     "

    return _box(boards, titles, row, "No compute instances found: Not Found")


def _box(
    boards: Sequence[Board], titles: Sequence[str], row: Callable[[Board, View, _Place], str], none: str
) -> Iterator[str]:
    """A box with a row for each instance.

    :raises Failure: without MIG mode, and without instances.
    """
    divided = [board for board in boards if board.is_divided]
    if not divided:
        raise Failure(NOT_FOUND, "No MIG-enabled devices found.")
    rows = [row(board, part, _place_of(board, part)) for board in divided for part in board.parts]
    if not rows:
        raise Failure(NOT_FOUND, none)
    width = len(titles[0])
    edge, cells = f"+{'-' * width}+", [f"|{each[:width]:<{width}}|" for each in rows]
    yield from (edge, *(f"|{each}|" for each in titles), f"|{'=' * width}|", *cells, edge)
