"""What is always so of the devices of a level, whatever they are and whatever happens to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fakedev.sim.boards.clocks import PEAK_SHARE
from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.devices.relations import INTEGRALS
from fakedev.sim.entities.state import Level
from fakedev.spec.device_types import DeviceType, Dynamics, Range
from fakedev.spec.quantities import ERROR_COUNTERS

#: Reason to its bits of NVIDIA's mask, whatever more of them tell about it.
REASONS = {"throttled_power": 0x4, "throttled_thermal": 0x20, "throttled_hardware": 0x8}
COUNTERS = (*INTEGRALS, *ERROR_COUNTERS, *(f"{reason}_seconds" for reason in REASONS))
#: Rounding of sums and powers.
_NEAR = 1e-6
#: How near boards regulate to their limits, in watts.
_REGULATED = 0.2


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
    for name, values in level.arrays.items():
        assert np.isfinite(values).all(), name
        if not name.endswith("_celsius"):
            assert (values >= 0).all(), name
        if name.endswith("_ratio"):
            assert (values <= 1).all(), name
    for number, device_type in enumerate(types):
        shown = {name: float(values[number]) for name, values in level.arrays.items() if level.has(name, number)}
        if "memory_free_bytes" in shown:
            parts = shown["memory_used_bytes"] + shown["memory_free_bytes"] + shown["memory_reserved_bytes"]
            assert parts == shown["memory_total_bytes"]
            assert shown["memory_used_ratio"] * shown["memory_total_bytes"] == pytest.approx(shown["memory_used_bytes"])
        if shown.get("lost"):
            assert set(shown) <= {"lost", "xid"}
        elif device_type.dynamics is not None:
            _check_engines(shown, device_type, device_type.dynamics)
            _check_clock(shown, device_type)


def _check_engines(shown: dict[str, float], device_type: DeviceType, dynamics: Dynamics) -> None:
    for name, span in device_type.ranges.items():
        if name.endswith(("_active_ratio", "_bytes_per_second")):
            hangs = shown["hung"] and "hang" not in dynamics.without
            assert shown[name] == 0 if hangs else shown[name] >= span.low, name
    if "memory_power_watts" in shown:
        assert shown["memory_power_watts"] <= shown["power_watts"] + _NEAR
    if "memory_read_bytes_per_second" in shown:
        both = shown["memory_read_bytes_per_second"] + shown["memory_write_bytes_per_second"]
        assert both == pytest.approx(dynamics.memory_bytes_per_second * shown["memory_bandwidth_ratio"])
    for name, most in (("pcie", dynamics.pcie_bytes_per_second), ("fabric", dynamics.fabric_bytes_per_second)):
        for way in (f"{name}_tx_bytes_per_second", f"{name}_rx_bytes_per_second"):
            if way in shown:
                assert shown[way] <= max(most, device_type.ranges[way].high)


def _check_clock(shown: dict[str, float], device_type: DeviceType) -> None:
    clock = device_type.ranges["core_frequency_mhz"]
    assert clock.low <= shown["core_frequency_mhz"] <= clock.high
    step = device_type.dynamics.clock_step_mhz if device_type.dynamics else 1.0
    for name in ("core_frequency_mhz", "core_frequency_request_mhz"):
        steps = shown[name] / step
        assert shown[name] in (clock.low, clock.high) or steps == pytest.approx(round(steps), abs=1e-9), name
    flags = {reason: shown[reason] for reason in REASONS}
    assert sum(flags.values()) in (0, 1)
    if any(flags.values()):
        assert shown["core_frequency_mhz"] < clock.high
    mask = int(shown["throttle_reasons"])
    assert {reason: float(bool(mask & bits)) for reason, bits in REASONS.items()} == flags
    assert bool(mask & 0x1) == bool(shown["throttled_idle"])
    locked = bool(mask & 0x2)
    assert shown["core_frequency_mhz"] <= shown["core_frequency_mean_mhz"] + _NEAR
    if not locked and not any(flags.values()) and not shown["throttled_idle"]:
        assert shown["core_frequency_mhz"] == clock.high


def check_step(
    before: Level, after: Level, types: Sequence[DeviceType], seconds: float, conditions: Conditions | None = None
) -> None:
    """From one tick to the next: counters, the power limit, and temperatures on their way."""
    for name in COUNTERS:
        if name in after.arrays:
            assert (after.arrays[name] >= before.arrays[name]).all(), name
    for counter, rate in INTEGRALS.items():
        if counter in after.arrays:
            whole = before.arrays[counter] + after.arrays[rate] * seconds
            assert after.arrays[counter] == pytest.approx(whole), counter
    for reason in REASONS:
        if reason in after.arrays:
            grown = after.arrays[f"{reason}_seconds"] - before.arrays[f"{reason}_seconds"]
            assert grown == pytest.approx(after.arrays[reason] * seconds), reason
    for number, device_type in enumerate(types):
        if device_type.dynamics is not None and not after.arrays["lost"][number]:
            _check_power(after, number, device_type, device_type.dynamics, seconds)
            factor = 1.0
            if conditions is not None and conditions.resistance is not None:
                factor = float(np.nan_to_num(conditions.resistance[number], nan=1.0))
            _check_heat(before, after, number, device_type, device_type.dynamics, factor)


def overshoot(dynamics: Dynamics, seconds: float) -> float:
    """The mean over a tick of what is left of an excess at its beginning, as a share."""
    lag = dynamics.power_limit_seconds
    return -float(np.expm1(-seconds / lag)) * lag / seconds if lag else 0.0


def _check_power(after: Level, number: int, device_type: DeviceType, dynamics: Dynamics, seconds: float) -> None:
    """The power is within the limit and the stated transient, unless the idle clock is too much already."""
    power, limit, clock = (
        float(after.arrays[name][number]) for name in ("power_watts", "power_limit_watts", "core_frequency_mean_mhz")
    )
    mhz, watts = device_type.ranges["core_frequency_mhz"], device_type.ranges["power_watts"]
    assert power >= watts.low * (1 - dynamics.spread) * (1 - dynamics.power_noise) - _NEAR
    if power <= limit + _REGULATED or "power-limit" in dynamics.without:
        return
    # What the work draws at the idle clock; the spread of the board is not known here, so the most of it.
    idle = watts.low * (1 - dynamics.spread)
    clocked = dynamics.clocked_power_share * (watts.high - watts.low)
    work = power - idle - clocked * (1 - dynamics.spread) * (clock - mhz.low) / (mhz.high - mhz.low)
    idle *= (1 + dynamics.spread) / (1 - dynamics.spread)
    if idle + work * (mhz.low / clock) ** dynamics.clock_power_exponent > limit:
        return
    most = PEAK_SHARE * limit * overshoot(dynamics, seconds)
    assert power - limit <= most + _REGULATED, (power, limit, clock)


def _check_heat(
    before: Level, after: Level, number: int, device_type: DeviceType, dynamics: Dynamics, factor: float
) -> None:
    """Temperatures are between where they were and where they go to."""
    watts, inlet = device_type.ranges["power_watts"], float(after.arrays["inlet_temperature_celsius"][number])
    core = device_type.ranges["temperature_celsius"]
    at = dynamics.inlet_celsius
    if at is None:
        at = core.low - (core.high - core.low) / (watts.high - watts.low) * watts.low
    power = float(after.arrays["power_watts"][number])
    band = device_type.ranges.get("memory_bandwidth_ratio", Range(0, 0))
    traffic = 0.0
    if "memory_bandwidth_ratio" in after.arrays:
        used = float(after.arrays["memory_bandwidth_ratio"][number])
        traffic = max(used - band.low, 0.0) / ((band.high - band.low) or 1.0)
    for name in ("temperature_celsius", "memory_temperature_celsius"):
        if name in device_type.ranges:
            span = device_type.ranges[name]
            shares = [(power - watts.low) / (watts.high - watts.low)]
            if name.startswith("memory"):
                # In part by the power of the board, in part by the traffic; both differ between boards.
                shares = [0.5 * shares[0] + 0.5 * traffic * (1 + sign * dynamics.spread) + sign * dynamics.spread
                          for sign in (-1, 1)]  # fmt: skip
            rises = [(span.low - at + (span.high - span.low) * share) * factor for share in shares]
            levels = [inlet + rise * (1 + sign * dynamics.spread) for rise in rises for sign in (-1, 1)]
            ends = [float(before.arrays[name][number]), *levels]
            assert min(ends) - _NEAR <= after.arrays[name][number] <= max(ends) + _NEAR, name
