"""A board with dynamics and round numbers, for tests."""

from __future__ import annotations

from dataclasses import replace

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start

#: A board with round numbers: 100 W idle, 500 W at plain full load; 0.1 K per watt; clock from 300 to 1300 MHz.
DYNAMICS = Dynamics(600.0, clock_step_mhz=10, slowdown_celsius=90, resume_celsius=85, pcie_bytes_per_second=1e10)
ROUND = DeviceType(
    "round",
    {
        "usage_ratio": Range(0, 1),
        "tensor_active_ratio": Range(0, 0.5),
        "memory_bandwidth_ratio": Range(0, 0.1),
        "core_frequency_mhz": Range(300, 1300),
        "memory_frequency_mhz": Range(405, 9000),
        "power_watts": Range(100, 500),
        "temperature_celsius": Range(40, 80),
        "memory_temperature_celsius": Range(45, 85),
        "pcie_tx_bytes_per_second": Range(1e3, 1e6),
        "pcie_rx_bytes_per_second": Range(1e3, 1e6),
    },
    facts={"memory_max_operating_celsius": "150"},  # its memory carries far more than at plain full load
    dynamics=DYNAMICS,
)


def board(device_type: DeviceType = ROUND, tick_seconds: float = 1.0, **dynamics: float) -> Fleet:
    """Four boards on one node, with some of their dynamics changed."""
    changed = replace(device_type, dynamics=replace(device_type.dynamics or DYNAMICS, **dynamics))
    return make_fleet(pool_of(device_type=changed), tick_seconds=tick_seconds)


def under(kind: str, load: float = 100, seconds: int = 600, **dynamics: float) -> Fleet:
    """A board after some seconds of one kind of work."""
    fleet = board(**dynamics)
    start(fleet, profile=f"{load}:0:0", kind=kind)
    advance(fleet, seconds)
    return fleet
