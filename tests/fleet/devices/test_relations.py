"""From the load of a device to its quantities: the direct rule, memory, counters; what its type is rated for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fakedev.config.load import load
from fakedev.fleet.devices.relations import RATINGS
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from fakedev.schema.files import Files
from tests.support.fleet.fleets import BOARD, MIB, advance, make_fleet, pool_of, start, stop


class TestQuantities:
    def test_the_direct_rule(self) -> None:
        """value = min + load x range, of the device type."""
        fleet = make_fleet()
        start(fleet, "card1", "25:0:0")
        start(fleet, "card2", "100:0:0")
        fleet.advance()
        assert fleet.usage_ratio.tolist() == [0, 0.25, 1, 0]
        assert fleet.power_watts.tolist() == [50, 100, 250, 50]
        assert fleet.core_frequency_mhz.tolist() == [300, 550, 1300, 300]
        assert fleet.pcie_tx_bytes_per_second.tolist() == [10, 260, 1010, 10]

    def test_memory(self) -> None:
        fleet = make_fleet()
        start(fleet, "card0", "12.34:0:0")
        fleet.advance()
        assert fleet.memory_used_bytes[0] == 98 * MIB
        assert (fleet.memory_used_bytes % (2 * MIB) == 0).all()
        total = fleet.memory_used_bytes + fleet.memory_free_bytes + fleet.memory_reserved_bytes
        assert total.tolist() == fleet.memory_total_bytes.tolist() == [1000 * MIB] * 4
        assert fleet.memory_used_ratio[0] == 98 / 1000

    def test_counters_that_a_type_lacks(self) -> None:
        """They are absent, not 0; beside others that have them."""
        old = DeviceType("old", {"power_watts": Range(1, 2)}, lacks=("remapped_rows_correctable", "energy_joules"))
        assert "remapped_rows_correctable" not in make_fleet(pool_of(device_type=old)).quantity_names()
        fleet = make_fleet(pool_of("old", device_type=old, devices_per_node=1), pool_of(devices_per_node=1))
        fleet.advance()
        present = fleet.state.levels["device"].present
        for name in ("remapped_rows_correctable", "energy_joules"):
            assert present[name].tolist() == [False, True], name
        assert "pcie_replays" not in present
        assert fleet.energy_joules[1] > 0

    def test_used_memory_leaves_the_reserved_alone(self) -> None:
        """For any range, and though the last page would not fit."""
        full = DeviceType("full", {"memory_used_bytes": Range(0, 999)}, {}, 1000, 95, 10)
        fleet = make_fleet(pool_of(device_type=full))
        start(fleet, profile="100:0:0")
        fleet.advance()
        assert (fleet.memory_used_bytes[0], fleet.memory_free_bytes[0]) == (905, 0)

    def test_a_type_without_a_size_of_memory(self) -> None:
        vague = DeviceType("vague", {"memory_used_bytes": Range(0, 1001)})
        for pools in ((pool_of("vague", device_type=vague),), (pool_of("vague", device_type=vague), pool_of())):
            fleet = make_fleet(*pools)
            start(fleet, "vague-0/0")
            fleet.advance()
            present = fleet.state.levels["device"].present
            assert fleet.memory_used_bytes[0] == pytest.approx(500.5, abs=0.5)
            assert not present["memory_free_bytes"][0]

    def test_energy_is_the_integral_of_the_power_shown(self) -> None:
        for tick in (1.0, 0.25):
            fleet = make_fleet(tick_seconds=tick)
            start(fleet, "card0", "30:20:3,80:15:2.5", repeat=0)
            energy, sent = np.zeros(4), np.zeros(4)
            for _ in range(50):
                fleet.advance()
                energy += fleet.power_watts * tick
                sent += fleet.pcie_tx_bytes_per_second * tick
            assert fleet.energy_joules == pytest.approx(energy)
            assert fleet.pcie_tx_bytes == pytest.approx(sent)

    def test_errors_are_0_and_the_rest_is_absent(self) -> None:
        fleet = make_fleet()
        names = fleet.quantity_names()
        assert fleet.pcie_replays.tolist() == [0, 0, 0, 0]
        assert "temperature_celsius" not in names
        assert "energy_joules" in names
        with pytest.raises(AttributeError, match="a fleet has no quantity or attribute 'temperature_celsius'"):
            _ = fleet.temperature_celsius

    def test_a_type_with_a_quantity_of_its_own_that_counts_no_errors(self) -> None:
        own = DeviceType("own", {"happiness": Range(-5, 5), "power_watts": Range(1, 2)}, counts_errors=False)
        fleet = make_fleet(pool_of(device_type=own))
        assert fleet.quantity_names() == [
            "created_seconds", "energy_joules", "happiness", "power_instant_watts", "power_watts",
        ]
        start(fleet, profile="75:0:0")
        fleet.advance()
        assert fleet.happiness.tolist() == [2.5, -5, -5, -5]

    def test_mixed_pools(self) -> None:
        warm = DeviceType("warm", {"usage_ratio": Range(0, 1), "temperature_celsius": Range(40, 80)})
        fleet = make_fleet(pool_of(), pool_of("hot", device_type=warm, devices_per_node=2))
        present = fleet.state.levels["device"].present
        assert present["temperature_celsius"].tolist() == [False] * 4 + [True] * 2
        assert present["power_watts"].tolist() == present["energy_joules"].tolist() == [True] * 4 + [False] * 2
        assert "usage_ratio" not in present


DYNAMIC = replace(
    BOARD,
    ranges={**BOARD.ranges, "temperature_celsius": Range(30, 70)},
    dynamics=Dynamics(power_limit_watts=300),
)


def used(device_type=DYNAMIC, **workload: object) -> list[float]:
    """MiB that the first device shows in six ticks of a workload that is stopped after four."""
    fleet = make_fleet(pool_of(device_type=device_type))
    workload_id = start(fleet, **workload)
    shown = []
    for tick in range(6):
        if tick == 4:
            stop(fleet, workload_id)
        advance(fleet, 1)
        shown.append(float(fleet.memory_used_bytes[0]) / MIB)
    return shown


def test_it_does_not_come_and_go_with_the_load() -> None:
    """A job that pauses keeps what its busiest activity needs; when it ends all is freed."""
    assert used(profile="80:0:1,0:0:1", repeat=0) == [640, 640, 640, 640, 0, 0]


def test_noise_does_not_move_it() -> None:
    assert used(profile="50:40:0") == [400, 400, 400, 400, 0, 0]


def test_several_add_up_to_what_there_is() -> None:
    fleet = make_fleet(pool_of(device_type=DYNAMIC))
    start(fleet, profile="30:0:0")
    start(fleet, profile="40:0:0")
    advance(fleet, 1)
    assert fleet.memory_used_bytes[0] == 560 * MIB
    start(fleet, profile="90:0:0")
    advance(fleet, 1)
    assert fleet.memory_used_bytes[0] == 800 * MIB


def test_without_dynamics_it_follows_the_load() -> None:
    assert used(BOARD, profile="80:0:1,0:0:1", repeat=0) == [640, 0, 640, 0, 0, 0]


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
            "shutdown_temperature_celsius": [95, 110],
        }
        fleet.advance()
