"""Real services in asynchronous tests: started on addresses of their own, and the clients that talk to them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.endpoints import TCP4ClientEndpoint, UNIXClientEndpoint, connectProtocol
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import Agent, FileBodyProducer
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from fakedev.runtime.http_client import read_whole
from tests.support.programs.processes import PATIENCE_SECONDS, AsyncProgram, Changes, StartAsync, console

T = TypeVar("T")
_LOOK_AGAIN_SECONDS: Final = 0.02

#: Two nodes of two devices; addresses are appended by :func:`serve`.
FLEET = """
version: 1
fleet:
  seed: 7
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
"""


class AsyncPeer(Protocol):  # type: ignore[misc]
    """A connection to a port: of lines, or of bytes until the port closes it."""

    def __init__(self) -> None:
        self._received = b""
        self._is_closed = False
        self._changes = Changes()

    async def __aenter__(self) -> AsyncPeer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    def dataReceived(self, data: bytes) -> None:
        """Keep what came (called by Twisted)."""
        self._received += data
        self._changes.changed()

    def connectionLost(self, reason: Failure) -> None:
        """The connection is closed (called by Twisted)."""
        self._is_closed = True
        self._changes.changed()

    async def send(self, *segments: bytes) -> None:
        """Send each segment by a separate call."""
        for segment in segments:
            self.transport.write(segment)
            await deferLater(reactor, 0)

    async def line(self) -> str:
        """The next line; the rest of one when the connection is closed."""
        await self._until(lambda: b"\n" in self._received or self._is_closed, "a line")
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    async def say(self, line: str) -> str:
        """Send a line; the first line that comes back."""
        await self.send(f"{line}\n".encode())
        return await self.line()

    async def some(self) -> bytes:
        """The next bytes that come, at least one; none when the connection is closed."""
        await self._until(lambda: bool(self._received) or self._is_closed, "any byte")
        data, self._received = self._received, b""
        return data

    async def rest(self) -> bytes:
        """All that comes until the connection is closed."""
        await self._until(lambda: self._is_closed, "the end of the connection")
        return await self.some()

    async def leave(self) -> None:
        """Close the connection."""
        self.transport.abortConnection()
        await self._until(lambda: self._is_closed, "the end of the connection")

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        if not await self._changes.until(is_so):
            pytest.fail(f"{what} did not come within {PATIENCE_SECONDS} s; before it came {self._received!r}")


@dataclass
class Page:
    """What a request was answered with."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class AsyncService:
    """A fakedev that runs.

    :ivar web: its HTTP addresses, HOST:PORT or a path.
    :ivar workloads: the addresses of its workload ports.
    """

    program: AsyncProgram
    web: list[str]
    workloads: list[str]

    async def fetch(
        self, path: str, body: Any = None, method: str = "", place: int = 0, headers: dict[str, str] | None = None
    ) -> Page:
        """The answer to a request on a new connection."""
        content = None if body is None else json.dumps(body)
        return await fetch(self.web[place], path, content, method or ("GET" if body is None else "POST"), headers)

    async def get_json(self, path: str) -> Any:
        """What GET gives, which must be good."""
        page = await self.fetch(path)
        assert page.status == 200, page
        return json.loads(page.body)

    async def connect(self, place: int = 0) -> AsyncPeer:
        """A new connection to a workload port."""
        return await connected(self.workloads[place])


def endpoint_of(address: str) -> IStreamClientEndpoint:
    """How to connect to HOST:PORT or to the path of a socket."""
    if address.startswith("/"):
        return UNIXClientEndpoint(reactor, address, timeout=PATIENCE_SECONDS)
    host, _, port = address.rpartition(":")
    return TCP4ClientEndpoint(reactor, host.replace("*", "127.0.0.1"), int(port), timeout=PATIENCE_SECONDS)


async def connected(address: str) -> AsyncPeer:
    """A connection to HOST:PORT or to the path of a socket."""
    peer: AsyncPeer = await connectProtocol(endpoint_of(address), AsyncPeer())
    return peer


@implementer(IAgentEndpointFactory)
class _Address:
    """An address that all requests go to, for any URL."""

    def __init__(self, address: str) -> None:
        self._address = address

    def endpointForURI(self, uri: object) -> IStreamClientEndpoint:
        """Where to connect (called by Twisted)."""
        return endpoint_of(self._address)


async def fetch(
    address: str, path: str, body: str | None = None, method: str = "GET", headers: dict[str, str] | None = None
) -> Page:
    """The answer to a request on a new connection."""
    host = "localhost" if address.startswith("/") else address.replace("*", "127.0.0.1")
    producer = None if body is None else FileBodyProducer(BytesIO(body.encode()))
    asked = Headers({name: [value] for name, value in (headers or {}).items()})
    agent = Agent.usingEndpointFactory(reactor, _Address(address))
    answer = await agent.request(method.encode(), f"http://{host}{path}".encode(), asked, producer).addTimeout(
        PATIENCE_SECONDS, reactor
    )
    content = await read_whole(answer, path).addTimeout(PATIENCE_SECONDS, reactor)
    found = {name.decode().lower(): values[0].decode() for name, values in answer.headers.getAllRawHeaders()}
    return Page(answer.code, found, content)


def addresses(folder: Path, base: str = "") -> str:
    """Keys for a configuration: HTTP on TCP and a UNIX socket, workloads on a UNIX socket and TCP."""
    port = f"{{listen: '{folder}/workload.sock', allow: [workloads, clock]}}"
    web = f'web: ["127.0.0.1:0", "{folder}/web.sock"]'
    return f"{web}\nworkloads: {{listen: [{port}, '127.0.0.1:0']{base}}}\n"


async def ready(program: AsyncProgram, file: Path) -> AsyncService:
    """A service with its addresses in its ready file."""
    said = json.loads(await program.wait_for_file(file))
    return AsyncService(program, said["web"], said["workloads"])


async def serve(
    start_async: StartAsync, folder: Path, *arguments: str, fleet: str = FLEET, base: str = "",
    command: Sequence[str] | None = None,
) -> AsyncService:  # fmt: skip
    """Start ``fakedev serve`` (or another command that takes its options) on free addresses and wait for it."""
    config, file = folder / "fakedev.yaml", folder / "ready.json"
    config.write_text(fleet + addresses(folder, base))
    starts = list(command or [*console("fakedev"), "serve"])
    program = start_async([*starts, "--config", str(config), "--ready-file", str(file), *arguments], folder=folder)
    return await ready(program, file)


async def eventually(found: Callable[[], T | Awaitable[T]], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """What ``found`` gives, or comes to, as soon as that is true; a failure when it never is."""
    deadline = reactor.seconds() + seconds
    while True:
        value = found()
        result = await value if inspect.isawaitable(value) else value
        if result:
            return result
        if reactor.seconds() > deadline:
            pytest.fail(f"after {seconds} s still not: {what}")
        await deferLater(reactor, _LOOK_AGAIN_SECONDS)


async def at_once(calls: Sequence[Awaitable[T]], seconds: float = PATIENCE_SECONDS) -> list[T]:
    """What coroutines come to that run at the same time, in their order."""
    running = gatherResults([Deferred.fromCoroutine(call) for call in calls], consumeErrors=True)
    try:
        results: list[T] = await running.addTimeout(seconds, reactor)
    except FirstError as first:
        raise first.subFailure.value from first
    return results


async def assert_run_again(start_async: StartAsync, record: Path, seen: dict[int, bytes], pages: Path) -> None:
    """A record of ten ticks a second, run again without sockets, has the same pages, byte for byte.

    :param seen: some pages by their ticks.
    :param pages: a folder to be made, for the pages of all ticks.
    """
    span = ["--for", f"{max(seen) / 10}s", "--every", "100ms", "--output", str(pages)]
    again = start_async([*console("fakedev"), "render", "--events", str(record), *span])
    assert (await again.wait(), again.stderr) == (0, "")
    for tick, page in seen.items():
        assert (pages / f"{tick}.prom").read_bytes() == page, tick
