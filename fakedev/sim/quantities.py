"""The names of what a device has: quantities of the state, facts of a board, and their aliases.

A *quantity* is a number that the simulation moves (``power_watts``); a *fact* is a text that
tells boards apart or describes them (``uuid``, ``product_name``). Device types may bring
quantities of their own (the original's JSON files do): they follow the load directly and are
known by the name they were given.
"""

from __future__ import annotations

from typing import Final

#: Quantities the simulation knows, with their unit in the name where they have one.
KNOWN_QUANTITIES: Final[dict[str, str]] = {
    "usage_ratio": "share of the time in which the compute engines work, 0 to 1",
    "tensor_active_ratio": "share of cycles in which the tensor pipes are active, 0 to 1",
    "memory_bandwidth_ratio": "share of the memory's bandwidth in use, 0 to 1",
    "memory_used_bytes": "memory held by workloads",
    "memory_free_bytes": "memory that is neither used nor reserved",
    "memory_reserved_bytes": "memory held by driver and firmware",
    "memory_total_bytes": "memory of the board",
    "memory_used_ratio": "used memory by total memory, 0 to 1",
    "core_frequency_mhz": "clock of the compute engines",
    "memory_frequency_mhz": "clock of the memory",
    "power_watts": "power drawn by the board",
    "power_limit_watts": "the power cap of the board",
    "throttled_power": "1 while the power cap takes clock away, else 0",
    "throttled_power_seconds": "how long the power cap has taken clock away",
    "throttled_thermal": "1 while heat takes clock away, else 0",
    "throttled_thermal_seconds": "how long heat has taken clock away",
    "thermal_clock_ratio": "share of the highest clock that heat leaves, 0 to 1",
    "work_clock_ratio": "clock that the work has, by the highest, 0 to 1; 1 when idle",
    "energy_joules": "integral of the power since the simulation began",
    "temperature_celsius": "core temperature",
    "memory_temperature_celsius": "memory temperature",
    "pcie_tx_bytes_per_second": "PCIe traffic from the board",
    "pcie_rx_bytes_per_second": "PCIe traffic to the board",
    "pcie_tx_bytes": "integral of the PCIe traffic from the board",
    "pcie_rx_bytes": "integral of the PCIe traffic to the board",
    "pcie_replays": "PCIe retries",
    "remapped_rows_uncorrectable": "memory rows remapped for uncorrectable errors",
    "remapped_rows_correctable": "memory rows remapped for correctable errors",
    "row_remap_failure": "1 when remapping of rows has failed, else 0",
    "resets": "resets of the board",
    "programming_errors": "programming errors",
    "driver_errors": "driver errors",
    "cache_errors_correctable": "correctable cache errors",
    "cache_errors_uncorrectable": "uncorrectable cache errors",
    "non_compute_errors_correctable": "correctable errors outside the compute engines",
    "non_compute_errors_uncorrectable": "uncorrectable errors outside the compute engines",
    "memory_errors_correctable": "correctable (single-bit) memory errors",
    "memory_errors_uncorrectable": "uncorrectable (double-bit) memory errors",
    "created_seconds": "wall time at which the counters began, in seconds since 1970",
}

#: Counts of things that go wrong: present on every device, 0 until a fault moves them.
ERROR_COUNTERS: Final[tuple[str, ...]] = (
    "pcie_replays",
    "remapped_rows_uncorrectable",
    "remapped_rows_correctable",
    "row_remap_failure",
    "resets",
    "programming_errors",
    "driver_errors",
    "cache_errors_correctable",
    "cache_errors_uncorrectable",
    "non_compute_errors_correctable",
    "non_compute_errors_uncorrectable",
    "memory_errors_correctable",
    "memory_errors_uncorrectable",
)

#: What a device type may give a range for: value at load 0 and at load 100.
DIRECT_QUANTITIES: Final[tuple[str, ...]] = (
    "usage_ratio",
    "tensor_active_ratio",
    "memory_bandwidth_ratio",
    "memory_used_bytes",
    "core_frequency_mhz",
    "memory_frequency_mhz",
    "power_watts",
    "temperature_celsius",
    "memory_temperature_celsius",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
)

#: The original exporter's metric names, and the short ones people type.
QUANTITY_ALIASES: Final[dict[str, str]] = {
    "frequency": "core_frequency_mhz",
    "memory": "memory_used_bytes",
    "power": "power_watts",
    "temperature": "temperature_celsius",
    "usage": "usage_ratio",
}

#: The original exporter's label names for facts that we know under longer ones.
FACT_ALIASES: Final[dict[str, str]] = {
    "addr": "pci_address",
    "file": "device_file",
    "pciid": "pci_device_id",
    "name": "product_name",
}


def quantity_name(name: str) -> str:
    """The canonical name of a quantity: aliases resolved, other names as they are."""
    return QUANTITY_ALIASES.get(name, name)
