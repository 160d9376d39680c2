"""What Intel's kernel modules, ``xe`` and ``i915``, write into the kernel's log: errors, hangs, lost boards, resets.

Sources of the form: drivers/gpu/drm/xe of Linux (``xe_hw_error.c``, ``xe_device.c``, ``xe_pci_error.c``) with its names
of errors (``xe_drm.h``); lines of xe in intel/compute-runtime#944 and vllm-project/vllm#55425, of i915 in
intel/compute-runtime#939 and clearlinux/distribution#2907. Chosen: errors are those of tile 0, an error of memory is
one of the first channel, an error of caches one of an L3 bank. The Max boards are told as xe does, since what Intel's
own i915 for them writes was not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fakedev.fleet.entities.naming import device_facts
from fakedev.nvml.board_errors import BoardError

#: Counters with the part of the chip, its bit, and what has the error; xe has such lines for Max boards alone.
_COUNTERS: Final = {
    "memory_errors_correctable": ("soc-internal", 16, ""),
    "memory_errors_uncorrectable": ("soc-internal", 16, "HBM SS0: Channel0 SOC {} detected"),
    "cache_errors_correctable": ("core-compute", 0, "L3 BANK {} detected, ERROR_STAT_GT_VECTOR2:0x00000001"),
    "cache_errors_uncorrectable": ("core-compute", 0, "L3 BANK {} detected, ERROR_STAT_GT_VECTOR2:0x00000001"),
}
_HAS_RAS: Final = "Center GPU Max"
#: Boards with i915.
_I915: Final = ("Iris", "Center GPU Flex")
_HUNG, _LOST, _RESETS = "hung", "lost", "resets"


class IntelWords:
    """Words what boards of Intel report.

    :param seed: of the fleet, for the facts of boards.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def texts(self, error: BoardError) -> Iterator[str]:
        """The messages, without the time and the host."""
        facts = device_facts(self._seed, error.node.pool, error.node.spec, error.board)
        address, product = facts["pci_address"], facts["product_name"]
        if any(name in product for name in _I915):
            yield from (f"i915 {address}: [drm] {text}" for text in _of_i915(error.what))
            return
        head = f"xe {address}: [drm]"
        if error.what in _COUNTERS:
            if _HAS_RAS in product:
                yield from (f"{head} {text}" for text in _counted(error.what))
        elif error.what == _HUNG:
            # The engine is reset, and then all of the chip, without success: the driver gives the board up.
            yield f"{head} Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=2, state=0x3"
            yield f"{head} *ERROR* Tile0: GT0: reset failed (-ETIMEDOUT)"
            yield f"{head} *ERROR* CRITICAL: Xe has declared device {address} as wedged."
            yield f"{head} device wedged, needs recovery"
        elif error.what == _LOST:
            yield f"xe {address}: Xe Pci error recovery: error detected state 3"
        elif error.what == _RESETS:
            yield f"{head} Tile0: GT0: reset done"


def _counted(what: str) -> Iterator[str]:
    part, bit, words = _COUNTERS[what]
    kind = "uncorrectable-errors" if what.endswith("uncorrectable") else "correctable-errors"
    level = "*ERROR* " if what.endswith("uncorrectable") else ""
    yield f"{level}[Hardware Error]: TILE0 reported {part} {kind}, bit[{bit}] is set"
    if words:
        yield f"{level}[Hardware Error]: {words.format(kind)}"


def _of_i915(what: str) -> Iterator[str]:
    if what == _HUNG:
        yield "GPU HANG: ecode 12:1:85dffffb"
        yield "*ERROR* GT0: GUC: Engine reset failed on 0:0 (rcs0) because 0x00000000"
    elif what == _RESETS:
        yield "Resetting chip for GuC failed to reset engine mask=0x1"
