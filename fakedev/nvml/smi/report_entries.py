"""What ``-q`` says of a board: a tree of entries, declared once; :mod:`fakedev.nvml.smi.report` writes text and XML.

Labels, tags and their order are those of driver 590. Most values are the fields of ``--query-gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Union

from fakedev.nvml.smi import values
from fakedev.nvml.smi.columns_of_errors import BY_NAME
from fakedev.nvml.smi.columns_of_ticks import REASONS
from fakedev.nvml.smi.snapshot import Board, View
from fakedev.nvml.smi.values import Read, mib_of

NOT_AVAILABLE: Final = "N/A"
#: Clocks above are those of a damaged file.
_MAX_MHZ: Final = 100_000


class Entry(NamedTuple):
    """A value, or a group of entries.

    :ivar label: in the text; empty: it is in the XML only.
    :ivar tag: in the XML; empty: it is in the text only.
    :ivar content: a text; what reads it; the entries of a group, or what makes them.
    :ivar display: the section of ``-d`` that it belongs to; empty: of none.
    """

    label: str
    tag: str
    content: Union[str, Read, tuple[Entry, ...], Group]  # noqa: UP007  # the last two are defined below
    display: str = ""


class Group(NamedTuple):
    """Entries that differ from board to board."""

    make: Callable[[Board], tuple[Entry, ...]]


def _field(label: str, tag: str, name: str, suffix: str = "", display: str = "") -> Entry:
    """A field of ``--query-gpu``, with its unit or another suffix."""
    column = BY_NAME[name]

    def read(board: Board) -> str | None:
        found = column.value(board)
        return None if found is None else found.strip("[]") + suffix

    return Entry(label, tag, read, display)


def _read(label: str, tag: str, read: Read, suffix: str, display: str = "") -> Entry:
    def with_suffix(board: Board) -> str | None:
        found = read(board)
        return None if found is None else found + suffix

    return Entry(label, tag, with_suffix, display)


def _none(*pairs: tuple[str, str]) -> tuple[Entry, ...]:
    """What is not simulated."""
    return tuple(Entry(label, tag, NOT_AVAILABLE) for label, tag in pairs)


def _both(tag: str, name: str) -> tuple[Entry, ...]:
    return tuple(_field(each.capitalize(), f"{each}_{tag}", f"{name}.{each}") for each in ("current", "pending"))


def _memory(total: str, *, has_reserved: bool = False) -> tuple[Entry, ...]:
    kinds = ("total", "reserved", "used", "free") if has_reserved else ("total", "used", "free")
    return tuple(_field(kind.capitalize(), kind, f"{total}.{kind}") for kind in kinds)


def _instances(board: Board) -> tuple[Entry, ...]:
    return tuple(Entry("MIG Device", "mig_device", _instance(number, part)) for number, part in enumerate(board.parts))


def _instance(number: int, part: View) -> tuple[Entry, ...]:
    names = ("Multiprocessor", "Copy Engine", "Encoder", "Decoder", "OFA", "JPG")
    tags = ("multiprocessor", "copy_engine", "encoder", "decoder", "ofa", "jpg")
    engines = _none(*((f"{name} count", f"{tag}_count") for name, tag in zip(names, tags, strict=True)))
    memory = (
        Entry(kind.capitalize(), kind, f"{mib_of(part, f'memory_{kind}') or '0'} MiB")
        for kind in ("total", "reserved", "used", "free")
    )
    return (
        Entry("Index", "index", str(number)),
        Entry("GPU Instance ID", "gpu_instance_id", str(part.count("gpu_instance"))),
        Entry("Compute Instance ID", "compute_instance_id", "0"),
        Entry("Device Attributes", "device_attributes", (Entry("Shared", "shared", engines),)),
        Entry("Shared FB Memory Usage", "fb_memory_usage", tuple(memory)),
        Entry("Shared BAR1 Memory", "bar1_memory_usage", _none(("Total", "total"), ("Used", "used"), ("Free", "free"))),
    )


def _temperatures(board: Board) -> tuple[Entry, ...]:
    """Thresholds are degrees below the limit on boards that tell how far it is, else temperatures."""
    margin, now = board.view.number("temperature_margin"), board.view.number("temperature")
    limit = None if margin is None or now is None else margin + now
    kind, word = ("T.Limit Temp", "tlimit_threshold") if limit is not None else ("Temp", "threshold")

    def threshold(label: str, tag: str, name: str) -> Entry:
        degrees = board.view.number(name)
        shown = None if degrees is None else degrees if limit is None else limit - degrees
        return Entry(f"{label} {kind}", f"{tag}_{word}", NOT_AVAILABLE if shown is None else f"{shown} C")

    return (
        _field("GPU Current Temp", "gpu_temp", "temperature.gpu", " C"),
        _field("GPU T.Limit Temp", "gpu_temp_tlimit", "temperature.gpu.tlimit", " C"),
        threshold("GPU Shutdown", "gpu_temp_max", "shutdown_temperature"),
        threshold("GPU Slowdown", "gpu_temp_slow", "hardware_slowdown_temperature"),
        threshold("GPU Max Operating", "gpu_temp_max_gpu", "slowdown_temperature"),
        Entry("GPU Target Temperature", "gpu_target_temperature", NOT_AVAILABLE),
        _field("Memory Current Temp", "memory_temp", "temperature.memory", " C"),
        Entry(f"Memory Max Operating {kind}", f"gpu_temp_max_mem_{word}", NOT_AVAILABLE),
    )


def _clocks(board: Board) -> tuple[Entry, ...]:
    """The clocks that a board can be set to, from the highest."""
    view = board.view
    top, low, step = view.number("core_clock_max"), view.number("core_clock_min"), view.count("clock_step") // 1000
    memory = sorted({view.number(name) or 0 for name in ("memory_clock_max", "memory_clock_min")} - {0}, reverse=True)
    if top is None or low is None or step < 1 or top > _MAX_MHZ or low < 0:
        return ()
    steps = range(top, low - 1, -step)
    graphics = tuple(Entry("    Graphics", "supported_graphics_clock", f"{each} MHz") for each in steps)
    return tuple(
        Entry("", "supported_mem_clock", (Entry("Memory", "value", f"{each} MHz"), *graphics)) for each in memory
    )


def _processes(board: Board) -> tuple[Entry, ...]:
    return tuple(Entry("", "process_info", _process(board, each)) for each in board.processes)


def _process(board: Board, process: View) -> tuple[Entry, ...]:
    part = board.part_number(process)
    instance = NOT_AVAILABLE if part is None else str(board.parts[part].count("gpu_instance"))
    return (
        Entry("GPU instance ID", "gpu_instance_id", instance),
        Entry("Compute instance ID", "compute_instance_id", NOT_AVAILABLE if part is None else "0"),
        Entry("Process ID", "pid", str(process.count("pid"))),
        Entry("    Type", "type", "G" if process.number("is_graphics") == 1 else "C"),
        Entry("    Name", "process_name", process.text("name")),
        Entry("    Used GPU Memory", "used_memory", f"{mib_of(process, 'memory_used') or '0'} MiB"),
    )


_PCI: Final = (
    *(_field(*each) for each in (
        ("Bus", "pci_bus", "pci.bus"), ("Device", "pci_device", "pci.device"), ("Domain", "pci_domain", "pci.domain"),
        ("Base Classcode", "pci_base_class", "pci.baseClass"), ("Sub Classcode", "pci_sub_class", "pci.subClass"),
        ("Device Id", "pci_device_id", "pci.device_id"), ("Bus Id", "pci_bus_id", "pci.bus_id"),
        ("Sub System Id", "pci_sub_system_id", "pci.sub_device_id"),
    )),
    Entry("GPU Link Info", "pci_gpu_link_info", (
        Entry("PCIe Generation", "pcie_gen", (
            _field("Max", "max_link_gen", "pcie.link.gen.max"),
            _field("Current", "current_link_gen", "pcie.link.gen.current"),
            _field("Device Current", "device_current_link_gen", "pcie.link.gen.gpucurrent"),
            _field("Device Max", "max_device_link_gen", "pcie.link.gen.gpumax"),
            _field("Host Max", "max_host_link_gen", "pcie.link.gen.hostmax"),
        )),
        Entry("Link Width", "link_widths", (
            _field("Max", "max_link_width", "pcie.link.width.max", "x"),
            _field("Current", "current_link_width", "pcie.link.width.current", "x"),
        )),
    )),
    Entry("Bridge Chip", "pci_bridge_chip", _none(("Type", "bridge_chip_type"), ("Firmware", "bridge_chip_fw"))),
    Entry("Replays Since Reset", "replay_counter", values.whole("pcie_replays")),
    Entry("Replay Number Rollovers", "replay_rollover_counter", "0"),
    _read("Tx Throughput", "tx_util", values.kilobytes("pcie_sent"), " KB/s"),
    _read("Rx Throughput", "rx_util", values.kilobytes("pcie_received"), " KB/s"),
    *_none(("Atomic Caps Outbound", "atomic_caps_outbound"), ("Atomic Caps Inbound", "atomic_caps_inbound")),
)  # fmt: skip

_REASON_LABELS: Final = (
    "Idle", "Applications Clocks Setting", "SW Power Cap", "HW Slowdown", "    HW Thermal Slowdown",
    "    HW Power Brake Slowdown", "SW Thermal Slowdown", "Sync Boost",
)  # fmt: skip
#: The order of the report is not that of the fields.
_REASON_ORDER: Final = (0, 1, 2, 3, 4, 5, 7, 6)
_EVENT: Final = "clocks_event_reasons"
_PERFORMANCE: Final = (
    _field("Performance State", "performance_state", "pstate", display="PERFORMANCE"),
    Entry("Clocks Event Reasons", _EVENT, (
        *(
            _field(_REASON_LABELS[each], f"clocks_event_reason_{REASONS[each][0]}", f"{_EVENT}.{REASONS[each][0]}")
            for each in _REASON_ORDER
        ),
        Entry("Display Clock Setting", "clocks_event_reason_display_clocks_setting", values.reason(0x100)),
    ), "PERFORMANCE"),
    Entry("Clocks Event Reasons Counters", f"{_EVENT}_counters", tuple(
        _field(label, f"{_EVENT}_counters_{tag}", f"{_EVENT}_counters.{name}")
        for label, tag, name in (
            ("SW Power Capping", "sw_power_cap", "sw_power_cap"), ("Sync Boost", "sync_boost", "sync_boost"),
            ("SW Thermal Slowdown", "sw_therm_slowdown", "sw_thermal_slowdown"),
            ("HW Thermal Slowdown", "hw_therm_slowdown", "hw_thermal_slowdown"),
            ("HW Power Braking", "hw_power_brake", "hw_power_brake_slowdown"),
        )
    ), "PERFORMANCE"),
    Entry("Sparse Operation Mode", "sparse_operation_mode", NOT_AVAILABLE, "PERFORMANCE"),
)  # fmt: skip


def _errors(span: str) -> tuple[Entry, ...]:
    corrected, uncorrected = f"ecc.errors.corrected.{span}", f"ecc.errors.uncorrected.{span}"
    return (
        _field("SRAM Correctable", "sram_correctable", f"{corrected}.sram"),
        _field("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", f"{uncorrected}.sram.parity"),
        _field("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", f"{uncorrected}.sram.secded"),
        _field("DRAM Correctable", "dram_correctable", f"{corrected}.dram"),
        _field("DRAM Uncorrectable", "dram_uncorrectable", f"{uncorrected}.dram"),
    )


_AGGREGATE: Final = "ecc.errors.uncorrected.aggregate.sram"
_ECC: Final = (
    Entry("ECC Mode", "ecc_mode", _both("ecc", "ecc.mode"), "ECC"),
    Entry("ECC Errors", "ecc_errors", (
        Entry("Volatile", "volatile", _errors("volatile")),
        Entry("Aggregate", "aggregate", (
            *_errors("aggregate"),
            _field("SRAM Threshold Exceeded", "sram_threshold_exceeded", f"{_AGGREGATE}.thresholdExceeded"),
        )),
        Entry("Aggregate Uncorrectable SRAM Sources", "aggregate_uncorrectable_sram_sources", tuple(
            _field(f"SRAM {label}", f"sram_{tag}", f"{_AGGREGATE}.{name}")
            for label, tag, name in (
                ("L2", "l2", "l2"), ("SM", "sm", "sm"), ("Microcontroller", "microcontroller", "mcu"),
                ("PCIE", "pcie", "pcie"), ("Other", "other", "other"),
            )
        )),
        *_none(("Channel Repair Pending", "channel_repair_pending"), ("TPC Repair Pending", "tpc_repair_pending"),
               ("Unrepairable Memory", "unrepairable_memory")),
    ), "ECC"),
    Entry("Retired Pages", "retired_pages", (
        _field("Single Bit ECC", "", "retired_pages.sbe"),
        _field("Double Bit ECC", "", "retired_pages.dbe"),
        *(
            Entry("", tag, (_field("", "retired_count", name), Entry("", "retired_pagelist", NOT_AVAILABLE)))
            for tag, name in (("multiple_single_bit_retirement", "retired_pages.sbe"),
                              ("double_bit_retirement", "retired_pages.dbe"))
        ),
        _field("Pending Page Blacklist", "pending_blacklist", "retired_pages.pending"),
        _field("", "pending_retirement", "retired_pages.pending"),
    ), "PAGE_RETIREMENT"),
    Entry("Remapped Rows", "remapped_rows", (
        _field("Correctable Error", "remapped_row_corr", "remapped_rows.correctable"),
        _field("Uncorrectable Error", "remapped_row_unc", "remapped_rows.uncorrectable"),
        _field("Pending", "remapped_row_pending", "remapped_rows.pending"),
        _field("Remapping Failure Occurred", "remapped_row_failure", "remapped_rows.failure"),
        Entry("Bank Remap Availability Histogram", "row_remapper_histogram", tuple(
            _field(name.capitalize(), f"row_remapper_histogram_{name}", f"remapped_rows.histogram.{name}", " bank(s)")
            for name in ("max", "high", "partial", "low", "none")
        )),
    ), "ROW_REMAPPER"),
)  # fmt: skip

_LIMITS: Final = (("Current Power Limit", "current_power_limit"), ("Requested Power Limit", "requested_power_limit"),
                  ("Default Power Limit", "default_power_limit"), ("Min Power Limit", "min_power_limit"),
                  ("Max Power Limit", "max_power_limit"))  # fmt: skip
_DRAWS: Final = (("Average Power Draw", "average_power_draw"), ("Instantaneous Power Draw", "instant_power_draw"))
_POWER: Final = (
    Entry("GPU Power Readings", "gpu_power_readings", (
        *(_field(label, tag, "power.draw") for label, tag in _DRAWS),
        *(
            _field(label, tag, name)
            for (label, tag), name in zip(_LIMITS, ("enforced.power.limit", "power.limit", "power.default_limit",
                                            "power.min_limit", "power.max_limit"), strict=True)
        ),
    ), "POWER"),
    Entry("GPU Memory Power Readings", "gpu_memory_power_readings", (
        _read("Average Power Draw", "average_power_draw", values.hundredths("memory_power", 1000), " W"),
        *_none(_DRAWS[1]),
    ), "POWER"),
    Entry("Module Power Readings", "module_power_readings", _none(*_DRAWS, *_LIMITS), "POWER"),
    Entry("Power Smoothing", "power_smoothing", NOT_AVAILABLE, "POWER_SMOOTHING"),
    Entry("Workload Power Profiles", "power_profiles", _none(
        ("Requested Profiles", "power_profile_requested_profiles"),
        ("Enforced Profiles", "power_profile_enforced_profiles"),
    ), "POWER_PROFILES"),
    _read("EDPp Multiplier", "edpp_multiplier", values.hundredths("edpp_multiplier", 1), "%"),
)  # fmt: skip


def _of_clocks(group: str, *, with_sm: bool = True) -> tuple[Entry, ...]:
    sm = (_field("SM", "sm_clock", f"clocks.{group}.sm"),) if with_sm else ()
    return (
        _field("Graphics", "graphics_clock", f"clocks.{group}.graphics"), *sm,
        _field("Memory", "mem_clock", f"clocks.{group}.memory"),
    )  # fmt: skip


_CLOCKS: Final = (
    Entry("Clocks", "clocks", (*_of_clocks("current"), _field("Video", "video_clock", "clocks.video")), "CLOCK"),
    Entry("Applications Clocks", "applications_clocks", _of_clocks("applications", with_sm=False), "CLOCK"),
    Entry("Default Applications Clocks", "default_applications_clocks",
          _of_clocks("default_applications", with_sm=False), "CLOCK"),
    Entry("Deferred Clocks", "deferred_clocks", _none(("Memory", "mem_clock")), "CLOCK"),
    Entry("Max Clocks", "max_clocks", (*_of_clocks("max"), *_none(("Video", "video_clock"))), "CLOCK"),
    Entry("Max Customer Boost Clocks", "max_customer_boost_clocks",
          (_field("Graphics", "graphics_clock", "clocks.max.graphics"),), "CLOCK"),
    Entry("Clock Policy", "clock_policy",
          _none(("Auto Boost", "auto_boost"), ("Auto Boost Default", "auto_boost_default")), "CLOCK"),
)  # fmt: skip

_STATS: Final = (("Active Sessions", "session_count", "sessionCount"), ("Average FPS", "average_fps", "averageFps"),
                 ("Average Latency", "average_latency", "averageLatency"))  # fmt: skip

#: All of a board, in order.
ENTRIES: Final = (
    _field("Product Name", "product_name", "name"),
    Entry("Product Brand", "product_brand", "NVIDIA"),
    Entry("Product Architecture", "product_architecture",
          lambda board: board.view.text("architecture").title() or None),
    *(_field(*each) for each in (
        ("Display Mode", "display_mode", "display_mode"), ("Display Attached", "display_attached", "display_attached"),
        ("Display Active", "display_active", "display_active"),
        ("Persistence Mode", "persistence_mode", "persistence_mode"),
        ("Addressing Mode", "addressing_mode", "addressing_mode"),
    )),
    Entry("MIG Mode", "mig_mode", _both("mig", "mig.mode")),
    Entry("", "mig_devices", Group(_instances)),
    _field("Accounting Mode", "accounting_mode", "accounting.mode", display="ACCOUNTING"),
    _field("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "accounting.buffer_size",
           display="ACCOUNTING"),
    Entry("Driver Model", "driver_model", _both("dm", "driver_model")),
    _field("Serial Number", "serial", "serial"),
    _field("GPU UUID", "uuid", "uuid"),
    *_none(("GPU PDI", "pdi")),
    Entry("Minor Number", "minor_number", values.whole("minor_number")),
    _field("VBIOS Version", "vbios_version", "vbios_version"),
    Entry("MultiGPU Board", "multigpu_board", "No"),
    *_none(("Board ID", "board_id")),
    Entry("Board Part Number", "board_part_number", values.text("part_number")),
    *_none(("GPU Part Number", "gpu_part_number"), ("FRU Part Number", "gpu_fru_part_number")),
    Entry("Platform Info", "platformInfo", tuple(_field(*each) for each in (
        ("Chassis Serial Number", "chassis_serial_number", "platform.chassis_serial_number"),
        ("Slot Number", "slot_number", "platform.slot_number"), ("Tray Index", "tray_index", "platform.tray_index"),
        ("Host ID", "host_id", "platform.host_id"), ("Peer Type", "peer_type", "platform.peer_type"),
        ("Module Id", "module_id", "platform.module_id"),
        ("GPU Fabric GUID", "gpu_fabric_guid", "platform.gpu_fabric_guid"),
    ))),
    Entry("Inforom Version", "inforom_version", tuple(_field(*each) for each in (
        ("Image Version", "img_version", "inforom.img"), ("OEM Object", "oem_object", "inforom.oem"),
        ("ECC Object", "ecc_object", "inforom.ecc"), ("Power Management Object", "pwr_object", "inforom.pwr"),
    ))),
    Entry("Inforom BBX Object Flush", "inforom_bbx_flush",
          _none(("Latest Timestamp", "latest_timestamp"), ("Latest Duration", "latest_duration"))),
    Entry("GPU Operation Mode", "gpu_operation_mode", _both("gom", "gom")),
    _field("GPU C2C Mode", "c2c_mode", "c2c.mode"),
    Entry("GPU Virtualization Mode", "gpu_virtualization_mode", (
        Entry("Virtualization Mode", "virtualization_mode", "None"),
        *_none(("Host VGPU Mode", "host_vgpu_mode"), ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode")),
    )),
    _field("GPU Recovery Action", "gpu_recovery_action", "gpu_recovery_action"),
    _field("GSP Firmware Version", "gsp_firmware_version", "driver_version", display="GSP_FIRMWARE_VERSION"),
    Entry("IBMNPU", "ibmnpu", _none(("Relaxed Ordering Mode", "relaxed_ordering_mode"))),
    Entry("PCI", "pci", _PCI),
    _field("Fan Speed", "fan_speed", "fan.speed"),
    *_PERFORMANCE,
    Entry("FB Memory Usage", "fb_memory_usage", _memory("memory", has_reserved=True), "MEMORY"),
    Entry("BAR1 Memory Usage", "bar1_memory_usage", _none(("Total", "total"), ("Used", "used"), ("Free", "free")),
          "MEMORY"),
    Entry("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", _memory("protected_memory"), "MEMORY"),
    _field("Compute Mode", "compute_mode", "compute_mode", display="COMPUTE"),
    Entry("Utilization", "utilization", tuple(
        _field(label, f"{name}_util", f"utilization.{name}")
        for label, name in (("GPU", "gpu"), ("Memory", "memory"), ("Encoder", "encoder"), ("Decoder", "decoder"),
                            ("JPEG", "jpeg"), ("OFA", "ofa"))
    ), "UTILIZATION"),
    Entry("Encoder Stats", "encoder_stats",
          tuple(_field(label, tag, f"encoder.stats.{name}") for label, tag, name in _STATS), "ENCODER_STATS"),
    Entry("FBC Stats", "fbc_stats", tuple(Entry(label, tag, "0") for label, tag, _ in _STATS), "FBC_STATS"),
    Entry("DRAM Encryption Mode", "dram_encryption_mode", _both("dram_encryption", "dramEncryption.mode")),
    *_ECC,
    Entry("Temperature", "temperature", Group(_temperatures), "TEMPERATURE"),
    Entry("", "supported_gpu_target_temp", _none(("", "gpu_target_temp_min"), ("", "gpu_target_temp_max"))),
    *_POWER,
    *_CLOCKS,
    Entry("Fabric", "fabric", (
        _field("State", "state", "fabric.state"), _field("Status", "status", "fabric.status"),
        _field("CliqueId", "cliqueId", "fabric.cliqueId"), _field("ClusterUUID", "clusterUuid", "fabric.clusterUuid"),
        Entry("Health", "health", _none(
            ("Summary", "summary"), ("Bandwidth", "bandwidth"),
            ("Route Recovery in progress", "route_recovery_in_progress"),
            ("Route Unhealthy", "route_unhealthy"), ("Access Timeout Recovery", "access_timeout_recovery"),
            ("Incorrect Configuration", "incorrect_configuration"),
        )),
    )),
    Entry("Supported Clocks", "supported_clocks", Group(_clocks), "SUPPORTED_CLOCKS"),
    Entry("Processes", "processes", Group(_processes), "PIDS"),
    Entry("Capabilities", "", (Entry("EGM", "", "disabled"),)),
)  # fmt: skip
