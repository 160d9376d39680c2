"""Power, temperatures and fans of boards.

Power follows from work and clock. Temperatures follow the power, and fans the temperature, each with a lag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.boards.conditions import Setting
from fakedev.fleet.boards.engines import Work
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.workloads.demand import Swing

_CORE: Final = "temperature_celsius"
_MEMORY_HEAT: Final = "memory_temperature_celsius"
#: Steps of Newton's method: three leave less than 2 mW with the exponents of the catalog, and 0.1 W with any up to 4.
_NEWTON_STEPS: Final = 3
#: Work that draws less counts as this: it is a divisor.
_LEAST_WATTS: Final = 1e-9
#: The least width of a range of temperatures, and the least slope of one over the power: they are divisors.
_LEAST_KELVINS: Final = 1e-9
_LEAST_SLOPE: Final = 1e-9
#: From so far below its limit on a memory may pass it within a tick: chosen.
_NEAR_KELVINS: Final = 10.0


def core_level(boards: Coefficients, setting: Setting, inlet: Floats, power: Floats) -> Floats:
    """Where the core temperature goes at a constant power: its rise over the inlet is linear in the power."""
    at_no_power, by_watt = boards.heat[_CORE]
    level: Floats = inlet + setting.resistance * (at_no_power + by_watt * power)
    return level


def temperature(
    boards: Coefficients,
    setting: Setting,
    inlet: Floats,
    power: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats:
    """The temperature of the core.

    A core that reaches the shutdown temperature within the tick switches its board off there, and gets no warmer.

    :param inlet: the temperature of the air.
    :param power: of the board.
    """
    level = core_level(boards, setting, inlet, power)
    if setting.forced_celsius is not None:
        level = np.where(np.isnan(setting.forced_celsius) | (power <= 0.0), level, setting.forced_celsius)
    lagged = _lagged(setting, _CORE, level, before, seconds)
    if before is None or not (lagged > boards.shutdown).any():
        return lagged
    return np.minimum(lagged, np.maximum(boards.shutdown, before[_CORE]))


def memory_temperature(
    boards: Coefficients,
    setting: Setting,
    inlet: Floats,
    power: Floats,
    used: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats:
    """The temperature of the memory, which shares the heat sink of the core, and has a rise of its own over it.

    Worse cooling makes the heat sink warmer: both get warmer by the same. Lost boards have no such rise.

    :param inlet: the temperature of the air.
    :param power: of the board.
    :param used: from :func:`memory_load`.
    """
    constant, by_watt = boards.memory_over_core
    apart = constant + by_watt * power + boards.memory_own_kelvins * used
    level = core_level(boards, setting, inlet, power) + np.where(power > 0.0, apart, 0.0)
    return _lagged(setting, _MEMORY_HEAT, level, before, seconds)


def heat_ratio(
    boards: Coefficients,
    setting: Setting,
    inlet: Floats,
    share: Floats,
    allowed: Floats,
    power: Floats,
    core: Floats,
    traffic: Callable[[], Mapping[str, Floats]],
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats | None:
    """What heat leaves of the highest clock; 1 where it takes nothing, None where it takes nothing from any board.

    Between the slowdown temperature and the one at which the board is held, the clock falls in proportion to the
    temperature. Where core or memory would be warmer than that at the end of the tick, heat is a power limit.

    :param inlet: the temperature of the air.
    :param share: what the work draws, from :func:`work_share`.
    :param allowed: the share of the highest clock that the power limit allows.
    :param power, core: of the tick, as they would be without this limit.
    :param traffic: returns the traffic likewise.
    """
    is_warm = core > boards.slowdown
    used = _throttling_memory(boards, traffic, before)
    if used is not None:
        memory = memory_temperature(boards, setting, inlet, power, used, before, seconds)
        is_warm = is_warm | (memory > boards.memory_slowdown)
    if not is_warm.any():
        return None
    at_no_power, by_watt = boards.heat[_CORE]

    def room(level: Floats) -> Floats:
        """What the power may be over that of an idle board, for a level of the core temperature."""
        rise = (level - inlet) / setting.resistance - at_no_power
        return rise / by_watt - boards.idle_watts

    def fits(watts: Floats) -> Floats:
        found = fitting(boards, watts, share)
        return np.ones(boards.count) if found is None else found.ratio

    lost = (1.0 - fits(room(boards.slowdown))) / (1.0 - boards.min_ratio)
    width = boards.throttling_celsius * lost
    held = boards.slowdown + width
    most = room(_level_at_end(setting, _CORE, held, before, seconds))
    is_held = core > held
    if used is not None:
        limit = boards.memory_slowdown
        level = _level_at_end(setting, _MEMORY_HEAT, limit, before, seconds) - boards.memory_own_kelvins * used
        constant, more_by_watt = boards.memory_over_core
        slope = np.maximum(setting.resistance * by_watt + more_by_watt, _LEAST_SLOPE)
        watts = (level - inlet - setting.resistance * at_no_power - constant) / slope
        most = np.where(np.isfinite(limit), np.minimum(most, watts - boards.idle_watts), most)
        is_held = is_held | (memory > limit)
    ratio = np.where(is_held, fits(most), 1.0)
    if before is None:
        return ratio
    over = before[_CORE] - boards.slowdown
    way = np.clip(np.divide(over, width, out=np.zeros_like(over), where=width > _LEAST_KELVINS), 0.0, 1.0)
    least = fits(room(held))
    falls = (way > 0.0) & (least < allowed)
    ratio = np.minimum(ratio, np.where(falls, allowed - (allowed - least) * way, 1.0))
    if setting.forced_celsius is None:
        return ratio
    # Where less power does not help, the clock follows the temperature up to the highest limit.
    width = np.where(boards.throttling_celsius > 0, boards.throttling_celsius, _LEAST_KELVINS)
    forced = 1.0 - np.clip(over / width, 0.0, 1.0) * (1.0 - boards.min_ratio)
    is_forced = ~np.isnan(setting.forced_celsius)
    return np.where(is_forced, np.where(core > boards.slowdown, forced, 1.0), ratio)


def _throttling_memory(
    boards: Coefficients, traffic: Callable[[], Mapping[str, Floats]], before: Mapping[str, Floats] | None
) -> Floats | None:
    """The memory's traffic, where any memory is near its limit; else None.

    That of the tick before, in which heat may have held it already, but not more than the work asks for now.
    """
    if before is None or _MEMORY_HEAT not in before:
        return None
    if not (before[_MEMORY_HEAT] > boards.memory_slowdown - _NEAR_KELVINS).any():
        return None
    return np.minimum(memory_load(boards, before), memory_load(boards, traffic()))


def _level_at_end(
    setting: Setting, name: str, celsius: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """The level to which a temperature has to go to be ``celsius`` at the end of the tick."""
    if before is None:
        return celsius
    kept = setting.lags[name].kept(seconds)
    level: Floats = (celsius - before[name] * kept) / (1.0 - kept)
    return level


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


class Swung(NamedTuple):
    """Boards whose work changes within a tick as if it had two values: pairs of arrays of shape (B,), the higher first.

    :ivar changes: the boards whose work does.
    :ivar shares: of the work, as from :func:`work_share`.
    :ivar parts: of the tick.
    :ivar ratios: the share of the highest clock that the power limit leaves to each.
    """

    changes: Mask
    shares: tuple[Floats, Floats]
    parts: tuple[Floats, Floats]
    ratios: tuple[Floats, Floats]

    @property
    def ratio(self) -> Floats:
        """The mean share of the highest clock that the power limit leaves."""
        return self._mean(*self.ratios)

    @property
    def held_share(self) -> Floats:
        """The part of the tick in which the power limit takes clock."""
        return self._mean(*((ratio < 1.0).astype(np.float64) for ratio in self.ratios))

    def power(self, boards: Coefficients, clock: Floats) -> Floats:
        """The mean power.

        :param clock: its mean.
        """
        scale = clock / self.ratio
        clocks = (np.minimum(scale * ratio, boards.high["core_frequency_mhz"]) for ratio in self.ratios)
        return self._mean(*(
            board_power(boards, share, run_clock, boards.raised(run_clock))
            for share, run_clock in zip(self.shares, clocks, strict=True)
        ))

    def _mean(self, high: Floats, low: Floats) -> Floats:
        return self.parts[0] * high + self.parts[1] * low


def swung(boards: Coefficients, room_watts: Floats, share: Floats, swing: Swing) -> Swung | None:
    """The work of boards at its two values; None where no work changes.

    :param room_watts, share: as of :func:`fitting`.
    """
    changes = swing.high != swing.low
    if not changes.any():
        return None

    def ratio(value: Floats) -> Floats:
        found = fitting(boards, room_watts, value)
        return np.ones(boards.count) if found is None else found.ratio

    shares = share * swing.high, share * swing.low
    return Swung(changes, shares, (swing.share, 1.0 - swing.share), (ratio(shares[0]), ratio(shares[1])))


def held(setting: Setting, drawn: Floats) -> Floats:
    """The power of boards, in watts, which power smoothing holds up."""
    return drawn if setting.held_watts is None else np.maximum(drawn, setting.held_watts)


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
