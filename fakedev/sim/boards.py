"""How a board answers to work: clocks, power, heat and throttling, each from the others in a stated order.

For devices whose type has dynamics; other devices follow the load directly. One tick, in order:

1. usage, tensor, memory and PCIe shares from the loads of all kinds of work;
2. the clock that the work asks for: the highest at any work; without, it falls to idle in some seconds;
3. the thermal throttle, from the temperature of the tick before: it takes clock away while that is at or
   over the slowdown limit, and gives it back under the resume limit;
4. the power cap: the highest clock at which the work stays within the limit;
5. power, from work and clock; 6. temperatures, which follow power with a lag;
7. how long each reason has throttled.

The cycle temperature - clock - power is broken by taking the temperature of the tick before. Formulas,
constants and their sources are in doc/simulation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.sim.device_types import DeviceType, Dynamics, Range, WorkKind
from fakedev.sim.quantities import DIRECT_QUANTITIES
from fakedev.sim.randomness import Floats

#: What dynamics make beside the quantities of a type's ranges.
DYNAMIC_QUANTITIES: Final = (
    "power_limit_watts",
    "throttled_power",
    "throttled_power_seconds",
    "throttled_thermal",
    "throttled_thermal_seconds",
    "thermal_clock_ratio",
    "work_clock_ratio",
)
#: Usage below this is idle: no board raises its clocks for it.
_IDLE_USAGE: Final = 1e-6
#: Share of the highest clock that the thermal throttle takes or gives in a second, and per kelvin over the limit.
_THERMAL_RATE: Final = 0.02
#: Work gets on, however slowly, also on a board whose idle clock is 0.
_LEAST_PACE: Final = 0.001
#: Rounding must not cost a clock its last step, nor keep it a hair above idle; in steps, and in MHz.
_ROUNDING: Final = 1e-6


class Boards:
    """The devices with dynamics: B boards, all arrays of shape (B,) in their order.

    :param types: the type of each board; it has dynamics, and ranges of the quantities in NEEDED.
    """

    NEEDED: Final = ("usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius")
    #: What a tick needs to know of the one before.
    REMEMBERED: Final = (
        "core_frequency_mhz",
        "temperature_celsius",
        "memory_temperature_celsius",
        "thermal_clock_ratio",
        "throttled_power_seconds",
        "throttled_thermal_seconds",
    )

    def __init__(self, types: Sequence[DeviceType]) -> None:
        boards = [each.dynamics or Dynamics(0.0) for each in types]

        def low(name: str) -> Floats:
            return np.array([each.ranges.get(name, Range(0.0, 0.0)).low for each in types])

        def high(name: str) -> Floats:
            return np.array([each.ranges.get(name, Range(0.0, 0.0)).high for each in types])

        def each_of(name: str) -> Floats:
            return np.array([float(getattr(board, name)) for board in boards])

        self._low = {name: low(name) for name in DIRECT_QUANTITIES}
        self._high = {name: high(name) for name in DIRECT_QUANTITIES}
        self._limit_watts = each_of("power_limit_watts")
        self._exponent = each_of("clock_power_exponent")
        self._clocked_share = each_of("clocked_power_share")
        self._step_mhz = each_of("clock_step_mhz")
        self._fall_seconds = each_of("clock_fall_seconds")
        self._slowdown = each_of("slowdown_celsius")
        self._resume = each_of("resume_celsius")
        self._lags = {
            "temperature_celsius": _Lag(each_of("thermal_seconds")),
            "memory_temperature_celsius": _Lag(each_of("memory_thermal_seconds")),
        }
        self._link = each_of("pcie_bytes_per_second")
        kinds = dict.fromkeys(kind for board in boards for kind in board.kinds)
        self._kinds = {kind: _shares([board.kinds.get(kind, _NOTHING) for board in boards]) for kind in kinds}

    def step(
        self, loads: Mapping[str, Floats], before: Mapping[str, Floats] | None, seconds: float
    ) -> dict[str, Floats]:
        """The boards' quantities after one tick.

        :param loads: for each kind of work the load of each board, a share of 1; a kind that a type does not know
            does nothing there.
        :param before: the quantities in REMEMBERED, a tick ago; None at the start, when all is at its steady state.
        """
        busy = np.minimum(self._sum(loads, "usage"), 1.0)
        made = self._engines(loads, busy)
        work = self._work(loads)
        clock, throttles = self._clock(busy, work, before, seconds)
        made |= throttles
        made["core_frequency_mhz"] = clock
        clock_ratio = clock / self._high["core_frequency_mhz"]
        made["work_clock_ratio"] = np.where(busy > _IDLE_USAGE, clock_ratio, 1.0)
        raised = self._raised(clock)
        made["memory_frequency_mhz"] = np.where(
            raised > 0, self._high["memory_frequency_mhz"], self._low["memory_frequency_mhz"]
        )
        power = self._power(work, clock)
        made["power_watts"] = power
        made["power_limit_watts"] = self._limit_watts
        for name in self._lags:
            made[name] = self._followed(name, power, before, seconds)
        return made

    def pace(self, work_clock_ratio: Floats) -> dict[str, Floats]:
        """How fast each kind of work gets on, by its speed at the highest clock, with the clocks of a tick."""
        lost = 1.0 - work_clock_ratio
        return {
            kind: np.maximum(1.0 - shares["clock_sensitivity"] * lost, _LEAST_PACE)
            for kind, shares in self._kinds.items()
        }

    def brought(self, kind: str) -> dict[str, Floats]:
        """What a full load of a kind of work brings of what the engines do, over what they do when idle."""
        full = {kind: np.ones(len(self._limit_watts))}
        busy = self._engines(full, np.minimum(self._sum(full, "usage"), 1.0))
        idle = self._engines({}, np.zeros(len(self._limit_watts)))
        return {name: values - idle[name] for name, values in busy.items()}

    def _engines(self, loads: Mapping[str, Floats], busy: Floats) -> dict[str, Floats]:
        """What the work keeps busy: shares of 1, and bytes per second."""
        made = {"usage_ratio": self._between("usage_ratio", busy)}
        plain, transfer = self._sum(loads, "plain"), self._sum(loads, "transfer")
        for name, field in (("tensor_active_ratio", "tensor"), ("memory_bandwidth_ratio", "memory")):
            made[name] = np.minimum(self._between(name, plain) + self._sum(loads, field), 1.0)
        for name in ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"):
            own = self._between(name, plain)
            made[name] = np.minimum(own + transfer * self._link, np.maximum(self._link, own))
        return made

    def _between(self, name: str, share: Floats) -> Floats:
        """The value of a range at a share of its width."""
        value: Floats = self._low[name] + share * (self._high[name] - self._low[name])
        return value

    def _sum(self, loads: Mapping[str, Floats], field: str) -> Floats:
        total = np.zeros(len(self._limit_watts))
        for kind, shares in self._kinds.items():
            if kind in loads:
                total = total + loads[kind] * shares[field]
        return total

    def _work(self, loads: Mapping[str, Floats]) -> Floats:
        """Power that the work would draw at the highest clock, as a share of what plain full load draws."""
        total = np.zeros(len(self._limit_watts))
        for kind, shares in self._kinds.items():
            if kind in loads:
                total = total + shares["power"] * loads[kind] ** shares["power_exponent"]
        return total

    def _clock(
        self, busy: Floats, work: Floats, before: Mapping[str, Floats] | None, seconds: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """The core clock, and what throttles it."""
        idle, full = self._low["core_frequency_mhz"], self._high["core_frequency_mhz"]
        wanted = np.where(busy > _IDLE_USAGE, full, idle)
        thermal = np.ones(len(full))
        if before is not None:
            fallen = before["core_frequency_mhz"] - (full - idle) * seconds / self._fall_seconds
            wanted = np.where(fallen > wanted + _ROUNDING, fallen, wanted)
            thermal = self._thermal_ratio(before, seconds)
        capped = self._capped_ratio(work)
        allowed = full * np.minimum(thermal, capped)
        stepped = np.floor(allowed / self._step_mhz + _ROUNDING) * self._step_mhz
        held = np.where(allowed < full, np.maximum(np.minimum(stepped, full - self._step_mhz), idle), full)
        is_held = wanted > held
        by_heat = is_held & (thermal <= capped)
        throttles: dict[str, Floats] = {"thermal_clock_ratio": thermal}
        for name, active in (("throttled_thermal", by_heat), ("throttled_power", is_held & ~by_heat)):
            throttles[name] = active.astype(np.float64)
            so_far = np.zeros(len(full)) if before is None else before[f"{name}_seconds"]
            throttles[f"{name}_seconds"] = so_far + active * seconds
        return np.minimum(wanted, held), throttles

    def _thermal_ratio(self, before: Mapping[str, Floats], seconds: float) -> Floats:
        """The share of the highest clock that heat leaves."""
        over = before["temperature_celsius"] - self._slowdown
        taken = np.where(over >= 0, -_THERMAL_RATE * (1.0 + np.maximum(over, 0.0)), 0.0)
        given = np.where(before["temperature_celsius"] < self._resume, _THERMAL_RATE, 0.0)
        least = self._low["core_frequency_mhz"] / self._high["core_frequency_mhz"]
        return np.clip(before["thermal_clock_ratio"] + (taken + given) * seconds, least, 1.0)

    def _capped_ratio(self, work: Floats) -> Floats:
        """The share of the highest clock at which the work stays within the power limit."""
        idle, span = self._idle_and_span()
        room = self._limit_watts - idle - span * self._clocked_share
        wanted = span * (1.0 - self._clocked_share) * work
        over = wanted > room
        # Without any room not even the highest clock by itself fits, and only idle is left.
        ratio = np.divide(np.maximum(room, 0.0), wanted, out=np.zeros_like(room), where=over & (wanted > 0))
        return np.where(over, ratio ** (1.0 / self._exponent), 1.0)

    def _power(self, work: Floats, clock: Floats) -> Floats:
        idle, span = self._idle_and_span()
        share = self._clocked_share
        scaled = work * (clock / self._high["core_frequency_mhz"]) ** self._exponent
        power: Floats = idle + span * (share * self._raised(clock) + (1.0 - share) * scaled)
        return power

    def _followed(self, name: str, power: Floats, before: Mapping[str, Floats] | None, seconds: float) -> Floats:
        """A temperature: it goes to the level of the power as a first-order lag."""
        idle, span = self._idle_and_span()
        level: Floats = self._low[name] + (self._high[name] - self._low[name]) * (power - idle) / span
        if before is None or name not in before:
            return level
        lagged: Floats = level + (before[name] - level) * self._lags[name].kept(seconds)
        return lagged

    def _idle_and_span(self) -> tuple[Floats, Floats]:
        idle = self._low["power_watts"]
        return idle, self._high["power_watts"] - idle

    def _raised(self, clock: Floats) -> Floats:
        """How far the clock is above idle, as a share of its range."""
        idle = self._low["core_frequency_mhz"]
        raised: Floats = (clock - idle) / (self._high["core_frequency_mhz"] - idle)
        return raised


class _Lag:
    """Time constants of boards; there are few different ones."""

    def __init__(self, constants: Floats) -> None:
        self._different, self._which = np.unique(constants, return_inverse=True)

    def kept(self, seconds: float) -> Floats:
        """The share of a difference that is left after some seconds, for each board."""
        left: Floats = np.array([math.exp(-seconds / each) for each in self._different.tolist()])[self._which]
        return left


def _shares(kinds: Sequence[WorkKind]) -> dict[str, Floats]:
    """What one kind of work does to each board, by field of WorkKind."""
    return {field: np.array([float(getattr(kind, field)) for kind in kinds]) for field in _SHARES}


_SHARES: Final = ("usage", "plain", "tensor", "memory", "transfer", "power", "power_exponent", "clock_sensitivity")
_NOTHING: Final = WorkKind(usage=0.0, plain=0.0, power=0.0)
