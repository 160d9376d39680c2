"""The benchmarks: ``make bench``. Writes doc/performance.md.

``python benchmarks/run.py [NAME ...]`` runs only those named, and prints what it finds instead.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import boards
import disturbance
import growth
import load_tester
import queues
import rendering
import scrapes
import sizes
import web_page
import whole_page
import workloads
from results import Section

BENCHMARKS: dict[str, Callable[[], Section]] = {
    "small-pages": scrapes.small_pages,
    "with-workloads": scrapes.with_workloads,
    "large-pages": rendering.large_pages,
    "whole-page": whole_page.whole_page,
    "changing-labels": growth.changing_labels,
    "growth": growth.growth,
    "attaching": workloads.attaching,
    "ticks": workloads.ticks,
    "boards": boards.boards,
    "web-page": web_page.web_page,
    "starts": sizes.starts,
    "memory": sizes.memory,
    "tester": load_tester.tester,
    "large-neighbours": disturbance.large_neighbours,
    "silent-peers": disturbance.silent_peers,
    "queues": queues.speed,
    "queue-latency": queues.latency,
    "queue-depth": queues.depth,
    "queue-connections": queues.connections,
    "queue-memory": queues.memory,
}
_PAGE = Path(__file__).resolve().parent.parent / "doc" / "performance.md"


def main() -> int:
    """Run the benchmarks.

    :returns: 0, also when a target was missed: figures of a busy machine are no verdict. 2 for an unknown name.
    """
    names = sys.argv[1:]
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    began = perf_counter()
    sections = []
    for name in names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        sections.append(BENCHMARKS[name]())
        print(sections[-1].markdown(), flush=True)
    if not names:
        _PAGE.write_text(_page(sections, perf_counter() - began), encoding="utf-8")
        print(f"{_PAGE} is written", file=sys.stderr)
    return 0


def _page(sections: list[Section], seconds: float) -> str:
    missed = [row for section in sections for row in section.missed()]
    verdict = "All targets were met." if not missed else "Missed: " + "; ".join(missed) + "."
    packages = ", ".join(f"{name} {version(name)}" for name in ("Twisted", "numpy", "orjson", "prometheus-client"))
    head = f"""# Performance

Written by `make bench` (`python benchmarks/run.py`; with the name of a benchmark it prints only that one), on
{datetime.now(UTC):%Y-%m-%d} in {seconds:.0f} s. {verdict}

Machine: {_processor()}, {os.cpu_count()} cores, {_memory()}, {platform.system()} {platform.release()}.
Software: {platform.python_implementation()} {platform.python_version()}, {packages}.

How to read it: absolute figures are of this machine and this hour; on a virtual machine they drift by a quarter and
more between runs. So what is judged is a ratio to a reference that ran in the same run, in turn with ours, wherever
there is one; figures are medians over rounds. Clients are processes of their own on the same machine, and written in
Python: with two cores they have one of them, and requests/s of more than one connection are also theirs.
The figures of the Go programs were measured earlier on a machine of this kind (2-core AMD EPYC virtual machine,
loopback) and are repeated here to compare by order of magnitude. A worst answer is one single event: a neighbour on
the host is enough to spoil it.
"""
    return "\n".join([head, *(section.markdown() for section in sections)])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    total = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
    return f"{int(total) / 1e6:.0f} GB"


if __name__ == "__main__":
    raise SystemExit(main())
