"""Ten sorts of hostile peers at once, in a process of their own.

``python benchmarks/reliability/hostile_peers.py HTTP LINES COUNT`` keeps COUNT connections open, a tenth of each sort,
until its standard input ends: HTTP and LINES are HOST:PORT of a web address and of a workload port. A peer that was
closed connects again. It prints a line when all have connected, and a line of JSON at its end: how often each sort
has connected, and how many connections were open on average.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

#: How many connections are made at once.
_AT_ONCE = 100
#: The longest time for which a peer says nothing before it does its bad thing, and between two bytes of a drip. So some
#: hundred connections a second do it: all peers together ask for a part of a core, and do not simply want all of it.
_MAX_PAUSE_SECONDS = 50.0
#: A peer that never reads leaves after so long.
_DEAF_SECONDS = 15.0
_LARGE_PAGE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = b"POST /api/v1/workloads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{"


class Peer:
    """A socket and the clock of one hostile peer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, draw: random.Random) -> None:
        self._loop = loop
        self.connection = connection
        self.draw = draw

    async def send(self, data: bytes) -> None:
        """Send some bytes, as fast as the service takes them."""
        await self._loop.sock_sendall(self.connection, data)

    async def until_closed(self) -> None:
        """Read until the service closes."""
        while await self._loop.sock_recv(self.connection, 65536):
            pass

    async def pause(self) -> None:
        """Do nothing for some seconds."""
        await asyncio.sleep(self.draw.uniform(0, _MAX_PAUSE_SECONDS))


async def says_nothing(peer: Peer) -> None:
    """Wait for the service to close."""
    await peer.until_closed()


async def drips_a_head(peer: Peer) -> None:
    """Send a request byte by byte."""
    for byte in b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000:
        await peer.send(bytes([byte]))
        await peer.pause()


async def never_reads(peer: Peer) -> None:
    """Ask for a page many times, and read nothing."""
    with suppress(TimeoutError):
        await asyncio.wait_for(peer.send(_LARGE_PAGE * 10), _DEAF_SECONDS)
        await asyncio.sleep(_DEAF_SECONDS)


async def sends_noise(peer: Peer) -> None:
    """Send bytes that are no request."""
    await peer.send(peer.draw.randbytes(2000) + b"\r\n\r\n")
    await peer.until_closed()


async def has_no_end_of_head(peer: Peer) -> None:
    """Send a head that is too long."""
    await peer.send(b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 5_000)
    await peer.until_closed()


async def owes_a_body(peer: Peer) -> None:
    """Announce a body, and send none of it."""
    await peer.send(_POST)
    await peer.until_closed()


async def has_half_an_object(peer: Peer) -> None:
    """Send the beginning of an object."""
    await peer.send(b'{"op": "run", "name": "' + b"x" * 1000)
    await peer.until_closed()


async def has_no_end_of_line(peer: Peer) -> None:
    """Send a line that is too long."""
    await peer.send(b"run " + b"a" * 100_000)
    await peer.until_closed()


async def speaks_nonsense(peer: Peer) -> None:
    """Send many lines that no verb is for, and never read what they are answered."""
    with suppress(TimeoutError):
        await asyncio.wait_for(peer.send(b"fly to=moon\nrun\n\xff\xfe\nlist=\n" * 5), _DEAF_SECONDS)
        await asyncio.sleep(_DEAF_SECONDS)


async def resets(peer: Peer) -> None:
    """Start a workload, and reset the connection."""
    name = peer.draw.randrange(10**9)
    await peer.send(f"run hostile-{name} devices=dgx-0/1 profile=10:0:1\n".encode())
    await peer.pause()
    peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


#: Each sort, and whether it speaks to the line port.
SORTS: dict[Callable[[Peer], Awaitable[None]], bool] = {
    says_nothing: False, drips_a_head: False, never_reads: False, sends_noise: False, has_no_end_of_head: False,
    owes_a_body: False, has_half_an_object: True, has_no_end_of_line: True, speaks_nonsense: True, resets: True,
}  # fmt: skip


class Crowd:
    """All hostile peers of a run."""

    def __init__(self, addresses: dict[bool, tuple[str, int]], count: int) -> None:
        self._addresses = addresses
        self._count = count
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._waiting = count
        self._open = 0
        self._looks: list[int] = []
        self._connected: Counter[str] = Counter()
        self.all_have_connected = asyncio.Event()

    async def run(self) -> dict[str, Any]:
        """Be hostile until standard input ends; what was done."""
        sorts = list(SORTS)
        tasks = [asyncio.create_task(self._live(sorts[number % len(sorts)], number)) for number in range(self._count)]
        await self.all_have_connected.wait()
        print("ready", flush=True)
        ended = asyncio.get_running_loop().run_in_executor(None, os.read, 0, 1)
        while not ended.done():
            self._looks.append(self._open)
            await asyncio.wait([ended], timeout=0.5)
        for task in tasks:
            task.cancel()
        return {"connected": self._connected, "open": sum(self._looks) / len(self._looks)}

    async def _live(self, sort: Callable[[Peer], Awaitable[None]], number: int) -> None:
        draw = random.Random(number)
        loop = asyncio.get_running_loop()
        is_first = True
        while True:
            with socket.socket() as connection, suppress(OSError):
                connection.setblocking(False)
                async with self._turns:
                    await loop.sock_connect(connection, self._addresses[SORTS[sort]])
                self._connected[sort.__name__] += 1
                self._open += 1
                if is_first:
                    is_first = False
                    self._waiting -= 1
                    if not self._waiting:
                        self.all_have_connected.set()
                try:
                    peer = Peer(loop, connection, draw)
                    await peer.pause()
                    await sort(peer)
                finally:
                    self._open -= 1
            await asyncio.sleep(draw.random())


def main() -> None:
    """Be hostile, and print what was done."""
    http, lines, count = sys.argv[1:]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    addresses = {}
    for is_of_lines, address in ((False, http), (True, lines)):
        host, _, port = address.rpartition(":")
        addresses[is_of_lines] = (host, int(port))
    print(json.dumps(asyncio.run(Crowd(addresses, int(count)).run())))


if __name__ == "__main__":
    main()
