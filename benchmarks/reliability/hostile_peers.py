"""Hostile peers of many sorts at once, in a process of their own.

``python benchmarks/reliability/hostile_peers.py COUNT web=HOST:PORT lines=HOST:PORT`` keeps COUNT connections open, as
many of each sort, until its standard input ends: ``web`` is a web address, ``lines`` a workload port; ``password``, a
web address with a password, and ``tls``, one with TLS, may follow for the sorts that need them. A peer that was closed
connects again. It prints a line when all have connected, and a line of JSON at its end: how often each sort has
connected, and how many connections were open on average.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
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
_BOMB = gzip.compress(bytes(40_000_000))


def _post(fields: bytes, body: bytes, length: int = 0) -> bytes:
    """A request that starts a workload.

    :param length: the announced length of the body; 0: the right one.
    """
    head = b"POST /api/v1/workloads HTTP/1.1\r\nHost: localhost\r\n" + fields
    return head + b"Content-Length: %d\r\n\r\n" % (length or len(body)) + body


class Peer:
    """A socket and the clock of one hostile peer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, draw: random.Random) -> None:
        self._loop = loop
        self.connection = connection
        self.draw = draw

    async def send(self, data: bytes) -> None:
        """Send some bytes, as fast as the service takes them."""
        await self._loop.sock_sendall(self.connection, data)

    async def receive(self, most: int) -> None:
        """Read some bytes; the end of the connection is an OSError."""
        if not await self._loop.sock_recv(self.connection, most):
            raise ConnectionError

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
    await peer.send(_post(b"", b"{", 60_000))
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


async def reads_slowly(peer: Peer) -> None:
    """Ask for a page, and read a byte of it now and then."""
    await peer.send(_LARGE_PAGE)
    for _ in range(1000):
        await peer.receive(1)
        await peer.pause()


async def has_a_wrong_chunk(peer: Peer) -> None:
    """Send a body in chunks, whose second one has no length."""
    head = b"POST /api/v1/workloads HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    await peer.send(head + b"1\r\n{\r\nzz\r\n")
    await peer.until_closed()


async def packs_a_bomb(peer: Peer) -> None:
    """Send a body of 40 KB that unpacks to 40 MB."""
    await peer.send(_post(b"Content-Encoding: gzip\r\n", _BOMB))
    await peer.until_closed()


async def nests_json(peer: Peer) -> None:
    """Send a body of 30,000 lists, each in the one before."""
    await peer.send(_post(b"Content-Type: application/json\r\n", b"[" * 30_000 + b"]" * 30_000))
    await peer.until_closed()


async def nests_json_in_a_line(peer: Peer) -> None:
    """The same on the line port, many times."""
    with suppress(TimeoutError):
        await asyncio.wait_for(peer.send((b'{"op":' + b"[" * 15_000 + b"]" * 15_000 + b"}\n") * 3), _DEAF_SECONDS)
        await asyncio.wait_for(peer.until_closed(), _DEAF_SECONDS)


async def asks_at_once(peer: Peer) -> None:
    """Send a hundred requests for small pages before it reads an answer."""
    await peer.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
    await asyncio.wait_for(peer.until_closed(), _DEAF_SECONDS)


async def guesses_passwords(peer: Peer) -> None:
    """Send wrong passwords, each as soon as the one before was answered."""
    for _ in range(5):
        name = base64.b64encode(b"alice:%d" % peer.draw.randrange(10**9))
        await peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + name + b"\r\n\r\n")
        await peer.receive(65536)


async def shakes_half_a_hand(peer: Peer) -> None:
    """Send the first bytes of a TLS handshake."""
    await peer.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    await peer.until_closed()


#: Each sort, and the kind of address that it speaks to.
SORTS: dict[Callable[[Peer], Awaitable[None]], str] = {
    says_nothing: "web", drips_a_head: "web", never_reads: "web", sends_noise: "web", has_no_end_of_head: "web",
    owes_a_body: "web", has_half_an_object: "lines", has_no_end_of_line: "lines", speaks_nonsense: "lines",
    resets: "lines", reads_slowly: "web", has_a_wrong_chunk: "web", packs_a_bomb: "web", nests_json: "web",
    nests_json_in_a_line: "lines", asks_at_once: "web", guesses_passwords: "password", shakes_half_a_hand: "tls",
}  # fmt: skip


class Crowd:
    """All hostile peers of a run."""

    def __init__(self, addresses: dict[str, tuple[str, int]], count: int) -> None:
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
        sorts = [sort for sort, kind in SORTS.items() if kind in self._addresses]
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
    count, *kinds = sys.argv[1:]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    addresses = {}
    for kind, _, address in (kind.partition("=") for kind in kinds):
        host, _, port = address.rpartition(":")
        addresses[kind] = (host, int(port))
    print(json.dumps(asyncio.run(Crowd(addresses, int(count)).run())))


if __name__ == "__main__":
    main()
