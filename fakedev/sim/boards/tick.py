"""How a board answers to work in one tick: the order in which everything follows from something else.

For devices whose type has dynamics; other devices follow the load directly. One tick, in order:

1. whether it hangs, and what the work wants of it (:mod:`~fakedev.sim.boards.engines`);
2. usage and engines, from the kinds of work and from what is asked of single engines;
3. what the clock is held at: by the hardware and by the thermal throttle, from the temperature of the tick
   before; by the power limit, from the work (:mod:`~fakedev.sim.boards.heat_and_power`), with its own lag;
4. the core clock: the highest at any work; without, it falls to idle in some seconds; at most what 3 leaves
   (:mod:`~fakedev.sim.boards.clocks`);
5. the traffic of memory, PCIe and links to other boards, which a throttled clock lowers; from it the memory clock;
6. power, from work and clock; the memory's part of it, from the traffic;
7. temperatures, which follow power with a lag, and the fan, which follows the temperature
   (:mod:`~fakedev.sim.boards.heat_and_power`);
8. the performance state, how long each reason has throttled, and whether heat shut the board down.

The cycle temperature - clock - power is broken by taking the temperature of the tick before. Formulas,
constants and their sources are in doc/simulation.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards import clocks
from fakedev.sim.boards import heat_and_power as heat
from fakedev.sim.boards import heat_and_power as power
from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.boards.engines import Engines
from fakedev.sim.boards.settings import Setting
from fakedev.sim.entities.randomness import Floats, Keys
from fakedev.spec.device_types import DeviceType

#: What every board has beside the quantities of its type's ranges.
BOARD_QUANTITIES: Final = (
    "core_frequency_request_mhz",
    "power_limit_watts",
    "throttle_reasons",
    "throttled_idle",
    "throttled_power",
    "throttled_power_seconds",
    "throttled_thermal",
    "throttled_thermal_seconds",
    "throttled_hardware",
    "throttled_hardware_seconds",
    "throttled_hardware_heat_seconds",
    "throttled_hardware_brake_seconds",
    "thermal_clock_ratio",
    "power_clock_ratio",
    "work_clock_ratio",
    "temperature_max_celsius",
    "temperature_margin_celsius",
    "inlet_temperature_celsius",
    "hung",
    "lost",
)
#: Work gets on, however slowly, also on a board whose idle clock is 0, or that hangs.
_MIN_PACE: Final = 0.001


class Boards:
    """The devices with dynamics: B boards, all arrays of shape (B,) in their order.

    :param types: the types that there are; each has dynamics, and ranges of the quantities in NEEDED.
    :param which: the type of each board, as a place in ``types``.
    :param inlets: inlet temperature of each board in degrees Celsius, NaN for that of its type.
    :param keys: keys of randomness of the boards.
    """

    NEEDED: Final = ("usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius")
    #: What a tick needs to know of the one before.
    REMEMBERED: Final = (
        "core_frequency_mhz",
        "temperature_celsius",
        "memory_temperature_celsius",
        "fan_speed_ratio",
        "thermal_clock_ratio",
        "power_clock_ratio",
        "throttled_power_seconds",
        "throttled_thermal_seconds",
        "throttled_hardware_seconds",
        "throttled_hardware_heat_seconds",
        "throttled_hardware_brake_seconds",
        "lost",
    )

    def __init__(
        self, types: Sequence[DeviceType], which: NDArray[np.int64], inlets: Floats, seed: int, keys: Keys
    ) -> None:
        self._boards = Coefficients(types, which, inlets, seed, keys)
        self._engines = Engines(self._boards)
        self._setting = Setting.of(self._boards, Conditions())
        #: What 100 % of each quantity that can be asked for is, 0 where a board has it not.
        self.maxima: Mapping[str, Floats] = self._engines.maxima

    def set_conditions(self, conditions: Conditions) -> None:
        """From the next tick on the boards live in these conditions."""
        self._setting = Setting.of(self._boards, conditions)

    def step(
        self,
        loads: Mapping[str, Floats],
        asked: Mapping[str, Floats],
        before: Mapping[str, Floats] | None,
        seconds: float,
    ) -> dict[str, Floats]:
        """The boards' quantities after one tick.

        :param loads: for each kind of work the load of each board, a share of 1; a kind that a type does not know
            does nothing there.
        :param asked: what is asked beside that, by quantity and in its unit.
        :param before: the quantities in REMEMBERED, a tick ago; None at the start, when all is at its steady state.
        """
        boards, engines, setting = self._boards, self._engines, self._setting
        work = engines.work(loads, asked, setting.hung)
        made, active = engines.busy(work)
        share = power.work_share(boards, work)
        limited, limited_mean = clocks.power_ratio(boards, power.fitting_ratio(boards, setting, share), before, seconds)
        heated = clocks.thermal_ratio(boards, before, seconds)
        ratios = {
            "throttled_hardware": clocks.hardware_ratio(boards, setting, before),
            "throttled_thermal": heated,
            "throttled_power": limited_mean,
        }
        clock, throttles = clocks.core_clock(boards, setting, active, ratios, before, seconds)
        clock_ratio = np.where(active, clock / boards.high["core_frequency_mhz"], 1.0)
        traffic = setting.carried(engines.traffic(work, clock_ratio), engines.maxima)
        drawn = power.board_power(boards, share, clock)
        core, memory = (
            heat.temperature(boards, setting, name, drawn, before, seconds)
            for name in ("temperature_celsius", "memory_temperature_celsius")
        )
        return {
            **made,
            **throttles,
            **traffic,
            "thermal_clock_ratio": heated,
            "power_clock_ratio": limited,
            "core_frequency_mhz": clock,
            "work_clock_ratio": clock_ratio,
            "memory_frequency_mhz": clocks.memory_clock(boards, clock, engines.moving(traffic)),
            "video_frequency_mhz": clocks.video_clock(boards, clock),
            "power_watts": drawn,
            "power_limit_watts": setting.power_limit_watts,
            "memory_power_watts": power.memory_power(boards, traffic, drawn),
            "temperature_celsius": core,
            "temperature_max_celsius": heat.highest(core, before),
            "temperature_margin_celsius": boards.operating_celsius - core,
            "memory_temperature_celsius": memory,
            "inlet_temperature_celsius": setting.inlet_celsius,
            "fan_speed_ratio": heat.fan_speed(boards, setting, core, before, seconds),
            "performance_state": clocks.performance_state(boards, clock, active),
            "hung": np.zeros(boards.count) if work.hanging is None else work.hanging.astype(np.float64),
            "lost": heat.lost(boards, setting, before),
        }

    @property
    def inlet_celsius(self) -> Floats:
        """The temperature of the air where no condition has changed it."""
        return self._boards.inlet

    def awakened(self, before: Mapping[str, Floats], reset: NDArray[np.bool_]) -> Mapping[str, Floats]:
        """The tick before, with boards that were lost and are reset now as cold as their air."""
        back = reset & (before["lost"] > 0)
        if not back.any():
            return before
        low, air, one = self._boards.low, self._setting.inlet_celsius, np.ones(self._boards.count)
        cold = {
            "core_frequency_mhz": low["core_frequency_mhz"],
            "temperature_celsius": air,
            "memory_temperature_celsius": air,
            "fan_speed_ratio": low["fan_speed_ratio"],
            "thermal_clock_ratio": one,
            "power_clock_ratio": one,
            "lost": 0.0 * one,
        }
        return {name: np.where(back, cold[name], values) if name in cold else values for name, values in before.items()}

    def brought(self, kind: str) -> Mapping[str, Floats]:
        """What a full load of a kind of work brings of usage, engines and traffic, over what an idle board has."""
        return self._engines.brought(kind)

    def pace(self, work_clock_ratio: Floats, hung: Floats) -> Mapping[str, Floats]:
        """How fast each kind of work gets on, by its speed at the highest clock, with the clocks of a tick.

        Nothing where all gets on at full speed.
        """
        lost = 1.0 - work_clock_ratio
        hangs = hung > 0
        if not lost.any() and not hangs.any():
            return {}
        paces = {kind: np.maximum(self._boards.pace(kind, lost), _MIN_PACE) for kind in self._boards.kinds}
        return {kind: np.where(hangs, _MIN_PACE, pace) for kind, pace in paces.items()}
