"""What is always so of the boards of a level, whatever they are and whatever happens to them, as operations on arrays.

A rule that does not hold is yielded by its name, with the boards that break it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.boards.clocks import PEAK_SHARE
from fakedev.fleet.boards.conditions import Conditions, unless_changed
from fakedev.fleet.devices.relations import INTEGRALS
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from fakedev.fleet.spec.quantities import ERROR_COUNTERS, THROTTLED_SECONDS
from tests.support.rules import NEAR, Broken, assert_none, broken, near, of_numbers

#: Reason to its bits of NVIDIA's mask, whatever more of them tell about it.
REASONS: Final = {"throttled_power": 0x4, "throttled_thermal": 0x20, "throttled_hardware": 0x8}
COUNTERS: Final = (*INTEGRALS, *ERROR_COUNTERS, *THROTTLED_SECONDS)
#: NVIDIA's codes, each with the counters of which one grows with it.
XID_COMPANY: Final = {
    48: ("memory_errors_uncorrectable",), 63: ("remapped_rows_uncorrectable", "retired_pages_double_bit"),
    74: ("link_errors",), 92: ("memory_errors_correctable",), 94: ("memory_errors_uncorrectable",),
    95: ("memory_errors_uncorrectable",),
    13: ("programming_errors",), 31: ("programming_errors",), 43: ("programming_errors",), 45: ("programming_errors",),
}  # fmt: skip
FALLEN_OFF: Final = 79
#: How near boards regulate to their limits, in watts.
_REGULATED: Final = 0.2
#: How far a board may pass its shutdown temperature, in kelvins.
_OVER_SHUTDOWN: Final = 1.0
#: The part of the memory's rise that goes with its own traffic (doc/simulation.md).
_OF_MEMORY: Final = 0.14
#: How near heat holds a board to a temperature, in kelvins.
_HELD_WITHIN: Final = 1.5
_CLOCK: Final = "core_frequency_mhz"
_NOTHING: Final = Range(0.0, 0.0)
_LINKS: Final = ("pcie_tx", "pcie_rx", "fabric_tx", "fabric_rx")


def changed(conditions: Conditions, name: str, count: int, devices: NDArray[np.int64], value: float) -> Conditions:
    """Conditions with one value on some devices.

    :param count: of all devices.
    :param devices: positions of some.
    :param value: NaN takes back what was changed.
    """
    now = getattr(conditions, name)
    values = np.full(count, np.nan) if now is None else now.copy()
    values[devices] = value
    return replace(conditions, **{name: None if np.isnan(values).all() else values})


def check_level(level: Level, types: Sequence[DeviceType]) -> None:
    """Numbers are numbers, in range, and parts are as much as their wholes."""
    assert_none(BoardRules(types).of_level(level), level)


def check_step(
    before: Level, after: Level, types: Sequence[DeviceType], seconds: float, conditions: Conditions | None = None
) -> None:
    """From one tick to the next: counters, the power limit, and temperatures on their way."""
    assert_none(BoardRules(types).of_step(before, after, seconds, conditions), after)


def overshoot(dynamics: Dynamics, seconds: float) -> float:
    """The mean over a tick of what is left of an excess at its beginning, as a share."""
    lag = dynamics.power_limit_seconds
    return -float(np.expm1(-seconds / lag)) * lag / seconds if lag else 0.0


class BoardRules:
    """The rules for D devices: what their types say as arrays of shape (D,).

    :param types: the type of each device.
    """

    def __init__(self, types: Sequence[DeviceType]) -> None:
        self._types = list({id(each): each for each in types}.values())
        places = {id(each): place for place, each in enumerate(self._types)}
        self._which = np.array([places[id(each)] for each in types])
        self.has_dynamics = self.of_types(lambda each: float(each.dynamics is not None)) > 0
        self._cache: dict[tuple[str, str], Floats] = {}

    def of_types(self, value: Callable[[DeviceType], float]) -> Floats:
        """A number of each type as one of each device."""
        return np.array([float(value(each)) for each in self._types])[self._which]

    def end(self, name: str, which: str) -> Floats:
        """An end of the range of a quantity, ``low`` or ``high``; 0 on devices without it."""
        key = name, which
        if key not in self._cache:
            self._cache[key] = self.of_types(lambda each: getattr(each.ranges.get(name, _NOTHING), which))
        return self._cache[key]

    def dynamic(self, name: str) -> Floats:
        """A number of the dynamics; 0 on devices without them."""
        key = "dynamics", name
        if key not in self._cache:
            self._cache[key] = self.of_types(lambda each: getattr(each.dynamics, name, None) or 0.0)
        return self._cache[key]

    def without(self, switch: str) -> Mask:
        """Devices whose dynamics leave a relation out."""
        key = "without", switch
        if key not in self._cache:
            left_out = [each.dynamics is not None and switch in each.dynamics.without for each in self._types]
            self._cache[key] = np.array(left_out, dtype=np.float64)[self._which]
        return self._cache[key] > 0

    @cached_property
    def _inlets(self) -> Floats:
        """The inlet temperature at which the ranges were measured."""
        def at(board: DeviceType) -> float:
            if board.dynamics is None:
                return 0.0
            if board.dynamics.inlet_celsius is not None:
                return board.dynamics.inlet_celsius
            core, watts = board.ranges["temperature_celsius"], board.ranges["power_watts"]
            return core.low - (core.high - core.low) / (watts.high - watts.low) * watts.low

        return self.of_types(at)

    # -- one level --------------------------------------------------------------------------------

    def of_level(self, level: Level) -> Iterator[Broken]:
        """What holds in each tick."""
        yield from of_numbers(level)
        lost = self._lost(level)
        for name, values in level.arrays.items():
            if lost.any() and name not in ("lost", "xid"):
                yield from broken("a lost board shows nothing but its error", lost & level.mask(name))
            yield from broken(f"{name} has one value for each device", np.array([len(values) != level.count]))
        here = ~lost
        if "memory_free_bytes" in level.arrays:
            yield from self._of_memory(level, here & level.mask("memory_free_bytes"))
        boards = here & self.has_dynamics
        if boards.any():
            yield from self._of_engines(level, boards)
            yield from self._of_clocks(level, boards)

    def _lost(self, level: Level) -> Mask:
        return level.arrays["lost"] > 0 if "lost" in level.arrays else np.zeros(level.count, np.bool_)

    def _of_memory(self, level: Level, has: Mask) -> Iterator[Broken]:
        used, free, reserved, total = (
            level.arrays[f"memory_{each}_bytes"] for each in ("used", "free", "reserved", "total")
        )
        yield from broken("memory used, free and reserved are all", has & (used + free + reserved != total))
        ratio = level.arrays["memory_used_ratio"] * total
        yield from broken("the share of used memory fits", has & ~near(ratio, used))

    def _of_engines(self, level: Level, boards: Mask) -> Iterator[Broken]:
        arrays = level.arrays
        hangs = (arrays["hung"] > 0) & ~self.without("hang")
        for name in arrays:
            if name.endswith(("_active_ratio", "_bytes_per_second")) and (self.end(name, "high") > 0).any():
                has = boards & level.mask(name)
                if not name.startswith("pcie_"):
                    less = ~hangs & (arrays[name] < self.end(name, "low"))
                    yield from broken(f"{name} is at least as when idle", has & less)
                if not name.startswith(("fabric_", "memory_")):
                    yield from broken(f"{name} stands still on a board that hangs", has & hangs & (arrays[name] != 0))
        if "memory_power_watts" in arrays:
            over = arrays["memory_power_watts"] > arrays["power_watts"] + NEAR
            yield from broken("the memory draws part of the power", boards & level.mask("memory_power_watts") & over)
        if "memory_read_bytes_per_second" in arrays:
            yield from self._of_traffic(level, boards & level.mask("memory_read_bytes_per_second"))
        for name in _LINKS:
            rate = f"{name}_bytes_per_second"
            if rate in arrays:
                most = np.maximum(self.dynamic(f"{name[:-3]}_bytes_per_second"), self.end(rate, "high"))
                if name.startswith("pcie") and "pcie_link_width" in arrays:
                    most = most * self._pcie_share(arrays)
                yield from broken(f"{rate} fits on the link", boards & (arrays[rate] > most * (1 + NEAR)))

    def _pcie_share(self, arrays: Mapping[str, Floats]) -> Floats:
        """What the lanes and the generation that are shown carry, as a share of the link's best."""
        lanes, speed = arrays["pcie_link_width"], arrays["pcie_link_gigatransfers_per_second"]
        best = arrays["pcie_link_width_max"] * arrays["pcie_link_gigatransfers_per_second_max"]
        share = np.divide(lanes * speed, best, out=np.ones_like(best), where=best > 0)
        return np.where(arrays["throttled_idle"] > 0, 1.0, share)

    def _of_traffic(self, level: Level, has: Mask) -> Iterator[Broken]:
        arrays = level.arrays
        both = arrays["memory_read_bytes_per_second"] + arrays["memory_write_bytes_per_second"]
        peak = self.dynamic("memory_bytes_per_second")
        yield from broken(
            "reads and writes are the memory's traffic", has & ~near(both, peak * arrays["memory_bandwidth_ratio"])
        )
        for way, moved in (("tx", "read"), ("rx", "write")):
            carried = np.zeros(level.count)
            for name in (f"pcie_{way}_bytes_per_second", f"fabric_{way}_bytes_per_second"):
                if name in arrays:
                    carried = carried + np.maximum(arrays[name] - self.end(name, "low"), 0.0)
            less = arrays[f"memory_{moved}_bytes_per_second"] < carried * (1 - NEAR) - 1.0
            full = both > peak * (1 - NEAR)
            yield from broken(f"no bytes move without a memory that can {moved} them", has & less & ~full)

    def _of_clocks(self, level: Level, boards: Mask) -> Iterator[Broken]:
        arrays = level.arrays
        low, high, step = self.end(_CLOCK, "low"), self.end(_CLOCK, "high"), self.dynamic("clock_step_mhz")
        clock = arrays[_CLOCK]
        yield from broken("the clock is in its range", boards & ((clock < low) | (clock > high)))
        for name in (_CLOCK, "core_frequency_request_mhz"):
            steps = np.divide(arrays[name], step, out=np.zeros(level.count), where=step > 0)
            odd = np.abs(steps - np.rint(steps)) > np.maximum(1e-9, 1e-9 * steps)
            yield from broken(f"{name} is supported", boards & odd & (arrays[name] != low) & (arrays[name] != high))
        flags = np.array([arrays[reason] for reason in REASONS])
        throttled, idle = flags.any(axis=0), arrays["throttled_idle"] > 0
        yield from broken("reasons are flags", boards & ((flags != 0) & (flags != 1)).any(axis=0))
        yield from broken("one reason at most is shown", boards & (flags.sum(axis=0) > 1))
        yield from broken("a throttled clock is below the highest", boards & throttled & (clock >= high))
        mask = arrays["throttle_reasons"].astype(np.int64)
        for reason, bits in {**REASONS, "throttled_idle": 0x1}.items():
            yield from broken(f"the mask has {reason}", boards & (((mask & bits) > 0) != (arrays[reason] > 0)))
        mean = arrays["core_frequency_mean_mhz"]
        # A mean that lies below a step by no more than rounding is that step.
        yield from broken("the clock is at most its mean", boards & (clock > mean + NEAR * (1 + step)))
        free = ((mask & 0x12) == 0) & ~throttled & ~idle
        yield from broken("nothing but a reason lowers the clock of work", boards & free & (clock != high))
        for name, reason in (("thermal_clock_ratio", "throttled_thermal"), ("power_clock_ratio", "throttled_power")):
            least = arrays[name] if name == "thermal_clock_ratio" else mean / np.maximum(high, NEAR)
            yield from broken(f"{reason} has a cause", boards & (arrays[reason] > 0) & (least >= 1.0))

    # -- from one level to the next -----------------------------------------------------------------

    def of_step(
        self, before: Level, after: Level, seconds: float, conditions: Conditions | None = None
    ) -> Iterator[Broken]:
        """What holds from one tick to the next.

        :param conditions: those of the devices in the later tick; None: none of them was changed.
        """
        was, now = before.arrays, after.arrays
        reset = now["created_seconds"] != was["created_seconds"]
        # The counters of lost boards stop.
        runs = ~self._lost(after)
        for name in COUNTERS:
            if name in now and name != "row_remap_failure":
                grows = runs if name in ERROR_COUNTERS else runs & ~reset
                yield from broken(f"{name} never falls", grows & (now[name] < was[name]))
                yield from broken(f"{name} stays on a lost board", ~runs & (now[name] != was[name]))
        for counter, rate in INTEGRALS.items():
            if counter in now:
                whole = np.where(reset, 0.0, was[counter]) + now[rate] * seconds
                yield from broken(f"{counter} is the integral", runs & ~near(now[counter], whole))
        for reason in REASONS:
            if reason in now:
                name = f"{reason}_seconds"
                grown = now[name] - np.where(reset, 0.0, was[name])
                counted = near(grown, now[reason] * seconds)
                if reason == "throttled_power":
                    # The work may be throttled in a part of the tick, or until the limit has let go.
                    counted |= (grown > 0) & (grown <= now[reason] * seconds)
                yield from broken(f"{name} counts", runs & ~counted)
        yield from self._of_groups(was, now, runs, np.where(reset, 0.0, 1.0), seconds, conditions or Conditions())
        yield from self._of_errors(was, after)
        boards = self.has_dynamics & runs
        if self.has_dynamics.any():
            given = Conditions() if conditions is None else conditions
            yield from self._of_power(now, boards, seconds)
            yield from self._of_heat(was, now, boards, given)
            yield from self._of_causes(was, now, boards, given)
            yield from self._of_idle_links(now, boards & (now["hung"] == 0), given)

    def _of_groups(
        self, was: Mapping[str, Floats], now: Mapping[str, Floats], runs: Mask, kept: Floats, seconds: float,
        conditions: Conditions,
    ) -> Iterator[Broken]:
        """Groups that boost together, and what the driver advises.

        :param kept: 0 where the counters began again, else 1.
        """  # fmt: skip
        name = "throttled_sync_boost_seconds"
        if name in now:
            boosted = (now["throttle_reasons"].astype(np.int64) & 0x10) > 0
            grown = now[name] - was[name] * kept
            yield from broken(f"{name} counts", runs & ~near(grown, boosted * seconds))
            in_group = ~np.isnan(unless_changed(conditions.boost_share, np.full(len(runs), np.nan)))
            yield from broken("a group that boosts together has a cause", runs & boosted & ~in_group)
        if "xid" in now:
            advised, pending = now["recovery_action"], (now["row_remap_pending"] > 0)
            yield from broken("a pending repair is advised", runs & pending & (advised == 0))
            hung = now.get("hung", np.zeros(len(runs))) > 0
            yield from broken("advice has a cause", runs & (advised > 0) & ~pending & ~hung & (now["xid"] == 0))

    def _of_idle_links(self, now: Mapping[str, Floats], boards: Mask, conditions: Conditions) -> Iterator[Broken]:
        """Unimpaired PCIe links carry at least what they carry without work."""
        for impaired in (conditions.pcie_share, conditions.pcie_width, conditions.pcie_generation):
            if impaired is not None:
                boards = boards & (np.isnan(impaired) | (impaired == 1.0))
        for name in ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"):
            if name in now:
                yield from broken(f"{name} is at least as when idle", boards & (now[name] < self.end(name, "low")))

    def _of_errors(self, was: Mapping[str, Floats], after: Level) -> Iterator[Broken]:
        """A new error code comes with the counters that belong to it."""
        now = after.arrays
        if "xid" not in now:
            return
        is_new = now["xid"] != was["xid"]
        runs = ~self._lost(after)
        for code in np.unique(now["xid"][is_new]).astype(int).tolist():
            found = is_new & (now["xid"] == code) & runs
            counts = [name for name in XID_COMPANY.get(code, ()) if name in now]
            if counts:
                has = np.any([after.mask(name) for name in counts], axis=0)
                grew = np.any([now[name] > was[name] for name in counts], axis=0)
                yield from broken(f"XID {code} comes with its errors", found & has & ~grew)
            if code == FALLEN_OFF:
                yield from broken("XID 79 is that of a lost board", found)

    def _of_power(self, now: Mapping[str, Floats], boards: Mask, seconds: float) -> Iterator[Broken]:
        """The power is within the limit and the stated transient, unless the idle clock is too much already."""
        power, limit, clock = (now[name] for name in ("power_watts", "power_limit_watts", "core_frequency_mean_mhz"))
        low, high = self.end("power_watts", "low"), self.end("power_watts", "high")
        spread = self.dynamic("spread")
        least_watts = low * (1 - spread) * (1 - self.dynamic("power_noise")) - self.dynamic("power_step_watts")
        yield from broken("a board draws its idle power", boards & (power < least_watts - NEAR))
        over = boards & (power > limit + _REGULATED) & ~self.without("power-limit")
        if not over.any():
            return
        # What the work draws at the idle clock; the spread of the board is not known here, so the most of it.
        least, most = self.end(_CLOCK, "low"), self.end(_CLOCK, "high")
        idle = low * (1 - spread)
        clocked = self.dynamic("clocked_power_share") * (high - low) * (1 - spread)
        work = power - idle - clocked * (clock - least) / np.maximum(most - least, NEAR)
        slowest = (least / np.maximum(clock, NEAR)) ** self.dynamic("clock_power_exponent")
        at_idle = low * (1 + spread) + work * slowest
        share = self.of_types(lambda each: overshoot(each.dynamics, seconds) if each.dynamics else 0.0)
        excess = power - limit > PEAK_SHARE * limit * share + _REGULATED
        yield from broken("the power is within its limit", over & (at_idle <= limit) & excess)

    def _of_heat(
        self, was: Mapping[str, Floats], now: Mapping[str, Floats], boards: Mask, conditions: Conditions
    ) -> Iterator[Broken]:
        """Temperatures are between where they were and where they go to; none passes the shutdown temperature."""
        low, high = self.end("power_watts", "low"), self.end("power_watts", "high")
        share = np.divide(now["power_watts"] - low, high - low, out=np.zeros_like(low), where=high > low)
        factor = unless_changed(conditions.resistance, np.ones(len(low)))
        spread, inlet = self.dynamic("spread"), now["inlet_temperature_celsius"]
        band = self.end("memory_bandwidth_ratio", "high") - self.end("memory_bandwidth_ratio", "low")
        used = now.get("memory_bandwidth_ratio", np.zeros(len(low))) - self.end("memory_bandwidth_ratio", "low")
        traffic = np.maximum(used, 0.0) / np.where(band > 0, band, 1.0)
        core, memory = "temperature_celsius", "memory_temperature_celsius"
        rise = self.end(core, "low") - self._inlets + (self.end(core, "high") - self.end(core, "low")) * share
        for name in (core, memory):
            if name not in now:
                continue
            least = self.end(name, "low")
            rises = [rise * factor * (1 + sign * spread) for sign in (-1, 1)]
            if name == memory:
                # It shares the heat sink: its rise over the core is what it is with the fan.
                wide = self.end(name, "high") - least
                over = least - self._inlets + wide * (_OF_MEMORY * traffic + (1 - _OF_MEMORY) * share) - rise
                rises = [rise + over for rise in rises]
            ends = np.array([was[name], *(inlet + rise for rise in rises)])
            if name == "temperature_celsius" and conditions.overheated_celsius is not None:
                forced = conditions.overheated_celsius
                limit = np.maximum(self.dynamic("hardware_slowdown_celsius"), self.dynamic("slowdown_celsius"))
                goes_to = np.where(forced == 0, limit + 1, forced)
                ends = np.where(np.isnan(forced), ends, np.array([was[name], *[goes_to] * (len(ends) - 1)]))
            has = boards & (self.end(name, "high") > least)
            between = (ends.min(axis=0) - NEAR <= now[name]) & (now[name] <= ends.max(axis=0) + NEAR)
            yield from broken(f"{name} goes where power and air take it", has & ~between)
        ends_at = np.where(self.without("shutdown"), np.inf, self.dynamic("shutdown_celsius"))
        over = now["temperature_celsius"] > np.maximum(ends_at, was["temperature_celsius"]) + _OVER_SHUTDOWN
        yield from broken("no board passes its shutdown temperature", self.has_dynamics & over)

    def _of_causes(
        self, was: Mapping[str, Floats], now: Mapping[str, Floats], boards: Mask, conditions: Conditions
    ) -> Iterator[Broken]:
        """Reasons are shown only with their causes."""
        temperature = was["temperature_celsius"]
        braked = unless_changed(conditions.braked, np.zeros(len(boards))) > 0
        slowed = (was["throttled_hardware"] > 0) & (temperature >= self.dynamic("resume_celsius"))
        hot = (temperature >= self.dynamic("hardware_slowdown_celsius")) & ~self.without("hardware-slowdown")
        without = (now["throttled_hardware"] > 0) & ~(hot | braked | slowed)
        yield from broken("throttled_hardware has a cause", boards & without)
        # Heat holds the temperature at the slowdown temperature or above it.
        warm = np.maximum(temperature, now["temperature_celsius"]) >= self.dynamic("slowdown_celsius") - _HELD_WITHIN
        memory = "memory_temperature_celsius"
        if memory in now:
            limit = self.of_types(lambda each: each.memory_slowdown_celsius)
            warm = warm | (np.maximum(was[memory], now[memory]) >= limit - _HELD_WITHIN)
        yield from broken("throttled_thermal has a cause", boards & (now["throttled_thermal"] > 0) & ~warm)
