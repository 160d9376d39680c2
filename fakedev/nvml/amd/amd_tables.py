"""What ``amd-smi`` prints besides sections: processes, bad pages, links, partitions, and tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fakedev.nvml.amd import readings
from fakedev.nvml.amd.amd_sections import is_quantity, sections, text_of, with_unit
from fakedev.nvml.amd.amdsmi_names import NAMES, AmdSmiLibraryException, blocks
from fakedev.nvml.amd.gpu import NA, Gpu

_GIB: Final = 1 << 30
_NO_PROCESS: Final = "No running processes detected"
_NO_PAGES: Final = "No bad pages found."
#: Tables of the command topology: the title, the option, and the key in JSON.
TOPOLOGY: Final = (
    ("ACCESS TABLE", "-a", "link_status"), ("WEIGHT TABLE", "-w", "weight"), ("HOPS TABLE", "-o", "num_hops"),
    ("LINK TYPE TABLE", "-t", "link_type"), ("NUMA BW TABLE", "-b", "bandwidth"),
    ("CACHE COHERANCY TABLE", "-c", "coherent"), ("ATOMICS TABLE", "-n", "atomics"), ("DMA TABLE", "-d", "dma"),
    ("BI-DIRECTIONAL TABLE", "-z", "bi_dir"),
)  # fmt: skip
_SELF: Final = {
    "weight": 0, "link_status": "ENABLED", "link_type": "SELF", "num_hops": 0, "bandwidth": NA, "coherent": "SELF",
    "atomics": "SELF", "dma": "SELF", "bi_dir": "SELF",
}  # fmt: skip
#: What the monitor shows only when it is asked for.
_LEFT_OUT: Final = (
    "max_power", "mem_clock", "single_bit_ecc", "double_bit_ecc", "pcie_replay", "vram_free", "vram_percent",
)  # fmt: skip
_RULE: Final = "+" + "-" * 78 + "+"
_HALVES: Final = "|" + "-" * 37 + "+" + "-" * 40 + "|"


def size_text(count: int) -> str:
    """Bytes as ``37.3 GB``, by powers of 1024."""
    size, units = float(count), iter(("B", "KB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1024:
        size, unit = size / 1024, next(units)
    return f"{size:.1f} {unit}"


def processes(gpu: Gpu, *, for_people: bool) -> Any:
    """The processes of a GPU, each with ``process_info``."""

    def amount(count: int) -> Any:
        return size_text(count) if for_people else with_unit(count, "B")

    found: list[dict[str, Any]] = []
    for process in readings.get_gpu_process_list(gpu):
        memory = {key: amount(process["memory_usage"][key]) for key in ("gtt_mem", "cpu_mem", "vram_mem")}
        usage = {key: with_unit(process["engine_usage"][key], "ns") for key in ("gfx", "enc")}
        found.append({"process_info": {
            "name": process["name"], "pid": process["pid"], "memory_usage": memory, "mem_usage": amount(process["mem"]),
            "usage": usage, "cu_occupancy": process["cu_occupancy"],
        }})  # fmt: skip
    return found or [{"process_info": _NO_PROCESS}]


def bad_pages(gpu: Gpu) -> dict[str, Any]:
    names = NAMES.enumerations["AmdSmiMemoryPageStatus"]
    found: dict[str, Any] = {}
    for key, status in (("retired", names.RESERVED), ("pending", names.PENDING), ("un_res", names.UNRESERVABLE)):
        pages = [
            {"page_address": page["page_address"], "page_size": page["page_size"], "status": status.name}
            for page in readings.get_gpu_bad_page_info(gpu)
            if page["status"] == status
        ]
        found[key] = pages or _NO_PAGES
    return found


def link(gpu: Gpu, other: Gpu) -> dict[str, Any]:
    """How two boards are connected."""
    if gpu.bdf == other.bdf:
        return dict(_SELF)
    found = readings.topo_get_link_type(gpu, other)
    can = readings.is_P2P_accessible(gpu, other)
    kinds = NAMES.enumerations["AmdSmiLinkType"]
    try:
        bandwidth = "{min_bandwidth}-{max_bandwidth}".format(
            **readings.get_minmax_bandwidth_between_processors(gpu, other)
        )
    except AmdSmiLibraryException:
        bandwidth = NA
    return {
        "weight": readings.topo_get_link_weight(gpu, other), "link_status": "ENABLED" if can else "DISABLED",
        "link_type": kinds(found["type"]).name.removeprefix("AMDSMI_LINK_TYPE_"), "num_hops": found["hops"],
        "bandwidth": bandwidth, "coherent": "C" if can else NA, "atomics": "64,32" if can else NA,
        "dma": "T" if can else "F", "bi_dir": "T" if can else "F",
    }  # fmt: skip


def topology(gpus: Sequence[Gpu]) -> list[dict[str, Any]]:
    """All connections, for JSON."""
    return [
        {"gpu": gpu.number, "bdf": gpu.bdf, "links": [
            {"gpu": other.number, "bdf": other.bdf, **link(gpu, other)} for other in gpus
        ]}
        for gpu in gpus
    ]  # fmt: skip


def grid(title: str, gpus: Sequence[Gpu], cells: Sequence[Sequence[object]]) -> Iterator[str]:
    """A table of boards by boards."""
    yield f"{title}:"
    yield " ".join(f"{bdf:12}" for bdf in ("", *(gpu.bdf for gpu in gpus))).rstrip()
    for gpu, row in zip(gpus, cells, strict=True):
        yield " ".join(f"{cell!s:12}" for cell in (gpu.bdf, *row)).rstrip()


def xgmi(gpus: Sequence[Gpu]) -> dict[str, Any]:
    """Links and what they have carried, for JSON."""
    metrics = []
    gpus = [gpu for gpu in gpus if not gpu.partition]  # links belong to boards
    for gpu in gpus:
        try:
            links = readings.get_link_metrics(gpu)["links"]
        except AmdSmiLibraryException:
            links = []
        by_bdf = {each["bdf"]: each for each in links}
        carried = [
            {"gpu": other.number, "bdf": other.bdf, **{
                way: with_unit(by_bdf[other.bdf][way], "KB") if other.bdf in by_bdf else NA for way in ("read", "write")
            }}
            for other in gpus
        ]  # fmt: skip
        rate, most = (with_unit(links[0][key], "Gb/s") if links else NA for key in ("bit_rate", "max_bandwidth"))
        metrics.append({"gpu": gpu.number, "bdf": gpu.bdf, "link_metrics": {
            "bit_rate": rate, "max_bandwidth": most, "link_type": "XGMI" if links else NA, "links": carried,
        }})  # fmt: skip
    status = [
        {"gpu": gpu.number, "bdf": gpu.bdf, "link_status": readings.get_gpu_xgmi_link_status(gpu)["status"]}
        for gpu in gpus
    ]  # fmt: skip
    return {"xgmi_metric": [metrics], "link_status": status}


def xgmi_lines(gpus: Sequence[Gpu]) -> Iterator[str]:
    """The same for people."""
    found, gpus = xgmi(gpus), [gpu for gpu in gpus if not gpu.partition]
    yield from ("", "LINK METRIC TABLE:")
    titles = " ".join(f"{gpu.bdf:12}" for gpu in gpus)
    yield f"{'':7}{'bdf':14}{'bit_rate':10}{'max_bandwidth':15}{'link_type':11}{titles}".rstrip()
    for each in found["xgmi_metric"][0]:
        own = each["link_metrics"]
        cells = f"{text_of(own['bit_rate']):10}{text_of(own['max_bandwidth']):15}{own['link_type']:11}"
        yield f"{'GPU' + str(each['gpu']):7}{each['bdf']:14}{cells}".rstrip()
        for way in ("read", "write"):
            carried = [one[way] for one in own["links"]]
            amounts = (size_text(rate["value"] * 1000) if is_quantity(rate) else NA for rate in carried)
            yield f" {way.title():56}{' '.join(f'{amount:12}' for amount in amounts)}".rstrip()
    yield from ("", "XGMI LINK STATUS:", f"{'':7}{'bdf':14}{'link_status':20}")
    for each in found["link_status"]:
        yield f"{'GPU' + str(each['gpu']):7}{each['bdf']:14}{'  '.join(each['link_status'])}"


def partitions(gpus: Sequence[Gpu]) -> dict[str, list[dict[str, Any]]]:
    """The modes of boards, for JSON; what other modes there are is not simulated."""
    current, memory = [], []
    for gpu in gpus:
        try:
            mode, caps = readings.get_gpu_memory_partition(gpu), readings.get_gpu_memory_partition_config(gpu)
            profile = readings.get_gpu_accelerator_partition_profile(gpu)["partition_profile"]
            known = ",".join(caps["partition_caps"])
        except AmdSmiLibraryException:
            mode = known = NA
            profile = {"profile_type": NA, "profile_index": NA}
        current.append({
            "gpu_id": gpu.number, "memory": mode, "accelerator_type": profile["profile_type"],
            "accelerator_profile_index": profile["profile_index"], "partition_id": str(gpu.partition),
        })  # fmt: skip
        memory.append({"gpu_id": gpu.number, "memory_partition_caps": known, "current_memory_partition": mode})
    return {"current_partition": current, "memory_partition": memory}


def partition_lines(gpus: Sequence[Gpu]) -> Iterator[str]:
    """The same for people."""
    for title, rows in partitions(gpus).items():
        widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) + 2 for key in rows[0]}
        yield f"{title.upper()}:"
        yield "".join(f"{key.upper():{width}}" for key, width in widths.items()).rstrip()
        yield from ("".join(f"{row[key]!s:{width}}" for key, width in widths.items()).rstrip() for row in rows)
        yield ""


def monitor_columns(chosen: Sequence[str]) -> list[str]:
    """The keys of the monitor: those of the chosen sections, or the usual ones."""
    if not chosen:
        keys = [row.key for section in sections()["monitor"] for row in section.rows]
        return [key for key in keys if key not in _LEFT_OUT]
    return [row.key for section in sections()["monitor"] if section.name in chosen for row in section.rows]


def monitor_lines(rows: Sequence[Mapping[str, Any]], *, is_usual: bool, with_titles: bool) -> Iterator[str]:
    columns = {key: (title, int(width)) for key, title, width in (
        (cell.strip() for cell in line.split("|")) for line in blocks("sections.txt")["columns"]
    )}  # fmt: skip
    shown = [key for key in rows[0] if key in columns and not (is_usual and key in ("vram_used", "vram_total"))]
    stamp = "TIMESTAMP   " if "timestamp" in rows[0] else ""
    if with_titles:
        titles = "  ".join(f"{columns[key][0]:>{columns[key][1] - 1}}" for key in shown)
        yield f"{stamp}GPU  XCP  {titles}{'      VRAM_USAGE' if is_usual else ''}"
    for row in rows:
        cells = "  ".join(f"{text_of(row[key]):>{columns[key][1] - 1}}" for key in shown)
        usage = f"  {row['vram_used']['value']:5.1f}/{row['vram_total']['value']:5.1f} GB" if is_usual else ""
        when = f"{row['timestamp']}  " if stamp else ""
        yield f"{when}{row['gpu']:>3}  {row['xcp']:>3}  {cells}{usage}"


def process_table(gpus: Sequence[Gpu]) -> Iterator[str]:
    """The processes below the monitor."""
    yield from ("", "PROCESS INFO:")
    form = "{:>3}  {:>17}  {:>7}  {:>8}  {:>8}  {:>8}  {:>8}  {:>7}"
    yield form.format("GPU", "NAME", "PID", "GTT_MEM", "CPU_MEM", "VRAM_MEM", "MEM_USG", "CU%")
    for gpu in gpus:
        rows = readings.get_gpu_process_list(gpu)
        for row in rows:
            sizes = [size_text(row["memory_usage"][key]) for key in ("gtt_mem", "cpu_mem", "vram_mem")]
            sizes.append(size_text(row["mem"]))
            yield form.format(gpu.number, row["name"][:17], row["pid"], *sizes, _units(gpu, row))
        if not rows:
            yield form.format(gpu.number, *[NA] * 7)


def _units(gpu: Gpu, process: Mapping[str, Any]) -> str:
    """The share of compute units that a process occupies."""
    count = readings.get_gpu_asic_info(gpu)["num_compute_units"]
    return NA if count == NA else f"{100 * process['cu_occupancy'] / count:.1f} %"


def overview(gpus: Sequence[Gpu], version: str, driver: str, rocm: str) -> Iterator[str]:
    """What the command prints without arguments."""
    yield _RULE
    yield f"| AMD-SMI {version:20} amdgpu version: {driver:8} ROCm version: {rocm:9}|"
    yield f"| {'Platform: Linux Baremetal (simulated)':77}|"
    yield from (_HALVES, f"| {'BDF':17}{'GPU-Name':>18} | {'Mem-Uti   Temp   UEC       Power-Usage':39}|")
    yield f"| {'GPU  HIP-ID  OAM-ID  Partition-Mode':35} | {'GFX-Uti    Fan               Mem-Usage':39}|"
    yield _HALVES.replace("-", "=")
    for number, gpu in enumerate(gpus):
        yield from _overview_of(gpu)
        yield _HALVES if number + 1 < len(gpus) else _HALVES.replace("|", "+")
    yield _RULE
    yield f"| {'Processes:':77}|"
    form = "|  {:>3}  {:>9}  {:17}{:>12}{:>10}{:>11}{:>9} |"
    yield form.format("GPU", "PID", "Process Name", "GTT_MEM", "VRAM_MEM", "MEM_USAGE", "CU %")
    yield "|" + "=" * 78 + "|"
    rows = [(gpu, process) for gpu in gpus for process in readings.get_gpu_process_list(gpu)]
    for gpu, process in rows:
        memory = (size_text(process["memory_usage"]["gtt_mem"]), *[size_text(process["mem"])] * 2)
        yield form.format(gpu.number, process["pid"], process["name"][:17], *memory, _units(gpu, process))
    if not rows:
        yield f"|  {'No running processes found':76}|"
    yield _RULE


def _overview_of(gpu: Gpu) -> Iterator[str]:
    def percent(name: str) -> str:
        return text_of(with_unit(gpu.has(name), "%"))

    temperature, watts, limit = gpu.has("temperature"), gpu.has("power_watts"), gpu.has("power_limit")
    power = NA if watts == NA or isinstance(limit, str) else f"{watts}/{limit // 1000} W"
    errors = gpu.has("memory_uncorrected")
    try:
        mode = f"{readings.get_gpu_compute_partition(gpu)}/{readings.get_gpu_memory_partition(gpu)}"
    except AmdSmiLibraryException:
        mode = NA
    usage = readings.get_gpu_vram_usage(gpu)
    memory = f"{usage['vram_used']}/{usage['vram_total']} MB"
    name = readings.get_gpu_asic_info(gpu)["market_name"]
    left = f"{percent('memory_usage'):9}{text_of(with_unit(temperature, 'C')):8}{errors!s:3}"
    yield f"| {gpu.bdf:12} {name[:22]:>22} | {left}{power:>18} |"
    number, fan = str(gpu.number), percent("fan_speed")
    yield f"| {number:>3} {number:>7} {gpu.board.number:>7} {mode:>15} | {percent('usage'):11}{fan:8}{memory:>19} |"


