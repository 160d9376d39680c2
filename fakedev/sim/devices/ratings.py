"""Ratings of boards: numbers of the device type that ticks do not change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fakedev.spec.device_types import DeviceType


def _range_end(quantity: str, end: str) -> Callable[[DeviceType], float]:
    def rating(device_type: DeviceType) -> float:
        return getattr(device_type.ranges[quantity], end) if quantity in device_type.ranges else math.inf

    return rating


def _dynamic(name: str) -> Callable[[DeviceType], float]:
    def rating(device_type: DeviceType) -> float:
        return getattr(device_type.dynamics, name) if device_type.dynamics else math.inf

    return rating


def _memory_bandwidth(device_type: DeviceType) -> float:
    return _dynamic("memory_bytes_per_second")(device_type) or math.inf


def _usable_memory(device_type: DeviceType) -> float:
    return device_type.memory_total_bytes - device_type.memory_reserved_bytes or math.inf


#: Quantity to its value of a device type; infinite where the type gives none.
RATINGS: Final[Mapping[str, Callable[[DeviceType], float]]] = {
    "core_frequency_max_mhz": _range_end("core_frequency_mhz", "high"),
    "core_frequency_min_mhz": _range_end("core_frequency_mhz", "low"),
    "memory_frequency_max_mhz": _range_end("memory_frequency_mhz", "high"),
    "memory_frequency_min_mhz": _range_end("memory_frequency_mhz", "low"),
    "memory_max_bytes_per_second": _memory_bandwidth,
    "memory_usable_bytes": _usable_memory,
    "power_limit_default_watts": _dynamic("power_limit_watts"),
    "slowdown_temperature_celsius": _dynamic("slowdown_celsius"),
    "hardware_slowdown_temperature_celsius": _dynamic("hardware_slowdown_celsius"),
    "shutdown_temperature_celsius": _dynamic("shutdown_celsius"),
}


def rated(types: Sequence[DeviceType]) -> dict[str, list[float]]:
    """The ratings of some types, by quantity; infinite where a type gives none, without quantities of no type."""
    found = {name: [rating(each) for each in types] for name, rating in RATINGS.items()}
    return {name: ratings for name, ratings in found.items() if any(map(math.isfinite, ratings))}
