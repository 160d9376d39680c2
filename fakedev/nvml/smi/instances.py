"""``mig -lgip``, ``-lgi`` and ``-lci``: the kinds of instances of boards in MIG mode, and their instances.

Numbers of profiles: NVIDIA's MIG User Guide, tables of profiles by board; on all of them they follow from the share of
the memory. An instance has the number of its place in the tree of halves, as in :mod:`fakedev.sim.parts.mig`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from fakedev.nvml.smi.failures import NOT_FOUND, Failure
from fakedev.nvml.smi.snapshot import Board, View
from fakedev.spec.mig import attributes_of, profiles_from_text

#: Profiles by their share of the board's memory, as its divisor: a whole board, a half, a quarter, an eighth.
_PROFILES: Final = {1: 0, 2: 5, 4: 14, 8: 19}
#: Profiles with fewer compute slices than others of the same memory, and those with all media engines.
_THREE_SLICES, _ONE_SLICE_OF_A_QUARTER, _ALL_ENGINES = 9, 15, 20


class _Place(NamedTuple):
    start: int
    size: int
    profile: int


def _memory_slices(board: Board) -> int:
    """The memory slices of a board, a power of two."""
    return 1 << max(0, board.view.count("max_part_count") - 1).bit_length()


def _number_of(name: str, slices: int, share: int, memory_slices: int) -> int:
    """The number of a profile.

    :param share: of the board's memory, as its divisor.
    """
    if name.endswith("+me"):
        return _ALL_ENGINES
    if share == 2 and slices == 3:
        return _THREE_SLICES
    if share == 4 and slices == 1 and memory_slices == 8:
        return _ONE_SLICE_OF_A_QUARTER
    return _PROFILES.get(share, 0)


def _place_of(board: Board, part: View) -> _Place:
    """Where an instance is among the memory slices of its board."""
    memory_slices = _memory_slices(board)
    number, share = part.count("gpu_instance") + 1, 1
    while number >= 2 * share and share < memory_slices:
        share *= 2
    size = memory_slices // share
    profile = _number_of(part.text("profile"), part.count("slices"), share, memory_slices)
    return _Place((number - share) * size, size, profile)


def gpu_instance_profiles(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``mig -lgip``: how many instances of each kind a board can have, and could have beside the present.

    :raises Failure: without MIG mode.
    """
    divided = _divided(boards)
    titles = (
        " GPU instance profiles:                                                        ",
        " GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  ",
        "                                Free/Total   GiB              CE    JPEG  OFA  ",
    )
    edge = f"+{'-' * len(titles[0])}+"
    yield from (edge, *(f"|{each}|" for each in titles), f"|{'=' * len(titles[0])}|")
    for board in divided:
        for line in _profile_rows(board):
            yield f"|{line}|" if line else edge


def _profile_rows(board: Board) -> Iterator[str]:
    """Two lines for each profile of a board, and an empty one for the edge."""
    places = [_place_of(board, part) for part in board.parts]
    taken = [range(place.start, place.start + place.size) for place in places]
    names = [part.text("profile") for part in board.parts]
    slices, memory_slices = board.view.count("max_part_count"), _memory_slices(board)
    left = slices - sum(max(1, part.count("slices")) for part in board.parts)
    for each in profiles_from_text(board.view.text("mig_profiles")):
        free, total = each.count_beside(left, taken, names.count(each.name)), each.count_beside(slices, ())
        number = _number_of(each.name, each.slices, memory_slices // each.memory_slices, memory_slices)
        known = attributes_of({"pci_device_id": f"0x{board.view.count('pci_device_id') >> 16:04x}"}, each.name)
        engines = ["N/A"] * 6 if known is None else [str(count) for count in known]
        processors, copies, decoders, encoders, jpegs, flows = engines
        name, counts, memory = f"MIG {each.name}", f"{free}/{total}", f"{each.memory_bytes / 2**30:.2f}"
        yield (
            f" {board.number:>3}  {name:<17}{number:>5}{counts:>8}{memory:>12}       No{processors:>7}"
            f"{decoders:>6}{encoders:>6}   "
        )
        yield f"{copies:>64}{jpegs:>6}{flows:>6}   "
        yield ""


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
    divided = _divided(boards)
    rows = [row(board, part, _place_of(board, part)) for board in divided for part in board.parts]
    if not rows:
        raise Failure(NOT_FOUND, none)
    width = len(titles[0])
    edge, cells = f"+{'-' * width}+", [f"|{each[:width]:<{width}}|" for each in rows]
    yield from (edge, *(f"|{each}|" for each in titles), f"|{'=' * width}|", *cells, edge)


def _divided(boards: Sequence[Board]) -> list[Board]:
    """Those in MIG mode.

    :raises Failure: when there are none.
    """
    divided = [board for board in boards if board.is_divided]
    if not divided:
        raise Failure(NOT_FOUND, "No MIG-enabled devices found.")
    return divided
