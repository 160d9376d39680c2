"""Draws the plots of doc/simulation.md, from the simulation itself.

Run it at the root of the project: ``PYTHONPATH=. python doc/plots/draw.py [FOLDER [NAME ...]]``; without a folder the
committed plots are written again, without names all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from charts import Chart, Panel
from heat_maps import HeatMap, HeatMaps

from fakedev.config.load import load
from fakedev.fleet.events import StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.named_profiles import PROFILES
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.schema.files import Files

HERE = Path(__file__).resolve().parent
_SHOWN = (
    "usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius", "memory_temperature_celsius",
    "throttled_power", "throttled_thermal",
)  # fmt: skip
#: Seconds between two values of a long plot.
_STEP = 4
_USAGE, _CLOCK, _POWER, _HEAT = "#2a6fb0", "#6a3d9a", "#c2571a", "#b0242b"


class Job(NamedTuple):
    """A workload on the one board: when it starts, its kind and profile."""

    at_second: int
    kind: str
    profile: str


def history(device: str, seconds: int, jobs: Sequence[Job], base: str = "") -> dict[str, list[float]]:
    """What one board shows, second by second.

    :param base: a workload that is there from the beginning, as the configuration has it.
    """
    text = f"""
version: 1
fleet: {{seed: 7, epoch: 0, pools: [{{name: dgx, nodes: 1, device: {device}, devices-per-node: 1, identity: dcgm}}]}}
web: []
workloads: {{listen: [], base: [{base}]}}
"""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    shown: dict[str, list[float]] = {name: [float(getattr(fleet, name)[0])] for name in _SHOWN}
    for second in range(seconds):
        for job in jobs:
            if job.at_second == second:
                fields = {"name": "job", "devices": "card0", "kind": job.kind, "profile": job.profile}
                fleet.apply(StartWorkload(workload_from_fields(fields)))
        fleet.advance()
        for name, values in shown.items():
            values.append(float(getattr(fleet, name)[0]))
    return shown


def usage(shown: dict[str, list[float]]) -> Panel:
    """The panel of the usage."""
    return Panel("usage (%)", [100 * value for value in shown["usage_ratio"]], (0, 25, 50, 75, 100), _USAGE)


def clock(shown: dict[str, list[float]]) -> Panel:
    """The panel of the core clock."""
    return Panel("clock (MHz)", shown["core_frequency_mhz"], (0, 500, 1000, 1500, 2000), _CLOCK)


def power(shown: dict[str, list[float]], limit: tuple[float, str] | None = None) -> Panel:
    """The panel of the power."""
    return Panel("power (W)", shown["power_watts"], (0, 200, 400, 600, 800), _POWER, limit)


def ten_minute_job() -> Chart:
    """Ten minutes of training: data is read, then work, a checkpoint, work again."""
    shown = history("h100", 13 * 60, [Job(60, "compute", "12:6:40,93:6:260,8:4:20,93:6:280")])
    heat = Panel("core (°C)", shown["temperature_celsius"], (35, 40, 45, 50, 55, 60), _HEAT)
    panels = [usage(shown), clock(shown), power(shown), heat]
    return Chart("A ten-minute job on an H100 (minute 1 to 11)", panels, 13)


def thermal_throttle() -> Chart:
    """An H100 whose cooling is blocked (blocked-h100.yaml): full load, then less, then none."""
    shown = history(str(HERE / "blocked-h100.yaml"), 15 * 60, [Job(60, "compute", "100:0:420,40:0:180")])
    limit = (87.0, "slowdown at 87 °C")
    heat = Panel("core (°C)", shown["temperature_celsius"], (40, 55, 70, 85, 100), _HEAT, limit)
    return Chart(
        "Heat throttles: an H100 with a blocked heat sink, load 100 %, then 40 %",
        [usage(shown), heat, clock(shown), power(shown)],
        15,
        shaded=[flag > 0 for flag in shown["throttled_thermal"]],
        shade_means="throttled by heat",
    )


def power_throttle() -> Chart:
    """Tensor work on an H100, more each minute."""
    profile = "50:0:60,70:0:60,90:0:60,93:0:60,96:0:60,100:0:60"
    shown = history("h100", 9 * 60, [Job(60, "tensor", profile)])
    # The idle clock is far below this axis, which is there to show the steps.
    clocks = [max(value, 1800.0) for value in shown["core_frequency_mhz"]]
    frequency = Panel("clock (MHz)", clocks, (1800, 1850, 1900, 1950, 2000), _CLOCK, note="idle: 345 MHz, off scale")
    limited = power(shown, (700.0, "power limit 700 W"))
    return Chart(
        "The power limit throttles: tensor work on an H100, more each minute",
        [usage(shown), limited, frequency],
        9,
        shaded=[flag > 0 for flag in shown["throttled_power"]],
        shade_means="throttled by the power limit",
    )


def value_function(profile: str) -> Panel:
    """The usage of five minutes of one profile."""
    shown = history("h100", 5 * 60, [Job(0, "compute", profile)])
    return Panel("usage (%)", [100 * value for value in shown["usage_ratio"][1:]], (0, 50, 100), _USAGE, note=profile)


def recorded(join: str) -> Panel:
    """The usage of five minutes of a recorded series."""
    base = f"{{name: recorded, repeat: 1, profile: {{csv: {HERE / 'series.csv'}, join: {join}}}}}"
    shown = history("h100", 5 * 60, [], base)
    note = f"profile: {{csv: series.csv, join: {join}}}"
    return Panel("usage (%)", [100 * value for value in shown["usage_ratio"][1:]], (0, 50, 100), _USAGE, note=note)


def value_functions() -> Chart:
    """Value functions that are the same for all workloads."""
    profiles = (
        "ramp(0,90):0:200,ramp(90,60):0:100",
        "sine(50,30,1m30s)",
        "square(10,90,60s,0.25)",
        "spike(20,95,10s,1m15s)",
        "steps(10,40,80,30):0:240,20",
    )
    return Chart("Value functions", [value_function(profile) for profile in profiles], 5)


def drawn_values() -> Chart:
    """Values with chance in them, and recorded ones."""
    profiles = ("50:20", "random(20,80,10s)", "increase(5,95,10s):0:300")
    panels = [*(value_function(profile) for profile in profiles), recorded("hold"), recorded("linear")]
    return Chart("Fluctuation, random values and recorded series", panels, 5)


def named_profiles(quantity: str, title: str, ticks: Sequence[float], names: Sequence[str], scale: float) -> Chart:
    """Half an hour of devices with named profiles, one each."""
    listed = ", ".join(names)
    text = f"""
version: 1
fleet:
  seed: 7
  epoch: 0
  pools: [{{name: dgx, nodes: 1, device: h100, devices-per-node: {len(names)}, profile: [{listed}], identity: dcgm}}]
web: []
workloads: {{listen: []}}
"""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    values: list[list[float]] = [[] for _ in names]
    for second in range(30 * 60 + 1):
        for shown, value in zip(values, getattr(fleet, quantity).tolist(), strict=True):
            if second % _STEP == 0:
                shown.append(scale * value)
        fleet.advance()
    panels = [
        Panel(name, shown, ticks, _USAGE if quantity == "usage_ratio" else _HEAT)
        for name, shown in zip(names, values, strict=True)
    ]
    return Chart(title, panels, 30, _STEP)


def profiles() -> Chart:
    """What each named profile asks of a device."""
    return named_profiles("usage_ratio", "Named profiles: usage of H100s (%)", (0, 50, 100), list(PROFILES), 100.0)


def day() -> Chart:
    """A day of one device with each profile that changes over it."""
    names = ("training", "inference", "notebook", "light", "batch", "failing")
    text = f"""
version: 1
fleet:
  seed: 7
  epoch: 0
  tick: 60s
  pools: [{{name: dgx, nodes: 1, device: h100, devices-per-node: 6, profile: [{", ".join(names)}], identity: dcgm}}]
web: []
workloads: {{listen: []}}
"""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    values: list[list[float]] = [[] for _ in names]
    for _ in range(24 * 60):
        fleet.advance()
        for shown, value in zip(values, fleet.usage_ratio.tolist(), strict=True):
            shown.append(100 * value)
    panels = [Panel(name, shown, (0, 50, 100), _USAGE) for name, shown in zip(names, values, strict=True)]
    return Chart("A day: usage of H100s by minute (%)", panels, 24, 60.0, unit_seconds=3600)


def day_of_64() -> HeatMaps:
    """A day of 64 boards: four servers that train, one with a service, one with notebooks, two of a shared cluster."""
    uses = ("training", "training", "training", "training", "inference", "notebook", "cluster", "cluster")
    pools = "".join(
        f"    - {{name: dgx-{number}, nodes: 1, device: h100, devices-per-node: 8, profile: {use}, identity: dcgm}}\n"
        for number, use in enumerate(uses)
    )
    text = f"""
version: 1
fleet:
  seed: 7
  epoch: 0
  tick: 15s
  pools:
{pools}web: []
workloads: {{listen: []}}
"""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    quantities = (("usage_ratio", 100.0, "usage %", (0, 100)), ("power_watts", 1.0, "power W", (50, 700)),
                  ("temperature_celsius", 1.0, "core °C", (25, 65)))  # fmt: skip
    found: list[list[list[float]]] = [[] for _ in quantities]
    for tick in range(24 * 60 * 4):
        fleet.advance()
        if tick % 12 == 11:
            for values, (name, factor, *_) in zip(found, quantities, strict=True):
                values.append([factor * value for value in getattr(fleet, name).tolist()])
    maps = [
        HeatMap(label, list(zip(*values, strict=True)), ends)
        for values, (_, _, label, ends) in zip(found, quantities, strict=True)
    ]
    return HeatMaps("A day of 64 H100s, every three minutes", maps, 24)


def profiles_heat() -> Chart:
    """How devices with faults get warm, beside one without."""
    names = ("stable", "degrading", "faulty", "chaos")
    return named_profiles("temperature_celsius", "The same, with faults: core (°C)", (40, 60, 80, 100), names, 1.0)


PLOTS = {
    "value-functions": value_functions,
    "drawn-values": drawn_values,
    "job": ten_minute_job,
    "thermal-throttle": thermal_throttle,
    "power-throttle": power_throttle,
    "profiles": profiles,
    "day": day,
    "day-of-64": day_of_64,
    "profiles-heat": profiles_heat,
}


def main() -> None:
    """Draw the plots."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else HERE
    for name in sys.argv[2:] or PLOTS:
        (folder / f"{name}.svg").write_text(PLOTS[name]().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
