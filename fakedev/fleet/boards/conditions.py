"""What acts on boards from outside: air, power caps, locked clocks, brakes; apart from what workloads ask of them.

Faults change these conditions. What a device shows of them (inlet temperature, power limit) follows in the next tick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, Self

import numpy as np

from fakedev.fleet.boards.arrays import Lag
from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.spec.value_functions import DAY_SECONDS

#: When the rooms are warmest: at four in the afternoon, of the days since 1970 (UTC).
_WARMEST_SECONDS: Final = 16 * 3600.0
#: How far over its highest limit of heat an overheated board is, unless the fault gives a temperature.
_OVER_LIMIT_CELSIUS: Final = 1.0
#: ``lost`` of a device whose whole node is down; 1 where only the device is lost.
WITH_NODE: Final = 2.0


def room_wave(wall_seconds: float) -> float:
    """How warm rooms are at a time of the day, from -1 to 1.

    :param wall_seconds: in seconds since 1970.
    """
    return math.cos((wall_seconds - _WARMEST_SECONDS) * (2.0 * math.pi / DAY_SECONDS))


@dataclass(frozen=True)
class Conditions:
    """Conditions of D devices: arrays of shape (D,). NaN stands for the device type's value; None for NaN everywhere.

    Of devices without dynamics only ``lost`` matters.

    :ivar inlet_celsius: temperature of the air that cools the device.
    :ivar power_limit_watts: the power cap.
    :ivar shared_watts: what its module and its rack leave to the device: a cap that no driver shows.
    :ivar held_watts: what the device draws at least, also without work: power smoothing.
    :ivar highest_mhz: the core clock is locked to this at most.
    :ivar boost_share: the share of the highest clock that the slowest board of a group leaves to all of the group.
    :ivar resistance: factor on the type's thermal resistance; over 1 where the cooling is worse.
    :ivar overheated_celsius: the core goes to this temperature, whatever it draws; 0: one kelvin over the highest limit
        that throttles the board.
    :ivar braked: 1 where the host's power brake halves the clock.
    :ivar fan_stopped: 1 where the fan has stopped.
    :ivar hung: 1 where the device hangs.
    :ivar lost: 1 or more where the device is lost; WITH_NODE or more where its node is down and nothing reports it.
    :ivar pcie_share, fabric_share: remaining share of the capacity of PCIe and of the links to other devices.
    :ivar links_up: how many links to other devices are up.
    :ivar pcie_width, pcie_generation: remaining lanes and generation of the PCIe link.
    """

    inlet_celsius: Floats | None = None
    power_limit_watts: Floats | None = None
    shared_watts: Floats | None = None
    held_watts: Floats | None = None
    highest_mhz: Floats | None = None
    boost_share: Floats | None = None
    resistance: Floats | None = None
    overheated_celsius: Floats | None = None
    braked: Floats | None = None
    fan_stopped: Floats | None = None
    hung: Floats | None = None
    lost: Floats | None = None
    pcie_share: Floats | None = None
    fabric_share: Floats | None = None
    links_up: Floats | None = None
    pcie_width: Floats | None = None
    pcie_generation: Floats | None = None

    def at(self, positions: Positions) -> Self:
        """The conditions of some of the devices."""
        return self.mapped(lambda values: values[positions])

    def mapped(self, change: Callable[[Floats], Floats]) -> Self:
        """The conditions, with each given array changed."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(values) for name, values in given.items() if values is not None})


def unless_changed(given: Floats | None, usual: Floats) -> Floats:
    """A condition where it is given, else the usual value."""
    return usual if given is None else np.where(np.isnan(given), usual, given)


@dataclass(frozen=True)
class Setting:
    """The conditions of B boards as a tick uses them: arrays of shape (B,), computed when conditions change.

    A flag that is None is set on no board.

    :ivar inlet_celsius: without the drift of the rooms over the day.
    :ivar power_limit_watts: as shown.
    :ivar room_watts: what the power limit leaves to work and raised clocks; infinite where no limit applies.
    :ivar held_watts: what boards draw at least; None: no board is held.
    :ivar full_mhz: the highest core clock that is allowed.
    :ivar locked: boards that a locked clock keeps below their highest clock.
    :ivar boosted: boards that their group keeps below the clock that they would have.
    :ivar resistance: factor on the type's thermal resistance.
    :ivar forced_celsius: where the core temperature goes whatever the board draws; NaN where it follows the power.
    :ivar lags: time constants of temperatures and fan; those of temperatures grow with the resistance.
    :ivar shares: remaining capacity of each board's links, by ``pcie`` and ``fabric``, where any link is impaired.
    """

    inlet_celsius: Floats
    power_limit_watts: Floats
    room_watts: Floats
    held_watts: Floats | None
    full_mhz: Floats
    locked: Mask | None
    boosted: Mask | None
    resistance: Floats
    forced_celsius: Floats | None
    lags: Mapping[str, Lag]
    braked: Mask | None
    fan_stopped: Mask | None
    hung: Mask | None
    lost: Mask | None
    shares: Mapping[str, Floats]

    @classmethod
    def of(cls, boards: Coefficients, conditions: Conditions) -> Setting:
        low, high = boards.low["core_frequency_mhz"], boards.high["core_frequency_mhz"]
        limit = unless_changed(conditions.power_limit_watts, boards.limit_watts)
        least = limit if conditions.shared_watts is None else np.fmin(limit, conditions.shared_watts)
        room = np.where(boards.keeps_limit, least - boards.idle_watts, np.inf)
        full = high if conditions.highest_mhz is None else unless_changed(conditions.highest_mhz, high)
        full = boards.supported_mhz(np.clip(full, low, high))
        locked = full < high
        boosted = None
        if conditions.boost_share is not None:
            share = unless_changed(conditions.boost_share, np.ones(boards.count))
            of_group = boards.supported_mhz(np.maximum(share * high, low))
            boosted, full = of_group < full, np.minimum(full, of_group)
        ones = np.ones(boards.count)
        factor = unless_changed(conditions.resistance, ones)
        given = {"pcie": conditions.pcie_share, "fabric": conditions.fabric_share}
        forced = conditions.overheated_celsius
        if forced is not None:
            forced = np.where(forced == 0.0, boards.throttles_until + _OVER_LIMIT_CELSIUS, forced)
        return cls(
            inlet_celsius=unless_changed(conditions.inlet_celsius, boards.inlet),
            power_limit_watts=limit,
            room_watts=room,
            held_watts=conditions.held_watts,
            full_mhz=full,
            locked=locked if locked.any() else None,
            boosted=boosted,
            resistance=factor * boards.resistance,
            forced_celsius=forced,
            lags=boards.lags if conditions.resistance is None else boards.lags | boards.heat_lags(factor),
            braked=_flags(conditions.braked),
            fan_stopped=_flags(conditions.fan_stopped),
            hung=_flags(conditions.hung),
            lost=_flags(conditions.lost),
            shares={link: unless_changed(share, ones) for link, share in given.items() if share is not None},
        )

    def inlet_at(self, boards: Coefficients, wall_seconds: float) -> Floats:
        """The inlet temperatures at a time of the day: the rooms drift.

        :param wall_seconds: in seconds since 1970.
        """
        if boards.drift_celsius is None:
            return self.inlet_celsius
        return self.inlet_celsius + boards.drift_celsius * room_wave(wall_seconds)

    def limit_traffic(self, traffic: dict[str, Floats], maxima: Mapping[str, Floats]) -> None:
        """Limit traffic to what impaired links carry.

        :param maxima: what they carry unimpaired.
        """
        for link, share in self.shares.items():
            for name in (f"{link}_tx_bytes_per_second", f"{link}_rx_bytes_per_second"):
                traffic[name] = np.minimum(traffic[name], maxima[name] * share)

    def carried(self, name: str, maxima: Mapping[str, Floats]) -> Floats:
        """What impaired links carry of a quantity of their traffic.

        :param maxima: what they carry unimpaired.
        """
        share = self.shares.get(name.partition("_")[0])
        return maxima[name] if share is None else maxima[name] * share


def _flags(condition: Floats | None) -> Mask | None:
    return None if condition is None else condition > 0
