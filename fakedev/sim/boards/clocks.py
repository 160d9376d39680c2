"""The clocks of boards: what the work requests, and how heat and the power limit throttle it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Setting
from fakedev.sim.boards.heat_and_power import Fitting
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask

#: Share of the highest clock that the thermal throttle takes or returns per second, and per kelvin over the limit.
_THERMAL_RATE: Final = 0.02
#: Share of the highest clock that the power limit returns per second.
_POWER_RATE: Final = 0.1
#: How far the power passes its limit before a fast limiter acts at once, as a share of the limit: chosen.
PEAK_SHARE: Final = 0.2
#: Tolerance of rounding in MHz: a clock does not stay just above idle.
_ROUNDING: Final = 1e-6
#: A throttled board shows a clock at least so much of a step below the one that it would have.
_PART_OF_STEP: Final = 1e-3
#: Bits of the reasons in NVML's mask of clock event reasons.
_BITS: Final = {
    "throttled_idle": 0x1,
    "throttled_power": 0x4,
    "throttled_hardware": 0x8,
    "throttled_thermal": 0x20,
}
#: Bits of a locked clock, and of the causes of a hardware slowdown: heat, the host's power brake.
_LOCKED, _BY_HEAT, _BY_BRAKE = 0x2, 0x40, 0x80


def thermal_ratio(boards: Coefficients, before: Mapping[str, Floats] | None, seconds: float) -> Floats:
    """The share of the highest clock that the thermal throttle allows, from the temperature of the tick before."""
    if before is None:
        return np.ones(boards.count)
    was = before["thermal_clock_ratio"]
    over = before["temperature_celsius"] - boards.slowdown
    if over.max() < 0 and was.min() == 1.0:
        return was
    taken = np.where(over >= 0, -_THERMAL_RATE * (1.0 + np.maximum(over, 0.0)), 0.0)
    given = np.where(before["temperature_celsius"] < boards.resume, _THERMAL_RATE, 0.0)
    return np.clip(was + (taken + given) * seconds, boards.min_ratio, 1.0)


def hardware_ratio(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """The share of the highest clock that the hardware allows: less over its limit or with a brake."""
    slowed = np.zeros(boards.count, np.bool_)
    if before is not None:
        slowed = before["temperature_celsius"] >= boards.hardware_slowdown
    if setting.braked is not None:
        slowed = slowed | setting.braked
    return np.where(slowed, boards.hardware_ratio, 1.0)


def power_ratio(
    boards: Coefficients, setting: Setting, fitting: Fitting | None, before: Mapping[str, Floats] | None, seconds: float
) -> tuple[Floats, Floats]:
    """The share of the highest clock that the power limit allows: at the end of a tick, and its mean over the tick.

    The fast limiter bounds the share at the beginning of the tick. The power is convex in the clock, so its chord from
    the fitting share to the highest clock says where it is within the peak.

    :param fitting: the clocks at which boards meet their limits; None where all fit at their highest clocks.
    """
    if fitting is None:
        ratio = np.ones(boards.count)
        if before is None or before["power_clock_ratio"].min() == 1.0:
            return ratio, ratio
    else:
        ratio = fitting.ratio
    if before is None:
        return ratio, ratio
    was = before["power_clock_ratio"]
    gap = was - ratio
    if fitting is not None and (over := gap > 0).any():
        peak = PEAK_SHARE * setting.power_limit_watts
        # This is over 0 also where the share rises again, and the gap is below 0.
        gap = np.minimum(gap, (1.0 - ratio) * (peak / np.maximum(fitting.excess_watts, peak)))
        end, mean = ratio + gap * boards.limit_lag.kept(seconds), ratio + gap * boards.limit_lag.mean(seconds)
        if over.all():
            return end, mean
    else:
        over, end, mean = np.zeros(boards.count, np.bool_), ratio, ratio
    risen = np.minimum(-gap, _POWER_RATE * seconds)
    # The clock rises linearly, then stays.
    unfinished = risen * risen / (2.0 * _POWER_RATE * seconds)
    return np.where(over, end, was + risen), np.where(over, mean, was + risen - unfinished)


def core_clock(
    boards: Coefficients,
    setting: Setting,
    active: Mask,
    ratios: Mapping[str, Floats],
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> tuple[Floats, dict[str, Floats]]:
    """The mean of the core clock; and what throttles it, with the supported clocks that the board shows.

    A board that heat or the power limit throttles alternates between two supported clocks. It shows the lower one;
    power and work follow the mean.

    :param ratios: the share of the highest clock that each reason allows; among equal ones the first counts.
    """
    idle, high, full = boards.low["core_frequency_mhz"], boards.high["core_frequency_mhz"], setting.full_mhz
    asked = wanted = np.where(active, full, np.minimum(boards.resting_mhz, full))
    if before is not None:
        fallen = np.minimum(before["core_frequency_mean_mhz"] - boards.fall_mhz * seconds, full)
        falls = fallen > wanted + _ROUNDING
        if falls.any():
            wanted = np.where(falls, fallen, wanted)
            asked = boards.supported_mhz(wanted)
    least = reduce(np.minimum, ratios.values())
    held = np.maximum(high * least, idle)
    throttled = wanted > held + _ROUNDING
    mean, shown = wanted, asked
    if throttled.any():
        mean = np.minimum(wanted, held)
        below = np.minimum(mean, asked - _PART_OF_STEP * boards.step_mhz)
        shown = np.where(throttled, boards.supported_mhz(below), asked)
    throttles = _reasons(active, throttled, ratios, least, before, seconds)
    if setting.locked is not None:
        throttles["throttle_reasons"] += np.where(setting.locked & active, _LOCKED, 0.0)
    _add_hardware_reasons(boards, setting, throttles, before, seconds)
    throttles["core_frequency_request_mhz"] = asked
    throttles["core_frequency_mhz"] = shown
    return mean, throttles


def _add_hardware_reasons(
    boards: Coefficients,
    setting: Setting,
    throttles: dict[str, Floats],
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> None:
    """Add the causes of a hardware slowdown (heat, brake or both) to the mask, and count the seconds of each."""
    hardware = throttles["throttled_hardware"]
    nothing = np.zeros(boards.count)
    hot, braked = nothing, nothing
    if hardware.any():
        if before is not None:
            hot = hardware * (before["temperature_celsius"] >= boards.hardware_slowdown)
        if setting.braked is not None:
            braked = hardware * setting.braked
        throttles["throttle_reasons"] += hot * _BY_HEAT + braked * _BY_BRAKE
    for name, flags in (("throttled_hardware_heat_seconds", hot), ("throttled_hardware_brake_seconds", braked)):
        so_far = nothing if before is None else before[name]
        throttles[name] = so_far if flags is nothing else so_far + flags * seconds


def _reasons(
    active: Mask,
    throttled: Mask,
    ratios: Mapping[str, Floats],
    least: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> dict[str, Floats]:
    """Which reason limits the clock, and for how many seconds each has."""
    nothing = np.zeros(len(throttled))
    made: dict[str, Floats] = {"throttled_idle": (~active).astype(np.float64)}
    made["throttle_reasons"] = made["throttled_idle"] * _BITS["throttled_idle"]
    left = throttled
    for reason, ratio in ratios.items():
        made[reason] = nothing
        seconds_before = nothing if before is None else before[f"{reason}_seconds"]
        made[f"{reason}_seconds"] = seconds_before
        if left.any():
            is_it = left & (ratio <= least)
            left = left & ~is_it
            made[reason] = is_it.astype(np.float64)
            made[f"{reason}_seconds"] = seconds_before + made[reason] * seconds
            made["throttle_reasons"] = made["throttle_reasons"] + made[reason] * _BITS[reason]
    return made
