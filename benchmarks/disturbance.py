"""What a small scrape feels of large ones, of scrapers that do not read, and of silent peers."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fleets import dcgm, original
from programs import Program, fakedev, load
from results import Section, Target, ms
from sizes import DEVICES

_SECONDS = 8.0
_INTERVAL = 0.02
#: Between the large scrapes.
_PAUSE = 0.25
_SMALL = "/nodes/dgx-7/metrics"


def large_neighbours() -> Section:
    """A small scrape beside large ones."""
    section = Section(
        "A small scrape beside large ones",
        f"""
{DEVICES:,} H100s with pod labels. One connection requests one node's page (8 devices, 44 kB) every
{_INTERVAL * 1000:.0f} ms for {_SECONDS:.0f} s. A request that had to wait for a late answer counts from its
scheduled time. The scenarios: no other requests; another client requests the whole fleet's page (55 MB), waits
{_PAUSE * 1000:.0f} ms and requests it again, so that it is rendered each tick and sent more often; the same with
gzip; the same without a pause, which moves about 1 GB/s through a server's core and the one core that both
clients share; and 50 clients that request it at once and never read. The target applies to p99.
""",
        ["p50", "p99", "worst", "large pages meanwhile"],
    )
    with fakedev(dcgm(DEVICES)) as (server,):
        server.get()
        _add(section, server, "no other peers", 0)
        with _large_scraper(server, "", _PAUSE) as count:
            _add(section, server, "the whole page asked for again and again", count)
        with _large_scraper(server, "Accept-Encoding: gzip\r\n", _PAUSE) as count:
            _add(section, server, "the same by gzip", count)
        with _large_scraper(server, "", 0) as count:
            _add(section, server, "the same without a pause", count, is_judged=False)
        before = server.resident_bytes()
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(_deaf_scraper(server))
            _add(section, server, "50 scrapers that never read", 0)
            grown = (server.resident_bytes() - before) / 1e6
        section.text += f"\nThe 50 that never read made the server grow by {grown:.0f} MB."
    return section


def _add(section: Section, server: Program, title: str, count: list[int] | int, is_judged: bool = True) -> None:
    found = load(server, _SMALL, seconds=_SECONDS, interval=_INTERVAL)
    others = str(len(count)) if isinstance(count, list) else ""
    section.add(
        title, ms(found["p50"]), ms(found["p99"]), ms(found["worst"]), others,
        judged=found["p99"] * 1000 if is_judged else None, target=Target(20, unit=" ms"),
    )  # fmt: skip


@contextmanager
def _large_scraper(server: Program, header: str, pause: float) -> Iterator[list[int]]:
    """A client that scrapes the whole fleet all the time; its list has the size of each answer."""
    sizes: list[int] = []
    stop = threading.Event()
    thread = threading.Thread(target=_scrape_on, args=(server.web, header, pause, sizes, stop))
    thread.start()
    try:
        yield sizes
    finally:
        stop.set()
        thread.join()


def _scrape_on(address: str, header: str, pause: float, sizes: list[int], stop: threading.Event) -> None:
    host, _, port = address.rpartition(":")
    buffer = bytearray(1 << 20)
    request = f"GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n".encode()
    while not stop.is_set():
        with socket.create_connection((host, int(port))) as peer:
            peer.sendall(request)
            size = 0
            while (count := peer.recv_into(buffer)) and not stop.is_set():
                size += count
            sizes.append(size)
        stop.wait(pause)


@contextmanager
def _deaf_scraper(server: Program) -> Iterator[None]:
    host, _, port = server.web.rpartition(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(f"GET /metrics HTTP/1.1\r\nHost: {server.web}\r\n\r\n".encode())
        yield


def silent_peers() -> Section:
    """A scrape while many peers say nothing."""
    section = Section(
        "A scrape beside silent peers",
        f"""
128 devices in the original's JSON. One connection requests /metrics every {_INTERVAL * 1000:.0f} ms for 3 s:
first alone, then with 1000 connections to the workload port that never send anything, and with 1000 that have
sent half an object. The measurement starts when all are connected, which takes as long as attaching that many
workloads. With 100 of them the Go program's next scrape takes 1,031 ms.
""",
        ["p50", "p99", "worst"],
    )
    with (
        tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder,
        fakedev(original(128, Path(folder))) as (server,),
    ):
        for title, count, sent in (
            ("none", 0, b""), ("1000 silent connections", 1000, b""), ("1000 half objects", 1000, b'{"Name": "x'),
        ):  # fmt: skip
            with ExitStack() as stack:
                for _ in range(count):
                    peer = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                    peer.connect(str(server.ready["workloads"][0]))
                    peer.sendall(sent)
                while f"fakedev_workload_connections {float(count)}\n".encode() not in server.get("/-/metrics"):
                    pass
                found = load(server, seconds=3.0, interval=_INTERVAL)
            section.add(
                title, ms(found["p50"]), ms(found["p99"]), ms(found["worst"]),
                judged=found["p99"] * 1000, target=Target(20, unit=" ms"),
            )  # fmt: skip
    return section
