"""From the load of a device to its quantities: the direct rule, memory, counters."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.spec.device_types import DeviceType, Range
from tests.support.fleets import BOARD, MIB, make_fleet, pool_of, start


def test_the_board_of_these_tests() -> None:
    """Its ranges: the numbers above are worked out from them."""
    assert (BOARD.ranges["power_watts"], BOARD.memory_total_bytes) == (Range(50, 250), 1000 * MIB)


class TestQuantities:
    """From the load of a device to what it shows."""

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
        """Whole pages, and used + free + reserved = total."""
        fleet = make_fleet()
        start(fleet, "card0", "12.34:0:0")
        fleet.advance()
        assert fleet.memory_used_bytes[0] == 98 * MIB
        assert (fleet.memory_used_bytes % (2 * MIB) == 0).all()
        total = fleet.memory_used_bytes + fleet.memory_free_bytes + fleet.memory_reserved_bytes
        assert total.tolist() == fleet.memory_total_bytes.tolist() == [1000 * MIB] * 4
        assert fleet.memory_used_ratio[0] == 98 / 1000

    def test_used_memory_leaves_the_reserved_alone(self) -> None:
        """For any range, and though the last page would not fit."""
        full = DeviceType("full", {"memory_used_bytes": Range(0, 999)}, {}, 1000, 95, 10)
        fleet = make_fleet(pool_of(device_type=full))
        start(fleet, profile="100:0:0")
        fleet.advance()
        assert (fleet.memory_used_bytes[0], fleet.memory_free_bytes[0]) == (905, 0)

    def test_a_type_without_a_size_of_memory(self) -> None:
        """It shows what its range says, also beside devices that have one; free memory it has not."""
        vague = DeviceType("vague", {"memory_used_bytes": Range(0, 1001)})
        for pools in ((pool_of("vague", device_type=vague),), (pool_of("vague", device_type=vague), pool_of())):
            fleet = make_fleet(*pools)
            start(fleet, "vague-0/0")
            fleet.advance()
            present = fleet.state.levels["device"].present
            assert fleet.memory_used_bytes[0] == pytest.approx(500.5, abs=0.5)
            assert not present["memory_free_bytes"][0]

    def test_energy_is_the_integral_of_the_power_shown(self) -> None:
        """So is each counter of its rate, from tick 0 on."""
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

    def test_counters_never_go_down(self) -> None:
        """With any workloads that start and end."""
        fleet = make_fleet()
        before = fleet.energy_joules
        for tick in range(100):
            if tick % 7 == 0:
                start(fleet, f"card{tick % 4}", "60:30:3")
            fleet.advance()
            assert (fleet.energy_joules > before).all()
            before = fleet.energy_joules

    def test_errors_are_0_and_the_rest_is_absent(self) -> None:
        """Nothing is made up: a type has what it gives a range for."""
        fleet = make_fleet()
        names = fleet.quantity_names()
        assert fleet.pcie_replays.tolist() == [0, 0, 0, 0]
        assert "temperature_celsius" not in names
        assert "energy_joules" in names
        with pytest.raises(AttributeError, match="a fleet has no quantity or attribute 'temperature_celsius'"):
            _ = fleet.temperature_celsius

    def test_a_type_that_counts_no_errors(self) -> None:
        """As the original's JSON describes one: it has what the file names."""
        bare = DeviceType("bare", {"power_watts": Range(1, 2)}, counts_errors=False)
        names = make_fleet(pool_of(device_type=bare)).quantity_names()
        assert names == ["created_seconds", "energy_joules", "power_watts"]

    def test_a_type_that_lacks_some_counters(self) -> None:
        """Boards before Ampere have no remapped rows: absent, not 0; beside others that have them."""
        old = DeviceType("old", {"power_watts": Range(1, 2)}, lacks=("remapped_rows_correctable",))
        assert "remapped_rows_correctable" not in make_fleet(pool_of(device_type=old)).quantity_names()
        fleet = make_fleet(pool_of("old", device_type=old, devices_per_node=1), pool_of(devices_per_node=1))
        assert fleet.state.levels["device"].present["remapped_rows_correctable"].tolist() == [False, True]
        assert "pcie_replays" not in fleet.state.levels["device"].present

    def test_quantities_of_ones_own(self) -> None:
        """A name that the simulation does not know follows the load too."""
        own = DeviceType("own", {"happiness": Range(-5, 5)})
        fleet = make_fleet(pool_of(device_type=own))
        start(fleet, profile="75:0:0")
        fleet.advance()
        assert fleet.happiness.tolist() == [2.5, -5, -5, -5]

    def test_mixed_pools(self) -> None:
        """What only one pool's devices have is masked on the others."""
        warm = DeviceType("warm", {"usage_ratio": Range(0, 1), "temperature_celsius": Range(40, 80)})
        fleet = make_fleet(pool_of(), pool_of("hot", device_type=warm, devices_per_node=2))
        present = fleet.state.levels["device"].present
        assert present["temperature_celsius"].tolist() == [False] * 4 + [True] * 2
        assert present["power_watts"].tolist() == present["energy_joules"].tolist() == [True] * 4 + [False] * 2
        assert "usage_ratio" not in present
