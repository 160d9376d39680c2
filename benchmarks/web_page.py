"""How fluent the web page is, and what a viewer costs: a real Chromium beside the service."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from statistics import median, quantiles
from time import sleep
from typing import Final

from fleets import dcgm
from programs import HERE, Program, fakedev
from prometheus_client.parser import text_string_to_metric_families
from results import Section, Target, ms

_SECONDS: Final = 20


def web_page() -> Section:
    """The map while every device changes."""
    section = Section(
        "The web page",
        f"""
The page in a Chromium without a window or a graphics card, on the same machine as the service. Every device has a
fluctuating load, so most cells of the map change with each tick. Measured for {_SECONDS} s: the time that each frame
of the live stream takes in the page, from its arrival to the end of its drawing (script, style, layout and paint of
the main thread; of 60 redraws a second each may take 16.7 ms), and the processor time of the page's thread for each
frame, which other programs of the machine do not lengthen; how often the page could be redrawn, and the longest
time between two redraws; the memory of its script after a collection, and all private memory of its process; the
duration of the service's ticks meanwhile, and the share of a processor that the service used, with the page open and
without viewers.
""",
        [
            *("processor", "frame", "p95", "longest", "drawn", "longest pause", "script memory", "process"),
            *("tick", "service, with a viewer", "no viewer"),
        ],
    )
    if shutil.which("chromium") is None:
        section.add("there is no Chromium here", *11 * ["-"])
        return section
    for devices in (80, 10_000):
        with fakedev(dcgm(devices)) as (program,):
            sleep(3)
            began = program.cpu_seconds()
            sleep(_SECONDS)
            alone = (program.cpu_seconds() - began) / _SECONDS
            address = f"http://{program.web}/#fleet?view=Map"
            command = [sys.executable, str(HERE / "page_viewer.py"), address, str(_SECONDS)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
                assert viewer.stdout is not None
                viewer.stdout.readline()
                ticks, began = _ticks(program), program.cpu_seconds()
                found = json.loads(viewer.stdout.readline())
                looked_at = (program.cpu_seconds() - began) / _SECONDS
                mean = _mean(ticks, _ticks(program))
        costs = found["costs"]
        section.add(
            f"{devices:,} devices", f"{found['cpu']:.1f} ms", f"{median(costs):.1f} ms",
            f"{quantiles(costs, n=20)[-1]:.1f} ms",
            f"{max(costs):.1f} ms", f"{found['redraws']:.0f}/s", f"{found['longest']:.0f} ms",
            f"{found['heap'] / 1e6:.0f} MB", f"{found['private'] / 1e6:.0f} MB", ms(mean),
            f"{100 * looked_at:.1f} %", f"{100 * alone:.1f} %",
            judged=found["cpu"], target=Target(16, unit=" ms"),
        )  # fmt: skip
    return section


def _ticks(program: Program) -> tuple[float, float]:
    """How many ticks there were, and the seconds that they took together."""
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(program.get("/-/metrics").decode())
        if family.name == "fakedev_tick_duration_seconds"
        for sample in family.samples
    }
    return found["fakedev_tick_duration_seconds_count"], found["fakedev_tick_duration_seconds_sum"]


def _mean(before: tuple[float, float], after: tuple[float, float]) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])
