"""What services of small and large fleets cost, each a process of its own with sockets and a ticking clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep

from fleets import dcgm
from programs import Program, fakedev, load
from results import Section, Target, ms

_SIZES = (8, 80, 800, 8_000, 80_000)
_SECONDS = 4.0
_PAGES = 3
#: Ten times the fleet, ten times the cost: a neighbour on the machine may add some.
_TENFOLD = Target(15, unit="x")


@dataclass
class _Costs:
    """What a service costs: seconds, bytes, and a share of a core."""

    tick: float
    node: float
    page: float
    page_bytes: int
    resident: int
    first: float
    share: float


def service_sizes() -> Section:
    """Services of 8 to 80,000 GPUs."""
    section = Section(
        "Services of 8 to 80,000 GPUs",
        f"""
H100s with pod labels, 8 per node, one tick a second. *First page* is the time from the start of the process to
the last byte of /metrics. *Tick* is the mean of `fakedev_tick_duration_seconds` and *CPU* the processor time of
ticks alone, over {_SECONDS:.0f} s without requests. *Node* is the median of scrapes of single nodes, each of
another node and tick, so that each page is rendered. *Whole page* is the median of {_PAGES} scrapes of /metrics,
each in another tick, over loopback by a client on the same machine. *Resident* is VmRSS after the whole page,
which is kept for a tick, and all nodes' pages. *Each* is the increase per GPU relative to 8 GPUs. *Tenfold* is
relative to the previous line. The targets apply to the processor time of the ticks and to the whole page of
80,000 GPUs, relative to 8,000: doubling the fleet doubles the cost.
""",
        ["first page", "tick", "CPU", "node", "whole page", "MB", "resident", "each", "CPU, tenfold", "page, tenfold"],
    )
    found: dict[int, _Costs] = {}
    for count in _SIZES:
        found[count] = each = _measured(count)
        small = found.get(count // 10)
        grown = (each.share / small.share, each.page / small.page) if small else (0.0, 0.0)
        more = (each.resident - found[_SIZES[0]].resident) / count / 1000
        section.add(
            f"{count:,} GPUs", f"{each.first:.2f} s", ms(each.tick), f"{each.share:.1%}", ms(each.node), ms(each.page),
            f"{each.page_bytes / 1e6:.2f}", f"{each.resident / 1e6:.0f} MB", f"{more:.1f} kB" if small else "",
            *(f"{factor:.1f}x" if small else "" for factor in grown),
            judged=max(grown) if count == _SIZES[-1] else None, target=_TENFOLD,
        )  # fmt: skip
    return section


def _measured(count: int) -> _Costs:
    nodes = count // 8
    with fakedev(dcgm(count)) as (server,):
        began = perf_counter()
        size = len(server.get())
        first = server.start_seconds + perf_counter() - began
        load(server, "/nodes/dgx-{}/metrics", seconds=1.0 + nodes / 1000, numbers=nodes)
        pages = [_whole_page(server) for _ in range(_PAGES)]
        resident = server.resident_bytes()
        node = load(server, "/nodes/dgx-{}/metrics", seconds=_SECONDS, interval=max(0.05, 1.1 / nodes), numbers=nodes)
        ticks, used = _ticks(server), server.cpu_seconds()
        sleep(_SECONDS)
        more = _ticks(server)
        share = (server.cpu_seconds() - used) / _SECONDS
    tick = (more[0] - ticks[0]) / (more[1] - ticks[1])
    return _Costs(tick, node["p50"], median(pages), size, resident, first, share)


def _whole_page(server: Program) -> float:
    sleep(1.1)
    began = perf_counter()
    server.get()
    return perf_counter() - began


def _ticks(server: Program) -> tuple[float, float]:
    """Seconds that ticks have taken so far, and how many there were."""
    page = server.get("/-/metrics").decode()
    seconds, count = (
        re.search(rf"^fakedev_tick_duration_seconds_{what} (\S+)$", page, re.MULTILINE) for what in ("sum", "count")
    )
    assert seconds is not None and count is not None
    return float(seconds[1]), float(count[1])
