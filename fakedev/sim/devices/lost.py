"""Boards that are lost: they show nothing but the error that they reported last, and their counters stand still."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.boards.conditions import WITH_NODE
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level, Mask
from fakedev.spec.quantities import ERROR_COUNTERS, INTEGRALS


class LostBoards:
    """What D devices still show of which some are lost; arrays of shape (D,).

    :param present: the devices that have each quantity while they are there.
    :param can_be_lost: the devices that tell of it.
    """

    def __init__(self, present: Mapping[str, Mask], can_be_lost: Mask) -> None:
        self._present = present
        self._can_be_lost = can_be_lost
        self._masks: tuple[bytes, Mapping[str, Mask]] = (b"", {})

    def shown(self, arrays: Mapping[str, Floats], before: Level | None, taken: Floats | None) -> Level:
        """The level without what the lost boards showed.

        :param arrays: what all of them would show; ``lost`` among it.
        :param before: the level as it was a tick ago, for the counters; None at the start.
        :param taken: boards that were taken away from outside: from WITH_NODE on with their nodes; None: none was.
        """
        lost = arrays["lost"] > 0
        shown = {}
        for name, values in arrays.items():
            if name in ("lost", "created_seconds", "xid"):
                shown[name] = values
            elif before is not None and (name in INTEGRALS or name in ERROR_COUNTERS or name.endswith("_seconds")):
                shown[name] = np.where(lost, before.arrays[name], values)
            else:
                shown[name] = np.where(lost, 0.0, values)
        reports = ~lost | (arrays["xid"] > 0)
        if taken is not None:
            reports &= ~(taken >= WITH_NODE)
        key = lost.tobytes() + reports.tobytes()
        if self._masks[0] != key:
            masks = {name: self._present.get(name, ~lost) & ~lost for name in shown}
            masks["xid"] = self._present["xid"] & reports
            self._masks = key, masks | {"lost": self._can_be_lost}
        return Level(len(lost), shown, self._masks[1])
