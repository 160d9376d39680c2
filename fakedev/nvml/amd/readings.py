"""What functions of ``amdsmi`` return of a GPU: a board, or one of its compute partitions.

Each function here is ``amdsmi_`` and its name; its :class:`Gpu` arguments are handles there. Numbers are those of AMD's
device-metrics-exporter in the same tick. "N/A" is what the board does not have, and a function without any value
raises that it is not supported. What belongs to a board is on its first partition alone, as with the real driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

from fakedev.nvml.amd.amdsmi_names import NAMES, AmdSmiLibraryException
from fakedev.nvml.amd.gpu import DIES, NA, Gpu, unsupported
from fakedev.nvml.smi.boards import View

MIB: Final = 1 << 20
#: Engines and places of MI300X boards in the driver's tables (amdgpu: MAX_GFX_CLKS, NUM_VCN, NUM_JPEG_ENG_V1).
_XCC, _XCP, _VCN, _JPEG, _LINKS, _HBM = DIES, 8, 4, 32, 8, 4
#: Microjoules of one step of the counter of energy (amdgpu: 15.259 uJ).
_ENERGY_STEP: Final = 15.259
_DRIVER_DATE: Final = "2015/01/01 00:00"
_VENDOR: Final = "Advanced Micro Devices Inc. [AMD/ATI]"
#: What the driver prints for the mode of an undivided board.
_WHOLE: Final = "SPX"
_MODES: Final = {8: "CPX", 4: "QPX", 3: "TPX", 2: "DPX"}
#: Blocks of the chip that count errors; the simulation has errors of the first two.
_COUNTING: Final = ("UMC", "GFX", "SDMA", "MMHUB")
#: Weights of ways (KFD's topology), and boards between.
_XGMI_WEIGHT, _SAME_NODE_WEIGHT, _OTHER_NODE_WEIGHT = 15, 40, 72

_VIOLATIONS: Final = ("prochot_thrm", "ppt_pwr", "socket_thrm", "vr_thrm", "hbm_thrm")
#: Processors of a server: the KFD counts them before its GPUs.
_PROCESSORS: Final = 2

_LINK: Final = NAMES.enumerations["AmdSmiLinkType"]


def get_gpu_device_bdf(gpu: Gpu) -> str:
    return gpu.bdf


def get_gpu_device_uuid(gpu: Gpu) -> str:
    return (gpu.board.part or gpu.board.view).text("uuid").removeprefix("MIG-")


def get_gpu_bdf_id(gpu: Gpu) -> int:
    domain, bus, device, function = (int(part, 16) for part in gpu.bdf.replace(".", ":").split(":"))
    return domain << 32 | bus << 8 | device << 3 | function


def get_gpu_id(gpu: Gpu) -> int:
    return gpu.board.view.count("pci_device_id") >> 16


def get_gpu_vendor_name(gpu: Gpu) -> str:
    return _VENDOR


def get_processor_type(gpu: Gpu) -> dict[str, str]:
    return {"processor_type": "AMDSMI_PROCESSOR_TYPE_AMD_GPU"}


def get_gpu_asic_info(gpu: Gpu) -> dict[str, Any]:
    device = _hexadecimal(gpu.board.view.count("pci_device_id") >> 16, 4)
    return {
        "market_name": gpu.text("name").removesuffix(" OAM"), "vendor_id": "0x1002", "vendor_name": _VENDOR,
        "subvendor_id": "0x1002", "device_id": device, "rev_id": "0x00",
        "asic_serial": f"0x{gpu.serial:016X}", "oam_id": gpu.board.number,
        "num_compute_units": _share(gpu.board.view.number("compute_units"), gpu),
        "target_graphics_version": gpu.text("gfx_version"), "subsystem_id": device,
    }  # fmt: skip


def get_gpu_board_info(gpu: Gpu) -> dict[str, str]:
    return {
        "model_number": gpu.text("card_model"), "product_serial": gpu.text("serial"), "fru_id": NA,
        "product_name": gpu.text("name"), "manufacturer_name": "AMD",
    }  # fmt: skip


def get_gpu_vbios_info(gpu: Gpu) -> dict[str, str]:
    # The last key is that of 7.1.
    names = ("name", "build_date", "part_number", "boot_firmware")
    return {**dict.fromkeys(names, NA), "version": gpu.text("vbios_version")}


def get_gpu_driver_info(gpu: Gpu) -> dict[str, str]:
    version = gpu.board.node.text("driver_version") or NA
    return {"driver_name": "amdgpu", "driver_version": version, "driver_date": _DRIVER_DATE}


def get_fw_info(gpu: Gpu) -> dict[str, list[Any]]:
    return {"fw_list": []}


def get_gpu_kfd_info(gpu: Gpu) -> dict[str, int]:
    return {
        "kfd_id": (gpu.serial + gpu.partition) & 0xFFFF, "node_id": gpu.number + _PROCESSORS,
        "current_partition_id": gpu.partition,
    }  # fmt: skip


def get_gpu_enumeration_info(gpu: Gpu) -> dict[str, int | str]:
    number = gpu.number
    return {
        "drm_render": 128 + number, "drm_card": number, "hsa_id": number + _PROCESSORS, "hip_id": number,
        "hip_uuid": f"GPU-{gpu.serial:016x}",
    }  # fmt: skip


def get_gpu_virtualization_mode(gpu: Gpu) -> dict[str, Any]:
    return {"mode": NAMES.enumerations["AmdSmiVirtualizationMode"].BAREMETAL}


def get_gpu_vram_info(gpu: Gpu) -> dict[str, Any]:
    bandwidth = gpu.has("memory_bandwidth_max")
    kind = NAMES.enumerations["AmdSmiVramType"].__members__.get(gpu.text("memory_type"), 0)
    return {
        "vram_type": int(kind), "vram_vendor": NA, "vram_size": _mib(gpu.view.number("memory_total")),
        "vram_bit_width": gpu.has("memory_bus"),
        "vram_max_bandwidth": NA if isinstance(bandwidth, str) else round(bandwidth / 1e9),
    }  # fmt: skip


def get_gpu_vram_usage(gpu: Gpu) -> dict[str, int]:
    return {"vram_total": _mib(gpu.view.number("memory_total")), "vram_used": _mib(gpu.view.number("memory_used"))}


def get_gpu_memory_total(gpu: Gpu, mem_type: int) -> int:
    return _memory(gpu, mem_type, "memory_total")


def get_gpu_memory_usage(gpu: Gpu, mem_type: int) -> int:
    return _memory(gpu, mem_type, "memory_used")


def get_gpu_activity(gpu: Gpu) -> dict[str, int | str]:
    video = gpu.has("decoder_usage") if gpu.text("architecture").startswith("rdna") else NA
    return {"gfx_activity": gpu.has("usage"), "umc_activity": gpu.has("memory_usage"), "mm_activity": video}


def get_power_info(gpu: Gpu) -> dict[str, Any]:
    watts, is_average = gpu.must("power_watts"), gpu.text("architecture") == "cdna2"
    return {
        "socket_power": watts, "current_socket_power": NA if is_average else watts,
        "average_socket_power": watts if is_average else NA, "gfx_voltage": NA, "soc_voltage": NA, "mem_voltage": NA,
        "power_limit": gpu.must("power_limit") * 1000,
    }  # fmt: skip


def get_power_cap_info(gpu: Gpu, sensor: int = 0) -> dict[str, int]:
    cap, usual, lowest, highest = (
        gpu.must(f"power_limit{suffix}") * 1000 for suffix in ("", "_default", "_min", "_max")
    )
    return {
        "power_cap": cap, "default_power_cap": usual, "dpm_cap": 0, "min_power_cap": lowest, "max_power_cap": highest,
    }  # fmt: skip


def get_energy_count(gpu: Gpu) -> dict[str, float]:
    steps = round(gpu.must("energy") * 1000 / _ENERGY_STEP)
    return {
        "power": steps, "energy_accumulator": steps, "counter_resolution": _ENERGY_STEP,
        "timestamp": gpu.board.slot.count("wall_time") * 1000,
    }  # fmt: skip


def get_clock_info(gpu: Gpu, clock_type: int) -> dict[str, Any]:
    name = _clock(clock_type)
    now, low, high = gpu.must(name), gpu.has(f"{name}_min"), gpu.has(f"{name}_max")
    return {"clk": now, "min_clk": low, "max_clk": high, "clk_locked": False, "clk_deep_sleep": 0}


def get_clk_freq(gpu: Gpu, clk_type: int) -> dict[str, Any]:
    found = get_clock_info(gpu, clk_type)
    clocks = (found[key] for key in ("clk", "min_clk", "max_clk"))
    steps = sorted({clock * 1_000_000 for clock in clocks if isinstance(clock, int)})
    return {"num_supported": len(steps), "current": steps.index(found["clk"] * 1_000_000), "frequency": steps}


def get_temp_metric(gpu: Gpu, sensor_type: int, metric: int) -> int:
    kinds, metrics = NAMES.enumerations["AmdSmiTemperatureType"], NAMES.enumerations["AmdSmiTemperatureMetric"]
    of_memory = sensor_type == kinds.VRAM or kinds.HBM_0 <= sensor_type <= kinds.HBM_3
    # Only boards with the chip before MI300 show the temperature of its edge.
    wanted = kinds.EDGE if gpu.text("architecture") == "cdna2" else kinds.HOTSPOT
    if not of_memory and sensor_type != wanted:
        raise unsupported()
    if metric == metrics.CURRENT:
        return gpu.must("memory_temperature" if of_memory else "temperature")
    names = {int(metrics.CRITICAL): "slowdown_temperature", int(metrics.EMERGENCY): "shutdown_temperature"}
    if of_memory or metric not in names:
        raise unsupported()
    return gpu.must(names[metric])


def get_gpu_fan_speed(gpu: Gpu, sensor_idx: int) -> int:
    return round(gpu.must("fan_speed") * 2.55)


def get_gpu_fan_speed_max(gpu: Gpu, sensor_idx: int) -> int:
    gpu.must("fan_speed")
    return 255


def get_gpu_perf_level(gpu: Gpu) -> str:
    return "AMDSMI_DEV_PERF_LEVEL_AUTO"


def is_gpu_power_management_enabled(gpu: Gpu) -> bool:
    return True


def get_pcie_info(gpu: Gpu) -> dict[str, Any]:
    sent, received = gpu.must("pcie_sent"), gpu.has("pcie_received")
    both = NA if isinstance(received, str) else round((sent + received) * 8 / 1e6)
    replays = gpu.has("pcie_replays")
    speed, highest = (_times(gpu.has(quantity), 100) for quantity in ("pcie_speed", "pcie_speed_max"))
    return {
        "pcie_static": {
            "max_pcie_width": gpu.has("pcie_width_max"), "max_pcie_speed": highest,
            "pcie_interface_version": gpu.has("pcie_generation_max"),
            "slot_type": "OAM" if gpu.text("memory_type").startswith("HBM") else "PCIE",
        },
        "pcie_metric": {
            "pcie_width": gpu.has("pcie_width"), "pcie_speed": speed, "pcie_bandwidth": both,
            "pcie_replay_count": replays, "pcie_l0_to_recovery_count": _unless(replays),
            "pcie_replay_roll_over_count": _unless(replays), "pcie_nak_sent_count": _unless(replays),
            "pcie_nak_received_count": replays, "pcie_lc_perf_other_end_recovery_count": NA,
        },
    }  # fmt: skip


def get_gpu_pci_throughput(gpu: Gpu) -> dict[str, int]:
    return {"sent": gpu.must("pcie_sent") // 256, "received": gpu.must("pcie_received") // 256, "max_pkt_sz": 256}


def get_gpu_pci_replay_counter(gpu: Gpu) -> int:
    return gpu.must("pcie_replays")


def get_gpu_total_ecc_count(gpu: Gpu) -> dict[str, int]:
    blocks = [_errors(gpu, block) for block in _COUNTING]
    return {key: sum(block[key] for block in blocks) for key in blocks[0]}


def get_gpu_ecc_count(gpu: Gpu, block: int) -> dict[str, int]:
    return _errors(gpu, _block(block))


def get_gpu_ecc_enabled(gpu: Gpu) -> int:
    gpu.must("memory_corrected")
    return sum(int(NAMES.enumerations["AmdSmiGpuBlock"][block]) for block in _COUNTING)


def get_gpu_ecc_status(gpu: Gpu, block: int) -> Any:
    states = NAMES.enumerations["AmdSmiRasErrState"]
    return states.ENABLED if get_gpu_ecc_enabled(gpu) & block else states.DISABLED


def get_gpu_ras_block_features_enabled(gpu: Gpu) -> list[dict[str, str]]:
    blocks = NAMES.enumerations["AmdSmiGpuBlock"]
    return [
        {"block": block.name, "status": get_gpu_ecc_status(gpu, block).name}
        for block in blocks if block.name not in ("INVALID", "RESERVED")
    ]  # fmt: skip


def get_gpu_ras_feature_info(gpu: Gpu) -> dict[str, Any]:
    gpu.must("memory_corrected")
    schemas = ("parity_schema", "single_bit_schema", "double_bit_schema")
    return {"eeprom_version": "0x0", **dict.fromkeys(schemas, False), "poison_schema": True}


def get_gpu_bad_page_info(gpu: Gpu) -> list[dict[str, int]]:
    """The pages' addresses are not simulated: they are counted from a number of the chip."""
    counts = (gpu.has("retired_single_bit"), gpu.has("retired_double_bit"))
    pages = sum(count for count in counts if isinstance(count, int))
    pending = gpu.has("retired_pending")
    waiting = pending if isinstance(pending, int) else 0
    status = NAMES.enumerations["AmdSmiMemoryPageStatus"]
    first = gpu.serial % (1 << 24)
    return [
        {
            "value": number, "page_address": first + number, "page_size": 4096,
            "status": int(status.PENDING if number >= pages - waiting else status.RESERVED),
        }
        for number in range(pages)
    ]  # fmt: skip


get_gpu_memory_reserved_pages = get_gpu_bad_page_info


def get_violation_status(gpu: Gpu) -> dict[str, Any]:
    """Accumulated ("acc") in ms, percent of the last tick ("per"), and whether it is so ("active")."""
    if gpu.text("architecture") == "cdna2":
        raise unsupported()
    now = gpu.board.slot.count("wall_time")
    found: dict[str, Any] = {"reference_timestamp": now, "violation_timestamp": now * 1000}
    found["acc_counter"] = _counted(gpu)
    for prefix in ("acc", "per", "active"):
        # Voltage regulators and the memory never get too hot here.
        for name, reason in zip(_VIOLATIONS, ("hardware", "power", "thermal", "", ""), strict=True):
            found[f"{prefix}_{name}"] = _violation(gpu, prefix, reason)
        found[f"{prefix}_gfx_clk_below_host_limit"] = NA
        for name, reason in (("pwr", "power"), ("thm", "thermal")):
            rows = [[_violation(gpu, prefix, reason)] * len(row) for row in _table(gpu, lambda _: 0)]
            found[f"{prefix}_gfx_clk_below_host_limit_{name}"] = rows
        for name in ("gfx_clk_below_host_limit_total", "low_utilization"):
            found[f"{prefix}_{name}"] = _table(gpu, lambda _: NA)
    return found


def _violation(gpu: Gpu, prefix: str, reason: str) -> int | bool:
    percent = gpu.must(f"throttled_{reason}_now") if reason else 0
    if prefix == "acc":
        return round(gpu.must(f"throttled_{reason}") / 1e6) if reason else 0
    return percent if prefix == "per" else percent > 0


def get_gpu_process_list(gpu: Gpu) -> list[dict[str, Any]]:
    units = _share(gpu.board.view.number("compute_units"), gpu)
    return [
        {
            "name": process.text("name") or NA, "pid": process.count("pid"), "mem": process.count("memory_used"),
            "engine_usage": {"gfx": 0, "enc": 0},
            "memory_usage": {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": process.count("memory_used")},
            "cu_occupancy": NA if isinstance(units, str) else round(process.count("usage") * units / 100),
        }
        for process in processes_of(gpu)
    ]  # fmt: skip


def processes_of(gpu: Gpu) -> list[View]:
    """The processes of a board, or of a partition."""
    place = gpu.board.view.count("first_part") + gpu.partition if gpu.board.part else None
    return [process for process in gpu.board.processes if process.number("part") == place]


def get_gpu_compute_partition(gpu: Gpu) -> str:
    if gpu.board.view.number("max_part_count") in (None, 0):
        raise unsupported()
    return _MODES.get(len(gpu.board.parts), _WHOLE)


def get_gpu_memory_partition(gpu: Gpu) -> str:
    get_gpu_compute_partition(gpu)
    return gpu.text("memory_partition", "nps1").upper()


def get_gpu_memory_partition_config(gpu: Gpu) -> dict[str, Any]:
    mode = get_gpu_memory_partition(gpu)
    return {"partition_caps": ["NPS1", "NPS4"], "mp_mode": mode, "num_numa_ranges": NA, "numa_range": NA}


def get_gpu_accelerator_partition_profile(gpu: Gpu) -> dict[str, Any]:
    keys = ("profile_type", "num_partitions", "profile_index", "memory_caps", "num_resources", "resources")
    found: dict[str, Any] = dict.fromkeys(keys, NA)
    if gpu.board.view.number("max_part_count"):
        mode = get_gpu_compute_partition(gpu)
        index = (_WHOLE, *reversed(_MODES.values())).index(mode)
        found |= {
            "profile_type": mode, "num_partitions": max(1, len(gpu.board.parts)), "profile_index": index,
            "memory_caps": ["NPS1", "NPS4"] if mode == "CPX" else ["NPS1"], "num_resources": 0,
        }  # fmt: skip
    return {"partition_id": [gpu.partition], "partition_profile": found}


def get_gpu_xcd_counter(gpu: Gpu) -> int:
    return gpu.dies


def get_gpu_topo_numa_affinity(gpu: Gpu) -> int:
    return gpu.board.view.number("numa_node") or 0


topo_get_numa_node_number = get_gpu_topo_numa_affinity


def get_xgmi_info(gpu: Gpu) -> dict[str, int]:
    is_linked, number = bool(gpu.board.links), gpu.board.number
    hive = crc32(gpu.board.node.text("name").encode())
    return {"xgmi_lanes": 16 * is_linked, "xgmi_hive_id": hive * is_linked, "xgmi_node_id": number, "index": number}


def get_gpu_xgmi_link_status(gpu: Gpu) -> dict[str, Any]:
    status = ["X"] * _LINKS
    for place, link in zip(_link_places(gpu), gpu.board.links, strict=False):
        status[place] = "U" if link.number("up") else "D"
    return {"status": status, "total_links": _LINKS}


def gpu_xgmi_error_status(gpu: Gpu) -> Any:
    errors = gpu.must("link_errors")
    return NAMES.enumerations["AmdSmiXgmiStatus"](min(errors, 2))


def get_gpu_metrics_info(gpu: Gpu) -> dict[str, Any]:
    """The table of metrics: temperatures in C, power in W, clocks in MHz, energy in its steps."""
    old = gpu.text("architecture") == "cdna2"
    clock, memory_clock, speed = gpu.has("core_clock"), gpu.has("memory_clock"), gpu.has("pcie_speed")
    watts, temperature, of_memory = gpu.has("power_watts"), gpu.has("temperature"), gpu.has("memory_temperature")
    energy, replays = gpu.has("energy"), gpu.has("pcie_replays")
    counted = [_times(gpu.has(f"throttled_{cause}"), 1e-6) for cause in ("hardware", "power", "thermal")]
    links: dict[str, list[int | str]] = {key: [NA] * _LINKS for key in ("received", "sent", "up")}
    for place, link in zip(_link_places(gpu), gpu.board.links, strict=False):
        for key, values in links.items():
            number = link.number(key)
            values[place] = NA if number is None else number if key == "up" else round(number / 1000)
    first = [clock] + [NA] * (_XCC - 1) if gpu.text("architecture").startswith("rdna") else [clock] * _XCC
    return {
        "common_header.structure_size": 0, "common_header.format_revision": 1, "common_header.content_revision": 7,
        "temperature_edge": temperature if old else NA, "temperature_hotspot": NA if old else temperature,
        "temperature_mem": of_memory, "temperature_vrgfx": NA, "temperature_vrsoc": NA, "temperature_vrmem": NA,
        "average_gfx_activity": gpu.has("usage"), "average_umc_activity": gpu.has("memory_usage"),
        "average_mm_activity": NA, "average_socket_power": watts if old else NA,
        "energy_accumulator": _times(energy, 1000 / _ENERGY_STEP),
        "system_clock_counter": gpu.board.slot.count("wall_time") * 1000,
        **dict.fromkeys((f"average_{engine}_frequency" for engine in (
            "gfxclk", "socclk", "uclk", "vclk0", "dclk0", "vclk1", "dclk1")), NA),
        "current_gfxclk": clock, "current_socclk": NA, "current_uclk": memory_clock, "current_vclk0": NA,
        "current_dclk0": NA, "current_vclk1": NA, "current_dclk1": NA, "throttle_status": NA,
        "current_fan_speed": gpu.has("fan_speed"), "pcie_link_width": gpu.has("pcie_width"),
        "pcie_link_speed": speed, "gfx_activity_acc": NA, "mem_activity_acc": NA,
        "temperature_hbm": [of_memory] * _HBM, "firmware_timestamp": _times(_counted(gpu), 1e5),
        "voltage_soc": NA, "voltage_gfx": NA, "voltage_mem": NA, "indep_throttle_status": NA,
        "current_socket_power": NA if old else watts, "vcn_activity": [NA] * _VCN, "gfxclk_lock_status": 0,
        "xgmi_link_width": 16 if gpu.board.links else NA, "xgmi_link_speed": link_gigabits(gpu),
        "pcie_bandwidth_acc": NA, "pcie_bandwidth_inst": NA, "pcie_l0_to_recov_count_acc": _unless(replays),
        "pcie_replay_count_acc": replays, "pcie_replay_rover_count_acc": _unless(replays),
        "xgmi_read_data_acc": links["received"], "xgmi_write_data_acc": links["sent"],
        "current_gfxclks": first + [NA] * (_XCC - len(first)), "current_socclks": [NA] * 4,
        "current_vclk0s": [NA] * 4, "current_dclk0s": [NA] * 4, "jpeg_activity": [NA] * _JPEG,
        "pcie_nak_sent_count_acc": _unless(replays), "pcie_nak_rcvd_count_acc": replays,
        "accumulation_counter": _counted(gpu), "prochot_residency_acc": counted[0],
        "ppt_residency_acc": counted[1], "socket_thm_residency_acc": counted[2],
        "vr_thm_residency_acc": _unless(counted[2], 0), "hbm_thm_residency_acc": _unless(counted[2], 0),
        "num_partition": max(1, len(gpu.board.parts)),
        "xcp_stats.gfx_busy_inst": _table(gpu, lambda view: view.number("usage")),
        "xcp_stats.jpeg_busy": _table(gpu, lambda view: view.number("jpeg_usage"), _JPEG),
        "xcp_stats.vcn_busy": _table(gpu, lambda view: view.number("decoder_usage"), _VCN),
        **{f"xcp_stats.{name}": _table(gpu, lambda _: NA) for name in (
            "gfx_busy_acc", "gfx_below_host_limit_acc", "gfx_low_utilization_acc", "gfx_below_host_limit_total_acc")},
        "xcp_stats.gfx_below_host_limit_ppt_acc": _table(gpu, lambda _: counted[1]),
        "xcp_stats.gfx_below_host_limit_thm_acc": _table(gpu, lambda _: counted[2]),
        "pcie_lc_perf_other_end_recovery": NA,
        "vram_max_bandwidth": get_gpu_vram_info(gpu)["vram_max_bandwidth"], "xgmi_link_status": links["up"],
    }  # fmt: skip


def get_link_metrics(gpu: Gpu) -> dict[str, Any]:
    """Rates in Gb/s, amounts in KB."""
    found = []
    rate = link_gigabits(gpu)
    for link in gpu.board.links:
        sent, received = link.number("sent"), link.number("received")
        found.append({
            "bdf": _far_bdf(gpu, link), "bit_rate": rate, "max_bandwidth": _times(rate, 16), "link_type": int(
                _LINK.AMDSMI_LINK_TYPE_XGMI),
            "read": NA if received is None else round(received / 1000), "write": NA if sent is None else round(
                sent / 1000),
        })  # fmt: skip
    if not found:
        raise unsupported()
    return {"num_links": len(found), "links": found}


def link_gigabits(gpu: Gpu) -> int | str:
    """The rate of a lane of a link in Gb/s: a link has 16."""
    bandwidth = gpu.board.view.number("link_bandwidth")
    return NA if bandwidth is None else round(bandwidth * 8 / 16 / 1e9)


def topo_get_link_type(gpu: Gpu, other: Gpu) -> dict[str, int]:
    if gpu.bdf == other.bdf:
        raise AmdSmiLibraryException(1)
    is_near = _is_linked(gpu, other)
    kind = _LINK.AMDSMI_LINK_TYPE_XGMI if is_near else _LINK.AMDSMI_LINK_TYPE_PCIE
    hops = 1 if is_near else 2 if topo_get_numa_node_number(gpu) == topo_get_numa_node_number(other) else 3
    return {"hops": hops, "type": int(kind)}


def topo_get_link_weight(gpu: Gpu, other: Gpu) -> int:
    if gpu.bdf == other.bdf:
        return 0
    return {1: _XGMI_WEIGHT, 2: _SAME_NODE_WEIGHT, 3: _OTHER_NODE_WEIGHT}[topo_get_link_type(gpu, other)["hops"]]


def get_minmax_bandwidth_between_processors(gpu: Gpu, other: Gpu) -> dict[str, int]:
    bandwidth = gpu.board.view.number("link_bandwidth")
    if bandwidth is None or not _is_linked(gpu, other):
        raise unsupported()
    return dict.fromkeys(("min_bandwidth", "max_bandwidth"), round(bandwidth / 1e6))


def is_P2P_accessible(gpu: Gpu, other: Gpu) -> bool:  # AMD's name
    return gpu.bdf == other.bdf or _is_linked(gpu, other)


def topo_get_p2p_status(gpu: Gpu, other: Gpu) -> dict[str, Any]:
    """``type`` is a plain number here, and one of ctypes in the real module."""
    names = ("coherent", "atomics_32bit", "atomics_64bit", "dma", "bi_directional")
    can = int(_is_linked(gpu, other))
    return {"type": topo_get_link_type(gpu, other)["type"], "cap": {f"is_iolink_{name}": can for name in names}}


def _counted(gpu: Gpu) -> int | str:
    """How long its counters have counted, in ms."""
    since = gpu.has("created")
    return NA if isinstance(since, str) else round((gpu.board.slot.count("wall_time") - since) / 1000)


def _hexadecimal(number: int, digits: int) -> str:
    return f"0x{number:0{digits}x}"


def _share(count: int | None, gpu: Gpu) -> int | str:
    return NA if count is None else count * gpu.dies // _XCC


def _mib(number: int | None) -> int:
    if number is None:
        raise unsupported()
    return round(number / MIB)


def _memory(gpu: Gpu, kind: int, name: str) -> int:
    found = gpu.view.number(name) if kind != NAMES.enumerations["AmdSmiMemoryType"].GTT else None
    if found is None:
        raise unsupported()
    return found


def _clock(kind: int) -> str:
    kinds = NAMES.enumerations["AmdSmiClkType"]
    names = {int(kinds.GFX): "core_clock", int(kinds.MEM): "memory_clock"}
    if kind not in names:
        raise unsupported()
    return names[kind]


def _times(number: int | str, factor: float) -> int | str:
    return number if isinstance(number, str) else round(number * factor)


def _unless(number: int | str, otherwise: int | None = None) -> int | str:
    """0 while something was never counted; what it would be then is not simulated."""
    return otherwise if otherwise is not None and number != NA else 0 if number == 0 else NA


def _block(number: int) -> str:
    try:
        return str(NAMES.enumerations["AmdSmiGpuBlock"](number).name)
    except ValueError:
        raise AmdSmiLibraryException(1) from None


def _errors(gpu: Gpu, block: str) -> dict[str, int]:
    kind = {"UMC": "memory", "GFX": "cache"}.get(block)
    gpu.must("memory_corrected")
    if block not in _COUNTING:
        raise unsupported()
    corrected, uncorrected = ((gpu.has(f"{kind}_{word}") if kind else 0) for word in ("corrected", "uncorrected"))
    return {
        "correctable_count": corrected if isinstance(corrected, int) else 0,
        "uncorrectable_count": uncorrected if isinstance(uncorrected, int) else 0, "deferred_count": 0,
    }  # fmt: skip


def _table(gpu: Gpu, value: Callable[[View], int | str | None], columns: int = _XCC) -> list[list[int | str]]:
    """A row for each partition, which has its share of the columns; the first partition has the rows of all."""
    rows: list[list[int | str]] = [[NA] * columns for _ in range(_XCP)]
    views = [gpu.board.view] if not gpu.board.parts else gpu.board.parts
    for row, view in zip(rows, views, strict=False):
        found = value(view)
        count = max(1, columns // len(views))
        row[:count] = [NA if found is None else found] * count
    return rows


def _link_places(gpu: Gpu) -> list[int]:
    """The places of a board's links: a board has a place for itself in the mesh, which is empty."""
    return [link for link in range(_LINKS) if link != gpu.board.number % _LINKS]


def _is_linked(gpu: Gpu, other: Gpu) -> bool:
    """Whether a link between them is up; partitions of a board are one chip."""
    return gpu.board.place == other.board.place or any(
        link.number("remote_board") == other.board.place and link.number("up") for link in gpu.board.links
    )


def _far_bdf(gpu: Gpu, link: View) -> str:
    return gpu.addresses.get(link.count("remote_board"), NA)
