"""What a reload of a large fleet does to those who scrape meanwhile."""

from __future__ import annotations

import threading
from time import perf_counter, sleep

from fleets import dcgm
from programs import Program, fakedev, load
from results import Section, Target, ms

_NODES = 1250
_MORE_NODES = 1260
#: As often as a Prometheus asks that scrapes all nodes every 15 s.
_INTERVAL = 15 / _NODES
_SECONDS = 6.0
_PROBE_INTERVAL = 0.005
#: Pages of all nodes are made before anything is measured.
_WARM_SECONDS = 4.0
_TARGET = Target(100, unit=" ms")


def reloads() -> Section:
    """Reloads of 10,000 GPUs with few and many workloads."""
    section = Section(
        "A reload of 10,000 devices",
        f"""
{_NODES:,} nodes of 8 H100s. One connection requests the nodes' pages in turn, as often as a Prometheus that
scrapes them all every 15 s. Another connection requests /health every {_PROBE_INTERVAL * 1000:.0f} ms, which is
answered as soon as the reactor is free: *held* is the longest time that it had to wait. First {_SECONDS:.0f} s
without a reload, then as long with a reload in the middle that changes them to {_MORE_NODES:,} nodes. *Reload* is
the time from its request to its answer, which is sent with the next tick. Each workload is on one device, with a
pod. The target applies to the longest scrape with the reload, minus the longest without it.
""",
        ["scrape p50", "p99", "longest", "held", "with a reload: p50", "p99", "longest", "held", "reload"],
    )
    for workloads in (0, 1_250, 10_000):
        with fakedev(dcgm(_NODES * 8)) as (server,):
            _start(server, workloads)
            load(server, "/nodes/dgx-{}/metrics", seconds=_WARM_SECONDS, numbers=_NODES)
            before, held_before = _measured(server)
            timer = _Reload(server)
            timer.start()
            after, held = _measured(server)
            timer.join()
            if timer.answer is None:
                raise RuntimeError("the reload was refused")
            more = (after["worst"] - before["worst"]) * 1000
            section.add(
                f"{workloads:,} workloads", ms(before["p50"]), ms(before["p99"]), ms(before["worst"]),
                ms(held_before["worst"]), ms(after["p50"]), ms(after["p99"]), ms(after["worst"]), ms(held["worst"]),
                ms(timer.seconds), judged=more, target=_TARGET,
            )  # fmt: skip
    return section


def _start(server: Program, count: int) -> None:
    """Start workloads of one device each, and wait until they run."""
    for number in range(count):
        node, index = divmod(number, 8)
        server.post("/api/v1/workloads", {
            "name": f"bench-{number}", "devices": [f"dgx-{node}/{index}"], "profile": "60:20:0",
            "pod": f"bench-{number}", "namespace": "research", "container": "main",
        })  # fmt: skip
    sleep(2.5)


def _measured(server: Program) -> tuple[dict[str, float], dict[str, float]]:
    """What scrapes of nodes, and what questions for the health of the program, take in some seconds."""
    held: list[dict[str, float]] = []
    probe = threading.Thread(
        target=lambda: held.append(load(server, "/health", seconds=_SECONDS, interval=_PROBE_INTERVAL))
    )
    probe.start()
    scrapes = load(server, "/nodes/dgx-{}/metrics", seconds=_SECONDS, interval=_INTERVAL, numbers=_NODES)
    probe.join()
    return scrapes, held[0]


class _Reload(threading.Thread):
    """A reload in the middle of a measurement."""

    def __init__(self, server: Program) -> None:
        super().__init__()
        self._server = server
        self.seconds = 0.0
        self.answer: bytes | None = None

    def run(self) -> None:
        """Wait, change the file, and reload."""
        sleep(_SECONDS / 2)
        config = self._server.folder / "config.yaml"
        config.write_text(config.read_text().replace(f"nodes: {_NODES}", f"nodes: {_MORE_NODES}"))
        began = perf_counter()
        self.answer = self._server.post("/-/reload")
        self.seconds = perf_counter() - began
