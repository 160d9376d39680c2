"""What comes to boards from outside, faults among it: air, power limit, power brake, and how much links carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.randomness import Floats

#: The links that a condition is about.
_LINKS: Final = {
    "pcie_share": ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"),
    "fabric_share": ("fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second"),
}
#: In NVML's mask of clock event reasons: what takes the place of heat where the power brake slows the hardware down.
_HEAT_BIT: Final = 0x40
_BRAKE_BIT: Final = 0x80


class Outside:
    """B boards from outside in one tick, arrays of shape (B,).

    :param conditions: what faults do to them, by name; those that are missing are as without faults.
    :ivar inlet: temperature of the air in degrees Celsius.
    :ivar resistance: thermal resistance, by that of the type.
    :ivar fan_turns: 1, or 0 where the fan stands.
    :ivar limit_watts: the power limit.
    :ivar clock_share: what the power brake leaves of the highest clock.
    """

    def __init__(self, boards: Coefficients, conditions: Mapping[str, Floats]) -> None:
        self._conditions = conditions
        self.inlet: Floats = boards.inlet
        if "inlet_rise_celsius" in conditions:
            self.inlet = boards.inlet + conditions["inlet_rise_celsius"]
        self.resistance: Floats = boards.resistance
        if "heat_resistance" in conditions:
            self.resistance = boards.resistance * conditions["heat_resistance"]
        self.fan_turns: Floats | float = 1.0
        if "fan_stopped" in conditions:
            self.fan_turns = 1.0 - conditions["fan_stopped"]
        self.limit_watts: Floats = boards.limit_watts
        if "power_limit_watts" in conditions:
            given = conditions["power_limit_watts"]
            self.limit_watts = np.where(np.isnan(given), boards.limit_watts, given)
        self.clock_share: Floats | float = conditions.get("clock_share", 1.0)

    def carried(self, traffic: dict[str, Floats], maxima: Mapping[str, Floats]) -> dict[str, Floats]:
        """The traffic that links still carry.

        :param maxima: what they carry when they are well.
        """
        for condition, names in _LINKS.items():
            if condition in self._conditions:
                for name in names:
                    traffic[name] = np.minimum(traffic[name], maxima[name] * self._conditions[condition])
        return traffic

    def reasons(self, throttles: Mapping[str, Floats]) -> Floats:
        """The mask of reasons, with the power brake in the place of heat where it is that."""
        mask = throttles["throttle_reasons"]
        if "clock_share" not in self._conditions:
            return mask
        braked = throttles["throttled_hardware"] * (self._conditions["clock_share"] < 1.0)
        return mask + braked * (_BRAKE_BIT - _HEAT_BIT)


def awakened(
    boards: Coefficients,
    before: Mapping[str, Floats] | None,
    outside: Outside,
    conditions: Mapping[str, Floats],
) -> Mapping[str, Floats] | None:
    """The tick before, with boards that come back from having been lost as cold as the air."""
    if before is None or "reset" not in conditions:
        return before
    back = (conditions["reset"] > 0) & (before["lost"] > 0)
    if not back.any():
        return before
    one = np.ones(boards.count)
    cold = {
        "core_frequency_mhz": boards.low["core_frequency_mhz"],
        "temperature_celsius": outside.inlet,
        "memory_temperature_celsius": outside.inlet,
        "fan_speed_ratio": boards.low["fan_speed_ratio"],
        "thermal_clock_ratio": one,
        "power_clock_ratio": one,
        "lost": np.zeros(boards.count),
    }
    return {name: np.where(back, cold[name], values) if name in cold else values for name, values in before.items()}
