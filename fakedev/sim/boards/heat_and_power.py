"""Power, temperatures and fans of boards.

Power follows from work and clock. Temperatures follow the power, and fans the temperature, each with a lag.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Setting
from fakedev.sim.boards.engines import Work
from fakedev.sim.entities.randomness import Floats


def temperature(
    boards: Coefficients,
    setting: Setting,
    name: str,
    power: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats:
    """The temperature of core or memory: its rise over the inlet is linear in the power."""
    at_no_power, by_watt = boards.heat[name]
    level = setting.inlet_celsius + setting.resistance * (at_no_power + by_watt * power)
    return _lagged(boards, name, level, before, seconds)


def fan_speed(
    boards: Coefficients, setting: Setting, core: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """The speed of the fan: it scales with the core temperature."""
    name = "fan_speed_ratio"
    warmth = (core - boards.low["temperature_celsius"]) / boards.span["temperature_celsius"]
    speed = np.minimum(boards.between(name, np.maximum(warmth, 0.0)), 1.0)
    if setting.fan_stopped is not None:
        speed = np.where(setting.fan_stopped, 0.0, speed)
    return _lagged(boards, name, speed, before, seconds)


def lost(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """1 for lost boards: heat shuts a board down, and it stays lost until a reset."""
    gone: Floats = np.zeros(boards.count)
    if before is not None:
        gone = np.maximum(before["lost"], before["temperature_celsius"] >= boards.shutdown)
    return gone if setting.lost is None else np.maximum(gone, setting.lost)


def _lagged(
    boards: Coefficients, name: str, level: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """A lag of the first order."""
    if before is None or name not in before:
        return level
    lagged: Floats = level + (before[name] - level) * boards.lags[name].kept(seconds)
    return lagged


def work_share(boards: Coefficients, work: Work) -> Floats:
    """What the work draws at the highest clock, as a share of what a plain full load draws."""
    total = np.zeros(boards.count)
    for name, load in work.drawing.items():
        kind = boards.kinds[name]
        total = total + kind.power * kind.exponents.of(load)
    return total if work.hung is None else np.where(work.hung, boards.hang_power_share, total)


def fitting_ratio(boards: Coefficients, setting: Setting, share: Floats) -> Floats:
    """The share of the highest clock at which the power stays within its limit; 1 where no limit applies."""
    room = setting.room_watts
    wanted = boards.work_watts * share
    over = wanted > room
    if not over.any():
        return np.ones(boards.count)
    # Without room not even a raised clock fits: the board stays at its idle clock.
    ratio = np.divide(np.maximum(room, 0.0), wanted, out=np.ones_like(room), where=over & (wanted > 0))
    ratio = np.where(over & (wanted <= 0), 0.0, ratio)
    return boards.clock_roots.of(ratio)


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
