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

_CORE: Final = "temperature_celsius"
_MEMORY_HEAT: Final = "memory_temperature_celsius"
#: The part of the memory's rise in temperature that comes from the power of the whole board: guessed.
_FROM_BOARD: Final = 0.5
#: Steps of Newton's method: three leave less than 2 mW with the exponents of the catalog, and 0.1 W with any up to 4.
_NEWTON_STEPS: Final = 3
#: Work that draws less counts as this: it is a divisor.
_LEAST_WATTS: Final = 1e-9
#: The least width of a range of temperatures: it is a divisor.
_LEAST_KELVINS: Final = 1e-9


def temperature(
    boards: Coefficients,
    setting: Setting,
    inlet: Floats,
    name: str,
    power: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats:
    """The temperature of core or memory: its rise over the inlet is linear in the power.

    A core that reaches the shutdown temperature within the tick switches its board off there, and gets no warmer.

    :param inlet: the temperature of the air.
    :param power: of the board; for the memory that of :func:`memory_warming`.
    """
    at_no_power, by_watt = boards.heat[name]
    level = inlet + setting.resistance * (at_no_power + by_watt * power)
    if setting.forced_celsius is not None and name == _CORE:
        level = np.where(np.isnan(setting.forced_celsius) | (power <= 0.0), level, setting.forced_celsius)
    lagged = _lagged(setting, name, level, before, seconds)
    if before is None or name != _CORE or not (lagged > boards.shutdown).any():
        return lagged
    return np.minimum(lagged, np.maximum(boards.shutdown, before[name]))


def throttling(
    boards: Coefficients,
    setting: Setting,
    inlet: Floats,
    share: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> tuple[Floats, Floats]:
    """What heat leaves of the highest clock where a board would get too warm, and the temperature that it is held at.

    Heat is a power limit: that at which the core is at the temperature at the end of the tick. The more of its power a
    board has to lose, the warmer it is held, from the slowdown temperature up to the hardware's slowdown.

    :param inlet: the temperature of the air.
    :param share: what the work draws, from :func:`work_share`.
    """
    at_no_power, by_watt = boards.heat[_CORE]

    def room(level: Floats) -> Floats:
        """What the power may be over that of an idle board, for a level of the temperature."""
        rise = (level - inlet) / setting.resistance - at_no_power
        return rise / by_watt - boards.idle_watts

    steady = fitting(boards, room(boards.slowdown), share)
    lost = np.zeros(boards.count) if steady is None else (1.0 - steady.ratio) / (1.0 - boards.min_ratio)
    held = boards.slowdown + boards.throttling_celsius * lost
    level = held
    if before is not None:
        kept = setting.lags[_CORE].kept(seconds)
        level = (held - before[_CORE] * kept) / (1.0 - kept)
    found = fitting(boards, room(level), share)
    ratio = np.ones(boards.count) if found is None else found.ratio
    if setting.forced_celsius is None or before is None:
        return ratio, held
    # Where less power does not help, the clock follows the temperature, by the same relation the other way round.
    is_forced = ~np.isnan(setting.forced_celsius)
    over = before[_CORE] - boards.slowdown
    width = np.where(boards.throttling_celsius > 0, boards.throttling_celsius, _LEAST_KELVINS)
    forced = 1.0 - np.clip(over / width, 0.0, 1.0) * (1.0 - boards.min_ratio)
    return np.where(is_forced, forced, ratio), np.where(is_forced, boards.slowdown, held)


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
    """The clocks at which boards meet a limit of their power: arrays of shape (B,).

    :ivar ratio: the share of the highest clock, 1 where no limit applies.
    :ivar excess_watts: what the work would draw over the limit at the highest clock; over 0 where the ratio is below 1.
    """

    ratio: Floats
    excess_watts: Floats


def fitting(boards: Coefficients, room_watts: Floats, share: Floats) -> Fitting | None:
    """The clocks at which boards meet a limit of their power; None where all boards fit at their highest clocks.

    :param room_watts: what the limit leaves to work and raised clocks; below 0 where it is under the idle power.
    :param share: what the work draws, from :func:`work_share`.

    It solves ``clocked x raised + work x ratio ^ exponent = room`` by Newton's method. The left side is convex, and
    the start is above the solution (without one of the two terms): each step comes nearer to it from above.
    """
    work = boards.work_watts * share
    most = boards.clocked_watts + work
    excess = most - room_watts
    over = excess > 0
    if not over.any():
        return None
    room = np.maximum(np.minimum(room_watts, most), 0.0)
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


def memory_load(boards: Coefficients, traffic: Mapping[str, Floats]) -> Floats:
    """The memory's traffic above that of an idle board, by that of plain full load."""
    used: Floats = (traffic["memory_bandwidth_ratio"] - boards.low["memory_bandwidth_ratio"]) / boards.plain_bandwidth
    return np.maximum(used, 0.0)


def memory_power(boards: Coefficients, used: Floats, power: Floats) -> Floats:
    """The memory's part of the power: linear in its traffic.

    :param used: from :func:`memory_load`.
    """
    name = "memory_power_watts"
    watts: Floats = boards.low[name] + np.minimum(boards.span[name] * used, np.maximum(power - boards.idle_watts, 0.0))
    return watts


def memory_warming(boards: Coefficients, used: Floats, power: Floats) -> Floats:
    """The power that warms the memory: in part the board's, in part the memory's own, in watts of a board.

    At plain full load both are that of the board. Lost boards are off: with a power of 0.

    :param used: from :func:`memory_load`.
    :param power: from :func:`warming_power`.
    """
    own = boards.idle_watts + used * boards.dynamic_watts
    both = _FROM_BOARD * power + (1.0 - _FROM_BOARD) * own
    return np.where(power > 0.0, both, 0.0)
