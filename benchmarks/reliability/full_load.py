"""A long time at full load: memory, file descriptors, and what held the reactor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import perf_counter, sleep

from fleets import dcgm
from programs import Program, fakedev, load, long_steps, queue_load
from results import Section, Target

from reliability.paced_client import keep_pace

#: A scrape of each node in so many seconds, as a Prometheus does it; a workload in so many.
_SCRAPE_SECONDS = 15.0
_WORKLOAD_SECONDS = 0.05
_JOBS_A_SECOND = 20
#: The longest step that the reactor may take.
_STEP_SECONDS = 0.020
#: Steps over it that a short run does not call a miss.
_STALLS_FORGIVEN = 2
#: Then the histories of a fleet of 10,000 GPUs under this load are full.
_FULL_SECONDS = 300.0
_QUEUES = """
queues:
  names: {sleep: {}}
  listen-clients: ["127.0.0.1:0"]
  listen-backends: ["127.0.0.1:0"]
"""


def full_load(is_short: bool) -> Section:
    """Everything at once, on a small fleet for a short time or on a large one for ten minutes."""
    return measure(100, 40.0) if is_short else measure()


def measure(nodes: int = 1250, seconds: float = 600.0) -> Section:
    """Load a service of some nodes for some time.

    Memory counts from a sixth of the time on, as from the tenth minute of an hour, and not before the histories are
    full.
    """
    reload_seconds = min(60.0, seconds / 4)
    first = max(seconds / 6, min(_FULL_SECONDS, seconds / 2))
    section = Section(
        "Full load",
        f"""
{nodes * 8:,} H100s on {nodes:,} nodes for {seconds:.0f} s: each node is scraped every {_SCRAPE_SECONDS:.0f} s by one
connection; {1 / _WORKLOAD_SECONDS:.0f} workloads of a second start each second; {_JOBS_A_SECOND} jobs a second pass a
queue; the configuration is reloaded every {reload_seconds:.0f} s, with one node more and one less in turn; one reader
has the live stream of the page. Memory is that of the process from {first:.0f} s on: the mean of the last sixth of the
time against that of the sixth that begins then. Until {_FULL_SECONDS:.0f} s the history of charts (24 MB,
fakedev/fleet/charts.py) and the journal in memory (10,000 entries) fill up. A *step* is one call of the reactor, by the
processor time of its thread, with collections of garbage in it (benchmarks/watched_serve.py): other programs have no
part in it, but the time that a hypervisor takes away counts. A short run forgives {_STALLS_FORGIVEN} long steps.
""",
        ["measured"],
    )
    text = dcgm(nodes * 8).replace('"{folder}/workload.sock"', '"127.0.0.1:0"') + _QUEUES
    with fakedev(text, watched=True) as (service,):
        load(service, "/nodes/dgx-{}/metrics", seconds=3, numbers=nodes)
        steps_before = len(long_steps(service))
        looks, found = _run(service, nodes, seconds, reload_seconds)
        steps = long_steps(service)[steps_before:]
        said = service.log()
    full, last = (
        [memory for at, memory, _ in looks if begin <= at < begin + seconds / 6] for begin in (first, seconds * 5 / 6)
    )
    growth = (sum(last) / len(last)) / (sum(full) / len(full)) - 1
    # A scrape or a file may be open at any one look.
    descriptors = min(look[2] for look in looks[-5:]) - min(look[2] for look in looks[:5])
    held = [step for step in steps if step > _STEP_SECONDS]
    none = Target(0)
    section.add(
        "memory grew by", f"{growth:.1%} of {full[0] / 1e6:,.0f} MB", judged=growth * 100,
        target=None if seconds < 300 else Target(3, unit=" %"),
    )  # fmt: skip
    section.add("file descriptors more", str(descriptors), judged=descriptors, target=none)
    section.add("steps over 20 ms", str(len(held)), judged=len(held),
                target=Target(_STALLS_FORGIVEN if seconds < 300 else 0))  # fmt: skip
    section.add("the longest step", f"{max(steps, default=0.0) * 1000:.0f} ms")
    section.add("scrapes", f"{found['scrapes']:,.0f}")
    lost = found["lost"]
    section.add("workloads lost", f"{lost:.0f} of {found['workloads']:,.0f}", judged=lost, target=none)
    section.add("jobs", f"{found['jobs']:,.0f}")
    section.add("reloads refused", f"{found['refused']:.0f} of {found['reloads']:.0f}",
                judged=found["refused"], target=none)  # fmt: skip
    section.add("tracebacks", str(said.count("Traceback")), judged=said.count("Traceback"), target=none)
    return section


def _run(
    service: Program, nodes: int, seconds: float, reload_seconds: float
) -> tuple[list[tuple[float, int, int]], dict[str, float]]:
    """Load a service; memory and descriptors each second, and what was done."""
    found: dict[str, float] = {"reloads": 0, "refused": 0}
    address = service.ready["workloads"][0]

    def scrape() -> None:
        interval = _SCRAPE_SECONDS / nodes
        found["scrapes"] = load(
            service, "/nodes/dgx-{}/metrics", seconds=seconds, interval=interval, numbers=nodes
        )["requests"]  # fmt: skip

    def start_workloads() -> None:
        paced = keep_pace(address, seconds, _WORKLOAD_SECONDS)
        found.update(workloads=paced["requests"], lost=paced["lost"])

    def pass_jobs() -> None:
        passed = queue_load(service, "lines", producers=4, workers=4, rate=_JOBS_A_SECOND, sleeps=1, seconds=seconds)
        found["jobs"] = passed["requests"]

    def reload() -> None:
        config = service.folder / "config.yaml"
        for number in range(int(seconds / reload_seconds)):
            sleep(reload_seconds / 2)
            more = nodes + (number + 1) % 2
            less = nodes + number % 2
            config.write_text(config.read_text().replace(f"nodes: {less},", f"nodes: {more},"))
            found["reloads"] += 1
            found["refused"] += b"error" in service.post("/-/reload")
            sleep(reload_seconds / 2)

    begin = perf_counter()
    stream = threading.Thread(target=_read_stream, args=(service, begin + seconds))
    tasks: list[Callable[[], None]] = [scrape, start_workloads, pass_jobs, reload]
    threads = [stream, *(threading.Thread(target=task) for task in tasks)]
    for thread in threads:
        thread.start()
    sleep(seconds / 20)
    looks = []
    while perf_counter() - begin < seconds * 0.98:
        descriptors = len(os.listdir(f"/proc/{service.pid}/fd"))
        looks.append((perf_counter() - begin, service.resident_bytes(), descriptors))
        sleep(1)
    for thread in threads:
        thread.join()
    return looks, found


def _read_stream(service: Program, until: float) -> None:
    """Be a page that is open."""
    with service.open("/api/v1/stream") as events:
        while perf_counter() < until and events.readline():
            pass
