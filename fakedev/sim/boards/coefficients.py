"""Device types as arrays: the coefficients of every relation between quantities of boards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys, uniform
from fakedev.sim.entities.state import LazyArrays, Mask, Positions
from fakedev.spec.device_types import DeviceType, Dynamics, Range, WorkKind
from fakedev.spec.quantities import DIRECT_QUANTITIES

#: Usage, or a share of an engine or of a link, that is below this raises no clocks.
IDLE: Final = 1e-6
_CLOCK: Final = "core_frequency_mhz"
_MEMORY: Final = "memory_frequency_mhz"
_VIDEO: Final = "video_frequency_mhz"
_NOTHING: Final = Range(0.0, 0.0)
#: Exponents for which a square root and products suffice.
_WITH_ROOT: Final = (0.5, 1.5, 2.5)
#: Tolerance of rounding, in clock steps: a clock does not lose its last step.
_ROUNDING: Final = 1e-6
#: Share of the highest clock that remains at or over the hardware's own temperature limit, or with a power brake.
_HARDWARE_SHARE: Final = 0.5
#: The least slope of power over clock, in watts: it is a divisor.
_LEAST_SLOPE: Final = 1e-9
_NO_WORK: Final = WorkKind(usage=0.0, power=0.0)


class Lag:
    """A time constant of each board; few of them differ.

    :param constants: seconds, shape (B,); 0: no lag.
    """

    def __init__(self, constants: Floats) -> None:
        self._different, self._which = np.unique(constants, return_inverse=True)
        self._seconds = -1.0
        self._left = self._mean = constants

    def kept(self, seconds: float) -> Floats:
        """The share of a difference that remains after some seconds, for each board."""
        self._measure(seconds)
        return self._left

    def mean(self, seconds: float) -> Floats:
        """The mean share of a difference that remains over some seconds, for each board."""
        self._measure(seconds)
        return self._mean

    def _measure(self, seconds: float) -> None:
        if seconds == self._seconds:
            return
        constants = self._different.tolist()
        left = [math.exp(-seconds / each) if each else 0.0 for each in constants]
        mean = [-math.expm1(-seconds / each) * each / seconds if each and seconds else 0.0 for each in constants]
        self._left, self._mean = np.array(left)[self._which], np.array(mean)[self._which]
        self._seconds = seconds


class Exponents:
    """An exponent of each board, grouped by value: few of them need the slow power function."""

    def __init__(self, exponents: Floats) -> None:
        self._different = np.unique(exponents).tolist()
        self._where: list[Mask] = [exponents == each for each in self._different]

    def of(self, base: Floats) -> Floats:
        """``base ** exponent`` of each board, for bases of 0 and more."""
        if len(self._different) == 1:
            return _power(base, self._different[0])
        result = np.empty_like(base)
        for exponent, where in zip(self._different, self._where, strict=True):
            result[where] = _power(base[where], exponent)
        return result


def as_few(values: Floats) -> Floats | float:
    """One number in place of an array of equal ones: multiplying by it is faster."""
    return float(values[0]) if (values == values[0]).all() else values


def _power(base: Floats, exponent: float) -> Floats:
    if exponent == 1.0:
        return base
    if exponent == 0.0:
        return np.ones_like(base)
    if exponent in _WITH_ROOT:
        powered: Floats = np.sqrt(base)
        for _ in range(int(exponent)):
            powered = powered * base
        return powered
    return np.asarray(base**exponent, dtype=np.float64)


class Subset:
    """Some of the devices or parts of a fleet, such as those with dynamics: positions among all.

    :param which: the members, shape (all,).
    :ivar is_all: whether all are members; arrays are then passed on as they are.
    :ivar positions: positions of the members, ascending.
    """

    def __init__(self, which: Mask) -> None:
        self.is_all = bool(which.all())
        self.positions: Positions = np.flatnonzero(which)
        self._count = len(which)

    def of(self, arrays: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """The members' values of arrays over all; each is computed at its first use."""
        return arrays if self.is_all else LazyArrays(arrays, lambda name: arrays[name][self.positions])

    def put(self, values: Floats, others: Floats | None) -> Floats:
        """A new array over all: the members' values, and elsewhere those of ``others`` (None: 0)."""
        if self.is_all:
            return values
        every = np.zeros(self._count) if others is None else others.copy()
        every[self.positions] = values
        return every


def with_dynamics(
    types: Sequence[DeviceType], which: Positions
) -> tuple[list[DeviceType], Positions]:
    """The types with dynamics, and the type of each device with dynamics, as an index into these.

    :param which: the type of each device, as an index into ``types``.
    """
    used = [place for place, each in enumerate(types) if each.dynamics is not None]
    return [types[place] for place in used], np.searchsorted(used, which[np.isin(which, used)])


class Kind:
    """One kind of work on each board.

    :param kinds: its effect on boards of each type.
    :param which: the type of each board, as an index into ``kinds``: shape (B,).
    :param slows: boards on which a lower clock slows work, shape (B,).
    :ivar is_slowed: whether a lower clock slows it on any board.
    """

    def __init__(self, kinds: Sequence[WorkKind], which: Positions, slows: Mask) -> None:
        self._kinds = kinds
        self._which = which
        self.power = self.share("power")
        self.exponents = Exponents(self.share("power_exponent"))
        self._clock_sensitivity = as_few(self.share("clock_sensitivity") * slows)
        self.is_slowed = bool(np.any(self._clock_sensitivity))

    def pace(self, lost: Floats) -> Floats:
        """Its speed by that at the highest clock.

        :param lost: the missing share of the highest clock.
        """
        pace: Floats = 1.0 - self._clock_sensitivity * lost
        return pace

    def share(self, field: str) -> Floats:
        """A field of :class:`WorkKind`: shape (B,)."""
        return np.array([float(getattr(kind, field)) for kind in self._kinds])[self._which]


class Coefficients:
    """All coefficients of B boards: arrays of shape (B,), in the units of their names.

    :param types: device types; each has dynamics.
    :param which: the type of each board, as an index into ``types``: shape (B,).
    :param inlets: inlet temperature of each board in degrees Celsius, NaN for that of its type, shape (B,).
    :param keys: random keys of the boards, shape (B,): they decide the spread between boards of one type.
    :ivar low, high: ends of the types' ranges; 0 for quantities without one.
    :ivar has: boards with a range of a quantity.
    :ivar resting_mhz, memory_resting_mhz: clocks without work.
    :ivar hardware_ratio: the share of the highest clock that the hardware slowdown leaves.
    :ivar clocked_slope: watts of raised clocks, by the share of the highest clock.
    :ivar fall_mhz: how fast the clock falls per second; infinite where it falls at once.
    :ivar operating_celsius: the highest temperature of operation, whether the board throttles there or not.
    :ivar heat: temperature over the inlet by name: without power, and per watt.
    :ivar kinds: kinds of work by name, in a stable order.
    """

    def __init__(
        self, types: Sequence[DeviceType], which: Positions, inlets: Floats, seed: int, keys: Keys
    ) -> None:
        dynamics = [each.dynamics or Dynamics(0.0) for each in types]
        ranges = {name: [each.ranges.get(name, _NOTHING) for each in types] for name in DIRECT_QUANTITIES}
        self.count = len(which)

        def of_boards(of_types: Sequence[float]) -> Floats:
            return np.array(of_types, dtype=np.float64)[which]

        def flags(of_types: Sequence[bool]) -> Mask:
            return np.array(of_types, dtype=np.bool_)[which]

        self.low = {name: of_boards([each.low for each in found]) for name, found in ranges.items()}
        self.high = {name: of_boards([each.high for each in found]) for name, found in ranges.items()}
        self.has = {name: flags([name in each.ranges for each in types]) for name in DIRECT_QUANTITIES}
        self.span = {name: self.high[name] - low for name, low in self.low.items()}

        self.min_ratio = self.low[_CLOCK] / self.high[_CLOCK]

        def each_of(name: str) -> Floats:
            return of_boards([float(getattr(each, name)) for each in dynamics])

        def is_on(switch: str) -> Mask:
            return flags([switch not in each.without for each in dynamics])

        self.limit_watts = each_of("power_limit_watts")
        self.keeps_limit, self.hangs, slows = is_on("power-limit"), is_on("hang"), is_on("slowing")
        self.resting_mhz = np.where(is_on("core-clock"), self.low[_CLOCK], self.high[_CLOCK])
        self.memory_resting_mhz = np.where(is_on("memory-clock"), self.low[_MEMORY], self.high[_MEMORY])
        self.limit_lag = Lag(each_of("power_limit_seconds"))
        self._set_exponents(each_of("clock_power_exponent"))
        self.hang_power_share = each_of("hang_power_share")
        self.step_mhz = each_of("clock_step_mhz")
        self.hardware_ratio = self.supported_mhz(_HARDWARE_SHARE * self.high[_CLOCK]) / self.high[_CLOCK]
        fall = each_of("clock_fall_seconds")
        self.fall_mhz = np.divide(self.span[_CLOCK], fall, out=np.full(self.count, math.inf), where=fall > 0)
        heats = is_on("thermal-throttle")
        self.operating_celsius = each_of("slowdown_celsius")
        self.slowdown = np.where(heats, self.operating_celsius, math.inf)
        self.resume = np.where(heats, each_of("resume_celsius"), math.inf)
        self.hardware_slowdown = np.where(is_on("hardware-slowdown"), each_of("hardware_slowdown_celsius"), math.inf)
        self.shutdown = np.where(is_on("shutdown"), each_of("shutdown_celsius"), math.inf)
        self._thermal_seconds = {
            "temperature_celsius": each_of("thermal_seconds"),
            "memory_temperature_celsius": each_of("memory_thermal_seconds"),
        }
        self.lags = self.heat_lags(1.0) | {"fan_speed_ratio": Lag(each_of("fan_seconds"))}
        self.memory_bytes_per_second = each_of("memory_bytes_per_second")
        self.links = {"transfer": each_of("pcie_bytes_per_second"), "fabric": each_of("fabric_bytes_per_second")}
        states = [each.idle_performance_state for each in dynamics]
        self.idle_state = of_boards([0.0 if state is None else state for state in states])
        self.kinds = {
            name: Kind([each.kinds.get(name, _NO_WORK) for each in dynamics], which, slows)
            for name in sorted({kind for each in dynamics for kind in each.kinds})
        }
        plain = self.span["memory_bandwidth_ratio"]
        self.plain_bandwidth = np.where(plain > 0, plain, 1.0)
        self._spread(each_of("spread"), seed, keys)
        self.clocked_watts = self.dynamic_watts * each_of("clocked_power_share")
        self.work_watts = self.dynamic_watts - self.clocked_watts
        self.clocked_slope = np.maximum(self.clocked_watts / (1.0 - self.min_ratio), _LEAST_SLOPE)
        at = of_boards([math.nan if each.inlet_celsius is None else each.inlet_celsius for each in dynamics])
        slope = self.span["temperature_celsius"] / self.span["power_watts"]
        line = self.low["temperature_celsius"] - slope * self.low["power_watts"]
        self.type_inlet = np.where(np.isnan(at), line, at)
        self.inlet = np.where(np.isnan(inlets), self.type_inlet, inlets)
        self.heat: dict[str, tuple[Floats, Floats]] = {}
        for name in ("temperature_celsius", "memory_temperature_celsius"):
            slope = self.span[name] / self.span["power_watts"]
            self.heat[name] = self.low[name] - self.type_inlet - slope * self.low["power_watts"], slope

    def _set_exponents(self, exponent: Floats) -> None:
        """The exponent of power over clock, its root for the power limit, and both of the slope of the power."""
        self.clock_exponents, self.clock_roots = Exponents(exponent), Exponents(1.0 / exponent)
        self.clock_exponents_less = Exponents(exponent - 1.0)
        self.clock_exponent, self.clock_exponent_less = as_few(exponent), as_few(exponent - 1.0)

    def _spread(self, share: Floats, seed: int, keys: Keys) -> None:
        """The differences between boards of one type."""

        def factor(what: str) -> Floats:
            return 1.0 + share * (2.0 * uniform(seed, keys, f"spread of {what}", 0) - 1.0)

        self.idle_watts = self.low["power_watts"] * factor("idle power")
        self.dynamic_watts = self.span["power_watts"] * factor("dynamic power")
        self.resistance = factor("thermal resistance")

    def heat_lags(self, resistance: Floats | float) -> dict[str, Lag]:
        """The lags of the temperatures by name: a time constant is thermal resistance times heat capacity.

        :param resistance: factor on the types' thermal resistance, shape (B,) or one number.
        """
        return {name: Lag(seconds * resistance) for name, seconds in self._thermal_seconds.items()}

    def between(self, name: str, share: Floats) -> Floats:
        """The value of a range at a share of its width."""
        value: Floats = self.low[name] + share * self.span[name]
        return value

    def supported_mhz(self, clock: Floats) -> Floats:
        """The highest clock that boards support and that is not over another one, within the range of the type.

        Supported are whole numbers of steps, and both ends of the range.
        """
        stepped = np.floor(clock / self.step_mhz + _ROUNDING) * self.step_mhz
        return np.where(clock < self.high[_CLOCK], np.maximum(stepped, self.low[_CLOCK]), self.high[_CLOCK])

    def video_mhz(self, raised: Floats) -> Floats:
        """The clock of the media engines, whole steps above its lowest.

        :param raised: how far the core clock is above idle, as a share of its range.
        """
        low, span = self.low[_VIDEO], self.span[_VIDEO]
        stepped = low + np.floor(raised * span / self.step_mhz + _ROUNDING) * self.step_mhz
        return np.where(raised < 1.0, stepped, self.high[_VIDEO])

    def raised(self, clock: Floats) -> Floats:
        """How far the core clock is above idle, as a share of its range."""
        raised: Floats = (clock - self.low[_CLOCK]) / self.span[_CLOCK]
        return raised
