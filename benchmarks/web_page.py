"""How fluent the web page is, and what a viewer costs: a real Chromium beside the service."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from time import sleep
from typing import Final

from fleets import dcgm
from programs import Program, fakedev
from prometheus_client.parser import text_string_to_metric_families
from results import Section, Target, ms

from tests.support.programs.browser import Browser

_SECONDS: Final = 10
#: Counts what is drawn, and the tasks that take longer than 50 ms, for so many seconds.
_WATCH: Final = """
new Promise((done) => {
  const frames = [], tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries())).observe({type: "longtask"});
  const began = performance.now();
  let last = began;
  function frame(now) {
    frames.push(now - last);
    last = now;
    if (now - began < SECONDS * 1000) requestAnimationFrame(frame);
    else done(JSON.stringify({frames: frames.length / SECONDS, longest: Math.max(...frames), tasks: tasks.length}));
  }
  requestAnimationFrame(frame);
})
""".replace("SECONDS", str(_SECONDS))


def web_page() -> Section:
    """The map while every device changes."""
    section = Section(
        "The web page",
        f"""
The page in a Chromium without a window or a graphics card, on the same machine as the service. Every device has a
fluctuating load, so most cells of the map change with each tick. Measured for {_SECONDS} s: how often the page
could be redrawn, the longest time between two redraws, tasks of the page that took longer than 50 ms, the
duration of the service's ticks meanwhile, and the share of a processor that the service used, with the page open
and without viewers.
""",
        ["drawn", "longest pause", "long tasks", "tick", "service, with viewers", "no viewers"],
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        section.add("there is no Chromium here", *6 * ["-"])
        return section
    for devices in (80, 10_000):
        with fakedev(dcgm(devices)) as (program,), tempfile.TemporaryDirectory() as folder:
            began = program.cpu_seconds()
            sleep(_SECONDS)
            alone = (program.cpu_seconds() - began) / _SECONDS
            browser = Browser(chromium, Path(folder), 1440, 900)
            try:
                browser.open(f"http://{program.web}/")
                browser.until("document.querySelector('.map canvas')?.height > 100")
                ticks = _ticks(program)
                began = program.cpu_seconds()
                found = json.loads(browser.value(_WATCH))
                looked_at = (program.cpu_seconds() - began) / _SECONDS
                mean = _mean(ticks, _ticks(program))
            finally:
                browser.close()
        section.add(
            f"{devices:,} devices", f"{found['frames']:.0f}/s", f"{found['longest']:.0f} ms", str(found["tasks"]),
            ms(mean), f"{100 * looked_at:.1f} %", f"{100 * alone:.1f} %",
            judged=found["frames"], target=Target(30, most=False, unit="/s"),
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
