"""The file that the NVML library reads: its records, field by field.

The head names the sizes of all records and the places of all else; a reader refuses a file whose magic, version or
sizes are not its own. A slot holds one tick of all boards, and there are two. The service writes ``begun`` = N, the
slot N modulo 2, ``published`` = N. A reader takes N from ``published``, copies what it needs from that slot, and looks
at ``begun``: at most N + 1, and the copy is of one tick; else it starts again. A heartbeat that is too old, or another
state than :data:`OPEN`, makes it open the path again. Event E of the ring of XIDs is at place E modulo its capacity,
written before ``event_sequence`` becomes E; its ``sequence`` is another number if it was overwritten.

Every number is a signed 64-bit integer of the machine's byte order, every text a field of bytes that ends with a zero,
so that no record has padding. A number that a board does not have is :data:`ABSENT`; a text that it does not have is
empty. The C header of the library and the types of NumPy arrays come from here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fakedev.base.binary_records import Field, Record, quantity_fields

#: The first bytes of the file, and the version of the layout: a library reads only files of its own version.
MAGIC: Final = b"FAKENVML"
VERSION: Final = 4
#: The number of a quantity or fact that a board does not have.
ABSENT: Final = -(2**63)
#: The name of the file in the default folder of sockets.
FILE_NAME: Final = "nvml.map"
#: Beside the file the library notes calls that it could not answer, up to a size of the notes in bytes.
UNANSWERED_SUFFIX: Final = ".unanswered"
UNANSWERED_BYTES: Final = 65_536
#: The service writes its heartbeat at this interval; after this time without one it is dead.
HEARTBEAT_SECONDS: Final = 1.0
DEAD_SECONDS: Final = 10.0
#: The state of a file: in use, its service has ended, another file has taken its place.
OPEN, CLOSED, REPLACED = 1, 2, 3
#: Events that the ring keeps.
EVENT_CAPACITY: Final = 256
#: The largest number of boards in a file: a tick of more would take too long.
MAX_BOARDS: Final = 4096
#: The processes of a board, or of an instance, that are listed, beginning with the oldest.
MAX_PROCESSES: Final = 64
#: The lowest number that no process of Linux can have; workloads without a process of their own have numbers from here.
FIRST_IMPOSSIBLE_PID: Final = 4_194_304


_PPM: Final = 1e6
#: Quantities that boards and MIG instances have: the name of the field, the quantity, factor and unit.
_MEMORY: Final = (
    ("memory_total", "memory_total_bytes", 1.0, "bytes"),
    ("memory_reserved", "memory_reserved_bytes", 1.0, "bytes"),
    ("memory_used", "memory_used_bytes", 1.0, "bytes"),
    ("memory_free", "memory_free_bytes", 1.0, "bytes"),
)
_ENGINES: Final = (
    ("engine_active", "engine_active_ratio", _PPM, "ppm"),
    ("sm_active", "sm_active_ratio", _PPM, "ppm"),
    ("sm_occupancy", "sm_occupancy_ratio", _PPM, "ppm"),
    ("tensor_active", "tensor_active_ratio", _PPM, "ppm"),
    ("fp64_active", "fp64_active_ratio", _PPM, "ppm"),
    ("fp32_active", "fp32_active_ratio", _PPM, "ppm"),
    ("fp16_active", "fp16_active_ratio", _PPM, "ppm"),
    ("memory_bandwidth", "memory_bandwidth_ratio", _PPM, "ppm"),
)
#: What NVML says of an instance, in the order of MigAttributes: the name of the field, and of what.
MIG_ATTRIBUTES: Final = (
    ("multiprocessors", "multiprocessors"),
    ("copy_engines", "copy engines"),
    ("decoders", "decoders"),
    ("encoders", "encoders"),
    ("jpeg_engines", "JPEG engines"),
    ("ofa_engines", "engines for optical flow"),
)
HEAD: Final = Record("head", "The head, at the beginning of the file.", (
    Field("magic", "the text FAKENVML", text_bytes=16),
    Field("layout_version", f"of this page: {VERSION}"),
    Field("file_bytes", "size of the file", "bytes"),
    Field("head_bytes", "size of this record", "bytes"),
    Field("slot_head_bytes", "size of a slot's head", "bytes"),
    Field("node_bytes", "size of a node's record", "bytes"),
    Field("board_bytes", "size of a board's record", "bytes"),
    Field("part_bytes", "size of a part's record", "bytes"),
    Field("process_bytes", "size of a process's record", "bytes"),
    Field("link_bytes", "size of a link's record", "bytes"),
    Field("profile_bytes", "size of a profile's record", "bytes"),
    Field("event_bytes", "size of an event's record", "bytes"),
    Field("node_count", "nodes in the file"),
    Field("board_count", "boards of all these nodes"),
    Field("part_count", "MIG instances of all these boards"),
    Field("link_count", "links of all these boards"),
    Field("profile_count", "kinds of MIG instances of all these boards"),
    Field("process_capacity", "records of processes that a slot has"),
    Field("event_capacity", "records of the ring of events"),
    Field("slot_bytes", "size of a slot", "bytes"),
    Field("first_slot", "place of the first slot in the file; the second follows it", "bytes"),
    Field("events", "place of the ring of events in the file", "bytes"),
    Field("nodes_in_slot", "place of the nodes in a slot", "bytes"),
    Field("boards_in_slot", "place of the boards in a slot", "bytes"),
    Field("parts_in_slot", "place of the instances in a slot", "bytes"),
    Field("links_in_slot", "place of the links in a slot", "bytes"),
    Field("profiles_in_slot", "place of the profiles in a slot", "bytes"),
    Field("processes_in_slot", "place of the processes in a slot", "bytes"),
    Field("service_pid", "process that writes the file"),
    Field("fakedev_version", "its version", text_bytes=32),
    Field("control_socket", "UNIX socket for changes; empty: nothing can be changed", text_bytes=112),
    Field("state", "1 in use, 2 the service has ended, 3 another file has taken its place"),
    Field("heartbeat", "CLOCK_MONOTONIC when the service was last alive", "ns"),
    Field("begun", "sequence number of the newest slot whose writing has begun"),
    Field("published", "sequence number of the newest complete slot: it is the slot of this number modulo 2"),
    Field("event_sequence", "number of events written so far"),
))  # fmt: skip

SLOT: Final = Record("slot_head", "The head of a slot, which holds one tick.", (
    Field("tick", "of the fleet"),
    Field("wall_time", "when the tick was due, since 1970", "us"),
    Field("process_count", "records of processes in use"),
))  # fmt: skip

NODE: Final = Record("node", "A node.", (
    Field("name", "name in the fleet", text_bytes=256),
    Field("driver_version", "of its first board", fact="driver_version", text_bytes=32),
    Field("cuda_version", "major x 1000 + minor x 10, of its first board"),
    Field("first_board", "position of its first board among all in the file"),
    Field("board_count", "its boards"),
    Field("first_amd", "position of its first board of AMD, which NVML does not show"),
    Field("amd_count", "its boards of AMD"),
))  # fmt: skip

BOARD: Final = Record("board", "A board.", (
    Field("name", "product", fact="product_name", text_bytes=96),
    Field("uuid", "with GPU- before it", fact="uuid", text_bytes=48),
    Field("serial", "serial number", fact="serial", text_bytes=32),
    Field("vbios_version", "version of its firmware", fact="vbios_version", text_bytes=32),
    Field("inforom_image", "version of its inforom", fact="inforom_image", text_bytes=16),
    Field("inforom_ecc", "version of the part for ECC", fact="inforom_ecc", text_bytes=16),
    Field("inforom_oem", "version of the part of the maker", fact="inforom_oem", text_bytes=16),
    Field("part_number", "part number", fact="board_part_number", text_bytes=32),
    Field("gpu_part_number", "part number of the GPU", fact="gpu_part_number", text_bytes=32),
    Field("chassis_serial", "serial number of the rack", fact="platform_chassis_serial", text_bytes=32),
    Field("fabric_cluster", "UUID of the cluster of the fabric", fact="fabric_cluster_uuid", text_bytes=40),
    Field("architecture", "name of the architecture", fact="architecture", text_bytes=24),
    Field("cpu_affinity", "CPUs of its NUMA node, as 0-55,112-167", fact="cpu_affinity", text_bytes=128),
    Field("numa_affinity", "NUMA nodes near it, as 0,3-9", fact="numa_affinity", text_bytes=64),
    Field("pci_bus_id", "as 00000000:1B:00.0", text_bytes=32),
    Field("card_model", "number of its model, of AMD", fact="card_model", text_bytes=32),
    Field("gfx_version", "target of compilers, as gfx942, of AMD", fact="gfx_version", text_bytes=16),
    Field("memory_type", "as HBM3", fact="memory_type", text_bytes=16),
    Field("memory_partition", "as nps4, of AMD; empty: nps1", fact="memory_partition", text_bytes=8),
    Field("node", "position of its node"),
    Field("index", "its number in its node"),
    Field("first_part", "position of its first MIG instance"),
    Field("part_count", "its MIG instances"),
    Field("first_link", "position of its first link"),
    Field("link_count", "its links"),
    Field("max_part_count", "the most MIG instances that it can have; 0: it cannot be divided"),
    Field("first_profile", "position of the first kind of these"),
    Field("profile_count", "kinds of these"),
    Field("minor_number", "of its device file"),
    Field("pci_domain", "PCI domain", fact="pci_domain"),
    Field("pci_bus", "PCI bus", fact="pci_bus"),
    Field("pci_device", "PCI device", fact="pci_device"),
    Field("pci_device_id", "device and vendor, as 0x233010DE"),
    Field("pci_subsystem_id", "subsystem, as 0x16C110DE", fact="pci_sub_device_id"),
    Field("pci_base_class", "PCI base class", fact="pci_base_class"),
    Field("pci_sub_class", "PCI subclass", fact="pci_sub_class"),
    Field("numa_node", "NUMA node", fact="numa_node"),
    Field("pcie_switch", "PCIe switch of its server", fact="pcie_switch"),
    Field("gpu_numa_node", "NUMA node that its memory is, of boards with C2C", fact="gpu_numa_node"),
    Field("compute_major", "compute capability, before the dot"),
    Field("compute_minor", "compute capability, after the dot"),
    Field("compute_mode", "0: default", fact="compute_mode"),
    Field("persistence_mode", "1: on", fact="persistence_mode"),
    Field("ecc_mode", "1: on", fact="ecc_mode"),
    Field("mig_mode", "1: on", fact="mig_mode"),
    Field("display_active", "1: yes", fact="display_active"),
    Field("display_attached", "1: yes", fact="display_attached"),
    Field("accounting_mode", "1: on", fact="accounting_mode"),
    Field("accounting_buffer_size", "processes", fact="accounting_buffer_size"),
    Field("gsp_mode", "1: on", fact="gsp_mode"),
    Field("c2c_mode", "1: on", fact="c2c_mode"),
    Field("c2c_links", "links to its Grace CPU"),
    Field("fabric_state", "3: completed", fact="fabric_state"),
    Field("fabric_clique_id", "clique", fact="fabric_clique_id"),
    Field("platform_host_id", "of a rack", fact="platform_host_id"),
    Field("platform_slot_number", "of a rack", fact="platform_slot_number"),
    Field("platform_module_id", "of a node", fact="platform_module_id"),
    Field("platform_tray_index", "of a rack", fact="platform_tray_index"),
    Field("protected_memory", "of confidential computing", "bytes", fact="protected_memory_bytes"),
    Field("fabric_health", "NVML_GPU_FABRIC_HEALTH_MASK", fact="fabric_health_mask"),
    Field("addressing_mode", "0 none, 1 HMM, 2 ATS", fact="addressing_mode"),
    Field("atomics_inbound", "NVML_PCIE_ATOMICS_CAP", fact="pcie_atomics_inbound"),
    Field("atomics_outbound", "NVML_PCIE_ATOMICS_CAP", fact="pcie_atomics_outbound"),
    Field("pcie_generation_host", "highest generation of PCIe of the server", fact="pcie_host_generation"),
    Field("sparse_mode", "1: on", fact="sparse_operation_mode"),
    Field("unrepairable_memory", "1: yes", fact="unrepairable_memory"),
    Field("inforom_flush", "how long the last flush of the inforom's black box took", "us", fact="inforom_flush_us"),
    Field("pdi", "number that no other board has, of 64 bits"),
    Field("platform_gpu_fabric_guid", "of a rack", fact="platform_gpu_fabric_guid"),
    Field("edpp_multiplier", "of the limit for peaks of power", "%", fact="edpp_multiplier", factor=100.0),
    Field("remap_banks", "banks whose rows can be remapped", fact="remap_banks"),
    Field("memory_max_operating", "highest temperature of the memory", "C", fact="memory_max_operating_celsius"),
    Field("clock_reasons_supported", "a mask", fact="clock_event_reasons_supported"),
    Field("has_margin", "1: it shows how far it is below its limit", fact="temperature_limit_shown"),
    Field("has_average_power", "1: it measures an average of its power"),
    Field("applications_clock", "clock of the core that programs get by default", "MHz", fact="applications_clock_mhz"),
    Field("video_clock_max", "highest clock of encoders and decoders", "MHz"),
    Field("bar1_total", "memory that the CPU sees", "bytes"),
    Field("bar1_used", "of that, in use", "bytes"),
    Field("module_power", "of the module with a CPU: its boards and the CPU", "mW"),
    Field("module_power_limit", "its limit", "W", fact="module_power_limit_watts"),
    Field("module_power_min", "its lowest limit", "W", fact="module_power_min_watts"),
    Field("smoothing_floor", "what power smoothing holds", "W", fact="power_smoothing_floor_watts"),
    Field("smoothing_share", "the same, of the power limit", "0.01 %", fact="power_smoothing_floor_percent",
          factor=100.0),
    Field("smoothing_ramp_up", "by how much its power may rise", "mW/s", fact="power_smoothing_ramp_up"),
    Field("smoothing_ramp_down", "by how much its power may fall", "mW/s", fact="power_smoothing_ramp_down"),
    Field("smoothing_hysteresis", "how long the floor lasts after work", "ms", fact="power_smoothing_hysteresis"),
    Field("power_limit_min", "lowest power limit", "mW"),
    Field("power_limit_max", "highest power limit", "mW"),
    Field("clock_step", "throttled clocks are whole numbers of it", "kHz"),
    Field("link_generation", "generation of NVLink"),
    Field("link_bandwidth", "of one link, each way", "bytes/s"),
    Field("compute_units", "of AMD", fact="compute_units"),
    Field("memory_bus", "width of the connection to its memory", "bits", fact="memory_bus_bits"),
    *quantity_fields((
        ("usage", "usage_ratio", 100.0, "%"),
        ("memory_usage", "memory_usage_ratio", 100.0, "%"),
        ("encoder_usage", "encoder_active_ratio", 100.0, "%"),
        ("decoder_usage", "decoder_active_ratio", 100.0, "%"),
        ("jpeg_usage", "jpeg_active_ratio", 100.0, "%"),
        ("ofa_usage", "ofa_active_ratio", 100.0, "%"),
        *_MEMORY,
        ("core_clock", "core_frequency_mhz", 1.0, "MHz"),
        ("core_clock_max", "core_frequency_max_mhz", 1.0, "MHz"),
        ("core_clock_min", "core_frequency_min_mhz", 1.0, "MHz"),
        ("memory_clock", "memory_frequency_mhz", 1.0, "MHz"),
        ("memory_clock_max", "memory_frequency_max_mhz", 1.0, "MHz"),
        ("memory_clock_min", "memory_frequency_min_mhz", 1.0, "MHz"),
        ("video_clock", "video_frequency_mhz", 1.0, "MHz"),
        ("power", "power_watts", 1000.0, "mW"),
        ("power_watts", "power_watts", 1.0, "W"),
        ("power_shown", "power_watts", 100.0, "cW"),  # as nvidia-smi prints it: thousandths would be rounded twice
        ("memory_power", "memory_power_watts", 1000.0, "mW"),
        ("power_limit", "power_limit_watts", 1000.0, "mW"),
        ("power_limit_default", "power_limit_default_watts", 1000.0, "mW"),
        ("energy", "energy_joules", 1000.0, "mJ"),
        ("temperature", "temperature_celsius", 1.0, "C"),
        ("memory_temperature", "memory_temperature_celsius", 1.0, "C"),
        ("temperature_margin", "temperature_margin_celsius", 1.0, "C"),
        ("slowdown_temperature", "slowdown_temperature_celsius", 1.0, "C"),
        ("hardware_slowdown_temperature", "hardware_slowdown_temperature_celsius", 1.0, "C"),
        ("shutdown_temperature", "shutdown_temperature_celsius", 1.0, "C"),
        ("fan_speed", "fan_speed_ratio", 100.0, "%"),
        ("performance_state", "performance_state", 1.0, ""),
        ("throttle_reasons", "throttle_reasons", 1.0, "mask"),
        ("throttled_hardware", "throttled_hardware_seconds", 1e9, "ns"),
        ("throttled_hardware_heat", "throttled_hardware_heat_seconds", 1e9, "ns"),
        ("throttled_hardware_brake", "throttled_hardware_brake_seconds", 1e9, "ns"),
        ("throttled_power", "throttled_power_seconds", 1e9, "ns"),
        ("throttled_thermal", "throttled_thermal_seconds", 1e9, "ns"),
        ("throttled_sync_boost", "throttled_sync_boost_seconds", 1e9, "ns"),
        ("lost", "lost", 1.0, ""),
        ("hung", "hung", 1.0, ""),
        ("xid", "xid", 1.0, ""),
        ("recovery_action", "recovery_action", 1.0, ""),
        ("pcie_generation", "pcie_link_generation", 1.0, ""),
        ("pcie_generation_max", "pcie_link_generation_max", 1.0, ""),
        ("pcie_width", "pcie_link_width", 1.0, "lanes"),
        ("pcie_width_max", "pcie_link_width_max", 1.0, "lanes"),
        ("pcie_sent", "pcie_tx_bytes_per_second", 1.0, "bytes/s"),
        ("pcie_received", "pcie_rx_bytes_per_second", 1.0, "bytes/s"),
        ("pcie_replays", "pcie_replays", 1.0, ""),
        ("fabric_sent", "fabric_tx_bytes", 1.0, "bytes"),
        ("fabric_received", "fabric_rx_bytes", 1.0, "bytes"),
        ("link_errors", "link_errors", 1.0, ""),
        ("link_recoveries", "link_recoveries", 1.0, ""),
        ("memory_corrected", "memory_errors_correctable", 1.0, ""),
        ("memory_uncorrected", "memory_errors_uncorrectable", 1.0, ""),
        ("cache_corrected", "cache_errors_correctable", 1.0, ""),
        ("cache_uncorrected", "cache_errors_uncorrectable", 1.0, ""),
        ("retired_single_bit", "retired_pages_single_bit", 1.0, ""),
        ("retired_double_bit", "retired_pages_double_bit", 1.0, ""),
        ("retired_pending", "retired_pages_pending", 1.0, ""),
        ("remapped_corrected", "remapped_rows_correctable", 1.0, ""),
        ("remapped_uncorrected", "remapped_rows_uncorrectable", 1.0, ""),
        ("remap_pending", "row_remap_pending", 1.0, ""),
        ("remap_failure", "row_remap_failure", 1.0, ""),
        *_ENGINES,
        ("created", "created_seconds", 1e6, "us"),
        ("throttled_hardware_now", "throttled_hardware", 100.0, "%"),
        ("throttled_power_now", "throttled_power", 100.0, "%"),
        ("throttled_thermal_now", "throttled_thermal", 100.0, "%"),
        ("pcie_speed", "pcie_link_gigatransfers_per_second", 10.0, "0.1 GT/s"),
        ("pcie_speed_max", "pcie_link_gigatransfers_per_second_max", 10.0, "0.1 GT/s"),
        ("pcie_sent_total", "pcie_tx_bytes", 1.0, "bytes"),
        ("pcie_received_total", "pcie_rx_bytes", 1.0, "bytes"),
        ("memory_bandwidth_max", "memory_max_bytes_per_second", 1.0, "bytes/s"),
    )),
    Field("process_count", "its processes, also those that are not listed"),
))  # fmt: skip

PART: Final = Record("part", "A GPU instance (MIG), which has one compute instance at most.", (
    Field("uuid", "with MIG- before it", fact="part_uuid", text_bytes=48),
    Field("profile", "as 1g.10gb", fact="mig_profile", text_bytes=24),
    Field("board", "position of its board"),
    Field("gpu_instance", "its number", fact="mig_id"),
    Field("computes", "1: it has its compute instance, so that programs see it"),
    Field("slices", "of the engines, from its profile"),
    Field("number", "of its profile"),
    Field("begin", "the first of its memory slices"),
    Field("memory_slices", "its memory slices"),
    Field("bar1_total", "memory that the CPU sees", "bytes"),
    *(Field(name, f"{what}, from its profile") for name, what in MIG_ATTRIBUTES),
    *quantity_fields((
        *_MEMORY,
        *_ENGINES,
        ("usage", "usage_ratio", 100.0, "%"),
        ("decoder_usage", "decoder_active_ratio", 100.0, "%"),
        ("jpeg_usage", "jpeg_active_ratio", 100.0, "%"),
        ("lost", "lost", 1.0, ""),
    )),
))  # fmt: skip

LINK: Final = Record("link", "A link of a board to another one, or to a switch.", (
    Field("board", "position of its board"),
    Field("number", "among the links of its board"),
    Field("remote_board", "position of the board at its other end; absent: none of the file"),
    Field("remote_number", "which link of that board it is"),
    Field("switch_number", "the switch at its other end, by its number in the node; absent: none"),
    Field("up", "1 while it is up"),
    Field("sent", "of a board of AMD, as all below", "bytes"),
    Field("received", "the other way", "bytes"),
))  # fmt: skip

PROFILE: Final = Record("profile", "A kind of MIG instances of a type of boards.", (
    Field("name", "as 1g.10gb", text_bytes=24),
    Field("number", "as nvidia-smi mig -lgip shows it"),
    Field("kind", "its NVML_GPU_INSTANCE_PROFILE"),
    Field("slices", "of the engines"),
    Field("memory_slices", "slices of the memory"),
    Field("memory", "its memory", "bytes"),
    Field("begins", "a bit for each memory slice at which it may begin"),
    Field("most", "how many of them a board can have"),
    *(Field(name, what) for name, what in MIG_ATTRIBUTES),
))  # fmt: skip

PROCESS: Final = Record("process", "A workload on a board or instance. Those of a board follow each other.", (
    Field("name", "of the workload", text_bytes=64),
    Field("board", "position of its board"),
    Field("part", "position of its MIG instance; absent: the board is not divided"),
    Field("pid", "of the client on a UNIX socket; else over 4194303"),
    Field("is_graphics", "1: its work is graphics"),
    Field("started", "when it started, since 1970", "us"),
    Field("memory_used", "memory that it holds, in whole MiB", "bytes"),
    Field("usage", "its share of the usage", "%"),
    Field("memory_usage", "its share of the time in which the memory is used", "%"),
    Field("encoder_usage", "its share of the encoders", "%"),
    Field("decoder_usage", "its share of the decoders", "%"),
))  # fmt: skip

EVENT: Final = Record("event", "An event of the ring.", (
    Field("sequence", "its number, from 1; it is at the place of its number modulo the capacity"),
    Field("board", "position of its board"),
    Field("gpu_instance", "of which MIG instance; absent: of the board"),
    Field("xid", "error code; of a board of AMD the AFID"),
    Field("tick", "in which it was reported"),
    Field("wall_time", "when the tick was due, since 1970", "us"),
))  # fmt: skip

RECORDS: Final = (HEAD, SLOT, NODE, BOARD, PART, LINK, PROFILE, PROCESS, EVENT)


class Counts(NamedTuple):
    """What a file has room for."""

    nodes: int
    boards: int
    parts: int
    links: int
    profiles: int
    processes: int


def head_of(counts: Counts) -> dict[str, int | str | bytes]:
    """The sizes and places of the head of a file; the other values are added by who writes it."""
    sizes = (("nodes", NODE, counts.nodes), ("boards", BOARD, counts.boards), ("parts", PART, counts.parts),
             ("links", LINK, counts.links), ("profiles", PROFILE, counts.profiles),
             ("processes", PROCESS, counts.processes))  # fmt: skip
    place = SLOT.size
    places: dict[str, int | str | bytes] = {}
    for name, record, count in sizes:
        places[f"{name}_in_slot"] = place
        place += record.size * count
    events = HEAD.size
    first_slot = events + EVENT.size * EVENT_CAPACITY
    return {
        "magic": MAGIC, "layout_version": VERSION, "file_bytes": first_slot + 2 * place,
        "head_bytes": HEAD.size, "slot_head_bytes": SLOT.size, "node_bytes": NODE.size, "board_bytes": BOARD.size,
        "part_bytes": PART.size, "process_bytes": PROCESS.size, "link_bytes": LINK.size,
        "profile_bytes": PROFILE.size, "event_bytes": EVENT.size,
        "node_count": counts.nodes, "board_count": counts.boards, "part_count": counts.parts,
        "link_count": counts.links, "profile_count": counts.profiles, "process_capacity": counts.processes,
        "event_capacity": EVENT_CAPACITY, "slot_bytes": place, "first_slot": first_slot, "events": events, **places,
    }  # fmt: skip
