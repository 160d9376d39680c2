"""The errors that devices report from tick to tick, and what lost devices still show.

Error codes and pending repairs stay until a reset. A lost device shows its last error; its counters stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.fleet.boards.conditions import WITH_NODE
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.faults.per_tick import FaultTick, Report
from fakedev.fleet.spec.quantities import ERROR_COUNTERS, FEC_CODEWORDS, INTEGRALS, OF_FABRIC, OF_MODULES, OF_TRAYS
from fakedev.fleet.spec.xids import Xid

#: Flags that stay set until a reset: of boards that remap rows, and of boards that retire pages instead.
_PENDING: Final = "row_remap_pending"
_PAGES_PENDING: Final = "retired_pages_pending"
#: What NVIDIA's driver advises: to reset the board, or to end its work first.
RECOVERY_ACTION: Final = "recovery_action"
_RESET_IT, _DRAIN_AND_RESET = 1.0, 4.0
#: Codes after which the board does no work until a reset.
_DEAD_UNTIL_RESET: Final = (61, 62, 95, 119, 120)
#: Quantities that are kept from tick to tick, unless a device type has a range for them.
REPORTED: Final = ("xid", _PENDING, _PAGES_PENDING, "created_seconds")


def _silent(before: Level, tick: FaultTick) -> Mask | None:
    """The devices that were lost already, and report nothing until they are reset: shape (D,); None for none."""
    if "lost" not in before.arrays or not (lost := before.arrays["lost"] > 0).any():
        return None
    reset = tick.resets()
    return lost if reset is None else lost & ~reset[: len(lost)]


def add_reported(arrays: dict[str, Floats], before: Level, tick: FaultTick, epoch_seconds: Floats) -> None:
    """Update the quantities in REPORTED with what devices report in a tick.

    :param before: the level a tick ago.
    :param tick: effects of faults on devices and parts.
    :param epoch_seconds: wall time of tick 0.
    """
    reset, silent = tick.resets(), _silent(before, tick)
    if reset is not None:
        arrays["xid"] = np.where(reset, 0.0, arrays["xid"])
        arrays[_PENDING] = arrays[_PAGES_PENDING] = np.where(reset, 0.0, arrays[_PENDING])
        start = epoch_seconds + tick.now_seconds - tick.seconds
        arrays["created_seconds"] = np.where(reset, start, arrays["created_seconds"])
    codes = tick.get("xid")
    if codes is not None:
        kept = np.isnan(codes) if silent is None else np.isnan(codes) | silent
        arrays["xid"] = np.where(kept, arrays["xid"], codes)
    pending = tick.get(_PENDING)
    if pending is not None:
        pending = pending if silent is None else np.where(silent, 0.0, pending)
        arrays[_PENDING] = arrays[_PAGES_PENDING] = np.maximum(arrays[_PENDING], pending)


def recovery_action(arrays: Mapping[str, Floats], needs_reset: Mask | None) -> Floats:
    """What the driver advises: a reset where the board does no work without one, or once its work has ended.

    :param needs_reset: the boards with faults that advise one; None for none.
    """
    troubles = [arrays[name] for name in ("xid", _PENDING, "hung") if name in arrays]
    if not any(trouble.any() for trouble in troubles):
        return np.zeros(len(arrays["xid"]))
    dead = np.isin(arrays["xid"], _DEAD_UNTIL_RESET)
    if "hung" in arrays:
        dead = dead | (arrays["hung"] > 0)
    if needs_reset is not None:
        dead = dead | needs_reset[: len(dead)]
    return np.where(dead, _RESET_IT, np.where(arrays[_PENDING] > 0, _DRAIN_AND_RESET, 0.0))


def fallen_off(arrays: Mapping[str, Floats], before: Level, removed: Floats | None) -> Mask:
    """The boards that heat shut down in this tick: shape (devices,).

    :param removed: over 0 on devices that faults removed; None for none.
    """
    fallen: Mask = (arrays["lost"] > 0) & (before.arrays["lost"] <= 0)
    return fallen if removed is None else fallen & ~(removed > 0)


def reports_of_boards(
    arrays: Mapping[str, Floats], before: Level | None, faults: FaultTick | None, removed: Floats | None
) -> list[Report]:
    """The error codes of a tick, in order, also of boards whose drivers report none.

    :param before: the level a tick ago; None at the start.
    :param faults: effects of faults on devices and parts in this tick; None without faults.
    :param removed: as in :func:`fallen_off`.
    """
    reports = []
    if faults is not None:
        reports = list(faults.of_devices().reports)
        if before is not None and (silent := _silent(before, faults)) is not None:
            reports = [report._replace(devices=report.devices[~silent[report.devices]]) for report in reports]
    # Without dynamics devices show it only while a fault has removed one of them.
    if before is not None and "lost" in before.arrays and "lost" in arrays:
        fallen = fallen_off(arrays, before, removed)
        if fallen.any():
            reports.append(Report(np.flatnonzero(fallen), Xid.FALLEN_OFF))
    return reports


#: Quantities with their true values on lost devices. Nothing shows the temperatures, but the device cools down.
_KEPT: Final = frozenset((
    "lost", "created_seconds", "xid", "temperature_celsius", "memory_temperature_celsius", *OF_TRAYS, *OF_MODULES,
    *OF_FABRIC, *FEC_CODEWORDS,
))  # fmt: skip


class LostDevices:
    """What D devices show while some are lost; arrays of shape (D,).

    :param present: devices with each quantity while they are not lost.
    :param can_be_lost: devices that show whether they are lost.
    """

    def __init__(self, present: Mapping[str, Mask], can_be_lost: Mask) -> None:
        self._present = present
        self._can_be_lost = can_be_lost
        self._masks: tuple[bytes, Mapping[str, Mask]] = (b"", {})

    def level(self, arrays: Mapping[str, Floats], before: Level | None, removed: Floats | None) -> Level:
        """The level with lost devices.

        :param arrays: what all devices would show; with ``lost``.
        :param before: the level a tick ago, for the counters; None at the start.
        :param removed: devices that faults removed: WITH_NODE or more with their nodes; None for none.
        """
        lost = arrays["lost"] > 0
        shown = {}
        for name, values in arrays.items():
            if name in _KEPT:
                shown[name] = values
            elif before is not None and (name in INTEGRALS or name in ERROR_COUNTERS or name.endswith("_seconds")):
                shown[name] = np.where(lost, before.arrays[name], values)
            else:
                shown[name] = np.where(lost, 0.0, values)
        reports = ~lost | (arrays["xid"] > 0)
        if removed is not None:
            reports &= ~(removed >= WITH_NODE)
        key = lost.tobytes() + reports.tobytes()
        if self._masks[0] != key:
            masks = {name: self._present.get(name, ~lost) & ~lost for name in shown}
            masks["xid"] = self._present["xid"] & reports
            self._masks = key, masks | {"lost": self._can_be_lost}
        return Level(len(lost), shown, self._masks[1])
