"""What boards are rated for: the device type's numbers, on the devices of types that say them."""

from __future__ import annotations

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.sim.devices.relations import RATINGS
from fakedev.sim.fleet import Fleet


def test_ratings() -> None:
    """An H100 has them all; an MI300X says nothing of the hardware's slowdown; they stay as they are."""
    one = "{{name: {0}, nodes: 1, device: {0}, devices-per-node: 1, identity: dcgm}}"
    pools = ", ".join(map(one.format, ("h100", "mi300x")))
    fleet = Fleet(load(None, Files(environ={}), text=f"fleet: {{pools: [{pools}]}}\nweb: []").fleet)
    for _ in range(2):
        level = fleet.state.levels["device"]
        shown = {name: [level.arrays[name][device] for device in (0, 1) if level.has(name, device)] for name in RATINGS}
        assert shown == {
            "core_frequency_max_mhz": [1980, 2100],
            "core_frequency_min_mhz": [345, 132],
            "memory_frequency_max_mhz": [2619, 1300],
            "memory_frequency_min_mhz": [2619, 900],
            "memory_max_bytes_per_second": [3.35e12, 5.3e12],
            "power_limit_default_watts": [700, 750],
            "slowdown_temperature_celsius": [87, 100],
            "memory_usable_bytes": [81080 * 2**20, 196608 * 2**20],
    "hardware_slowdown_temperature_celsius": [89],
            "shutdown_temperature_celsius": [95],
        }
        fleet.advance()
