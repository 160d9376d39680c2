"""The clocks of boards: what the work requests, and how heat and the power limit throttle it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Setting
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask

#: Share of the highest clock that the thermal throttle takes or returns per second, and per kelvin over the limit.
_THERMAL_RATE: Final = 0.02
#: Remaining share of the highest clock at or over the hardware's own temperature limit.
_HARDWARE_SHARE: Final = 0.5
#: Share of the highest clock that the power limit returns per second, and the share that it keeps in reserve as long
#: as it throttles.
_POWER_RATE: Final = 0.1
_POWER_MARGIN: Final = 0.01
#: Tolerance of rounding, in clock steps and in MHz: a clock neither loses its last step nor stays just above idle.
_ROUNDING: Final = 1e-6
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
    over = before["temperature_celsius"] - boards.slowdown
    taken = np.where(over >= 0, -_THERMAL_RATE * (1.0 + np.maximum(over, 0.0)), 0.0)
    given = np.where(before["temperature_celsius"] < boards.resume, _THERMAL_RATE, 0.0)
    return np.clip(before["thermal_clock_ratio"] + (taken + given) * seconds, boards.min_ratio, 1.0)


def hardware_ratio(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """The share of the highest clock that the hardware allows: less over its limit or with a brake."""
    slowed = np.zeros(boards.count, np.bool_)
    if before is not None:
        slowed = before["temperature_celsius"] >= boards.hardware_slowdown
    if setting.braked is not None:
        slowed = slowed | setting.braked
    return np.where(slowed, _HARDWARE_SHARE, 1.0)


def power_ratio(
    boards: Coefficients, fitting: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> tuple[Floats, Floats]:
    """The share of the highest clock that the power limit allows: at the end of a tick, and its mean over the tick.

    :param fitting: the share at which the power stays within the limit.
    """
    if before is None:
        return fitting, fitting
    was = before["power_clock_ratio"]
    over = was > fitting
    gap = was - fitting
    # Boards that fit the limit return to the full clock; others only rise over the reserve.
    back_to = np.where(fitting < 1.0, np.maximum(fitting - _POWER_MARGIN, was), 1.0)
    rise = back_to - was
    risen = np.minimum(rise, _POWER_RATE * seconds)
    end = np.where(over, fitting + gap * boards.limit_lag.kept(seconds), was + risen)
    # The clock rises linearly, then stays.
    unfinished = risen * risen / (2.0 * _POWER_RATE * seconds)
    mean = np.where(over, fitting + gap * boards.limit_lag.mean(seconds), was + risen - unfinished)
    return end, mean


def core_clock(
    boards: Coefficients,
    setting: Setting,
    active: Mask,
    ratios: Mapping[str, Floats],
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> tuple[Floats, dict[str, Floats]]:
    """The core clock; and what throttles it, with the clock that it would have otherwise.

    :param ratios: the share of the highest clock that each reason allows; among equal ones the first counts.
    """
    idle, high, full = boards.low["core_frequency_mhz"], boards.high["core_frequency_mhz"], setting.full_mhz
    wanted = np.where(active, full, np.minimum(boards.resting_mhz, full))
    if before is not None:
        fallen = np.minimum(before["core_frequency_mhz"] - boards.fall_mhz * seconds, full)
        wanted = np.where(fallen > wanted + _ROUNDING, fallen, wanted)
    least = np.minimum.reduce(list(ratios.values()))
    allowed = high * least
    stepped = np.floor(allowed / boards.step_mhz + _ROUNDING) * boards.step_mhz
    held = np.where(allowed < high, np.maximum(np.minimum(stepped, high - boards.step_mhz), idle), high)
    throttled = wanted > held
    clock, throttles = np.minimum(wanted, held), _reasons(active, throttled, ratios, least, before, seconds)
    if setting.locked is not None:
        throttles["throttle_reasons"] += np.where(setting.locked & active, _LOCKED, 0.0)
    _add_hardware_reasons(boards, setting, throttles, before, seconds)
    throttles["core_frequency_request_mhz"] = wanted
    return clock, throttles


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
