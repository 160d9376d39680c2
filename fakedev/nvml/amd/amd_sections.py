"""The sections of ``amd-smi``: their values, as objects for JSON, as texts, and as cells of CSV.

A number with a unit is ``{"value": 567, "unit": "W"}`` in JSON and ``567 W`` in a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from fakedev.nvml.amd import readings
from fakedev.nvml.amd.amdsmi_names import NAMES, AmdSmiLibraryException, blocks
from fakedev.nvml.amd.gpu import NA, Gpu

#: Degrees have a sign in texts alone.
_SHOWN_UNITS: Final = {"C": "°C"}
_CLOCK_KEYS: Final = ("clk", "min_clk", "max_clk", "clk_locked", "deep_sleep")


class Row(NamedTuple):
    """A value of a section; without a key it is all keys of the section."""

    key: str
    source: str
    unit: str


class Section(NamedTuple):
    """A section of a command.

    :ivar options: that choose it.
    :ivar is_usual: it is shown when no option chooses one.
    :ivar source: its only value; empty: it has rows.
    """

    name: str
    options: tuple[str, ...]
    is_usual: bool
    source: str
    rows: tuple[Row, ...]


@cache
def sections() -> Mapping[str, tuple[Section, ...]]:
    """The sections of each command, in order."""
    found: dict[str, tuple[Section, ...]] = {}
    for command, lines in blocks("sections.txt").items():
        of_command: list[Section] = []
        for line in lines:
            if line.startswith(" "):
                key, source, unit = (*(part.strip() for part in line.split("|")), "", "")[:3]
                row = Row(key, source, unit) if source else Row("", key, "")
                of_command[-1] = of_command[-1]._replace(rows=(*of_command[-1].rows, row))
            else:
                head, _, source = line.partition(" = ")
                name, *options = head.split(" ")
                of_command.append(Section(name.rstrip("?"), tuple(options), not name.endswith("?"), source, ()))
        found[command] = tuple(of_command)
    return found


def read_section(gpu: Gpu, section: Section) -> Any:
    """The values of a section, for JSON."""
    if section.source:
        return _read(gpu, section.source)
    if not section.rows[0].key:
        return _read(gpu, section.rows[0].source)
    return {row.key: with_unit(_read(gpu, row.source), row.unit) for row in section.rows}


def read_rows(gpu: Gpu, rows: Sequence[Row]) -> dict[str, Any]:
    """The values of some rows, for JSON."""
    return {row.key: with_unit(_read(gpu, row.source), row.unit) for row in rows}


def _read(gpu: Gpu, source: str) -> Any:
    source, _, words = source.partition(" : ")
    path, _, divisor = source.partition(" / ")
    try:
        if path.startswith("@"):
            found = _FUNCTIONS[path[1:]](gpu)
        else:
            name, *keys = path.split(".")
            found = (vars(readings).get(f"get_{name}") or vars(readings)[name])(gpu)
            for key in keys:
                found = found[key]
    except AmdSmiLibraryException:
        return NA
    if isinstance(found, list) and found and isinstance(found[0], list):
        found = {f"xcp_{number}": row for number, row in enumerate(found[: max(1, len(gpu.board.parts))])}
    if words:
        return _in_words(found, words.split(", "))
    if divisor and not isinstance(found, str):
        return int(found / int(divisor))
    return found


def _in_words(found: Any, words: Sequence[str]) -> Any:
    if isinstance(found, dict):
        return {key: _in_words(item, words) for key, item in found.items()}
    if isinstance(found, list):
        return [_in_words(item, words) for item in found]
    return found if found == NA else words[bool(found)]


def with_unit(found: Any, unit: str) -> Any:
    """A value, or each of several, with its unit."""
    if isinstance(found, dict):
        return {key: with_unit(item, unit) for key, item in found.items()}
    if isinstance(found, list):
        return [with_unit(item, unit) for item in found]
    return found if not unit or isinstance(found, str) else {"value": found, "unit": unit}


def is_quantity(value: Any) -> bool:
    """Whether it is a number with a unit."""
    return isinstance(value, dict) and value.keys() == {"value", "unit"}


def text_of(value: Any) -> str:
    """A value on one line."""
    if is_quantity(value):
        return f"{value['value']} {_SHOWN_UNITS.get(value['unit'], value['unit'])}"
    return f"[{', '.join(map(text_of, value))}]" if isinstance(value, list) else str(value)


def text_lines(values: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The lines of some values, as ``KEY: VALUE``."""
    for key, value in values.items():
        head = f"{'    ' * depth}{key.upper()}:"
        if isinstance(value, dict) and not is_quantity(value):
            yield head
            yield from text_lines(value, depth + 1)
        else:
            yield f"{head} {text_of(value)}"


def csv_cells(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """The cells of some values by the names of their columns: a section is not a part of them."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if is_quantity(value):
            found[prefix + key] = value["value"]
        elif isinstance(value, dict):
            found |= csv_cells(value, f"{prefix}{key}_" if depth else "", depth + 1)
        else:
            found[prefix + key] = value
    return found


def _clock_rows(gpu: Gpu) -> dict[str, Any]:
    """All clocks; of most only the names, as they are not simulated."""
    names = NAMES.enumerations["AmdSmiClkType"]
    chips = sum(clock != NA for clock in readings.get_gpu_metrics_info(gpu)["current_gfxclks"])
    found = {}
    for kind, count, name in ((names.GFX, chips, "gfx"), (names.MEM, 1, "mem")):
        clock = readings.get_clock_info(gpu, kind)
        for number in range(count):
            found[f"{name}_{number}"] = {
                **{key: with_unit(clock[key], "MHz") for key in ("clk", "min_clk", "max_clk")},
                "clk_locked": "DISABLED" if name == "gfx" else NA,
                "deep_sleep": "ENABLED" if clock["clk_deep_sleep"] else "DISABLED",
            }
    for name in ("vclk", "dclk"):
        found |= {f"{name}_{number}": dict.fromkeys(_CLOCK_KEYS, NA) for number in range(4)}
    return found | {name: dict.fromkeys(_CLOCK_KEYS, NA) for name in ("fclk_0", "socclk_0")}


def _levels(gpu: Gpu, kind: str) -> dict[str, Any]:
    found = readings.get_clk_freq(gpu, NAMES.enumerations["AmdSmiClkType"][kind])
    steps = {f"Level {number}": f"{hertz // 1_000_000} MHz" for number, hertz in enumerate(found["frequency"])}
    return {"current level": found["current"], "frequency_levels": steps}


def _temperature(gpu: Gpu, kind: str, metric: str) -> int:
    kinds, metrics = (NAMES.enumerations[f"AmdSmiTemperature{suffix}"] for suffix in ("Type", "Metric"))
    return readings.get_temp_metric(gpu, kinds[kind], metrics[metric])


def _block(gpu: Gpu, name: str) -> dict[str, int]:
    return readings.get_gpu_ecc_count(gpu, NAMES.enumerations["AmdSmiGpuBlock"][name])


def _block_states(gpu: Gpu) -> dict[str, str]:
    return {block["block"]: block["status"] for block in readings.get_gpu_ras_block_features_enabled(gpu)}


def _energy(gpu: Gpu) -> float:
    found = readings.get_energy_count(gpu)
    return round(found["energy_accumulator"] * found["counter_resolution"] / 1e6, 3)


def _memory_type(gpu: Gpu) -> str:
    names = NAMES.constants["amdsmi_vram_type_t__enumvalues"]
    return str(names[readings.get_gpu_vram_info(gpu)["vram_type"]]).removeprefix("AMDSMI_VRAM_TYPE_")


def free_memory(gpu: Gpu) -> int:
    """In MiB, what the command calls MB."""
    found = readings.get_gpu_vram_usage(gpu)
    return found["vram_total"] - found["vram_used"]


def _memory_percent(gpu: Gpu) -> float:
    found = readings.get_gpu_vram_usage(gpu)
    return round(100 * found["vram_used"] / found["vram_total"], 2)


def _decoder(gpu: Gpu) -> Any:
    return readings.get_gpu_metrics_info(gpu)["xcp_stats.vcn_busy"][gpu.partition][0]


def _mebibytes(gpu: Gpu, way: str) -> int:
    """Traffic by the packets of a second, as the command counts it, with its unit."""
    found = readings.get_gpu_pci_throughput(gpu)
    return int(found[way] * found["max_pkt_sz"] // 1_048_576)


#: What ``@`` calls in the catalog.
_FUNCTIONS: Final[Mapping[str, Callable[[Gpu], Any]]] = {
    "missing": lambda gpu: NA,
    "pcie_generation": lambda gpu: f"Gen {gpu.must('pcie_generation_max')}",
    "memory_type": _memory_type,
    "slowdown_edge": lambda gpu: _temperature(gpu, "EDGE", "CRITICAL"),
    "slowdown_hotspot": lambda gpu: _temperature(gpu, "HOTSPOT", "CRITICAL"),
    "shutdown_edge": lambda gpu: _temperature(gpu, "EDGE", "EMERGENCY"),
    "shutdown_hotspot": lambda gpu: _temperature(gpu, "HOTSPOT", "EMERGENCY"),
    "ecc_states": _block_states,
    "ecc_blocks": lambda gpu: {name: _block(gpu, name) for name in ("UMC", "SDMA", "GFX", "MMHUB")},
    "cache_corrected": lambda gpu: _block(gpu, "GFX")["correctable_count"],
    "cache_uncorrected": lambda gpu: _block(gpu, "GFX")["uncorrectable_count"],
    "clock_levels": lambda gpu: _levels(gpu, "GFX"),
    "memory_clock_levels": lambda gpu: _levels(gpu, "MEM"),
    "clocks": _clock_rows,
    "gfx_busy": lambda gpu: readings.get_gpu_metrics_info(gpu)["xcp_stats.gfx_busy_inst"],
    "jpeg_busy": lambda gpu: readings.get_gpu_metrics_info(gpu)["xcp_stats.jpeg_busy"],
    "vcn_busy": lambda gpu: readings.get_gpu_metrics_info(gpu)["xcp_stats.vcn_busy"],
    "decoder": _decoder,
    "pcie_sent": lambda gpu: _mebibytes(gpu, "sent"),
    "pcie_received": lambda gpu: _mebibytes(gpu, "received"),
    "joules": _energy,
    "vram_free": free_memory,
    "vram_percent": _memory_percent,
    "xgmi_errors": lambda gpu: f"AMDSMI_XGMI_STATUS_{readings.gpu_xgmi_error_status(gpu).name}",
}
