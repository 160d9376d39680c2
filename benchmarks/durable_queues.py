"""Durable queues: what the log costs beside the same load without it, and the disk that it waits for."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter

from programs import fakedev, queue_load
from results import Section, Target, middle

_CONFIGURATION = """
version: 1
fleet: {pools: [{name: dgx, nodes: 1, device: h100, devices-per-node: 8, identity: dcgm}]}
web: ["127.0.0.1:0"]
workloads: {listen: ["{folder}/workload.sock"]}
queues:
  names: {sleep: {DURABLE}}
  listen-clients: ["127.0.0.1:0"]
  listen-backends: ["127.0.0.1:0"]
"""
_ROUNDS = 5
_SECONDS = 2.0
_LOAD = {"producers": 64, "workers": 64, "flight": 16, "seconds": _SECONDS}
_SYNC_BYTES = 4096
_SYNC_SECONDS = 0.5


def durable() -> Section:
    """The same load with and without a log."""
    section = Section(
        "A durable work queue",
        f"""
Jobs without any work on kept connections with JSON lines, 64 of clients and 64 of backends with 16 jobs in flight
each, with a queue in memory and with a `durable` one. Each `put` asks for the answer `accepted`; a request is
counted when a backend has its job, and the load goes on at once while the ends are recorded and sent. Two services
run alternately, medians of {_ROUNDS} rounds of {_SECONDS:g} s. CPU is the server's processor time for each request
with all of its messages, in all threads; *load* is that of the load client. *Disk* is measured in the same rounds,
in the folder of the log: how many times in a second one thread appends {_SYNC_BYTES} bytes and calls fdatasync.
""",
        ["requests/s", "CPU", "load", "disk"],
    )
    with ExitStack() as stack:
        services = {
            name: stack.enter_context(fakedev(_CONFIGURATION.replace("DURABLE", option)))[0]
            for name, option in (("in memory", ""), ("durable", 'durable: "{folder}/requests"'))
        }
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in services}
        syncs = []
        for _ in range(_ROUNDS):
            for name, service in services.items():
                rounds[name].append(queue_load(service, "lines-accepted", **_LOAD))
            syncs.append(_syncs_per_second(services["durable"].folder / "requests"))
    for name, measured in rounds.items():
        rate = middle(measured, "per_second")
        is_durable = name == "durable"
        section.add(
            name,
            f"{rate:,.0f}",
            f"{middle(measured, 'cpu') * 1e6:.0f} µs",
            f"{middle(measured, 'load_cpu') * 1e6:.0f} µs",
            f"{median(syncs):,.0f} fdatasync/s" if is_durable else "",
            judged=rate if is_durable else None,
            target=Target(5000, most=False, unit=" requests/s") if is_durable else None,
        )
    return section


def _syncs_per_second(folder: Path) -> float:
    """How often a thread can append to a file and wait for the disk."""
    path, count, content = folder / "bare", 0, b"\0" * _SYNC_BYTES
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        began = perf_counter()
        while (elapsed := perf_counter() - began) < _SYNC_SECONDS:
            os.write(descriptor, content)
            os.fdatasync(descriptor)
            count += 1
    finally:
        os.close(descriptor)
        path.unlink()
    return count / elapsed
