"""The kinds of instances of NVIDIA's boards (MIG), and what NVML says of them: multiprocessors and engines.

Only listed figures are here: a board or profile without a line has none. Sources, as ``nvidia-smi mig -lgip``
lists them:

- A100: NVIDIA's MIG User Guide, "Supported MIG Profiles" (engines), and a listing of an A100-SXM4-40GB. The guide gives
  the 80 GB board the same figures under the names of its own profiles.
- H100: a listing of an H100 80GB HBM3. The labels in the GPU operator's documentation for ``1g.10gb`` agree (16
  multiprocessors, 1 copy engine, 1 decoder, 1 JPEG engine).
- H200: a listing without the profiles ``1g.35gb``, ``3g.71gb`` and ``4g.71gb``, which are left out here.

The go-nvml mock (NVIDIA/go-nvml, pkg/nvml/mock/shared/gpus) has other figures for Hopper, equal steps of 16
multiprocessors; real boards list those below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_MIB: Final = 2**20


@dataclass(frozen=True)
class MigProfile:
    """A kind of instance.

    :param slices: compute slices.
    :param memory_slices: consecutive memory slices: 1, 2, 4 or 8.
    :param begins: memory slices at which it may start, in order of preference.
    :param most: how many instances a board can have.
    """

    name: str
    slices: int
    memory_slices: int
    memory_bytes: float
    begins: tuple[int, ...]
    most: int = 7

    def count_beside(self, slices: int, taken: Iterable[range], same: int = 0) -> int:
        """How many instances of it a board can have beside those that it has.

        :param slices: compute slices that are left.
        :param taken: the memory slices of each instance that is there.
        :param same: how many of these are of this kind.
        """
        used = {each for some in taken for each in some}
        count = 0
        for begin in sorted(self.begins):
            place = {*range(begin, begin + self.memory_slices)}
            if not place & used:
                used |= place
                count += 1
        return max(0, min(count, self.most - same, slices // self.slices))


def profiles_to_text(profiles: Iterable[MigProfile], most_bytes: int) -> str:
    """Profiles as a text for the file for NVML: those that have room, in their order."""
    text = ""
    for each in profiles:
        begins = ".".join(map(str, each.begins))
        fields = (each.name, each.slices, each.memory_slices, round(each.memory_bytes / _MIB), begins, each.most)
        longer = f"{text};" * bool(text) + ":".join(map(str, fields))
        if len(longer.encode()) >= most_bytes:
            break
        text = longer
    return text


def profiles_from_text(text: str) -> list[MigProfile]:
    """The profiles that :func:`profiles_to_text` has written.

    :raises ValueError: for another text.
    """
    found = []
    for each in text.split(";") if text else ():
        name, slices, memory_slices, mebibytes, begins, most = each.split(":")
        places = tuple(map(int, begins.split(".")))
        found.append(MigProfile(name, int(slices), int(memory_slices), int(mebibytes) * _MIB, places, int(most)))
    return found


class MigAttributes(NamedTuple):
    """The engines of an instance, which no other instance uses."""

    multiprocessors: int
    copy: int
    decoder: int
    encoder: int
    jpeg: int
    ofa: int


_AMPERE: Final = {
    "1g": MigAttributes(14, 1, 0, 0, 0, 0),
    "1g+me": MigAttributes(14, 1, 1, 0, 1, 1),
    "1g, twice the memory": MigAttributes(14, 1, 1, 0, 0, 0),
    "2g": MigAttributes(28, 2, 1, 0, 0, 0),
    "3g": MigAttributes(42, 3, 2, 0, 0, 0),
    "4g": MigAttributes(56, 4, 2, 0, 0, 0),
    "7g": MigAttributes(98, 7, 5, 0, 1, 1),
}
_HOPPER: Final = {
    "1g": MigAttributes(16, 1, 1, 0, 1, 0),
    "1g+me": MigAttributes(16, 1, 1, 0, 1, 1),
    "1g, twice the memory": MigAttributes(26, 1, 1, 0, 1, 0),
    "2g": MigAttributes(32, 2, 2, 0, 2, 0),
    "3g": MigAttributes(60, 3, 3, 0, 3, 0),
    "4g": MigAttributes(64, 4, 4, 0, 4, 0),
    "7g": MigAttributes(132, 8, 7, 0, 7, 1),
}
_OF_80_GB: Final = {
    "1g.10gb": "1g", "1g.10gb+me": "1g+me", "1g.20gb": "1g, twice the memory", "2g.20gb": "2g", "3g.40gb": "3g",
    "4g.40gb": "4g", "7g.80gb": "7g",
}  # fmt: skip
_OF_40_GB: Final = {
    "1g.5gb": "1g", "1g.5gb+me": "1g+me", "1g.10gb": "1g, twice the memory", "2g.10gb": "2g", "3g.20gb": "3g",
    "4g.20gb": "4g", "7g.40gb": "7g",
}  # fmt: skip
_OF_141_GB: Final = {"1g.18gb": "1g", "1g.18gb+me": "1g+me", "2g.35gb": "2g", "7g.141gb": "7g"}
#: By PCI device: A100-SXM4-40GB, A100-SXM4-80GB, H100 SXM5, H200 SXM.
_BOARDS: Final[Mapping[str, tuple[Mapping[str, MigAttributes], Mapping[str, str]]]] = {
    "0x20b0": (_AMPERE, _OF_40_GB),
    "0x20b2": (_AMPERE, _OF_80_GB),
    "0x2330": (_HOPPER, _OF_80_GB),
    "0x2335": (_HOPPER, _OF_141_GB),
}


def attributes_of(board: Mapping[str, str], profile: str) -> MigAttributes | None:
    """The attributes of a profile on a board; None where they are not known.

    :param board: its facts.
    """
    figures, names = _BOARDS.get(board.get("pci_device_id", "").lower(), ({}, {}))
    return figures.get(names.get(profile, ""))
