"""The conditions of boards as the relations of a tick use them: made when conditions change, not in each tick."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Conditions, is_set, unless_changed
from fakedev.sim.randomness import Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """What B boards have to live with: arrays of shape (B,). Of flags None: on no board.

    :ivar inlet_celsius, power_limit_watts: as shown.
    :ivar room_watts: what the power limit leaves to work, raised clocks set aside; infinite where it takes nothing.
    :ivar full_mhz: the highest core clock that is allowed.
    :ivar locked: boards whose ``full_mhz`` is less than their highest.
    :ivar resistance: thermal resistance, by that of the type.
    """

    inlet_celsius: Floats
    power_limit_watts: Floats
    room_watts: Floats
    full_mhz: Floats
    locked: Flags | None
    resistance: Floats
    braked: Flags | None
    fan_stopped: Flags | None
    hung: Flags | None
    lost: Flags | None

    @classmethod
    def of(cls, boards: Coefficients, conditions: Conditions) -> Setting:
        """What conditions mean to boards."""
        low, high = boards.low["core_frequency_mhz"], boards.high["core_frequency_mhz"]
        limit = unless_changed(conditions.power_limit_watts, boards.limit_watts)
        room = np.where(boards.keeps_limit, limit - boards.idle_watts - boards.clocked_watts, np.inf)
        full = np.clip(unless_changed(conditions.highest_mhz, high), low, high)
        locked = full < high
        return cls(
            inlet_celsius=unless_changed(conditions.inlet_celsius, boards.inlet),
            power_limit_watts=limit,
            room_watts=room,
            full_mhz=full,
            locked=locked if locked.any() else None,
            resistance=unless_changed(conditions.resistance, np.ones(boards.count)) * boards.resistance,
            braked=is_set(conditions.braked),
            fan_stopped=is_set(conditions.fan_stopped),
            hung=is_set(conditions.hung),
            lost=is_set(conditions.lost),
        )
