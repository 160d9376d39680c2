"""The clocks of boards: what the work requests, and how heat and the power limit throttle it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

import numpy as np

from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.boards.conditions import Setting
from fakedev.fleet.boards.heat_and_power import Fitting, Swung
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask

#: How far the power passes its limit before a fast limiter acts at once, as a share of the limit: chosen.
PEAK_SHARE: Final = 0.2
#: Tolerance of rounding in MHz: a clock does not stay just above idle.
_ROUNDING: Final = 1e-6
#: A throttled board shows a clock at least this share of a step below the one that it would have.
_PART_OF_STEP: Final = 1e-3
#: Bits of the reasons in NVML's mask of clock event reasons.
_BITS: Final = {
    "throttled_idle": 0x1,
    "throttled_power": 0x4,
    "throttled_hardware": 0x8,
    "throttled_thermal": 0x20,
}
#: Bits of a locked clock, of a group that boosts together, and of the causes of a hardware slowdown: heat, the brake.
_LOCKED, _BOOSTED, _BY_HEAT, _BY_BRAKE = 0x2, 0x10, 0x40, 0x80


def hardware_ratio(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """The share of the highest clock that the hardware allows: less with a brake, or over its limit of heat.

    A slowdown by heat lasts until the core has cooled down to where the driver's own throttle ends.
    """
    slowed = np.zeros(boards.count, np.bool_)
    if before is not None and ((celsius := before["temperature_celsius"]) >= boards.hardware_from).any():
        was_slowed = (before["throttle_reasons"].astype(np.int64) & _BY_HEAT) > 0
        slowed = (celsius >= boards.hardware_slowdown) | (was_slowed & (celsius >= boards.resume))
    if setting.braked is not None:
        slowed = slowed | setting.braked
    return np.where(slowed, boards.hardware_ratio, 1.0)


def let_hardware_lead(ratios: dict[str, Floats]) -> None:
    """Make the hardware's share, where it slows boards down, the least of all: no other reason lets the clock rise.

    It is then the reason that is shown, as long as the slowdown lasts.

    :param ratios: the share of the highest clock that each reason allows; that of the hardware is replaced.
    """
    hardware = ratios["throttled_hardware"]
    slowed = hardware < 1.0
    if slowed.any():
        ratios["throttled_hardware"] = np.where(slowed, reduce(np.minimum, ratios.values()), hardware)


def power_ratio(
    boards: Coefficients, setting: Setting, fitting: Fitting | None, before: Mapping[str, Floats] | None, seconds: float
) -> tuple[Floats, Floats]:
    """The share of the highest clock that the power limit allows: at the end of a tick, and its mean over the tick.

    It follows the work with a lag, down and up. The fast limiter bounds the share at the beginning of the tick. The
    power is convex in the clock, so its chord from the fitting share to the highest clock says where it is within the
    peak.

    :param fitting: the clocks at which boards meet their limits; None where all fit at their highest clocks.
    """
    ratio = np.ones(boards.count) if fitting is None else fitting.ratio
    if before is None or (fitting is None and before["power_clock_ratio"].min() == 1.0):
        return ratio, ratio
    gap = before["power_clock_ratio"] - ratio
    if fitting is not None:
        peak = PEAK_SHARE * setting.power_limit_watts
        gap = np.minimum(gap, (1.0 - ratio) * (peak / np.maximum(fitting.excess_watts, peak)))
    left = gap * boards.limit_lag.kept(seconds)
    # A rest of less than one step of the clock is none.
    end = np.where(np.abs(left) < boards.step_ratio, ratio, ratio + left)
    return end, ratio + gap * boards.limit_lag.mean(seconds)


def limited_share(boards: Coefficients, fitting: Fitting | None, swung: Swung | None, seconds: float) -> Floats:
    """The share of a tick in which the power limit takes clock: after work has fallen, as long as its lag lasts."""
    share = boards.limit_lag.mean(seconds)
    if fitting is not None:
        share = np.where(fitting.ratio < 1.0, 1.0, share)
    return share if swung is None else np.where(swung.changes, swung.held_share, share)


def core_clock(
    boards: Coefficients,
    setting: Setting,
    active: Mask,
    awake: Mask,
    ratios: Mapping[str, Floats],
    before: Mapping[str, Floats] | None,
    seconds: float,
    held_share: Callable[[str], Floats | float],
) -> tuple[Floats, dict[str, Floats]]:
    """The mean of the core clock; and what throttles it, with the supported clocks that the board shows.

    A board that heat or the power limit throttles alternates between two supported clocks. It shows the lower one;
    power and work follow the mean.

    :param active: boards with work.
    :param awake: these, and those on which a process holds a context.
    :param ratios: the share of the highest clock that each reason allows; among equal ones the first counts.
    :param held_share: the share of the tick in which a reason holds a throttled clock, for its counter of seconds.
    """
    idle, high, full = boards.low["core_frequency_mhz"], boards.high["core_frequency_mhz"], setting.full_mhz
    asked = wanted = np.where(awake, full, np.minimum(boards.resting_mhz, full))
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
    throttles = _reasons(active, throttled, ratios, least, before, seconds, held_share)
    if setting.locked is not None:
        throttles["throttle_reasons"] += np.where(setting.locked & active, _LOCKED, 0.0)
    so_far = np.zeros(boards.count) if before is None else before["throttled_sync_boost_seconds"]
    if setting.boosted is not None:
        boosted = (setting.boosted & active).astype(np.float64)
        throttles["throttle_reasons"] += boosted * _BOOSTED
        so_far = so_far + boosted * seconds
    throttles["throttled_sync_boost_seconds"] = so_far
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
        if setting.braked is not None:
            braked = hardware * setting.braked
        hot = hardware - braked
        if before is not None and setting.braked is not None:
            hot = np.maximum(hot, hardware * (before["temperature_celsius"] >= boards.hardware_slowdown))
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
    held_share: Callable[[str], Floats | float],
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
            made[f"{reason}_seconds"] = seconds_before + made[reason] * seconds * held_share(reason)
            made["throttle_reasons"] = made["throttle_reasons"] + made[reason] * _BITS[reason]
    return made
