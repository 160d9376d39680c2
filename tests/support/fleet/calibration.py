"""The measured points that the boards are calibrated to, and the table of them in doc/simulation.md.

Run it at the root of the project to renew the table: ``PYTHONPATH=. python tests/support/fleet/calibration.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from fakedev.config.load import load
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.schema.files import Files
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start
from tests.support.paths import DOCUMENTS

PAGE = DOCUMENTS / "simulation.md"
HOW = "is out of date: run PYTHONPATH=. python tests/support/fleet/calibration.py"
_BEGIN, _END = "<!-- calibration: begin -->\n", "<!-- calibration: end -->\n"

#: Ten minutes: many time constants of every lag.
SETTLED_SECONDS = 600
#: How near a point has to be: a share of the power, and kelvins.
POWER_TOLERANCE, HEAT_TOLERANCE = 0.1, 4.0


class Point(NamedTuple):
    """A board as a published measurement showed it, and the work that imitates what it was doing.

    :param work: (kind, load in percent); a load of 0: a process that holds a context.
    :param power_watts: as all measured values None where the source does not tell it.
    :param inlet_celsius: as assumed: no source tells it. None: that of the type.
    :param is_wanted: whether the board has to show this; others are there to see how far off it is.
    """

    board: str
    what: str
    work: tuple[tuple[str, float], ...]
    source: str
    power_watts: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    core_frequency_mhz: float | None = None
    memory_power_watts: float | None = None
    inlet_celsius: float | None = None
    is_wanted: bool = True


CAPTURE, TABLES = "nvidia-smi -q of one board", "nvidia-smi tables in public issues"
SMI, ROCM_SMI = "nvidia-smi tables in public repositories", "rocm-smi tables in public repositories"
SWEEP = "a DCGM sweep of one board"
INFERENCE_X = "InferenceX, issue 828"
#: How near a clock has to be that was computed from a throughput, in steps of 15 MHz; as a share.
CLOCK_TOLERANCE = 0.01
COMPUTE, TENSOR, CONTEXT = (("compute", 100),), (("tensor", 100),), (("compute", 0),)
MEMORY = (("memory", 100),)
#: What a board shows, in the columns of the table.
SHOWN = (
    "power_watts", "memory_power_watts", "temperature_celsius", "memory_temperature_celsius", "core_frequency_mhz",
)  # fmt: skip
_WITH_TENSOR = (("compute", 82), ("tensor", 6))
#: Requests that run at once to usage and watts: an average over a run that reads as many tokens as it writes.
GPT_OSS = ((4, 27.3, 159), (8, 29.4, 173), (16, 31.7, 189), (32, 35.1, 205), (64, 24.2, 171))
POINTS = (
    Point("h100", "idle", (), TABLES, 70, 30, None, 345),
    Point("h100", "idle, another board", (), CAPTURE, 69.85, 41, 48, 345, 43.2, is_wanted=False),
    Point("h100", "context, 0 % usage", CONTEXT, "tables of an H800, H100s: 109 to 137 W", 115),
    Point("h100", "100 % usage, 11 % memory", COMPUTE, CAPTURE, 629.45, 59, 55, 1980, 85.8, 31.3),
    Point("h100", "dense bf16 GEMM, 792 TFLOP/s", TENSOR, "MAMF finder", 700, None, None, 1580),
    Point("h100", "a hung collective, 100 % usage", (("hung", 100),), "a table in a public issue", 152),
    *(
        Point("h100", f"gpt-oss-120b, {many} requests", (("memory", usage), ("tensor", 0.9)), INFERENCE_X, watts)
        for many, usage, watts in GPT_OSS
    ),
    Point("h200", "idle", (), CAPTURE, 77.67, 28, 32, 345, 46.6),
    Point("h200", "100 % usage, 7 % memory", COMPUTE, CAPTURE, 627.3, 52, 41, 1980, 97.7),
    Point("h200", "dense bf16 GEMM, 788 TFLOP/s", TENSOR, "MAMF finder", 700, None, None, 1570),
    Point("h200", "LLM decode, the most", (("memory", 100),), "arXiv 2605.11999", 300),
    Point("h200", "SM 60 %, DRAM 24 %", (("compute", 63),), SWEEP, 456, 50, inlet_celsius=30),
    Point("h200", "SM 84 %, DRAM 27 %, tensor 17 %", _WITH_TENSOR, SWEEP, 611, 56, inlet_celsius=30),
    Point("h200", "SM 3.6 %, DRAM 1.8 %", (("compute", 3.8),), SWEEP, 135),
    Point("a100", "idle", (), "nvidia-smi -q", 52, 22, 22, 210, inlet_celsius=16.1),
    Point("a100", "idle, another board", (), "dcgm-exporter", 46, 29, 28, 210),
    Point("a100", "one busy MIG slice of seven", (("compute", 100 / 7),), "that board", 116, 37, 39, 1410),
    Point("a100", "dense bf16 GEMM, 268 TFLOP/s", TENSOR, "MAMF finder", 400, None, None, 1300),
    Point("l40s", "idle", (), "nvidia-smi; scrapes have 30 to 42 W", 34, 32, None, 210),
    Point("l40s", "idle, another board", (), "nvidia-smi", 24, None, None, 210, is_wanted=False),
    Point("l40s", "context, 0 % usage", CONTEXT, "arXiv 2605.23918: 66 W more", 100),
    Point("l40s", "100 % usage, 9 % memory", COMPUTE, CAPTURE, 183, 64, None, 2520, inlet_celsius=38.9),
    Point(
        "l40s", "9 % usage, PCIe at 2 GB/s", (("compute", 8), ("transfer", 8)), CAPTURE, 110, 54, None, 2520,
        inlet_celsius=38.9,
    ),
    Point("t4", "idle", (), "six captures, 8 to 9 W", 8.5, None, None, 300),
    Point("t4", "context, 0 % usage", CONTEXT, "captures", 26.5, None, None, 1590),
    Point("t4", "BERT inference", TENSOR, "mlcommons v0.5, discussion 20", 70, None, None, 900),
    Point("v100", "idle", (), "captures, 34 to 41 W", 37.5, None, None, 135),
    Point("v100", "context, 0 % usage", CONTEXT, "a table in a public issue", 53),
    Point("v100", "LLM decode", MEMORY, "1Cat-vLLM, issue 535: 180 to 200 W", 190),
    Point("v100", "LLM prefill", TENSOR, "1Cat-vLLM, issue 535: 270 to 300 W", 285),
    Point("v100", "100 % usage, spinning", (("hung", 100),), "that board", 66),
    Point("mi300x", "LLM decode, 79 % usage", (("memory", 79),), INFERENCE_X, 356),
    Point("mi300x", "dense bf16 GEMM, 782 TFLOP/s", TENSOR, "MAMF finder", 750, None, None, 1360),
    Point("l4", "idle", (), "nvidia-smi -q, and a scrape of dcgm-exporter", 16.4, 32, None, 210),
    Point("l4", "context, 0 % usage", CONTEXT, f"{SMI}: 35 to 37 W", 36, None, None, 2040),
    Point("l4", "100 % usage", COMPUTE, SMI, 71, 58),
    Point("a10", "idle", (), CAPTURE, 15.65, 33),
    Point("a10", "context, 0 % usage", CONTEXT, f"{SMI}: 54 to 58 W", 56),
    Point("a10", "91 % usage", (("compute", 91),), SMI, 148, 49, is_wanted=False),
    Point("a30", "idle", (), f"{SMI}: 27 to 35 W", 30, 31),
    Point("rtx-4000-ada", "idle", (), f"{SMI}: 4 to 12 W", 10, 34),
    Point("rtx-4000-ada", "context, 0 % usage", CONTEXT, "dcgm-exporter", 40.98, 48, None, 2310),
    Point("rtx-4090", "idle", (), f"{SMI}: 13 to 20 W", 16, 33, None, 210),
    Point("rtx-4090", "context, 0 % usage", CONTEXT, SMI, 65, 36),
    Point("rtx-4090", "LLM decode", MEMORY, "club-3090, issue 697", 246, None, None, 2820),
    Point("rtx-4090", "90 to 100 % usage", COMPUTE, f"{SMI}: 362 and 435 W", 398, 60),
    Point("p100", "idle", (), f"{SMI}: 25 to 40 W", 32, 30),
    Point("p100", "context, 0 % usage", CONTEXT, SMI, 50),
    Point("p100", "82 % usage", (("compute", 82),), SMI, 214, 49),
    Point("p100", "99 % usage, another board", (("compute", 99),), SMI, 196, 49, is_wanted=False),
    Point("v100-32gb", "idle", (), CAPTURE, 39.78, 38, 34, 135, inlet_celsius=33.4),
    Point("v100-32gb", "88 % usage", (("compute", 88),), SMI, 183, 60, is_wanted=False),
    Point("a800", "idle", (), f"{SMI}: 55 to 62 W", 58, 28),
    Point("h800", "idle", (), CAPTURE, 74.71, 35, 44, 345),
    Point("h800", "context, 0 % usage", CONTEXT, f"{SMI}: 115 to 124 W", 119),
    Point("b200", "idle", (), "an hour's log of two boards", 144, 30, None, 120),
    Point("b200", "context, 0 % usage", CONTEXT, f"{SMI}: 187 to 197 W", 192, 32),
    Point("b200", "100 % usage", COMPUTE, "TensorRT-LLM, issue 5391: 715 to 766 W", 746, 54.5),
    Point("b200", "dense bf16 GEMM, 1745 TFLOP/s", TENSOR, "MAMF finder", 1000, None, None, 1548),
    Point("gb200", "idle", (), "dcgm-exporter", 166, 27, None, 120),
    Point("a10g", "idle", (), f"{SMI}: 8 to 15 W", 13, 25),
    Point("a10g", "context, 0 % usage", CONTEXT, f"{CAPTURE}, {SMI}: 56 to 60 W", 60, 27, None, 1710),
    Point("a10g", "100 % usage", COMPUTE, SMI, 257, 54),
    Point("a10g", "95 % usage, another board", (("compute", 95),), SMI, 112, 33, is_wanted=False),
    Point("l40", "idle", (), f"{SMI}: 34 and 35 W", 35, 27),
    Point("l40", "context, 0 % usage", CONTEXT, f"{SMI}: 75 and 83 W", 79),
    Point("l40", "100 % usage", COMPUTE, f"{SMI}: 244 to 269 W", 269, 51),
    Point("a40", "idle", (), f"{SMI}: 22 to 25 W", 23, 28),
    Point("a40", "context, 0 % usage", CONTEXT, SMI, 81, 30, is_wanted=False),
    Point("a40", "100 % usage", COMPUTE, SMI, 302, 54, is_wanted=False),
    Point("a40", "100 % usage, another board", COMPUTE, SMI, 232, 76, is_wanted=False),
    Point("h20", "idle", (), f"{SMI}: 72 to 76 W", 74, 28),
    Point("l20", "idle", (), CAPTURE, 36.13, 29, None, 210),
    Point("l20", "context, 0 % usage", CONTEXT, f"{SMI}: 73 W, warmer boards 94 and 114", 73, 29, is_wanted=False),
    Point("b300", "idle", (), f"{SMI}: 135 to 185 W", 160, 28),
    Point("b300", "gpu_burn, seven boards", COMPUTE, f"{SMI}: 844 to 882 W", 862, 57),
    Point("rtx-pro-6000", "idle", (), f"{SMI}: 28 to 35 W", 33, 30),
    Point("rtx-pro-6000", "100 % usage", COMPUTE, SMI, 599, 80, is_wanted=False),
    Point("gh200", "idle", (), CAPTURE, 87.88, 31, 39, 345),
    Point("mi250x", "idle", (), f"{ROCM_SMI}, MI250 series: 82 to 102 W", 92, 39, None, 800),
    Point("mi325x", "idle", (), ROCM_SMI, 140, 39, None, 131),
    Point("mi325x", "LLM decode", MEMORY, "InferenceX, pull request 874: 4,041 W of eight", 505),
    Point("mi325x", "dense bf16 GEMM, 831 TFLOP/s", TENSOR, "AMD, at 1000 W", 1000, None, None, 1435),
    Point("gb300", "idle", (), f"{SMI}: 172 to 237 W", 203, 31),
    Point("gb10", "idle", (), f"{SMI}: 3 and 4 W", 4, 34),
    Point("gb10", "96 % usage", COMPUTE, SMI, 105, 74),
    Point("gb10", "96 % usage, other work", COMPUTE, SMI, 44, 63, is_wanted=False),
    Point("rtx-pro-4500", "idle", (), SMI, 6, 28),
    Point("rtx-2080-super", "idle, a desktop", (), f"{CAPTURE}, four", 39.2, 38),
    Point("rtx-4080-super", "idle, a desktop", (), CAPTURE, 26.2, 43, None, 210),
    Point("mi355x", "idle", (), f"{ROCM_SMI}: 238 to 272 W", 255, 44, None, 94),
    Point("mi355x", "94 % usage, eight boards", COMPUTE, f"{ROCM_SMI}: 1219 to 1249 W", 1231, 55),
    Point("mi300a", "idle", (), f"{ROCM_SMI}: 102 to 127 W", 115, 31, None, 94),
    Point("w7900", "idle", (), f"{ROCM_SMI}: 7 to 19 W", 10, 30),
    Point("gaudi-3", "idle", (), "hl-smi", 226, 36.5),
    Point("gaudi-3", "dense bf16 GEMM, 1289 TFLOP/s", TENSOR, "MAMF finder", 900, None, None, 1322),
)  # fmt: skip


def catalog_names() -> tuple[str, ...]:
    """The names of all device types of the catalog."""
    return tuple(file.removesuffix(".yaml") for file in Files(environ={}).catalog_names("devices"))


@cache
def catalog_type(name: str) -> DeviceType:
    """A device type of the catalog, as a configuration gets it."""
    pool = f"{{name: dgx, nodes: 1, device: {name}, identity: dcgm}}"
    text = f"version: 1\nfleet: {{pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}\n"
    return load(None, Files(environ={}), text=text).fleet.pools[0].device_type


def steady_type(name: str) -> DeviceType:
    """A device type of the catalog whose power does not fluctuate, in air that does not drift."""
    found = catalog_type(name)
    assert found.dynamics is not None
    return replace(found, dynamics=replace(found.dynamics, power_noise=0.0, inlet_drift_celsius=0.0))


def mean_type(name: str) -> DeviceType:
    """As :func:`steady_type`, with boards that are all alike."""
    found = steady_type(name)
    assert found.dynamics is not None
    return replace(found, dynamics=replace(found.dynamics, spread=0.0, inlet_spread_celsius=0.0))


@cache
def settled(tick_seconds: float) -> Mapping[Point, Mapping[str, float]]:
    """What each point's board shows, the mean one of its type, after ten minutes of the point's work.

    All are boards of one fleet, each alone in its pool: a fleet of each would take a hundred times as long.
    """
    fleet = make_fleet(
        *(
            pool_of(f"p{number}", device_type=mean_type(point.board), devices_per_node=1,
                    inlet_celsius=point.inlet_celsius)
            for number, point in enumerate(POINTS)
        ),
        tick_seconds=tick_seconds,
    )  # fmt: skip
    advance(fleet, 1)
    for number, point in enumerate(POINTS):
        for kind, percent in point.work:
            if kind == "hung":
                start(fleet, f"p{number}-0/0", "0:0:0", metrics={"hung": "1:0:0"})
            else:
                start(fleet, f"p{number}-0/0", f"{percent}:0:0", kind=kind)
    advance(fleet, round(SETTLED_SECONDS / tick_seconds))
    shown = (*SHOWN, "inlet_temperature_celsius")
    return {
        point: {quantity: float(getattr(fleet, quantity)[number]) for quantity in shown}
        for number, point in enumerate(POINTS)
    }


def table() -> str:
    """The points, measured and simulated, as a table."""
    lines = [
        "| board | state | stands for it | inlet °C, assumed | source "
        "| power W | memory W | core °C | memory °C | core MHz | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for point, found in settled(1.0).items():
        cells = []
        for quantity in SHOWN:
            measured = getattr(point, quantity)
            cells.append("" if measured is None else f"{measured:g} → {round(found[quantity], 2):g}")
        work = ", ".join(f"{kind} {percent:.3g} %" for kind, percent in point.work) or "no work"
        work = {"compute 0 %": "a context", "hung 100 %": "a hang"}.get(work, work)
        inlet = f"{found['inlet_temperature_celsius']:g}"
        verdict = "calibrated" if point.is_wanted else "for comparison"
        lines.append(f"| {' | '.join([point.board, point.what, work, inlet, point.source, *cells, verdict])} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, "no place for the table"
    return before + _BEGIN + table() + _END + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
