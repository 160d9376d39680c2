"""The clocks of boards: what the work asks for, and what heat and the power limit take away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.randomness import Floats

Flags = NDArray[np.bool_]

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
#: Reasons, and their bits in NVML's mask of clock event reasons (hardware: slowdown, and that by heat).
_BITS: Final = {
    "throttled_idle": 0x1,
    "throttled_power": 0x4,
    "throttled_hardware": 0x8 + 0x40,
    "throttled_thermal": 0x20,
}
_TIMED: Final = ("throttled_power", "throttled_thermal", "throttled_hardware")


def thermal_ratio(boards: Coefficients, before: Mapping[str, Floats] | None, seconds: float) -> Floats:
    """The share of the highest clock that heat leaves, by the temperature of the tick before."""
    if before is None:
        return np.ones(boards.count)
    over = before["temperature_celsius"] - boards.slowdown
    taken = np.where(over >= 0, -_THERMAL_RATE * (1.0 + np.maximum(over, 0.0)), 0.0)
    given = np.where(before["temperature_celsius"] < boards.resume, _THERMAL_RATE, 0.0)
    return np.clip(before["thermal_clock_ratio"] + (taken + given) * seconds, boards.least_ratio, 1.0)


def hardware_ratio(boards: Coefficients, before: Mapping[str, Floats] | None) -> Floats:
    """The share of the highest clock that the hardware leaves at once, over its own limit of the temperature."""
    if before is None:
        return np.ones(boards.count)
    return np.where(before["temperature_celsius"] >= boards.hardware_slowdown, _HARDWARE_SHARE, 1.0)


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
    boards: Coefficients, active: Flags, ratios: Mapping[str, Floats], before: Mapping[str, Floats] | None, seconds: float
) -> tuple[Floats, dict[str, Floats]]:
    """The core clock, and what throttles it.

    :param ratios: for each reason the share of the highest clock that it leaves; of equal ones the first counts.
    """
    idle, full = boards.low["core_frequency_mhz"], boards.high["core_frequency_mhz"]
    wanted = np.where(active, full, idle)
    if before is not None:
        fallen = before["core_frequency_mhz"] - (full - idle) * seconds / boards.fall_seconds
        wanted = np.where(fallen > wanted + _ROUNDING, fallen, wanted)
    least = np.minimum.reduce(list(ratios.values()))
    allowed = full * least
    stepped = np.floor(allowed / boards.step_mhz + _ROUNDING) * boards.step_mhz
    held = np.where(allowed < full, np.maximum(np.minimum(stepped, full - boards.step_mhz), idle), full)
    throttled = wanted > held
    made: dict[str, Floats] = {"throttled_idle": (~active).astype(np.float64)}
    left = throttled
    for reason, ratio in ratios.items():
        is_it = left & (ratio <= least)
        left = left & ~is_it
        made[reason] = is_it.astype(np.float64)
    made["throttle_reasons"] = sum((made[reason] * bit for reason, bit in _BITS.items()), np.zeros(boards.count))
    for reason in _TIMED:
        so_far = np.zeros(boards.count) if before is None else before[f"{reason}_seconds"]
        made[f"{reason}_seconds"] = so_far + made[reason] * seconds
    return np.minimum(wanted, held), made


def memory_clock(boards: Coefficients, clock: Floats, moving: Flags) -> Floats:
    """The memory clock: the highest while the core clock is over idle, or there is traffic."""
    used = moving | (boards.raised(clock) > 0)
    return np.where(used, boards.high["memory_frequency_mhz"], boards.low["memory_frequency_mhz"])


def performance_state(boards: Coefficients, clock: Floats, active: Flags) -> Floats:
    """The performance state: 0 while the clocks are up or there is work, else that of an idle board."""
    return np.where(active | (boards.raised(clock) > 0), 0.0, boards.idle_state)
