"""How fast pages are served, alone and while workloads are connected."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from fleets import bare_workload, dcgm, original
from programs import Program, fakedev, load, reference
from results import Row, Section, Target, middle, ms

_ROUNDS = 5
_SECONDS = 0.8
#: Of fakedev-exporter (Go), for 512 series: scrapes a second by connections.
_GO_SCRAPES = {1: 1810.0, 8: 1870.0}

Rounds = dict[str, list[dict[str, float]]]


def _interleaved(programs: dict[str, Program], connections: int) -> Rounds:
    """The load client's figures of each program, in rounds A B A B."""
    rounds: Rounds = {name: [] for name in programs}
    for _ in range(_ROUNDS):
        for name, program in programs.items():
            rounds[name].append(load(program, connections=connections, seconds=_SECONDS))
    return rounds


def small_pages() -> Section:
    """Pages of 8 and 128 devices against twisted.web with a fixed body of the same size."""
    section = Section(
        "Serving a page",
        f"""
/metrics over keep-alive connections of one load client (a separate process), compared with plain `twisted.web`
that serves a fixed body of the same size. The clock ticks, so fakedev also simulates and renders once a second.
Medians of {_ROUNDS} rounds of {_SECONDS} s each, fakedev and the reference alternating. CPU is the server's
processor time per request. Go is `intel/fakedev-exporter` on a machine of this kind: 1,810 scrapes/s with 1
connection (p50 0.53 ms, p99 1.0 ms), 1,870 with 8 (p50 4.2 ms).
""",
        ["requests/s", "p50", "p99", "CPU", "twisted.web: requests/s", "p50", "p99", "CPU", "ratio", "to Go"],
    )
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
        shown = {
            "8 devices, dcgm": dcgm(8),
            "128 devices, dcgm": dcgm(128),
            "128 devices, original's JSON, 512 series": original(128, Path(folder)),
        }
        for title, configuration in shown.items():
            with fakedev(configuration) as (ours,), reference(ours.get()) as theirs:
                size = len(ours.get()) / 1000
                for connections in (1, 8):
                    rounds = _interleaved({"ours": ours, "theirs": theirs}, connections)
                    go = _GO_SCRAPES[connections] if "512" in title else None
                    s = "s" * (connections > 1)
                    section.rows.append(
                        _compared(f"{title}: {size:,.0f} kB, {connections} connection{s}", rounds, go)
                    )
    return section


def _compared(name: str, rounds: Rounds, go: float | None) -> Row:
    ours, theirs = rounds["ours"], rounds["theirs"]
    per_second = middle(ours, "per_second")
    ratio = per_second / middle(theirs, "per_second")
    to_go = f"{per_second / go:.1f}x" if go else ""
    return Row(name, [*_figures(ours), *_figures(theirs), f"{ratio:.2f}", to_go], ratio, Target(0.8, most=False))


def _figures(rounds: Sequence[dict[str, float]]) -> list[str]:
    cpu = f"{middle(rounds, 'cpu') * 1e6:.0f} µs"
    return [f"{middle(rounds, 'per_second'):,.0f}", ms(middle(rounds, "p50")), ms(middle(rounds, "p99")), cpu]


def with_workloads() -> Section:
    """The same page while workloads are connected."""
    section = Section(
        "Serving a page while workloads are connected",
        f"""
128 devices in the original's JSON, 512 series. Three servers with 0, 170 and 1000 connected clients (bare JSON
over the UNIX socket, as the Go client sends it, connections kept open) are scraped alternately: medians of
{_ROUNDS} rounds of {_SECONDS} s. The Go program needs 0.6, 190 and 1,105 ms for one scrape. Ratios are relative
to the server without workloads. The target applies to the worse ratio of requests/s and p50.
""",
        ["requests/s", "p50", "p99", "CPU", "slower by, requests/s", "by p50", "Go's p50"],
    )
    go = {0: "0.6 ms", 170: "190 ms", 1000: "1,105 ms"}
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder, ExitStack() as stack:
        servers = stack.enter_context(fakedev(original(128, Path(folder)), len(go)))
        for server, count in zip(servers, go, strict=True):
            for peer in attached(server, count, 128):
                stack.enter_context(peer)
            wait_until_running(server, count + 1)
        programs = {str(count): server for count, server in zip(go, servers, strict=True)}
        for connections in (1, 8):
            rounds = _interleaved(programs, connections)
            for count, theirs in go.items():
                mine = rounds[str(count)]
                slower = middle(rounds["0"], "per_second") / middle(mine, "per_second")
                later = middle(mine, "p50") / middle(rounds["0"], "p50")
                s = "s" * (connections > 1)
                section.add(
                    f"{count} workloads, {connections} connection{s}", *_figures(mine),
                    f"{slower:.2f}x", f"{later:.2f}x", theirs if connections == 1 else "",
                    judged=max(slower, later) if count else None, target=Target(1.2, unit="x"),
                )  # fmt: skip
    return section


def attached(server: Program, count: int, devices: int) -> list[socket.socket]:
    """Connections that have each started a workload, as the original's client does."""
    peers = []
    for number in range(count):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.connect(str(server.ready["workloads"][0]))
        peer.sendall(bare_workload(number, devices))
        peers.append(peer)
    return peers


def wait_until_running(server: Program, count: int) -> None:
    """Until that many workloads run."""
    wanted = f'fakedev_workloads{{state="running"}} {float(count)}\n'.encode()
    while wanted not in server.get("/-/metrics"):
        pass
