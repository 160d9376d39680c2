"""A hundred racks: their tick, beside that of the same boards without racks; the page of a node with 144 cores."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

from results import Section, Target, ms

_RACKS = 100
_ROUNDS = 31
#: Rows of cores: five of use and one of clocks, as some who watch such nodes have them.
_COUNTERS = "".join(f"DCGM_FI_DEV_CPU_{name}, gauge, of a core\n" for name in (
    "UTIL_TOTAL", "UTIL_USER", "UTIL_NICE", "UTIL_SYS", "UTIL_IRQ", "CLOCK_CURRENT",
))  # fmt: skip


def racks() -> Section:
    """Ticks, memory and a page of racks."""
    section = Section(
        "Racks",
        f"""
{_RACKS} racks of 18 nodes: 7,200 GB200, 3,600 Grace CPUs of 72 cores. The fleet alone, in a process of its own for
each row; each board with work that exchanges traffic. Medians of {_ROUNDS} ticks, in processor time. *Memory* is what
the fleet adds. *Page* is one node's with six rows for each of its 144 cores, of numbers that are all new.
""",
        ["tick", "memory", "page of a node"],
    )
    found = {}
    for kind in ("none", "nvl72"):
        run = subprocess.run([sys.executable, __file__, kind], check=True, stdout=subprocess.PIPE)
        found[kind] = json.loads(run.stdout)
    plain, racked = found["none"], found["nvl72"]
    section.add("the boards without racks", ms(plain["tick"]), f"{plain['bytes'] / 1e6:.0f} MB", "")
    section.add(
        "in racks", ms(racked["tick"]), f"{racked['bytes'] / 1e6:.0f} MB", ms(racked["page"]),
        judged=racked["tick"] / plain["tick"], target=Target(4, unit="x"),
    )  # fmt: skip
    judged = racked["page"] * 1e3
    section.add("rows of 144 cores", "", "", ms(racked["page"]), judged=judged, target=Target(2, unit=" ms"))
    return section


def measure(kind: str) -> dict[str, float]:
    """Seconds and bytes of one fleet, in this process."""
    # Only the process that measures needs all of it.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.exporters.page import LabelCache, Page  # noqa: PLC0415
    from fakedev.exporters.sources import DeviceSource  # noqa: PLC0415
    from fakedev.fleet.fleet import Fleet  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        Path(name, "rows.csv").write_text(_COUNTERS, encoding="utf-8")
        Path(name, "id.yaml").write_text("name: cores\nbased-on: dcgm@4.8.4\ncounters: rows.csv\n", encoding="utf-8")
        loaded = load(None, Files(environ={}), text=f"""
fleet:
  pools:
    - name: nvl
      nodes: {18 * _RACKS}
      device: gb200
      devices-per-node: 4
      identity: {name}/id.yaml
{'      racks: nvl72' if kind == 'nvl72' else ''}
workloads:
  listen: []
  base: [{{name: llm, devices: all, profile: "80:10:5", metrics: {{fabric-tx: "30%"}}}}]
""")
    before = _resident_bytes()
    fleet = Fleet(loaded.fleet)
    for _ in range(3):
        fleet.advance()
    found = {"bytes": _resident_bytes() - before, "tick": _median(fleet.advance)}
    if kind == "nvl72":
        page = Page(LabelCache(next(iter(loaded.identities.values())), DeviceSource(fleet)), fleet.roster.nodes[7:8])
        page.render(fleet.state)
        # The cores of all nodes are computed once a tick, with the first page: 1,800 nodes share that.
        found["page"] = _median(lambda: page.render(fleet.state), lambda: _next(fleet.advance, fleet))
    return found


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def _next(advance: Callable[[], object], fleet: object) -> None:
    """The next tick, with its cores."""
    advance()
    for name in ("cpu_usage_ratio", "cpu_user_ratio", "cpu_nice_ratio", "cpu_system_ratio", "cpu_irq_ratio"):
        fleet.state.levels["cpucore"].arrays[name]  # type: ignore[attr-defined]  # loaded in the process that measures


def _median(act: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    found = []
    for _ in range(_ROUNDS):
        before()
        began = process_time()
        act()
        found.append(process_time() - began)
    return median(found)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
