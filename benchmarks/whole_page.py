"""What a scrape of a whole large fleet costs the server, all in."""

from __future__ import annotations

import socket
from statistics import median
from time import perf_counter, process_time, sleep

from fleets import dcgm
from programs import Program, fakedev
from results import Section, Target, ms

from fakedev.web.encoding import compressobj

_DEVICES = 10_000
_ROUNDS = 9
_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n"
_GZIP = _REQUEST.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n")


def whole_page() -> Section:
    """/metrics of 10,000 devices, each time of another tick."""
    section = Section(
        "A scrape of 10,000 devices, all in",
        f"""
/metrics of {_DEVICES:,} H100s with pod labels, without gzip, over loopback; one scrape in each of {_ROUNDS}
ticks, so that the page is rendered again each time. Processor time of the server from the request to the last
byte, minus the time of the ticks alone: finding the page, texts of labels, numbers, HTTP, and copying in the
kernel. *Bare* is one template of all lines `%` a tuple of numbers that are already bytes. The benchmark itself
measures it between the scrapes, without sending anything. Medians. With gzip the page is compressed in a thread.
""",
        ["samples", "MB", "scrape", "CPU", "for each sample", "bare", "ratio"],
    )
    with fakedev(dcgm(_DEVICES)) as (server,):
        page = server.get()
        template, numbers = _as_template(page)
        size = len(page)
        del page
        idle = _idle_share(server)
        wall, used, bare, zipped_wall, zipped = [], [], [], [], []
        for _ in range(_ROUNDS):
            _measure(server, _GZIP, idle, zipped_wall, zipped)
            _measure(server, _REQUEST, idle, wall, used)
            template % numbers
            began = process_time()
            made = template % numbers
            bare.append(process_time() - began)
            del made
    each, bare_each = (median(times) / len(numbers) * 1e9 for times in (used, bare))
    section.add(
        "dcgm, with pod labels", f"{len(numbers):,}", f"{size / 1e6:.1f}", ms(median(wall)), ms(median(used)),
        f"{each:.0f} ns", f"{bare_each:.0f} ns", f"{each / bare_each:.2f}",
        judged=each / bare_each, target=Target(3, unit="x"),
    )  # fmt: skip
    each = median(zipped) / len(numbers) * 1e9
    section.add(
        f"the same by gzip of {compressobj.__module__ or 'zlib'}", "", "", ms(median(zipped_wall)), ms(median(zipped)),
        f"{each:.0f} ns", "", f"{each / bare_each:.2f}",
    )  # fmt: skip
    return section


def _measure(server: Program, request: bytes, idle: float, wall: list[float], used: list[float]) -> None:
    """Scrape the page of another tick, and add what that took to the lists."""
    sleep(1.05)
    before, began = server.cpu_seconds(), perf_counter()
    _scrape(server, request)
    wall.append(perf_counter() - began)
    used.append(server.cpu_seconds() - before - idle * wall[-1])


def _as_template(page: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """The lines of a page with %b for each number, and the numbers."""
    cut = [line.rpartition(b" ") for line in page.splitlines() if not line.startswith(b"#")]
    template = b"".join([text.replace(b"%", b"%%") + b" %b\n" for text, _, _ in cut])
    return template, tuple([number for _, _, number in cut])


def _idle_share(server: Program) -> float:
    """Processor time that ticks alone take in a second."""
    before, began = server.cpu_seconds(), perf_counter()
    sleep(3)
    return (server.cpu_seconds() - before) / (perf_counter() - began)


def _scrape(server: Program, request: bytes) -> None:
    """Read a page to its end, and keep nothing of it."""
    host, _, port = server.web.rpartition(":")
    buffer = bytearray(1 << 20)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(request)
        while connection.recv_into(buffer):
            pass
