"""One tick of the boards whose type has dynamics: all quantities, in the order of their dependencies.

Other devices follow the load directly. One tick, in order:

1. which boards hang, and what the work asks of the others (:mod:`~fakedev.fleet.boards.engines`);
2. usage and engines, from the kinds of work and from requests for single engines;
3. limits of the clock: the hardware's, from the temperature of the tick before; the power limit, from the work
   (:mod:`~fakedev.fleet.boards.heat_and_power`), with its own lag;
4. the core clock: the highest with any work, or while a process holds a context; without both it falls to idle in some
   seconds; at most the limits of 3 (:mod:`~fakedev.fleet.boards.clocks`);
5. power, from work and clock, and the core temperature, which follows it with a lag. Where core or memory are too warm,
   or would be by the end of the tick, heat is a further limit of the clock: 4 and 5 are done once more;
6. the traffic of memory, PCIe and links to other boards, which a throttled clock lowers; from it the memory's clock,
   power and temperature;
7. the fan, which follows the temperature, the performance state, for how long each reason has throttled, and whether
   heat shut the board down.

Formulas, constants and their sources are in doc/simulation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.boards import clocks, heat_and_power
from fakedev.fleet.boards.arrays import Air
from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.boards.conditions import Conditions, Setting
from fakedev.fleet.boards.engines import PROFILED, Engines, Work
from fakedev.fleet.boards.sensors import INSTANT, Sensors
from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.entities.state import Mask, Positions, overlaid
from fakedev.fleet.links.link_levels import RATES
from fakedev.fleet.links.pcie_switches import PcieSwitches
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.quantities import THROTTLED_SECONDS
from fakedev.fleet.workloads.demand import Swing

#: By link: the share of what work wants to send or receive over it that it carries.
CARRIED: Final = {"pcie": "work_pcie_ratio", "fabric": "work_fabric_ratio"}
#: What the speed of work depends on.
PACED: Final = ("work_clock_ratio", "hung", *CARRIED.values())
#: Quantities of every board in addition to the ranges of its type.
BOARD_QUANTITIES: Final = (
    "core_frequency_request_mhz",
    "core_frequency_mean_mhz",
    "power_limit_watts",
    INSTANT,
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
    "throttled_sync_boost_seconds",
    "thermal_clock_ratio",
    "power_clock_ratio",
    "work_clock_ratio",
    *CARRIED.values(),
    "temperature_max_celsius",
    "temperature_margin_celsius",
    "inlet_temperature_celsius",
    "hung",
    "lost",
    *PROFILED,
)
#: Changes the traffic between boards such that each receives what others send, given what the links of each carry, and
#: which boards are lost (:meth:`fakedev.fleet.links.exchange.Exchange.settle`).
Settle = Callable[[dict[str, Floats], Floats, Floats], None]
#: Work makes progress, however slow, even on a board whose idle clock is 0 or that hangs.
_MIN_PACE: Final = 0.001
#: Rounding of exchanged traffic, as a share of it.
_ROUNDING: Final = 1e-9


class Moment(NamedTuple):
    """When a tick is.

    :ivar wall_seconds: the simulated time at its end, in seconds since 1970.
    """

    tick: int
    wall_seconds: float


class _Exchanged(NamedTuple):
    """The traffic of boards in a tick, by quantity: what their work demanded, and what became of it.

    :ivar lost: over 0 on lost boards.
    """

    demanded: Mapping[str, Floats]
    traffic: Mapping[str, Floats]
    lost: Floats


class Boards:
    """The devices with dynamics: B boards, all arrays of shape (B,) in their order.

    :param types: as the other parameters those of :class:`Coefficients`; they have ranges of the quantities in NEEDED.
    :param exact: whether sensors show the truth.
    :param switches: PCIe switches that boards share; None: none do.
    :ivar sensors: None if they do.
    """

    NEEDED: Final = ("usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius")

    def __init__(
        self, types: Sequence[DeviceType], which: Positions, air: Air, seed: int, keys: Keys, exact: bool = True,
        switches: PcieSwitches | None = None,
    ) -> None:  # fmt: skip
        self.coefficients = Coefficients(types, which, air, seed, keys)
        self.sensors = None if exact else Sensors(self.coefficients, seed, keys)
        self.engines = Engines(self.coefficients)
        self._setting = Setting.of(self.coefficients, Conditions())
        self._unimpaired = np.ones(self.coefficients.count)
        self._switches = switches
        self._settle: Settle | None = None
        self._exchanged: _Exchanged | None = None

    def set_conditions(self, conditions: Conditions, settle: Settle | None = None) -> None:
        """Change the conditions from the next tick on.

        :param settle: how boards exchange traffic over the links between them; None: each has links of its own.
        """
        self._setting = Setting.of(self.coefficients, conditions)
        self._settle = settle

    def work(
        self,
        loads: Mapping[str, Floats],
        activity: Mapping[str, Floats],
        asked: Mapping[str, Floats],
        contexts: Mask,
    ) -> Work:
        """The work that a demand amounts to under the present conditions; parameters as of :meth:`Engines.work`."""
        return self.engines.work(loads, activity, asked, contexts, self._setting.hung)

    def step(
        self, work: Work, before: Mapping[str, Floats] | None, moment: Moment, seconds: float,
        swing: Swing | None = None,
    ) -> dict[str, Floats]:  # fmt: skip
        """The boards' quantities after one tick.

        :param work: from :meth:`work`.
        :param swing: how it changes within the tick; None: not at all.
        :param before: the quantities a tick ago; None at the start, which is a steady state.
        """
        boards, engines = self.coefficients, self.engines
        setting = self._setting
        inlet = setting.inlet_at(boards, moment.wall_seconds)
        made, works = engines.busy(work)
        awake = works | work.contexts
        share = heat_and_power.work_share(boards, work)
        fitting = heat_and_power.fitting(boards, setting.room_watts, share)
        limited, limited_mean = clocks.power_ratio(boards, setting, fitting, before, seconds)
        swung = None if swing is None else heat_and_power.swung(boards, setting.room_watts, share, swing)
        if swung is not None:
            limited_mean = np.where(swung.changes, swung.ratio, limited_mean)
        ratios = {
            "throttled_hardware": clocks.hardware_ratio(boards, setting, before),
            "throttled_thermal": np.ones(boards.count),
            "throttled_power": limited_mean,
        }

        clocks.let_hardware_lead(ratios)
        held = partial(self._held_share, moment.tick, clocks.limited_share(boards, fitting, swung, seconds))

        def powered() -> tuple[Floats, dict[str, Floats], Floats, Floats, Floats, Floats]:
            """Mean clock, throttling, how far the clock is raised, power, what of it warms, and core temperature."""
            clock, throttles = clocks.core_clock(boards, setting, works, awake, ratios, before, seconds, held)
            raised = boards.raised(clock)
            drawn = heat_and_power.board_power(boards, share, clock, raised)
            if swung is not None:
                drawn = np.where(swung.changes, swung.power(boards, clock), drawn)
            drawn = boards.sensor.shown(heat_and_power.held(setting, drawn), setting.power_limit_watts, moment.tick)
            warming = heat_and_power.warming_power(drawn, before)
            core = heat_and_power.temperature(boards, setting, inlet, warming, before, seconds)
            return clock, throttles, raised, drawn, warming, core

        def ratio_of(clock: Floats) -> Floats:
            return np.where(awake, clock / boards.high["core_frequency_mhz"], 1.0)

        clock, throttles, raised, drawn, warming, core = powered()
        heated = heat_and_power.heat_ratio(
            boards, setting, inlet, share, limited_mean, warming, core,
            lambda: engines.traffic(work, ratio_of(clock)), before, seconds,
        )  # fmt: skip
        if heated is not None:
            ratios["throttled_thermal"] = heated
            clocks.let_hardware_lead(ratios)
            clock, throttles, raised, drawn, warming, core = powered()
        clock_ratio = ratio_of(clock)
        is_raised = raised > 0
        traffic = engines.traffic(work, clock_ratio)
        demanded = dict(traffic)
        carried = self._limit(traffic, demanded)
        lost = heat_and_power.lost(boards, setting, before)
        if self._settle is not None:
            self._settle(traffic, setting.carried(RATES[0], engines.maxima), lost)
        self._exchanged = _Exchanged(demanded, dict(traffic), lost)
        engines.add_moved(traffic)
        moves = engines.moving(traffic) | is_raised
        draws = engines.draws_graphics(work)
        memory_load = heat_and_power.memory_load(boards, traffic)
        shown_by_some: dict[str, Callable[[], Floats]] = {
            "memory_temperature_celsius": lambda: heat_and_power.memory_temperature(
                boards, setting, inlet, warming, memory_load, before, seconds
            ),
            "memory_power_watts": lambda: heat_and_power.memory_power(boards, memory_load, drawn),
            "video_frequency_mhz": lambda: boards.video_mhz(raised),
            "fan_speed_ratio": lambda: heat_and_power.fan_speed(boards, setting, core, before, seconds),
        }
        return {
            **made,
            **throttles,
            **traffic,
            "thermal_clock_ratio": ratios["throttled_thermal"],
            "power_clock_ratio": limited,
            "core_frequency_mean_mhz": clock,
            "work_clock_ratio": clock_ratio,
            **carried,
            "memory_frequency_mhz": np.where(
                moves,
                np.where(draws, boards.high["memory_frequency_mhz"], boards.compute_memory_mhz),
                boards.memory_resting_mhz,
            ),
            "power_watts": drawn,
            INSTANT: drawn,
            "power_limit_watts": setting.power_limit_watts,
            "temperature_celsius": core,
            "temperature_max_celsius": core if before is None else np.maximum(core, before["temperature_celsius"]),
            "temperature_margin_celsius": boards.operating_celsius - core,
            "inlet_temperature_celsius": inlet,
            "performance_state": np.where(
                awake | is_raised, np.where(draws, 0.0, boards.compute_state), boards.idle_state
            ),
            "hung": np.zeros(boards.count) if work.hanging is None else work.hanging.astype(np.float64),
            "lost": lost,
            **{name: shown() for name, shown in shown_by_some.items() if name in boards.shown},
        }

    def _limit(self, traffic: dict[str, Floats], demanded: Mapping[str, Floats]) -> dict[str, Floats]:
        """Limit traffic to what impaired links and shared PCIe switches carry; the share of it, by quantity."""
        less = set(self._setting.shares)
        if less:
            self._setting.limit_traffic(traffic, self.engines.maxima)
        if self._switches and self._switches.limit(traffic, self.engines.maxima):
            less.add("pcie")
        shares = {CARRIED[link]: _carried(link, demanded, traffic) for link in less}
        return dict.fromkeys(CARRIED.values(), self._unimpaired) | shares

    def _held_share(self, tick: int, of_power: Floats | float, reason: str) -> Floats | float:
        """The share of a tick in which a reason holds clocks.

        :param of_power: that in which the power limit would.
        """
        if reason == "throttled_hardware":
            return 1.0
        share = 1.0 if self.sensors is None else self.sensors.held_share(tick)
        return share * of_power if reason == "throttled_power" else share

    def changed_traffic(self, quantity: str, settle: Settle) -> Mask | None:
        """The boards whose traffic of a kind in the last tick is not that over unimpaired links; None before a tick.

        :param settle: how boards exchange traffic over unimpaired links.
        """
        if self._exchanged is None:
            return None
        usual = dict(self._exchanged.demanded)
        if self._switches:
            self._switches.limit(usual, self.engines.maxima)
        settle(usual, self.engines.maxima[RATES[0]], self._exchanged.lost)
        now = self._exchanged.traffic
        if quantity not in now:
            return np.zeros(self.coefficients.count, np.bool_)
        changed: Mask = np.abs(now[quantity] - usual[quantity]) > _ROUNDING * usual[quantity]
        return changed

    def after_reset(self, before: Mapping[str, Floats], reset: Mask) -> Mapping[str, Floats]:
        """The quantities of the tick before, with the boards that are reset now as a reset leaves them.

        Seconds of throttling count from 0. Lost boards start again, as warm as they are.
        """
        if not reset.any():
            return before
        past = overlaid(before)
        past.update({name: np.where(reset, 0.0, before[name]) for name in THROTTLED_SECONDS})
        back = reset & (before["lost"] > 0)
        low, one = self.coefficients.low, np.ones(self.coefficients.count)
        started = {
            "core_frequency_mhz": low["core_frequency_mhz"],
            "core_frequency_mean_mhz": low["core_frequency_mhz"],
            "fan_speed_ratio": low["fan_speed_ratio"],
            "thermal_clock_ratio": one,
            "power_clock_ratio": one,
            "lost": 0.0 * one,
        }
        past.update({name: np.where(back, values, before[name]) for name, values in started.items() if name in before})
        return past

    def pace(self, level: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """The speed of each kind of work, and of traffic of links, by its full speed; empty if all is at that.

        :param level: the quantities of a tick in PACED.
        """
        lost, hangs = 1.0 - level["work_clock_ratio"], level["hung"] > 0
        carried = {link: level[name] for link, name in CARRIED.items() if level[name].min(initial=1.0) < 1.0}
        if not lost.any() and not hangs.any() and not carried:
            return {}
        paces: dict[str, Floats] = {
            f"{link}_{way}_bytes_per_second": ratio for link, ratio in carried.items() for way in ("tx", "rx")
        }
        for kind, coefficients in self.coefficients.kinds.items():
            paces[kind] = coefficients.pace(lost)
            for link in coefficients.needs.keys() & carried.keys():
                paces[kind] = np.where(coefficients.needs[link], np.minimum(paces[kind], carried[link]), paces[kind])
        return {name: np.where(hangs, _MIN_PACE, np.maximum(pace, _MIN_PACE)) for name, pace in paces.items()}


def _carried(link: str, demanded: Mapping[str, Floats], traffic: Mapping[str, Floats]) -> Floats:
    """The share of the demanded traffic of a link that it carries, in the direction that carries less of it."""
    ways = [f"{link}_{way}_bytes_per_second" for way in ("tx", "rx")]
    return np.minimum(*(
        np.divide(traffic[name], demanded[name], out=np.ones_like(demanded[name]), where=demanded[name] > 0)
        for name in ways
    ))
