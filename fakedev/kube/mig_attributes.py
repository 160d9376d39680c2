"""What NVML says of instances (MIG): multiprocessors, slices and engines, by board and profile.

Only listed figures are here: a board or profile without a line has no such labels. Sources, as ``nvidia-smi mig -lgip``
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

from collections.abc import Mapping
from typing import Final, NamedTuple


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
