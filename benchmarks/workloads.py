"""How fast workloads join, and what they cost a tick."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from fleets import dcgm, original
from programs import Program, fakedev
from results import Section, Target, ms
from scrapes import attached, wait_until_running

_COUNT = 1000
_ROUNDS = 3
_TICK_DEVICES = 10_000
_TICK_WORKLOADS = 10_000


def attaching() -> Section:
    """1000 workloads that come at once."""
    section = Section(
        "Attaching 1000 workloads",
        f"""
128 devices in the original's JSON. One client connects {_COUNT} times over the UNIX socket and sends a workload
in bare JSON on each connection. *Running* is the time until all of them run. They start at a tick, which can be
up to 1 s later. CPU is the total processor time of the server from the first connection on, including that tick
and the queries of the benchmark. Medians of {_ROUNDS} new servers. The Go program needs 73 s.
""",
        ["sent", "taken", "running", "CPU", "CPU for each workload", "ahead of Go"],
    )
    rounds = []
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
        for _ in range(_ROUNDS):
            with fakedev(original(128, Path(folder))) as (server,):
                rounds.append(_attach(server))
    sent, taken, running, cpu = (median(each[n] for each in rounds) for n in range(4))
    section.add(
        f"{_COUNT} workloads", ms(sent), ms(taken), ms(running), ms(cpu), f"{cpu / _COUNT * 1e6:.0f} µs",
        f"{73 / running:.0f}x", judged=running, target=Target(73, unit=" s"),
    )  # fmt: skip
    return section


def _attach(server: Program) -> tuple[float, float, float, float]:
    before, began = server.cpu_seconds(), perf_counter()
    peers = attached(server, _COUNT, 128)
    sent = perf_counter() - began
    # The server answers in turn: an answer to a later peer means that it has read the earlier ones.
    server.get("/health")
    taken = perf_counter() - began
    wait_until_running(server, _COUNT + 1)
    running, used = perf_counter() - began, server.cpu_seconds() - before
    for peer in peers:
        peer.close()
    return sent, taken, running, used


def ticks() -> Section:
    """A tick of a large fleet."""
    section = Section(
        "A tick of 10,000 devices",
        """
The fleet alone, in a separate process, medians of 20 ticks: no rendering, no sockets. Each workload is on one
device, with a pod and a profile of two activities. *Starting* is the time to accept the workloads
(`fleet.apply`).
""",
        ["starting", "first tick", "tick", "CPU"],
    )
    for count in (0, 1000, _TICK_WORKLOADS):
        run = subprocess.run([sys.executable, __file__, str(count)], check=True, stdout=subprocess.PIPE)
        found = json.loads(run.stdout)
        starting = ms(found["starting"]) if count else ""
        section.add(
            f"{count:,} workloads", starting, ms(found["first"]), ms(found["tick"]), ms(found["cpu"])
        )
    return section


def _measure_ticks(count: int) -> dict[str, float]:
    # Only the process that measures needs these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.fleet.events import StartWorkload  # noqa: PLC0415
    from fakedev.fleet.fleet import Fleet  # noqa: PLC0415
    from fakedev.fleet.spec.workload_fields import workload_from_fields  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415

    configuration = load(None, Files(environ={}), text=dcgm(_TICK_DEVICES).replace("{folder}", "/nowhere"))
    fleet = Fleet(configuration.fleet)
    fleet.advance()
    specs = [
        workload_from_fields({
            "name": f"bench-{n}", "devices": [f"dgx-{n % _TICK_DEVICES // 8}/{n % 8}"], "pod": f"bench-{n}",
            "profile": [[60, 10, 120], [20, 5, 60]], "repeat": 0,
        })
        for n in range(count)
    ]  # fmt: skip
    began = perf_counter()
    for spec in specs:
        fleet.apply(StartWorkload(spec))
    starting = perf_counter() - began
    began = perf_counter()
    fleet.advance()
    first = perf_counter() - began
    wall, processor = [], []
    for _ in range(20):
        began, used = perf_counter(), process_time()
        fleet.advance()
        wall.append(perf_counter() - began)
        processor.append(process_time() - used)
    return {"starting": starting, "first": first, "tick": median(wall), "cpu": median(processor)}


if __name__ == "__main__":
    print(json.dumps(_measure_ticks(int(sys.argv[1]))))
