"""The clocks of boards: what the work asks for, and what heat and the power limit take away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.settings import Flags, Setting
from fakedev.sim.entities.randomness import Floats

#: Share of the highest clock that the thermal throttle takes or gives in a second, and per kelvin over the limit.
_THERMAL_RATE: Final = 0.02
#: Share of the highest clock that is left at and over the hardware's own limit.
_HARDWARE_SHARE: Final = 0.5
#: Share of the highest clock that the power limit gives back in a second; it leaves that much unused, of which it
#: gives nothing back while it takes anything.
_POWER_RATE: Final = 0.1
_POWER_MARGIN: Final = 0.01
#: Rounding must not cost a clock its last step, nor keep it a hair above idle; in steps, and in MHz.
_ROUNDING: Final = 1e-6
#: Reasons, and their bits in NVML's mask of clock event reasons.
_BITS: Final = {
    "throttled_idle": 0x1,
    "throttled_power": 0x4,
    "throttled_hardware": 0x8,
    "throttled_thermal": 0x20,
}
#: What is locked by somebody; and, with the hardware's slowdown, whether that is by heat or by the host's power brake.
_LOCKED, _BY_HEAT, _BY_BRAKE = 0x2, 0x40, 0x80


def thermal_ratio(boards: Coefficients, before: Mapping[str, Floats] | None, seconds: float) -> Floats:
    """The share of the highest clock that heat leaves, by the temperature of the tick before."""
    if before is None:
        return np.ones(boards.count)
    over = before["temperature_celsius"] - boards.slowdown
    taken = np.where(over >= 0, -_THERMAL_RATE * (1.0 + np.maximum(over, 0.0)), 0.0)
    given = np.where(before["temperature_celsius"] < boards.resume, _THERMAL_RATE, 0.0)
    return np.clip(before["thermal_clock_ratio"] + (taken + given) * seconds, boards.min_ratio, 1.0)


def hardware_ratio(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """The share of the highest clock that the hardware leaves at once: over its limit of the temperature, or braked."""
    slowed = np.zeros(boards.count, np.bool_)
    if before is not None:
        slowed = before["temperature_celsius"] >= boards.hardware_slowdown
    if setting.braked is not None:
        slowed = slowed | setting.braked
    return np.where(slowed, _HARDWARE_SHARE, 1.0)


def power_ratio(
    boards: Coefficients, fitting: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> tuple[Floats, Floats]:
    """The share of the highest clock that the power limit leaves: at the end of a tick, and in the mean over it.

    :param fitting: the share at which the work stays within the limit.
    """
    if before is None:
        return fitting, fitting
    was = before["power_clock_ratio"]
    over = was > fitting
    gap = was - fitting
    # Where nothing is over the limit the clock may come back in full, else only what makes a difference.
    back_to = np.where(fitting < 1.0, np.maximum(fitting - _POWER_MARGIN, was), 1.0)
    rise = back_to - was
    risen = np.minimum(rise, _POWER_RATE * seconds)
    end = np.where(over, fitting + gap * boards.limit_lag.kept(seconds), was + risen)
    # A straight way up to where it ends, and level from there.
    unfinished = risen * risen / (2.0 * _POWER_RATE * seconds)
    mean = np.where(over, fitting + gap * boards.limit_lag.mean(seconds), was + risen - unfinished)
    return end, mean


def core_clock(
    boards: Coefficients,
    setting: Setting,
    active: Flags,
    ratios: Mapping[str, Floats],
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> tuple[Floats, dict[str, Floats]]:
    """The core clock, and beside what throttles it the clock that it would have else.

    :param ratios: for each reason the share of the highest clock that it leaves; of equal ones the first counts.
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
    _tell_hardware(boards, setting, throttles, before, seconds)
    throttles["core_frequency_request_mhz"] = wanted
    return clock, throttles


def _tell_hardware(
    boards: Coefficients,
    setting: Setting,
    throttles: dict[str, Floats],
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> None:
    """Tell why the hardware slows down, which may be both: in the mask, and for how long each has."""
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
    active: Flags,
    throttled: Flags,
    ratios: Mapping[str, Floats],
    least: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> dict[str, Floats]:
    """Which reason holds the clock, and for how long each has."""
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


def memory_clock(boards: Coefficients, clock: Floats, moving: Flags) -> Floats:
    """The memory clock: the highest while the core clock is over idle, or there is traffic."""
    used = moving | (boards.raised(clock) > 0)
    return np.where(used, boards.high["memory_frequency_mhz"], boards.memory_resting_mhz)


def video_clock(boards: Coefficients, clock: Floats) -> Floats:
    """The clock of the media engines: it goes from its lowest to its highest as the core clock does."""
    return boards.between("video_frequency_mhz", boards.raised(clock))


def performance_state(boards: Coefficients, clock: Floats, active: Flags) -> Floats:
    """The performance state: 0 while the clocks are up or there is work, else that of an idle board."""
    return np.where(active | (boards.raised(clock) > 0), 0.0, boards.idle_state)
