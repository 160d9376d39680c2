"""Power, temperatures and fans of boards.

Power follows from work and clock. Temperatures follow the power, and fans the temperature, each with a lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Setting
from fakedev.sim.boards.engines import Work
from fakedev.sim.entities.randomness import Floats

#: Steps of Newton's method: three leave less than 2 mW with the exponents of the catalog, and 0.1 W with any up to 4.
_NEWTON_STEPS: Final = 3
#: Work that draws less counts as this: it is a divisor.
_LEAST_WATTS: Final = 1e-9


def temperature(
    boards: Coefficients,
    setting: Setting,
    name: str,
    power: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats:
    """The temperature of core or memory: its rise over the inlet is linear in the power.

    A core that reaches the shutdown temperature within the tick switches its board off there, and gets no warmer.
    """
    at_no_power, by_watt = boards.heat[name]
    level = setting.inlet_celsius + setting.resistance * (at_no_power + by_watt * power)
    lagged = _lagged(setting, name, level, before, seconds)
    if before is None or name != "temperature_celsius" or not (lagged > boards.shutdown).any():
        return lagged
    return np.minimum(lagged, np.maximum(boards.shutdown, before[name]))


def warming_power(power: Floats, before: Mapping[str, Floats] | None) -> Floats:
    """The power that warms boards: lost boards are off, and cool down."""
    if before is None or not (is_off := before["lost"] > 0).any():
        return power
    return np.where(is_off, 0.0, power)


def fan_speed(
    boards: Coefficients, setting: Setting, core: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """The speed of the fan: it scales with the core temperature."""
    name = "fan_speed_ratio"
    warmth = (core - boards.low["temperature_celsius"]) / boards.span["temperature_celsius"]
    speed = np.minimum(boards.between(name, np.maximum(warmth, 0.0)), 1.0)
    if setting.fan_stopped is not None:
        speed = np.where(setting.fan_stopped, 0.0, speed)
    return _lagged(setting, name, speed, before, seconds)


def lost(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """1 for lost boards: heat shuts a board down, and it stays lost until a reset."""
    gone: Floats = np.zeros(boards.count)
    if before is not None:
        gone = np.maximum(before["lost"], before["temperature_celsius"] >= boards.shutdown)
    return gone if setting.lost is None else np.maximum(gone, setting.lost)


def _lagged(
    setting: Setting, name: str, level: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """A lag of the first order."""
    if before is None or name not in before:
        return level
    lagged: Floats = level + (before[name] - level) * setting.lags[name].kept(seconds)
    return lagged


def work_share(boards: Coefficients, work: Work) -> Floats:
    """What the work draws at the highest clock, as a share of what a plain full load draws."""
    total = np.zeros(boards.count)
    for name, load in work.drawing.items():
        kind = boards.kinds[name]
        total = total + kind.power * kind.exponents.of(load)
    return total if work.hung is None else np.where(work.hung, boards.hang_power_share, total)


class Fitting(NamedTuple):
    """The clocks at which boards meet their power limits: arrays of shape (B,).

    :ivar ratio: the share of the highest clock, 1 where no limit applies.
    :ivar excess_watts: what the work would draw over the limit at the highest clock; over 0 where the ratio is below 1.
    """

    ratio: Floats
    excess_watts: Floats


def fitting(boards: Coefficients, setting: Setting, share: Floats) -> Fitting | None:
    """The clocks at which boards meet their power limits; None where all boards fit at their highest clocks.

    It solves ``clocked x raised + work x ratio ^ exponent = room`` by Newton's method. The left side is convex, and
    the start is above the solution (without one of the two terms): each step comes nearer to it from above.
    """
    work = boards.work_watts * share
    most = boards.clocked_watts + work
    excess = most - setting.room_watts
    over = excess > 0
    if not over.any():
        return None
    room = np.maximum(np.minimum(setting.room_watts, most), 0.0)
    least, slope = boards.min_ratio, boards.clocked_slope
    of_work = room / np.maximum(work, _LEAST_WATTS)
    ratio = np.minimum(np.minimum(boards.clock_roots.of(of_work), 1.0), least + room / slope)
    constant, times, steep = room + slope * least, boards.clock_exponent_less * work, boards.clock_exponent * work
    for _ in range(_NEWTON_STEPS):
        powered = boards.clock_exponents_less.of(ratio)
        ratio = ratio * powered  # a new array: the two may be the same
        ratio *= times
        ratio += constant
        powered *= steep
        powered += slope
        ratio /= powered
    # Where not even the idle clock fits, the board stays at it.
    ratio = np.maximum(np.minimum(ratio, 1.0), least)
    return Fitting(ratio if over.all() else np.where(over, ratio, 1.0), excess)


def board_power(boards: Coefficients, share: Floats, clock: Floats, raised: Floats) -> Floats:
    """The power that boards draw.

    :param raised: how far the clock is above idle, as a share of its range.
    """
    scaled = share * boards.clock_exponents.of(clock / boards.high["core_frequency_mhz"])
    power: Floats = boards.idle_watts + boards.clocked_watts * raised + boards.work_watts * scaled
    return power


def memory_power(boards: Coefficients, traffic: Mapping[str, Floats], power: Floats) -> Floats:
    """The memory's part of the power: it grows with the square root of the bandwidth in use."""
    name = "memory_power_watts"
    used = (traffic["memory_bandwidth_ratio"] - boards.low["memory_bandwidth_ratio"]) / boards.plain_bandwidth
    drawn = boards.span[name] * np.sqrt(np.maximum(used, 0.0))
    return boards.low[name] + np.minimum(drawn, power - boards.idle_watts)
