"""What AMD's kernel module writes into the kernel's log: errors by block, boards that are lost, resets.

Sources of the form: drivers/gpu/drm/amd/amdgpu of Linux (``amdgpu_ras.c``, ``amdgpu_device.c``), and lines of an MI300X
in ROCm/legacy-rocm-build#4021, of a board that hangs in #6313. The number in braces counts events of a board. Chosen:
errors are those of die 0, and a link that is lost is an error of the block ``xgmi_wafl``. Records of the same errors
(``amd/cper.py``) are read by ``amd-smi ras``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fakedev.fleet.entities.naming import device_facts
from fakedev.nvml.amd.cper import Afid
from fakedev.nvml.board_errors import BoardError

#: Counters with the kind of their errors, the block of the chip that has them, and the AFID of their records.
_COUNTERS: Final = {
    "memory_errors_correctable": ("correctable", "umc", Afid.MEMORY_CORRECTED),
    "memory_errors_uncorrectable": ("uncorrectable", "umc", Afid.MEMORY_FATAL),
    "cache_errors_correctable": ("correctable", "gfx", Afid.DEVICE_CORRECTED),
    "cache_errors_uncorrectable": ("uncorrectable", "gfx", Afid.DEVICE_FATAL),
    "link_errors": ("uncorrectable", "xgmi_wafl", Afid.LINK_FATAL),
}


def afid_of(error: BoardError) -> int:
    """The AFID of the driver's record of an error; 0: there is no record."""
    return _COUNTERS[error.what][2] if error.what in _COUNTERS else 0


class AmdWords:
    """Words what boards of AMD report.

    :param seed: of the fleet, for the facts of boards.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._events: dict[tuple[str, int], int] = {}

    def texts(self, error: BoardError) -> Iterator[str]:
        """The messages, without the time and the host."""
        node, index = error.node, error.board
        head = f"amdgpu {device_facts(self._seed, node.pool, node.spec, index)['pci_address']}:"
        if error.what == "lost":
            yield f"{head} device lost from bus!"
        elif error.what == "hung":
            yield f"{head} qcm fence wait loop timeout expired"
            yield f"{head} The cp might be in an unrecoverable state due to an unsuccessful queues preemption"
        elif error.what == "resets":
            yield f"{head} GPU reset begin!"
            yield f"{head} GPU reset({error.total}) succeeded!"
        else:
            number = self._events[node.name, index] = self._events.get((node.name, index), 0) + 1
            kind, block, _ = _COUNTERS[error.what]
            of_die = f"{head} {{{number}}}socket: {index}, die: 0,"
            yield f"{of_die} {error.new} new {kind} hardware errors detected in {block} block"
            yield f"{of_die} {error.total} {kind} hardware errors detected in total in {block} block"
