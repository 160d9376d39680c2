"""The measured points that the boards are calibrated to, and the table of them in doc/simulation.md.

Run it at the root of the project to bring the table up to date: ``PYTHONPATH=. python tests/support/calibration.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.sim.fleet import Fleet
from fakedev.spec.device_types import DeviceType
from tests.support.fleets import advance, make_fleet, pool_of, start
from tests.support.paths import DOCUMENTS

PAGE = DOCUMENTS / "simulation.md"
HOW = "is out of date: run PYTHONPATH=. python tests/support/calibration.py"
_BEGIN, _END = "<!-- calibration: begin -->\n", "<!-- calibration: end -->\n"

#: Ten minutes: many time constants of every lag.
SETTLED_SECONDS = 600
#: How near a point has to be: a share of the power, and kelvins.
POWER_TOLERANCE, HEAT_TOLERANCE = 0.05, 2.0


class Point(NamedTuple):
    """A board as a published measurement showed it, and the work that imitates what it was doing.

    :param work: (kind, load in percent).
    :param inlet_celsius: as assumed: no source tells it. None: that of the type, at which its line of power and
        temperature ends at 0 W.
    :param is_wanted: whether the board has to show this; others are there to see how far off it is.
    """

    board: str
    what: str
    work: tuple[tuple[str, float], ...]
    power_watts: float
    temperature_celsius: float
    memory_temperature_celsius: float | None
    core_frequency_mhz: float
    source: str
    memory_power_watts: float | None = None
    inlet_celsius: float | None = None
    is_wanted: bool = True


CAPTURE = "nvidia-smi -q of one board"
COMPUTE = (("compute", 100),)
#: What a board shows, in the columns of the table.
SHOWN = (
    "power_watts", "memory_power_watts", "temperature_celsius", "memory_temperature_celsius", "core_frequency_mhz",
)  # fmt: skip
POINTS = (
    Point("h100", "idle", (), 69.85, 41, 48, 345, CAPTURE, 43.2),
    Point("h100", "100 % usage, 11 % memory", COMPUTE, 629.45, 59, 55, 1980, CAPTURE, 85.8),
    Point("h200", "idle", (), 77.67, 28, 32, 345, CAPTURE, 46.6),
    Point("h200", "100 % usage, 7 % memory", COMPUTE, 627.3, 52, 41, 1980, CAPTURE, 97.7),
    Point("l40s", "100 % usage, 9 % memory", COMPUTE, 183, 64, None, 2520, CAPTURE),
    Point("l40s", "9 % usage, PCIe at 2 GB/s", (("compute", 8), ("transfer", 8)), 110, 54, None, 2520, CAPTURE),
    Point("a100", "idle", (), 52, 22, 22, 210, "nvidia-smi -q"),
    Point("l40s", "idle, in colder air", (), 34, 32, None, 210, "nvidia-smi", inlet_celsius=27.3),
    Point("a100", "idle, another board", (), 46, 29, 28, 210, "dcgm-exporter", None, 23.7, is_wanted=False),
    Point(
        "a100", "one busy MIG slice of seven", (("tensor", 100 / 7),), 116, 37, 39, 1410, "that board", None, 23.7,
        is_wanted=False,
    ),
)  # fmt: skip


def catalog_type(name: str) -> DeviceType:
    """A device type of the catalog, as a configuration gets it."""
    pool = f"{{name: dgx, nodes: 1, device: {name}, identity: dcgm}}"
    text = f"version: 1\nfleet: {{pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}\n"
    return load(None, Files(environ={}), text=text).fleet.pools[0].device_type


def settled(point: Point, tick_seconds: float = 1.0) -> Fleet:
    """A fleet of one board, the mean one of its type, after ten minutes of a point's work."""
    found = catalog_type(point.board)
    assert found.dynamics is not None
    mean = replace(found, dynamics=replace(found.dynamics, spread=0.0))
    pool = pool_of(device_type=mean, devices_per_node=1, inlet_celsius=point.inlet_celsius)
    fleet = make_fleet(pool, tick_seconds=tick_seconds)
    advance(fleet, 1)
    for kind, percent in point.work:
        start(fleet, profile=f"{percent}:0:0", kind=kind)
    advance(fleet, round(SETTLED_SECONDS / tick_seconds))
    return fleet


def table() -> str:
    """The points, measured and simulated, as a table."""
    lines = [
        "| board | state | stands for it | inlet °C, assumed | source "
        "| power W | memory W | core °C | memory °C | core MHz | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for point in POINTS:
        fleet = settled(point)
        cells = []
        for quantity in SHOWN:
            measured = getattr(point, quantity)
            cells.append("" if measured is None else f"{measured:g} → {round(float(getattr(fleet, quantity)[0]), 2):g}")
        work = ", ".join(f"{kind} {percent:.3g} %" for kind, percent in point.work) or "no work"
        inlet = f"{float(fleet.inlet_temperature_celsius[0]):g}"
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
