"""The benchmarks: ``make bench``. Writes doc/performance.md.

``python benchmarks/run.py [NAME ...]`` runs only those named, and prints what it finds instead; with ``--write`` it
writes their sections into doc/performance.md, in place of those that are there.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Final

import boards
import busy_minute
import disturbance
import durable_queues
import growth
import histories
import invariants
import kubelets
import kubernetes
import load_tester
import message_cost
import program_starts
import queues
import racks
import real_clusters
import reloads
import rendering
import replays
import scrapes
import service_sizes
import sizes
import web_page
import whole_page
import without_cluster
import workloads
import worst_messages
from pages import machine, verdict, with_sections
from real_prometheus import real_prometheus
from results import Section

BENCHMARKS: dict[str, Callable[[], Section]] = {
    "small-pages": scrapes.small_pages,
    "with-workloads": scrapes.with_workloads,
    "large-pages": rendering.large_pages,
    "whole-page": whole_page.whole_page,
    "changing-labels": growth.changing_labels,
    "growth": growth.growth,
    "service-sizes": service_sizes.service_sizes,
    "attaching": workloads.attaching,
    "ticks": workloads.ticks,
    "worst-messages": worst_messages.worst_messages,
    "boards": boards.boards,
    "invariants": invariants.invariants,
    "web-page": web_page.web_page,
    "starts": sizes.starts,
    "program-starts": program_starts.program_starts,
    "memory": sizes.memory,
    "tester": load_tester.tester,
    "large-neighbours": disturbance.large_neighbours,
    "silent-peers": disturbance.silent_peers,
    "reloads": reloads.reloads,
    "prometheus": real_prometheus,
    "busy-minute": busy_minute.busy_minute,
    "queues": queues.speed,
    "message-cost": message_cost.message_cost,
    "queue-latency": queues.latency,
    "queue-depth": queues.depth,
    "queue-connections": queues.connections,
    "queue-memory": queues.memory,
    "durable": durable_queues.durable,
    "kubernetes": kubernetes.followed,
    "kubernetes-shards": kubernetes.shards,
    "kubernetes-real": real_clusters.real_shards,
    "kubernetes-node": kubelets.node_program,
    "without-cluster": without_cluster.without_cluster,
    "histories": histories.histories,
    "replay": replays.replays,
    "racks": racks.racks,
}
#: The last of them is an extra, which ``make bench`` installs.
_PACKAGES: Final = ("Twisted", "numpy", "orjson", "prometheus-client", "isal")
_PAGE = Path(__file__).resolve().parent.parent / "doc" / "performance.md"


def main() -> int:
    """Run the benchmarks.

    :returns: 0, also when a target was missed: figures of a busy machine are no verdict. 2 for an unknown name.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--write", action="store_true", help="write the sections of those named")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long Prometheus scrapes, 1 if not given")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    began = perf_counter()
    sections = []
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        sections.append(real_prometheus(round(options.minutes * 60)) if name == "prometheus" else BENCHMARKS[name]())
        print(sections[-1].markdown(), flush=True)
    if not options.names:
        _PAGE.write_text(_page(sections, perf_counter() - began), encoding="utf-8")
        print(f"{_PAGE} is written", file=sys.stderr)
    elif options.write:
        _PAGE.write_text(with_sections(_PAGE.read_text(encoding="utf-8"), sections), encoding="utf-8")
        print(f"{_PAGE} has {len(sections)} new sections", file=sys.stderr)
    return 0


def _page(sections: list[Section], seconds: float) -> str:
    missed = verdict([section.markdown() for section in sections])
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    head = f"""# Performance

What fakedev costs, on a machine of two cores that other programs may use, too. `make bench` measures and writes all
of it, `python benchmarks/run.py NAME` prints one with how it was measured, `--write NAME` replaces its section.
Measured on {datetime.now(UTC):%Y-%m-%d} in {seconds:.0f} s.
{missed}

Machine: {machine()}.
Software: {platform.python_implementation()} {platform.python_version()}, {packages}.

Absolute figures drift by a quarter between runs; targets are ratios to a reference of the same run where that is
possible. Figures are medians. *Go* are the original programs on a machine of this kind.
"""
    return "\n".join([head, *(section.markdown(with_method=False) for section in sections)])


if __name__ == "__main__":
    raise SystemExit(main())
