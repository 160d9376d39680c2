"""How soon the programs are there, and how much memory they hold."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from fleets import dcgm
from programs import Program, fakedev, resident_bytes, workload_client
from results import Section, Target, ms

_STARTS = 5
#: The largest fleet that is measured.
DEVICES = 10_000


def starts() -> Section:
    """From nothing to the first page."""
    section = Section(
        "From start to first page",
        f"""
A new process of `fakedev serve`, until it has reported its listening addresses, and until it has answered its
first /metrics. Medians of {_STARTS} starts (3 of the large fleet); the built-in demo, except for the port.
""",
        ["ready", "first page"],
    )
    demo = 'version: 1\nfleet: {pools: [{name: dgx, nodes: 1, device: h100, devices-per-node: 8, identity: dcgm}]}\n'
    for title, configuration, rounds, limit in (
        ("8 devices (the demo's)", demo + dcgm(8)[dcgm(8).index("web:") :], _STARTS, 1.0),
        (f"{DEVICES:,} devices with pods", dcgm(DEVICES), 3, 3.0),
    ):
        ready, first = [], []
        for _ in range(rounds):
            began = perf_counter()
            with fakedev(configuration) as (server,):
                ready.append(server.start_seconds)
                server.get()
                first.append(perf_counter() - began)
        section.add(title, ms(median(ready)), ms(median(first)), judged=median(first), target=Target(limit, unit=" s"))
    return section


def memory() -> Section:
    """Resident memory."""
    section = Section(
        "Memory",
        """
Resident memory (VmRSS). *Per device* is the increase relative to a process with 8 devices. The page of 10,000
devices alone has 55 MB, and all the nodes' pages together have the same size again.
""",
        ["resident", "per device"],
    )
    with fakedev(dcgm(8)) as (server,):
        server.get()
        base = server.resident_bytes()
        section.add("8 devices, after the first page", _megabytes(base), "")
        with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
            load_file = Path(folder, "load.json")
            load_file.write_text(json.dumps({"Name": "bench", "Profile": [{"Load": 10}]}))
            client = _client_bytes(server, load_file)
        mega = client / 1e6
        section.add(
            "`fakedev-workload`, connected", _megabytes(client), "", judged=mega, target=Target(20, unit=" MB")
        )
    with fakedev(dcgm(DEVICES)) as (server,):
        server.get("/health")
        _large(section, "before any page", server, base)
        server.get()
        _large(section, "after /metrics", server, base)
        for node in range(DEVICES // 8):
            server.get(f"/nodes/dgx-{node}/metrics")
        _large(section, "after /metrics and every /nodes/NODE/metrics", server, base)
    return section


def _large(section: Section, when: str, server: Program, base: int) -> None:
    size = server.resident_bytes()
    each = (size - base) / DEVICES / 1000
    section.add(
        f"{DEVICES:,} devices, {when}", _megabytes(size), f"{each:.1f} kB", judged=each, target=Target(30, unit=" kB")
    )


def _client_bytes(server: Program, load_file: Path) -> int:
    with workload_client(Path(server.ready["workloads"][0]), load_file) as process:
        while b"fakedev_workload_connections 1.0" not in server.get("/-/metrics"):
            if process.poll() is not None:
                raise RuntimeError("fakedev-workload ended at once")
            sleep(0.01)
        sleep(0.1)
        return resident_bytes(process)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
