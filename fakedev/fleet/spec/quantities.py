"""The names of quantities, facts, tallies and metrics of work, with aliases and units. Imports no NumPy.

A *quantity* is a simulated number (``power_watts``). A *fact* is a text that identifies or describes a board
(``uuid``, ``product_name``). Device types may define their own quantities, as the original's JSON files do: these
follow the load directly and keep their names.

A *tally* has a name like ``xid_events_within_300s`` or ``clock_power_cap_samples_within_300s_every_30s``. It is
counted only if an identity of the configuration shows it. Its name has all that it depends on.

The metrics of work are the metrics that a workload may demand besides plain load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fakedev.base.errors import did_you_mean
from fakedev.base.units import BYTES, BYTES_PER_SECOND, CORES, COUNTS_PER_SECOND, RATIO, Unit

#: The quantities of the simulation, with the unit in the name.
KNOWN_QUANTITIES: Final[dict[str, str]] = {
    "usage_ratio": "share of the time in which the compute engines work, 0 to 1",
    "tensor_active_ratio": "share of cycles in which the tensor pipes are active, 0 to 1",
    "engine_active_ratio": "share of the time in which any graphics or compute engine works, 0 to 1",
    "sm_active_ratio": "share of cycles in which a multiprocessor has work, mean of all, 0 to 1",
    "sm_occupancy_ratio": "share of the places for warps that are taken, mean of all multiprocessors, 0 to 1",
    "fp64_active_ratio": "share of cycles in which the FP64 pipes are active, 0 to 1",
    "fp32_active_ratio": "share of cycles in which the FP32 pipes are active, 0 to 1",
    "fp16_active_ratio": "share of cycles in which the FP16 pipes are active, 0 to 1",
    "copy_active_ratio": "share of the time in which the copy engines work, 0 to 1",
    "encoder_active_ratio": "share of the time in which the media encoders work, 0 to 1",
    "decoder_active_ratio": "share of the time in which the media decoders work, 0 to 1",
    "render_active_ratio": "share of the time in which the 3D engines work, 0 to 1",
    "jpeg_active_ratio": "share of the time in which the JPEG engines work, 0 to 1",
    "ofa_active_ratio": "share of the time in which the optical flow engines work, 0 to 1",
    "memory_bandwidth_ratio": "share of the memory's bandwidth in use, 0 to 1",
    "memory_usage_ratio": "share of the time in which the memory is read or written, 0 to 1",
    "memory_read_bytes_per_second": "traffic from the board's memory",
    "memory_write_bytes_per_second": "traffic to the board's memory",
    "memory_read_bytes": "integral of the traffic from the board's memory",
    "memory_write_bytes": "integral of the traffic to the board's memory",
    "memory_used_bytes": "memory held by workloads",
    "memory_free_bytes": "memory that is neither used nor reserved",
    "memory_reserved_bytes": "memory held by driver and firmware",
    "memory_total_bytes": "memory of the board",
    "memory_usable_bytes": "memory of the board that is not reserved",
    "memory_used_ratio": "used memory by total memory, 0 to 1",
    "core_frequency_mhz": "clock of the compute engines",
    "core_frequency_mean_mhz": "mean clock of the compute engines, between two clocks that the board supports",
    "core_frequency_request_mhz": "requested clock of the compute engines: what they would have unthrottled",
    "memory_frequency_mhz": "clock of the memory",
    "video_frequency_mhz": "clock of the media engines",
    "core_frequency_max_mhz": "highest clock of the compute engines",
    "memory_frequency_max_mhz": "highest clock of the memory",
    "core_frequency_min_mhz": "lowest clock of the compute engines",
    "memory_frequency_min_mhz": "lowest clock of the memory",
    "memory_max_bytes_per_second": "what the memory carries at most, reads and writes together",
    "power_watts": "power drawn by the board",
    "power_instant_watts": "power drawn by the board at one moment",
    "memory_power_watts": "power drawn by the memory, part of the board's",
    "power_limit_watts": "the power cap of the board",
    "power_limit_default_watts": "the power cap that the board comes with",
    "performance_state": "0, the fastest, to 15, the slowest",
    "throttle_reasons": "what holds the clock, as NVIDIA's bit mask",
    "throttled_idle": "1 while the clock is down because there is no work, else 0",
    "throttled_hardware": "1 while the hardware slowdown takes clock away, else 0",
    "throttled_hardware_seconds": "how long the hardware slowdown has taken clock away",
    "throttled_hardware_heat_seconds": "how long of that for heat",
    "throttled_hardware_brake_seconds": "how long of that because the host's power brake is on",
    "throttled_sync_boost_seconds": "how long a group that boosts together has taken clock away",
    "throttled_power": "1 while the power cap takes clock away, else 0",
    "throttled_power_seconds": "how long the power cap has taken clock away",
    "throttled_thermal": "1 while heat takes clock away, else 0",
    "throttled_thermal_seconds": "how long heat has taken clock away",
    "thermal_clock_ratio": "share of the highest clock that heat leaves, 0 to 1",
    "power_clock_ratio": "share of the highest clock that the power limit leaves, 0 to 1",
    "work_clock_ratio": "clock that the work has, by the highest, 0 to 1; 1 when idle",
    "work_pcie_ratio": "share of the PCIe traffic of the work that the link carries, 0 to 1",
    "work_fabric_ratio": "share of the traffic of the work with other boards that the links carry, 0 to 1",
    "energy_joules": "integral of the power since the simulation began",
    "temperature_celsius": "core temperature",
    "temperature_max_celsius": "highest core temperature within the tick",
    "memory_temperature_celsius": "memory temperature",
    "slowdown_temperature_celsius": "core temperature from which heat takes clock away",
    "hardware_slowdown_temperature_celsius": "core temperature from which the hardware slowdown sets in",
    "shutdown_temperature_celsius": "core temperature at which the board goes away",
    "temperature_margin_celsius": "how much warmer the core may get before heat takes clock away",
    "inlet_temperature_celsius": "temperature of the air that cools the board",
    "fan_speed_ratio": "speed of the fan by its highest, 0 to 1",
    "hung": "1 while the board hangs, else 0",
    "lost": "1 once the board has gone away, else 0",
    "xid": "code of the last error that the driver reported, 0 for none",
    "fabric_tx_bytes_per_second": "traffic from the board over all links to other boards (NVLink, Xe Link, xGMI)",
    "fabric_rx_bytes_per_second": "traffic to the board over all links to other boards (NVLink, Xe Link, xGMI)",
    "fabric_tx_bytes": "integral of the traffic from the board over links to other boards",
    "fabric_rx_bytes": "integral of the traffic to the board over links to other boards",
    "fabric_fetched_bytes_per_second": "traffic to the board over links to other boards that its own work fetches",
    "fabric_fetched_bytes": "integral of the traffic that the board's own work fetches over links to other boards",
    "pcie_tx_bytes_per_second": "PCIe traffic from the board",
    "pcie_rx_bytes_per_second": "PCIe traffic to the board",
    "pcie_tx_bytes": "integral of the PCIe traffic from the board",
    "pcie_rx_bytes": "integral of the PCIe traffic to the board",
    "pcie_link_generation": "generation that the PCIe link runs at",
    "pcie_link_generation_max": "highest generation of the PCIe link",
    "pcie_link_width": "lanes of the PCIe link in use",
    "pcie_link_width_max": "lanes that the PCIe link can have",
    "pcie_link_gigatransfers_per_second": "speed of each lane of the PCIe link, in GT/s",
    "pcie_link_gigatransfers_per_second_max": "highest speed of each lane of the PCIe link, in GT/s",
    "pcie_replays": "PCIe retries",
    "links_up": "links to other boards that are up",
    "link_errors": "errors on links to other boards",
    "link_recoveries": "links to other boards that came back after they were down",
    "link_up": "of a link: 1 while it is up, else 0",
    "link_state": "of a link: 2 while it is active, 3 in error, 0 when an end of it is gone",
    "link_number": "of a link: which of its board's it is, from 0",
    "link_bytes_per_second_max": "of a link: what it can carry, each way",
    "retired_pages_single_bit": "memory pages retired for single-bit errors",
    "retired_pages_double_bit": "memory pages retired for double-bit errors",
    "remapped_rows_uncorrectable": "memory rows remapped for uncorrectable errors",
    "remapped_rows_correctable": "memory rows remapped for correctable errors",
    "row_remap_failure": "1 when remapping of rows has failed, else 0",
    "retired_pages_pending": "1 while retired pages wait for the next reset, else 0",
    "row_remap_pending": "1 while remapped rows wait for the next reset, else 0",
    "recovery_action": "what the driver advises, as NVIDIA's number: 0 nothing, 1 reset, 4 drain and reset",
    "resets": "resets of the board",
    "programming_errors": "programming errors",
    "driver_errors": "driver errors",
    "cache_errors_correctable": "correctable cache errors",
    "cache_errors_uncorrectable": "uncorrectable cache errors",
    "non_compute_errors_correctable": "correctable errors outside the compute engines",
    "non_compute_errors_uncorrectable": "uncorrectable errors outside the compute engines",
    "memory_errors_correctable": "correctable (single-bit) memory errors",
    "memory_errors_uncorrectable": "uncorrectable (double-bit) memory errors",
    "process_count": "workloads on the board, as exporters count processes",
    "uptime_seconds": "how long the board's counters have counted",
    "wall_seconds": "of a page or node: wall time of the tick that is shown, in seconds since 1970",
    "late_seconds": "of a page or node: how late its page is, by the fault slow-page",
    "created_seconds": "wall time at which the counters began, in seconds since 1970",
    "cpu_cores": "cores of the Grace CPU of its module that work on the board asks for, e.g. to load its data",
    "cpu_usage_ratio": "of a Grace CPU or a core: share of the time in which it works, 0 to 1",
    "cpu_user_ratio": "of a core: share of the time in which it runs programs, 0 to 1",
    "cpu_nice_ratio": "of a core: share of the time in which it runs programs of low priority, 0 to 1",
    "cpu_system_ratio": "of a core: share of the time in which it runs the kernel, 0 to 1",
    "cpu_irq_ratio": "of a core: share of the time in which it serves interrupts, 0 to 1",
    "cpu_frequency_mhz": "of a Grace CPU or a core: its clock",
    "cpu_power_watts": "power drawn by the Grace CPU of the board's module",
    "cpu_power_limit_watts": "of a Grace CPU: what it may draw",
    "cpu_temperature_celsius": "temperature of the Grace CPU of the board's module",
    "cpu_temperature_warning_celsius": "of a Grace CPU: temperature from which it is slowed down",
    "cpu_temperature_critical_celsius": "of a Grace CPU: temperature at which it is shut down",
    "sysio_power_watts": "power drawn by memory and I/O of the Grace CPU of the board's module",
    "module_power_watts": "power drawn by the board's module: its boards, the Grace CPU, its memory and I/O",
    "c2c_tx_bytes_per_second": "traffic from the board to the Grace CPU of its module",
    "c2c_rx_bytes_per_second": "traffic to the board from the Grace CPU of its module",
    "c2c_errors": "errors on the links to the Grace CPU of the board's module",
    "imex_ready_seconds": "how long the IMEX daemon of the board's node has been up",
    "imex_daemon_status": "state of the IMEX daemon, as DCGM numbers it: 5 ready, 7 unavailable",
    "imex_domain_status": "state of the IMEX domain of the board's node: 0 up, 1 degraded (not all ready), 2 down",
    "imex_nodes_ready": "nodes of the IMEX domain whose daemons are ready",
    "coolant_leak": "1 while coolant leaks from the board's tray, else 0",
    "coolant_flow_ratio": "coolant that flows through the board's tray, by the full flow, 0 to 1",
    "coolant_flow_litres_per_minute": "of a rack: coolant that flows through it",
    "coolant_supply_celsius": "of a rack: temperature of the coolant, or the air, that it gets",
    "coolant_return_celsius": "of a rack: temperature of the coolant that leaves it",
    "rack_power_watts": "of a rack: power of its boards, CPUs and switch trays",
    "rack_power_limit_watts": "of a rack: what its busbar or its breakers carry",
    "smoothing_idle_seconds": "how long the board has had no work, for power smoothing",
    "fabric_timeout_seconds": "how much longer the NVLink fabric recovers from timed out accesses",
    "fabric_route_seconds": "how long a route of the board through its NVLink fabric has been lost",
    "fabric_ready_seconds": "how long ago the board began to register with its NVLink fabric",
    "fabric_manager_status": "state of that registration, as DCGM numbers it: 2 in progress, 3 success, 4 failure",
    "fabric_manager_error": "NVML's code of the error with which that failed, 0 for none",
    "fabric_health_mask": "health of the board's NVLink fabric, as NVML's bit mask: 426 is healthy",
    "fabric_health_summary": "the same in one number: 1 healthy, 2 unhealthy, 3 of limited capacity",
    "link_wear_decades": "how much worse the bit errors of the board's worst link have become, in powers of ten",
    "link_failed": "1 while the board's worst link is down for its bit errors, else 0",
    "link_raw_ber_ratio": "bit errors of the board's worst link before correction, by all bits",
    "link_effective_ber_ratio": "bit errors of the board's worst link after correction, by all bits",
    "link_symbol_ber_ratio": "wrong symbols of the board's worst link after repetition, by all symbols",
    "link_effective_ber_packed": "link_effective_ber_ratio as DCGM packs it: mantissa x 256 + exponent; 4095 for none",
    "link_symbol_ber_packed": "link_symbol_ber_ratio, packed likewise",
    "link_effective_errors": "codewords on the board's links that could not be corrected",
    "link_symbol_errors": "symbols on the board's links that could not be corrected",
    "link_recoveries_successful": "how often the board's links were trained anew and came back",
    "link_recoveries_failed": "how often the board's links were trained anew and stayed down",
    **{f"link_fec_{number}_codewords": f"codewords on the board's links with {number} wrong symbols"
       for number in range(16)},
}

#: DCGM's words for the values of imex_domain_status.
IMEX_DOMAIN_WORDS: Final = ("UP", "DEGRADED", "DOWN")

#: Quantities of racks: of nodes and of modules with a Grace CPU, which each of their boards has, and of boards.
OF_TRAYS: Final = (
    "imex_ready_seconds", "imex_daemon_status", "imex_domain_status", "imex_nodes_ready", "coolant_leak",
    "coolant_flow_ratio", "smoothing_idle_seconds",
)  # fmt: skip
OF_MODULES: Final = (
    "cpu_usage_ratio", "cpu_frequency_mhz", "cpu_power_watts", "cpu_temperature_celsius", "sysio_power_watts",
    "module_power_watts", "c2c_tx_bytes_per_second", "c2c_rx_bytes_per_second", "c2c_errors",
)  # fmt: skip
FEC_CODEWORDS: Final = tuple(f"link_fec_{number}_codewords" for number in range(16))
OF_FABRIC: Final = (
    "fabric_ready_seconds", "fabric_timeout_seconds", "fabric_route_seconds",
    "fabric_manager_status", "fabric_manager_error", "fabric_health_mask",
    "fabric_health_summary", "link_wear_decades", "link_failed", "link_raw_ber_ratio", "link_effective_ber_ratio",
    "link_symbol_ber_ratio", "link_effective_ber_packed", "link_symbol_ber_packed", "link_effective_errors",
    "link_symbol_errors", "link_recoveries_successful", "link_recoveries_failed",
)  # fmt: skip

#: Of a demand: the usage of kernels that move data which workloads request; no quantity of a device.
IMPLIED_USAGE: Final = "implied_usage_ratio"

#: Counts of errors: every device has them, with 0 until a fault raises them.
ERROR_COUNTERS: Final[tuple[str, ...]] = (
    "pcie_replays",
    "link_errors",
    "link_recoveries",
    "retired_pages_single_bit",
    "retired_pages_double_bit",
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

#: Counter to the rate that it integrates.
INTEGRALS: Final[dict[str, str]] = {
    "energy_joules": "power_watts",
    "pcie_tx_bytes": "pcie_tx_bytes_per_second",
    "pcie_rx_bytes": "pcie_rx_bytes_per_second",
    "fabric_tx_bytes": "fabric_tx_bytes_per_second",
    "fabric_rx_bytes": "fabric_rx_bytes_per_second",
    "fabric_fetched_bytes": "fabric_fetched_bytes_per_second",
    "memory_read_bytes": "memory_read_bytes_per_second",
    "memory_write_bytes": "memory_write_bytes_per_second",
}

#: Seconds of throttling.
THROTTLED_SECONDS: Final[tuple[str, ...]] = (
    "throttled_hardware_seconds", "throttled_hardware_heat_seconds", "throttled_hardware_brake_seconds",
    "throttled_power_seconds", "throttled_thermal_seconds", "throttled_sync_boost_seconds",
)  # fmt: skip

#: Quantities that only grow, until a board is reset.
COUNTERS: Final[frozenset[str]] = frozenset((
    *INTEGRALS, *ERROR_COUNTERS, *THROTTLED_SECONDS, *FEC_CODEWORDS, "c2c_errors", "link_effective_errors",
    "link_symbol_errors", "link_recoveries_successful", "link_recoveries_failed",
)) - {"row_remap_failure"}  # fmt: skip

#: Quantities that follow from the memory bandwidth, if the type has the bandwidth of the memory.
MEMORY_TRAFFIC: Final[tuple[str, ...]] = ("memory_read_bytes_per_second", "memory_write_bytes_per_second")

#: Quantities for which a device type may have a range: the values at load 0 and at load 100.
DIRECT_QUANTITIES: Final[tuple[str, ...]] = (
    "usage_ratio",
    "tensor_active_ratio",
    "copy_active_ratio",
    "encoder_active_ratio",
    "decoder_active_ratio",
    "render_active_ratio",
    "jpeg_active_ratio",
    "ofa_active_ratio",
    "memory_bandwidth_ratio",
    "memory_read_bytes_per_second",
    "memory_write_bytes_per_second",
    "memory_used_bytes",
    "core_frequency_mhz",
    "memory_frequency_mhz",
    "video_frequency_mhz",
    "power_watts",
    "memory_power_watts",
    "temperature_celsius",
    "memory_temperature_celsius",
    "fan_speed_ratio",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "fabric_tx_bytes_per_second",
    "fabric_rx_bytes_per_second",
)

#: Aliases in files: the original exporter's metric names. Any other name is a quantity of the file.
FILE_ALIASES: Final[dict[str, str]] = {
    "frequency": "core_frequency_mhz",
    "memory": "memory_used_bytes",
    "power": "power_watts",
    "temperature": "temperature_celsius",
    "usage": "usage_ratio",
}

#: Aliases in requests, as in a workload's limits.
QUANTITY_ALIASES: Final[dict[str, str]] = FILE_ALIASES | {
    "copy": "copy_active_ratio",
    "decoder": "decoder_active_ratio",
    "encoder": "encoder_active_ratio",
    "fabric_rx": "fabric_rx_bytes_per_second",
    "fabric_tx": "fabric_tx_bytes_per_second",
    "fan": "fan_speed_ratio",
    "memory_bandwidth": "memory_bandwidth_ratio",
    "memory_frequency": "memory_frequency_mhz",
    "memory_power": "memory_power_watts",
    "memory_temperature": "memory_temperature_celsius",
    "pcie_rx": "pcie_rx_bytes_per_second",
    "pcie_tx": "pcie_tx_bytes_per_second",
    "render": "render_active_ratio",
    "tensor": "tensor_active_ratio",
}

#: The original exporter's label names for facts with longer names.
FACT_ALIASES: Final[dict[str, str]] = {
    "addr": "pci_address",
    "file": "device_file",
    "pciid": "pci_device_id",
    "name": "product_name",
}


def quantity_in_file(name: str) -> str:
    """The canonical name of a quantity in a file: aliases are resolved, other names stay."""
    return FILE_ALIASES.get(name, name)


def quantity_name(name: str) -> str:
    """The canonical name of a quantity in a request: aliases are resolved, other names stay."""
    return QUANTITY_ALIASES.get(name, name)


def is_in_bytes(name: str) -> bool:
    """Whether a quantity is in bytes, by its name or an alias (not by a metric's name of an identity)."""
    return "_bytes" in quantity_name(name.replace("-", "_"))


#: The number of reported error codes: of a device, and of each code that it reported.
XIDS: Final = "xid_events"
#: The wall time of the last of these reports, in seconds since 1970: of a device, and of each code that it reported.
XID_TIMES: Final = "xid_last_wall_seconds"
#: Clock events, in the order of their bits in ``throttle_reasons``.
CLOCK_EVENTS: Final = (
    "gpu_idle", "clocks_setting", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
    "hw_power_brake", "display_clocks",
)  # fmt: skip
CLOCK_BITS: Final = {event: 1 << place for place, event in enumerate(CLOCK_EVENTS)}
#: The number of samples of ``throttle_reasons`` with an event; and of those without it in the sample before.
CLOCK_SAMPLES: Final = {f"clock_{event}_samples": place for place, event in enumerate(CLOCK_EVENTS)}
CLOCK_STARTS: Final = {f"clock_{event}_starts": place for place, event in enumerate(CLOCK_EVENTS)}
#: The result of a health check: 1 or 0.
HEALTH: Final = (
    "health_pcie_replay_rate", "health_link_errors", "health_link_down", "health_uncontained",
    "health_thermal_violation", "health_power_violation",
)  # fmt: skip
#: Whether a board reaches another board of its node over links: 1 or 0.
PEERS: Final = "peer_reached"
#: Of a process on a device: its seconds of work, as at the highest clock; its seconds on a hanging device; and the
#: errors of its device that were corrected while it ran.
WORKED: Final = "worked_seconds"
STALLED: Final = "stalled_seconds"
CORRECTED: Final = "corrected_errors"
PROCESS_QUANTITIES: Final = (WORKED, STALLED, CORRECTED)
#: The most samples of a window.
MAX_SAMPLES: Final = 3600

_NAME: Final = re.compile(r"(?P<base>\w+?)(?:_within_(?P<within>[0-9.]+)s)?(?:_every_(?P<every>[0-9.]+)s)?")


@dataclass(frozen=True)
class Tally:
    """A count of events or samples.

    :param base: the name without window and interval.
    :param within_seconds: the window until now; 0: since the start.
    :param every_seconds: the interval of samples; 0: every event counts.
    """

    base: str
    within_seconds: float = 0.0
    every_seconds: float = 0.0

    @property
    def name(self) -> str:
        within = f"_within_{self.within_seconds:.12g}s" if self.within_seconds else ""
        return self.base + within + (f"_every_{self.every_seconds:.12g}s" if self.every_seconds else "")


def is_tally(base: str) -> bool:
    """Whether a name without window and interval is the name of a tally."""
    return base in (XIDS, XID_TIMES, PEERS, *PROCESS_QUANTITIES) or base in HEALTH or is_sampled(base)


def is_sampled(base: str) -> bool:
    """Whether the tally counts samples at an interval."""
    return base in CLOCK_SAMPLES or base in CLOCK_STARTS


def tally_of(name: str) -> Tally | None:
    """The tally with this name; None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None or not is_tally(found["base"]):
        return None
    return Tally(found["base"], float(found["within"] or 0.0), float(found["every"] or 0.0))


def tallies_of(names: Iterable[str]) -> tuple[Tally, ...]:
    """The tallies among names of quantities, each once, sorted by name."""
    return tuple(found for name in sorted(set(names)) if (found := tally_of(name)) is not None)


#: Counters that workloads can raise: the demand is a rate, the result are whole numbers.
COUNTED: Final[tuple[str, ...]] = tuple(name for name in ERROR_COUNTERS if name != "row_remap_failure")

#: What work may ask of the Grace CPU of its board; work whose CPU has fewer is slower.
CPU_CORES: Final = "cpu_cores"

#: Quantity to the unit of its absolute values.
ASKABLE: Final[dict[str, Unit]] = {
    "memory_used_bytes": BYTES,
    "memory_bandwidth_ratio": RATIO,
    "tensor_active_ratio": RATIO,
    "copy_active_ratio": RATIO,
    "encoder_active_ratio": RATIO,
    "decoder_active_ratio": RATIO,
    "render_active_ratio": RATIO,
    "fabric_tx_bytes_per_second": BYTES_PER_SECOND,
    "fabric_rx_bytes_per_second": BYTES_PER_SECOND,
    "pcie_tx_bytes_per_second": BYTES_PER_SECOND,
    "pcie_rx_bytes_per_second": BYTES_PER_SECOND,
    "hung": RATIO,
    CPU_CORES: CORES,
} | dict.fromkeys(COUNTED, COUNTS_PER_SECOND)

#: Quantities without a maximum, so that no share of it can be demanded.
WITHOUT_SHARES: Final = frozenset((*COUNTED, "hung"))

#: A share that may also be demanded in bytes per second, if the device's bandwidth is known.
AS_TRAFFIC: Final = "memory_bandwidth_ratio"

#: Quantities that grow with the speed of the work: a faster device has more of them per second.
RATES: Final = frozenset(name for name, unit in ASKABLE.items() if unit in (BYTES_PER_SECOND, COUNTS_PER_SECOND))

#: Shares of an engine, a pipe or a bandwidth: a faster device needs less of them for the same work in the same time.
ENGINES: Final = frozenset(name for name in ASKABLE if name.endswith("_ratio"))

#: Quantity to its short name.
_SHORT: Final = {quantity: alias for alias, quantity in QUANTITY_ALIASES.items()}


def asked_quantity(word: str) -> str:
    """The quantity that a word names: ``memory``, ``fabric-tx``, ``memory_used_bytes``.

    :raises ValueError: if workloads cannot demand it.
    """
    quantity = quantity_name(word.replace("-", "_"))
    if quantity not in ASKABLE:
        known = [metric_word(quantity) for quantity in ASKABLE]
        hint = did_you_mean(word.replace("_", "-"), [*known, *ASKABLE], f": give one of {', '.join(known)}")
        raise ValueError(f"{word[:100]!r} is no metric that workloads bring{hint}")
    return quantity


def metric_word(quantity: str) -> str:
    """The short name of a quantity, as in requests."""
    return _SHORT.get(quantity, quantity).replace("_", "-")
