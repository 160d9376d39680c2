"""MIG as the driver numbers it: kinds of instances, and which memory slices an instance has.

Numbers of kinds: NVIDIA's MIG User Guide, tables of profiles; ``NVML_GPU_INSTANCE_PROFILE_*`` in NVIDIA's header.
"""

from __future__ import annotations

from typing import Final

#: Numbers of profiles by their share of the board's memory, as its divisor: all of it, a half, a quarter, an eighth.
_NUMBERS: Final = {1: 0, 2: 5, 4: 14, 8: 19}
#: Profiles with fewer compute slices than others of the same share; the second is on boards with eight memory slices.
_FEWER_SLICES: Final = {(2, 3): 9, (4, 1): 15}
_ALL_MEDIA_ENGINES: Final = 20
#: ``NVML_GPU_INSTANCE_PROFILE_*`` by compute slices; and of the profiles that are no plain ones, by number.
_KINDS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
_SPECIAL_KINDS: Final = {_ALL_MEDIA_ENGINES: 7, 15: 9}


def memory_slices_of(slices: int) -> int:
    """The memory slices of a board, a power of two.

    :param slices: its compute slices.
    """
    return 1 << max(0, slices - 1).bit_length()


def number_of(name: str, slices: int, memory_slices: int, of_board: int) -> int:
    """The number of a profile, as ``nvidia-smi mig -lgip`` shows it.

    :param slices: of the engines.
    :param memory_slices: of the memory.
    :param of_board: the memory slices of its board.
    """
    share = of_board // memory_slices
    if name.endswith("+me"):
        return _ALL_MEDIA_ENGINES
    fewer = _FEWER_SLICES.get((share, slices)) if of_board == 8 or share == 2 else None
    return fewer or _NUMBERS.get(share, 0)


def kind_of(slices: int, number: int) -> int:
    """``NVML_GPU_INSTANCE_PROFILE_*`` of a profile with this number of compute slices and this profile number."""
    return _SPECIAL_KINDS.get(number, _KINDS.get(slices, 0))


def placement_of(instance: int, of_board: int) -> range:
    """The memory slices of an instance: instances are numbered like a binary tree of the board's halves."""
    number, share = instance + 1, 1
    while number >= 2 * share and share < of_board:
        share *= 2
    size = of_board // share
    return range((number - share) * size, (number - share + 1) * size)
