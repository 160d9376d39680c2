"""What boards are rated for: numbers of the device type that do not change with the ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fakedev.spec.device_types import DeviceType


def _highest(quantity: str) -> Callable[[DeviceType], float]:
    def rating(device_type: DeviceType) -> float:
        known = device_type.ranges.get(quantity)
        return known.high if known else math.inf

    return rating


def _lowest(quantity: str) -> Callable[[DeviceType], float]:
    def rating(device_type: DeviceType) -> float:
        known = device_type.ranges.get(quantity)
        return known.low if known else math.inf

    return rating


def _memory_bandwidth(device_type: DeviceType) -> float:
    return (device_type.dynamics.memory_bytes_per_second if device_type.dynamics else 0.0) or math.inf


def _dynamic(name: str) -> Callable[[DeviceType], float]:
    def rating(device_type: DeviceType) -> float:
        return getattr(device_type.dynamics, name) if device_type.dynamics else math.inf

    return rating


def _usable_memory(device_type: DeviceType) -> float:
    return device_type.memory_total_bytes - device_type.memory_reserved_bytes or math.inf


#: Quantity to what a device type says of it; infinite where it says nothing.
RATINGS: Final[Mapping[str, Callable[[DeviceType], float]]] = {
    "core_frequency_max_mhz": _highest("core_frequency_mhz"),
    "core_frequency_min_mhz": _lowest("core_frequency_mhz"),
    "memory_frequency_max_mhz": _highest("memory_frequency_mhz"),
    "memory_frequency_min_mhz": _lowest("memory_frequency_mhz"),
    "memory_max_bytes_per_second": _memory_bandwidth,
    "memory_usable_bytes": _usable_memory,
    "power_limit_default_watts": _dynamic("power_limit_watts"),
    "slowdown_temperature_celsius": _dynamic("slowdown_celsius"),
    "hardware_slowdown_temperature_celsius": _dynamic("hardware_slowdown_celsius"),
    "shutdown_temperature_celsius": _dynamic("shutdown_celsius"),
}


def rated(types: Sequence[DeviceType]) -> dict[str, list[float]]:
    """What some types say, for each quantity that one of them says something of: infinite where one says nothing."""
    said = {name: [rating(each) for each in types] for name, rating in RATINGS.items()}
    return {name: ratings for name, ratings in said.items() if any(map(math.isfinite, ratings))}
