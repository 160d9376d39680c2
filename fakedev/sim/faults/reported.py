"""What boards report of faults from tick to tick: error codes, pending repairs, and counters that begin anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.faults.tick import FALLEN_OFF, FaultTick

#: Flags that stay once they are set, until a reset.
_PENDING: Final = "row_remap_pending"
#: The same of boards that retire pages instead.
_PAGES_PENDING: Final = "retired_pages_pending"
#: What is kept from tick to tick, but where a device type has a range of its own for it.
REPORTED: Final = ("xid", _PENDING, _PAGES_PENDING, "created_seconds")


def add_reported(
    arrays: dict[str, Floats], before: Level, tick: FaultTick | None, epoch_seconds: Floats
) -> None:
    """Put in what boards report: what they did a tick ago, and what is new in this one.

    :param epoch_seconds: wall time of tick 0.
    """
    for name in REPORTED:
        arrays[name] = before.arrays[name]
    if tick is None:
        return
    codes = tick.get("xid")
    reset = tick.resets()
    if reset is not None:
        arrays["xid"] = np.where(reset, 0.0, arrays["xid"])
        arrays[_PENDING] = arrays[_PAGES_PENDING] = np.where(reset, 0.0, arrays[_PENDING])
        began = epoch_seconds + tick.now_seconds - tick.seconds
        arrays["created_seconds"] = np.where(reset, began, arrays["created_seconds"])
    if codes is not None:
        arrays["xid"] = np.where(np.isnan(codes), arrays["xid"], codes)
    pending = tick.get(_PENDING)
    if pending is not None:
        arrays[_PENDING] = arrays[_PAGES_PENDING] = np.maximum(arrays[_PENDING], pending)


def fallen_off(arrays: Mapping[str, Floats], before: Level, taken: Floats | None) -> Mask:
    """The boards that went away by themselves, since they were too hot: shape (devices,).

    :param taken: those that were taken away from outside: over 0, shape (devices,); None: nobody was.
    """
    went: Mask = (arrays["lost"] > 0) & (before.arrays["lost"] <= 0)
    return went if taken is None else went & ~(taken > 0)


def add_losses(arrays: dict[str, Floats], before: Level, taken: Floats | None) -> None:
    """A board that went away by itself has fallen off the bus: its driver reports that."""
    if "lost" in arrays:
        went = fallen_off(arrays, before, taken)
        if went.any():
            arrays["xid"] = np.where(went, FALLEN_OFF, arrays["xid"])
