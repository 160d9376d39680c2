"""Device types as arrays: the coefficients of every relation between quantities of boards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from fakedev.fleet.boards.arrays import Air, Exponents, Lag, OfTypes, as_few, by_type
from fakedev.fleet.entities.randomness import Draws, Floats, Keys, uniform
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from fakedev.fleet.spec.quantities import DIRECT_QUANTITIES
from fakedev.fleet.spec.work_kinds import WorkKind

#: Usage, or a share of an engine or of a link, that is below this raises no clocks.
IDLE: Final = 1e-6
_CLOCK: Final = "core_frequency_mhz"
_MEMORY: Final = "memory_frequency_mhz"
_VIDEO: Final = "video_frequency_mhz"
_NOTHING: Final = Range(0.0, 0.0)
#: Tolerance of rounding, in clock steps: a clock does not lose its last step.
_ROUNDING: Final = 1e-6
#: Share of the highest clock that remains at or over the hardware's own temperature limit, or with a power brake.
_HARDWARE_SHARE: Final = 0.5
#: What regulating to the power limit leaves of the fluctuation of the power: chosen.
_NOISE_AT_LIMIT: Final = 0.1
#: The least slope of power over clock, in watts: it is a divisor.
_LEAST_SLOPE: Final = 1e-9
_NO_WORK: Final = WorkKind(usage=0.0, power=0.0)
#: The part of the memory's rise in temperature at plain full load that is its own, and goes with its traffic: fitted to
#: the 80 to 82 degrees that memory-bound work of a day reaches on A100s of 80 GB.
_OWN_MEMORY_HEAT: Final = 0.14


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
        #: The boards on which it needs a link, by link.
        self.needs = {
            link: needs for link, field in (("pcie", "transfer"), ("fabric", "fabric"))
            if (needs := self.share(field) > 0).any()
        }

    def pace(self, lost: Floats) -> Floats:
        """Its speed by that at the highest clock.

        :param lost: the missing share of the highest clock.
        """
        pace: Floats = 1.0 - self._clock_sensitivity * lost
        return pace

    def share(self, field: str) -> Floats:
        """A field of :class:`WorkKind`: shape (B,)."""
        return np.array([float(getattr(kind, field)) for kind in self._kinds])[self._which]


class PowerSensor:
    """How the power of B boards fluctuates, and what their sensors resolve.

    :param noise: the largest fluctuation, a share, shape (B,).
    :param step: the resolution in watts, shape (B,); 0: any number.
    :param keys: random keys of the boards, shape (B,).
    """

    def __init__(self, noise: Floats, step: Floats, seed: int, keys: Keys) -> None:
        self._draws = Draws(seed, keys, "power noise")
        self._noise = as_few(noise) if noise.any() else None
        #: Steps by watt, 0 without steps.
        self._per_watt = as_few(np.divide(1.0, step, out=np.zeros(len(step)), where=step > 0)) if step.any() else None

    def shown(self, watts: Floats, most: Floats, tick: int) -> Floats:
        """The power in a tick with its fluctuation, as the sensor resolves it.

        A board at its limit hardly fluctuates: regulating to the limit levels it out.

        :param watts: without fluctuation.
        :param most: the limit.
        """
        if self._noise is not None:
            widest = self._noise * watts
            room = np.minimum(np.maximum(most - watts, _NOISE_AT_LIMIT * widest), widest)
            watts = np.minimum(watts + room * (2.0 * self._draws.uniform(tick) - 1.0), np.maximum(watts, most))
        if self._per_watt is None:
            return watts
        steps: Floats = np.rint(watts * self._per_watt)
        if isinstance(self._per_watt, float):
            return steps / self._per_watt
        return np.divide(steps, self._per_watt, out=watts.copy(), where=self._per_watt > 0)


class Coefficients:
    """All coefficients of B boards: arrays of shape (B,), in the units of their names.

    :param types: device types; each has dynamics.
    :param which: the type of each board, as an index into ``types``: shape (B,).
    :param air: the air that cools the boards.
    :param keys: random keys of the boards, shape (B,): they decide the spread between boards of one type.
    :ivar low, high: ends of the types' ranges; 0 for quantities without one.
    :ivar has: boards with a range of a quantity.
    :ivar shown: quantities with a range of any board.
    :ivar resting_mhz, memory_resting_mhz: clocks without work.
    :ivar compute_state, compute_memory_mhz: performance state and memory clock with work that is no graphics.
    :ivar step_ratio: a step of the clock as a share of the highest.
    :ivar throttling_celsius: degrees above slowdown at which throttling reaches the minimum clock.
    :ivar throttles_until: the highest temperature that throttles: the hardware's slowdown, else the driver's.
    :ivar hardware_ratio: the share of the highest clock that the hardware slowdown leaves.
    :ivar power_step_watts, power_average_seconds: the resolution of the power sensor, and for how long it averages.
    :ivar clocked_slope: watts of raised clocks, by the share of the highest clock.
    :ivar fall_mhz: how fast the clock falls per second; infinite where it falls at once.
    :ivar operating_celsius: the highest temperature of operation, whether the board throttles there or not.
    :ivar drift_celsius: how far the daily drift of the room takes the inlet temperature; None: no room drifts.
    :ivar memory_slowdown: the memory temperature that throttles; infinite where none does.
    :ivar heat: temperature over the inlet by name, with idle memory: without power, and per watt.
    :ivar memory_over_core: the difference of the two.
    :ivar memory_own_kelvins: rise of the memory temperature by its traffic, at that of plain full load.
    :ivar kinds: kinds of work by name, in a stable order.
    """

    def __init__(
        self, types: Sequence[DeviceType], which: Positions, air: Air, seed: int, keys: Keys
    ) -> None:
        dynamics = [device_type.dynamics or Dynamics(0.0) for device_type in types]
        ranges = {name: [device_type.ranges.get(name, _NOTHING) for device_type in types] for name in DIRECT_QUANTITIES}
        self.count = len(which)
        of_types = OfTypes(dynamics, which)
        lows = {name: np.array([limits.low for limits in found]) for name, found in ranges.items()}
        highs = {name: np.array([limits.high for limits in found]) for name, found in ranges.items()}
        self.low = {name: by_type(low, which) for name, low in lows.items()}
        self.high = {name: by_type(high, which) for name, high in highs.items()}
        self.has = {name: by_type(np.array([name in each.ranges for each in types]), which) for name in ranges}
        self.span = {name: by_type(highs[name] - low, which) for name, low in lows.items()}
        self.shown = frozenset(name for name, has in self.has.items() if has.any())
        self.memory_bytes_per_second = of_types.number("memory_bytes_per_second")
        self.links = {
            "transfer": of_types.number("pcie_bytes_per_second"),
            "fabric": of_types.number("fabric_bytes_per_second"),
        }
        self.hangs, slows = of_types.has("hang"), of_types.has("slowing")
        self.kinds = {
            name: Kind([dynamic.kinds.get(name, _NO_WORK) for dynamic in dynamics], which, slows)
            for name in sorted({kind for dynamic in dynamics for kind in dynamic.kinds})
        }
        plain = self.span["memory_bandwidth_ratio"]
        self.plain_bandwidth = np.where(plain > 0, plain, 1.0)
        self._set_clocks(of_types)
        self._set_power(of_types, seed, keys)
        self._set_heat(of_types, air)
        self._set_memory_heat([device_type.memory_slowdown_celsius for device_type in types], which, of_types)

    def _set_clocks(self, of_types: OfTypes) -> None:
        low, high = self.low[_CLOCK], self.high[_CLOCK]
        self.min_ratio = low / high
        self.resting_mhz = np.where(of_types.has("core-clock"), low, high)
        self.memory_resting_mhz = np.where(of_types.has("memory-clock"), self.low[_MEMORY], self.high[_MEMORY])
        self.step_mhz = of_types.number("clock_step_mhz")
        self.step_ratio = self.step_mhz / high
        self.hardware_ratio = self.supported_mhz(_HARDWARE_SHARE * high) / high
        fall = of_types.number("clock_fall_seconds")
        self.fall_mhz = np.divide(self.span[_CLOCK], fall, out=np.full(self.count, math.inf), where=fall > 0)
        self.idle_state = np.nan_to_num(of_types.number("idle_performance_state"))
        self.compute_state = np.nan_to_num(of_types.number("compute_performance_state"))
        given = of_types.number("compute_memory_mhz")
        self.compute_memory_mhz = np.where(np.isnan(given), self.high[_MEMORY], given)

    def _set_power(self, of_types: OfTypes, seed: int, keys: Keys) -> None:
        self.limit_watts = of_types.number("power_limit_watts")
        self.keeps_limit = of_types.has("power-limit")
        self.limit_lag = Lag(of_types.number("power_limit_seconds"))
        self.hang_power_share = of_types.number("hang_power_share")
        exponent, clocked = of_types.number("clock_power_exponent"), of_types.number("clocked_power_share")
        self.clock_exponents, self.clock_roots = Exponents(exponent), Exponents(1.0 / exponent)
        self.clock_exponents_less = Exponents(exponent - 1.0)
        self.clock_exponent, self.clock_exponent_less = as_few(exponent), as_few(exponent - 1.0)
        self._measure_kinds(of_types, clocked, exponent)
        self._spread(of_types.number("spread"), seed, keys)
        self.clocked_watts = self.dynamic_watts * clocked
        self.work_watts = self.dynamic_watts - self.clocked_watts
        self.clocked_slope = np.maximum(self.clocked_watts / (1.0 - self.min_ratio), _LEAST_SLOPE)
        self.power_step_watts = of_types.number("power_step_watts")
        self.power_average_seconds = of_types.number("power_average_seconds")
        self.sensor = PowerSensor(of_types.number("power_noise"), self.power_step_watts, seed, keys)

    def _set_heat(self, of_types: OfTypes, air: Air) -> None:
        until = of_types.number("hardware_slowdown_celsius")
        self.operating_celsius = of_types.number("slowdown_celsius")
        self.slowdown = np.where(of_types.has("thermal-throttle"), self.operating_celsius, math.inf)
        self.throttles_until = np.where(np.isfinite(until), until, self.operating_celsius)
        self.throttling_celsius = self.throttles_until - self.operating_celsius
        self.resume = of_types.number("resume_celsius")
        self.hardware_slowdown = np.where(of_types.has("hardware-slowdown"), until, math.inf)
        self.hardware_from = np.minimum(self.resume, self.hardware_slowdown)
        self.shutdown = np.where(of_types.has("shutdown"), of_types.number("shutdown_celsius"), math.inf)
        self._thermal_seconds = {
            "temperature_celsius": of_types.number("thermal_seconds"),
            "memory_temperature_celsius": of_types.number("memory_thermal_seconds"),
        }
        self.lags = self.heat_lags(1.0) | {"fan_speed_ratio": Lag(of_types.number("fan_seconds"))}
        self.memory_own_kelvins = _OWN_MEMORY_HEAT * self.span["memory_temperature_celsius"]
        rises = {name: self.span[name] for name in self._thermal_seconds}
        rises["memory_temperature_celsius"] = rises["memory_temperature_celsius"] - self.memory_own_kelvins
        slopes = {name: rise / self.span["power_watts"] for name, rise in rises.items()}
        line = self.low["temperature_celsius"] - slopes["temperature_celsius"] * self.low["power_watts"]
        given, is_usual = of_types.number("inlet_celsius"), np.isnan(air.celsius)
        self.type_inlet = np.where(np.isnan(given), line, given)
        usual = self.type_inlet + air.places * of_types.number("inlet_spread_celsius")
        self.inlet = np.where(is_usual, usual, air.celsius) + air.rises
        of_rooms = np.where(is_usual, of_types.number("inlet_drift_celsius"), 0.0)
        drift = np.where(np.isnan(air.drifts), of_rooms, air.drifts)
        self.drift_celsius = as_few(drift) if drift.any() else None
        self.heat: dict[str, tuple[Floats, Floats]] = {
            name: (self.low[name] - self.type_inlet - slope * self.low["power_watts"], slope)
            for name, slope in slopes.items()
        }

    def _set_memory_heat(self, limits: Sequence[float], which: Positions, of_types: OfTypes) -> None:
        core, memory = (self.heat[name] for name in ("temperature_celsius", "memory_temperature_celsius"))
        self.memory_over_core = memory[0] - core[0], memory[1] - core[1]
        throttles = self.has["memory_temperature_celsius"] & of_types.has("thermal-throttle")
        self.memory_slowdown = np.where(throttles, np.array(limits)[which], math.inf)

    def _measure_kinds(self, of_types: OfTypes, clocked: Floats, exponent: Floats) -> None:
        """The power of kinds of work whose power was measured on the types, as a share of plain full load's.

        :param clocked: the share of the dynamic power that raised clocks draw, shape (B,).
        """
        idle, span, high = self.low["power_watts"], self.span["power_watts"], self.high[_CLOCK]
        clock = of_types.number("matrix_clock_mhz")
        at_clock = self.limit_watts - idle - clocked * span * self.raised(clock)
        watts = {
            "tensor": at_clock / (clock / high) ** exponent,
            "memory": of_types.number("memory_bound_watts") - idle - clocked * span,
        }
        for name, measured in watts.items():
            if name in self.kinds and not np.isnan(measured).all():
                kind = self.kinds[name]
                kind.power = np.where(np.isnan(measured), kind.power, measured / ((1.0 - clocked) * span))

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
