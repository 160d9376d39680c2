"""The conditions of boards as the relations of a tick use them: made when conditions change, not in each tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Conditions, is_set, unless_changed
from fakedev.sim.entities.randomness import Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """What B boards have to live with: arrays of shape (B,). Of flags None: on no board.

    :ivar inlet_celsius, power_limit_watts: as shown.
    :ivar room_watts: what the power limit leaves to work, raised clocks set aside; infinite where it takes nothing.
    :ivar full_mhz: the highest core clock that is allowed.
    :ivar locked: boards whose ``full_mhz`` is less than their highest.
    :ivar resistance: thermal resistance, by that of the type.
    :ivar shares: for PCIe and the links to other boards, where any is not well, what each board's still carry.
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
    shares: Mapping[str, Floats]

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
            shares={
                link: unless_changed(share, np.ones(boards.count))
                for link, share in (("pcie", conditions.pcie_share), ("fabric", conditions.fabric_share))
                if share is not None
            },
        )

    def carried(self, traffic: dict[str, Floats], maxima: Mapping[str, Floats]) -> dict[str, Floats]:
        """The traffic that the links still carry.

        :param maxima: what they carry when they are well.
        """
        for link, share in self.shares.items():
            for name in (f"{link}_tx_bytes_per_second", f"{link}_rx_bytes_per_second"):
                traffic[name] = np.minimum(traffic[name], maxima[name] * share)
        return traffic
