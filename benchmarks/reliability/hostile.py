"""Ten thousand connections of many hostile sorts beside a client that keeps a pace."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import sleep

from fleets import dcgm
from machine_stalls import FREE_SHARE, stalls
from programs import Program, fakedev, load, long_steps
from results import Section, Target, ms

from reliability.paced_client import keep_pace

_PEERS = Path(__file__).with_name("hostile_peers.py")
_COUNT = 10_000
_INTERVAL = 0.02
_SETTLE_SECONDS = 5.0


def hostile(is_short: bool) -> Section:
    """A paced client beside hostile peers."""
    rounds, seconds = (1, 8.0) if is_short else (3, 20.0)
    taken = stalls()["share"]
    is_judged = not is_short and taken <= FREE_SHARE
    section = Section(
        "Hostile connections",
        f"""
{_COUNT:,} connections at once, as many of each sort (benchmarks/reliability/hostile_peers.py): those that say nothing,
send a request byte by byte, read an answer byte by byte or never, ask a hundred times at once, send noise, a head
without an end, a body that does not come, in wrong chunks, packed, nested; on the workload port half an
object, a line without an end, nested JSON, nonsense without reading its answers, workloads followed by a reset. Each
says nothing for up to 50 s before it does so, and those that are closed connect again at once. Beside them one client
requests a node's page, another one starts workloads of a second and waits for their ends, each every
{_INTERVAL * 1000:.0f} ms. Two services of 64 H100s run; in each round of {seconds:.0f} s (rounds: {rounds}) the
clients are measured while the hostile peers are at the other service, and then at theirs. So the use of the cores is
the same, and only what peers do to their service differs. A round begins {_SETTLE_SECONDS:.0f} s after all have
connected. p99 is the median of the rounds; *worst* that of all. They are judged only on a machine that is free for
them: where other programs take its cores away for at most {FREE_SHARE:.0%} of the time, measured just before
(benchmarks/machine_stalls.py). A *step* is one call of the reactor of the attacked service, by the processor time of
its thread, in which other programs have no part. A short run judges neither.
""",
        ["without", "with", "worst with", "requests"],
    )
    pages: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    lines: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    configuration = dcgm(64).replace('"{folder}/workload.sock"', '"127.0.0.1:0"')
    kept, connected = [], 0
    with fakedev(configuration, 2, watched=True) as (measured, other):
        steps_before = len(long_steps(measured))
        for _ in range(rounds):
            for is_attacked in (False, True):
                attacked = measured if is_attacked else other
                addresses = {"web": attacked.web, "lines": attacked.ready["workloads"][0]}
                with hostile_peers(_COUNT, addresses) as found:
                    sleep(_SETTLE_SECONDS)
                    _measure(measured, seconds, pages[is_attacked], lines[is_attacked])
                kept.append(found["open"])
                connected += int(found["connected"])
        problems = [program.get("/health").decode() for program in (measured, other)]
        grown = measured.resident_bytes() / 1e6
        longest = max(long_steps(measured)[steps_before:], default=0.0) * 1000
    for title, found_by in (("a node's page", pages), ("starting a workload", lines)):
        without, beside = (median(each["p99"] for each in found_by[key]) for key in (False, True))
        section.add(
            f"{title}: p99", ms(without), ms(beside), ms(max(each["worst"] for each in found_by[True])),
            f"{sum(each['requests'] for each in found_by[True]):,.0f}",
            judged=beside / without if is_judged else None, target=Target(2, unit="x"),
        )  # fmt: skip
    for title, found_by in (("pages lost", pages), ("workloads lost", lines)):
        lost = [sum(each["lost"] for each in found_by[key]) for key in (False, True)]
        section.add(title, f"{lost[0]:.0f}", f"{lost[1]:.0f}", "", "", judged=lost[1], target=Target(0))
    unwell = sum('"status":"healthy"' not in problem.replace(" ", "") for problem in problems)
    section.add(
        "the longest step", "", f"{longest:.0f} ms", "", "", judged=None if is_short else longest,
        target=Target(20, unit=" ms"),
    )  # fmt: skip
    section.add("services unwell after it", "", str(unwell), "", "", judged=unwell, target=Target(0))
    section.text += f"\nOn average {median(kept):,.0f} hostile connections were open; {connected:,} were made. "
    section.text += f"Then the service had {grown:.0f} MB. "
    section.text += f"Before it other programs took a core away for {taken:.0%} of the time."
    return section


def _measure(program: Program, seconds: float, pages: list[dict[str, float]], lines: list[dict[str, float]]) -> None:
    """Run both clients for some time; a page client that loses its connection has lost all that it had to ask for."""
    address = program.ready["workloads"][0]
    worker = threading.Thread(target=lambda: lines.append(keep_pace(address, seconds, _INTERVAL)))
    worker.start()
    try:
        pages.append(load(program, "/nodes/dgx-3/metrics", seconds=seconds, interval=_INTERVAL) | {"lost": 0})
    finally:
        worker.join()


@contextmanager
def hostile_peers(count: int, addresses: Mapping[str, str]) -> Iterator[dict[str, float]]:
    """Hostile peers of all sorts; at the end how many were open, how many connections were made, and by how many sorts.

    :param addresses: HOST:PORT by kind.
    """
    arguments = [str(count), *(f"{kind}={address}" for kind, address in addresses.items())]
    process = subprocess.Popen(
        [sys.executable, str(_PEERS), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    found: dict[str, float] = {}
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the hostile peers could not connect")
        yield found
        said, _ = process.communicate()
        counted = json.loads(said)
        made = counted["connected"]
        found |= {"open": counted["open"], "connected": sum(made.values()), "sorts": len(made)}
    finally:
        process.kill()
        process.wait()
