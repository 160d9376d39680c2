"""Versions of NVIDIA's drivers.

Sources: the tables of drivers in the release notes of the CUDA Toolkit, 8.0 to 13.4 (docs.nvidia.com/cuda). No toolkit
came with driver 565: its CUDA is what nvidia-smi shows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: The first branch of drivers with a version of CUDA, the latest first.
_CUDA_OF_BRANCHES: Final = (
    (615, "13.4"), (610, "13.3"), (595, "13.2"), (590, "13.1"), (580, "13.0"), (575, "12.9"), (570, "12.8"),
    (565, "12.7"), (560, "12.6"), (555, "12.5"), (550, "12.4"), (545, "12.3"), (535, "12.2"), (530, "12.1"),
    (525, "12.0"), (520, "11.8"), (515, "11.7"), (510, "11.6"), (495, "11.5"), (470, "11.4"), (465, "11.3"),
    (460, "11.2"), (455, "11.1"), (450, "11.0"), (440, "10.2"), (418, "10.1"), (410, "10.0"), (396, "9.2"),
    (387, "9.1"), (384, "9.0"), (367, "8.0"),
)  # fmt: skip


@lru_cache(maxsize=256)
def cuda_of(driver: str) -> str | None:
    """The version of CUDA that a driver reports.

    :returns: empty for drivers before 367, None for a text that is no version.
    """
    branch = driver.partition(".")[0]
    if not branch.isdecimal():
        return None
    return next((cuda for first, cuda in _CUDA_OF_BRANCHES if int(branch[:9]) >= first), "")
