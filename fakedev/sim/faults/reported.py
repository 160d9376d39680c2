"""What boards report of faults from tick to tick: error codes, pending repairs, and counters that begin anew."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.sim.faults.conditions import Conditions
from fakedev.sim.randomness import Floats
from fakedev.sim.state import Level, Mask

#: Flags that stay once they are set, until a reset.
_PENDING: Final = "row_remap_pending"


def add_reported(
    arrays: dict[str, Floats], before: Level, conditions: Conditions | None, epoch_seconds: Floats
) -> None:
    """Put in what boards report: what they did a tick ago, and what is new under these conditions.

    :param epoch_seconds: wall time of tick 0.
    """
    for name in ("xid", _PENDING, "created_seconds"):
        arrays[name] = before.arrays[name]
    if conditions is None:
        return
    codes = conditions.get("xid")
    reset = conditions.where("reset")
    if reset is not None:
        arrays["xid"] = np.where(reset, 0.0, arrays["xid"])
        arrays[_PENDING] = np.where(reset, 0.0, arrays[_PENDING])
        began = epoch_seconds + conditions.now_seconds - conditions.seconds
        arrays["created_seconds"] = np.where(reset, began, arrays["created_seconds"])
    if codes is not None:
        arrays["xid"] = np.where(np.isnan(codes), arrays["xid"], codes)
    pending = conditions.get(_PENDING)
    if pending is not None:
        arrays[_PENDING] = np.maximum(arrays[_PENDING], pending)


def either(some: Mask | None, others: Mask | None) -> Mask | None:
    """Those of both; None for none."""
    if some is None or others is None:
        return others if some is None else some
    return some | others
