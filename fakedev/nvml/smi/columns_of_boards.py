"""Fields of ``--query-gpu`` that say what a board is, and how it is set."""

from __future__ import annotations

from typing import Final

from fakedev.nvml.smi import values
from fakedev.nvml.smi.columns import Column
from fakedev.nvml.smi.values import absent, constant, deprecated, enabled, hexadecimal, mib, text, whole

_VGPU: Final = "Of virtual GPUs, which are not simulated."

IDENTITY: Final = (
    Column("timestamp", lambda board: values.timestamp(board.slot), "Time of the tick: YYYY/MM/DD HH:MM:SS.msec."),
    Column("driver_version", values.driver_version, "Version of the simulated driver."),
    Column("vgpu_driver_capability.heterogenous_multivGPU", absent, _VGPU),
    Column("count", values.board_count, "Boards of the node."),
    Column("name", text("name"), "Product.", aliases=("gpu_name",)),
    Column("serial", text("serial"), "Serial number.", aliases=("gpu_serial",)),
    Column("uuid", text("uuid"), "Identifier that no other board has.", aliases=("gpu_uuid",)),
    Column("pci.bus_id", text("pci_bus_id"), "PCI address: domain:bus:device.function.", aliases=("gpu_bus_id",)),
    Column("pci.domain", hexadecimal("pci_domain", 4), "PCI domain, hexadecimal."),
    Column("pci.bus", hexadecimal("pci_bus", 2), "PCI bus, hexadecimal."),
    Column("pci.device", hexadecimal("pci_device", 2), "PCI device, hexadecimal."),
    Column("pci.baseClass", hexadecimal("pci_base_class", 1), "PCI base class, hexadecimal."),
    Column("pci.subClass", hexadecimal("pci_sub_class", 1), "PCI subclass, hexadecimal."),
    Column("pci.device_id", hexadecimal("pci_device_id", 8), "PCI device and vendor, hexadecimal."),
    Column("pci.sub_device_id", hexadecimal("pci_subsystem_id", 8), "PCI subsystem, hexadecimal."),
    *(
        Column(f"vgpu_device_capability.{name}", absent, _VGPU)
        for name in (
            "fractional_multiVgpu", "heterogeneous_timeSlice_profile", "heterogeneous_timeSlice_sizes",
            "homogeneous_placements", "mig_timeSlicing", "mig_timeSlicing_mode",
        )
    ),
    Column("pcie.link.gen.current", whole("pcie_generation"), "Present generation of PCIe."),
    Column("pcie.link.gen.gpucurrent", whole("pcie_generation"), "Present generation of PCIe."),
    Column("pcie.link.gen.max", whole("pcie_generation_max"), "Highest generation of PCIe of board and server."),
    Column("pcie.link.gen.gpumax", whole("pcie_generation_max"), "Highest generation of PCIe of the board."),
    Column("pcie.link.gen.hostmax", absent, "Highest generation of PCIe of the server: not simulated."),
    Column("pcie.link.width.current", whole("pcie_width"), "Present lanes of PCIe."),
    Column("pcie.link.width.max", whole("pcie_width_max"), "Most lanes of PCIe."),
    Column("index", whole("index"), "Number of the board in its node, from 0."),
    Column("display_mode", deprecated, "Not of this driver any more."),
    Column("display_attached", values.yes("display_attached"), "Whether a screen is connected."),
    Column("display_active", enabled("display_active"), "Whether a screen is in use."),
    Column("persistence_mode", enabled("persistence_mode"), "Whether the driver stays loaded without programs."),
    Column("addressing_mode", constant("None"), "How the board addresses memory of the system: None."),
    Column("accounting.mode", enabled("accounting_mode"), "Whether processes are accounted."),
    Column("accounting.buffer_size", whole("accounting_buffer_size"), "Processes that accounting remembers."),
    Column("driver_model.current", absent, "Of Windows."),
    Column("driver_model.pending", absent, "Of Windows."),
    Column("vbios_version", text("vbios_version"), "Version of the firmware."),
    Column("inforom.img", text("inforom_image"), "Version of the inforom.", aliases=("inforom.image",)),
    Column("inforom.oem", text("inforom_oem"), "Version of the inforom's part of the maker."),
    Column("inforom.ecc", text("inforom_ecc"), "Version of the inforom's part for ECC."),
    Column("inforom.pwr", absent, "Part for power: not simulated.", aliases=("inforom.power",)),
    Column("inforom.checksum_validation", constant("valid"), "Whether the inforom is intact."),
    Column("gpu_recovery_action", values.one_of("recovery_action", values.RECOVERY_ACTIONS),
           "What the board needs to work again."),
    Column("gom.current", absent, "Operation mode: of old boards.", aliases=("gpu_operation_mode.current",)),
    Column("gom.pending", absent, "Operation mode: of old boards.", aliases=("gpu_operation_mode.pending",)),
)  # fmt: skip

MODES: Final = (
    Column("mig.mode.current", values.divisible("mig_mode"), "Whether the board is divided."),
    Column("mig.mode.pending", values.divisible("mig_mode"), "The same after a reset."),
    Column("gsp.mode.current", enabled("gsp_mode"), "Whether the firmware GSP is in use."),
    Column("gsp.mode.default", enabled("gsp_mode"), "The same as it is delivered."),
    Column("c2c.mode", enabled("c2c_mode"), "Whether the board has a chip-to-chip connection to its CPU."),
    Column("protected_memory.total", mib("protected_memory"), "Memory for confidential computing.", "MiB"),
    Column("protected_memory.used", mib("protected_memory"), "Of that, in use.", "MiB"),
    Column("protected_memory.free", mib("protected_memory"), "Of that, free.", "MiB"),
    Column("fabric.state", values.one_of("fabric_state", values.FABRIC_STATES),
           "Whether the board has joined its fabric."),
    Column("fabric.status", values.of_fabric("Success"), "How that ended."),
    Column("fabric.cliqueId", whole("fabric_clique_id"), "Clique of the fabric."),
    Column("fabric.clusterUuid", values.of_fabric("00000000-0000-0000-0000-000000000000"), "Cluster of the fabric."),
    *(
        Column(f"fabric.health.{name}", values.of_fabric("N/A"), "Health of the fabric: not simulated.")
        for name in (
            "summary", "bandwidth", "route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery",
            "incorrect_configuration",
        )
    ),
    Column("platform.chassis_serial_number", constant(""), "Serial number of the rack: not simulated."),
    Column("platform.slot_number", whole("platform_slot_number"), "Slot of the rack."),
    Column("platform.tray_index", whole("platform_tray_index"), "Tray of the rack."),
    Column("platform.host_id", whole("platform_host_id"), "Node of the tray."),
    Column("platform.peer_type", values.peer_type, "Whether links lead to switches or to boards."),
    Column("platform.module_id", absent, "Module of the node: not known."),
    Column("platform.gpu_fabric_guid", values.fabric_guid, "Number of the board in the fabric."),
    Column("hostname", absent, "Name that a board can be given: not simulated."),
)  # fmt: skip
