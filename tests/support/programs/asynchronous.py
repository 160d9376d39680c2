"""Real programs in asynchronous tests: what they write, answer and become is awaited on the real reactor."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.endpoints import TCP4ClientEndpoint, UNIXClientEndpoint, connectProtocol
from twisted.internet.inotify import INotify
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import ProcessProtocol, Protocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.python.filepath import FilePath
from twisted.web.client import Agent, FileBodyProducer, ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from tests.support.programs.processes import PATIENCE_SECONDS, clean_environment, console
from tests.support.programs.service import FLEET, Page, addresses

T = TypeVar("T")
_LOOK_AGAIN_SECONDS: Final = 0.02


class Changes:
    """Something that events change, and those who wait until it is as they want."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], Deferred[None]]] = []

    def changed(self) -> None:
        """Look again at what each waits for."""
        for waiting in list(self._waiting):
            is_so, arrived = waiting
            if waiting in self._waiting and is_so():
                self._waiting.remove(waiting)
                arrived.callback(None)

    async def until(self, is_so: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        """Wait until a condition holds; False when it does not within the time."""
        if is_so():
            return True
        arrived: Deferred[None] = Deferred()
        waiting = (is_so, arrived)
        self._waiting.append(waiting)
        arrived.addTimeout(seconds, reactor)
        try:
            await arrived
        except TimeoutError:
            self._waiting.remove(waiting)
            return False
        return True


class AsyncProgram(ProcessProtocol):  # type: ignore[misc]
    """A real program that runs in its own process group.

    :ivar stdout: what it wrote to standard output until now.
    :ivar stderr: what it wrote to standard error until now.
    :ivar exit_code: as the shell has it (128 + the signal that ended it); None while it runs.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: str | Path | None = None
    ) -> None:
        self.command = list(command)
        self._bytes = {1: b"", 2: b""}
        self.exit_code: int | None = None
        self._changes = Changes()
        setsid = shutil.which("setsid")
        assert setsid is not None
        with open(os.devnull, "rb") as nothing:
            self._process = reactor.spawnProcess(
                self,
                setsid,
                ["setsid", *self.command],
                clean_environment() if environment is None else dict(environment),
                None if folder is None else str(folder),
                childFDs={0: nothing.fileno(), 1: "r", 2: "r"},
            )
        self.pid: int = self._process.pid

    @property
    def stdout(self) -> str:
        """What it wrote to standard output until now."""
        return self._bytes[1].decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """What it wrote to standard error until now."""
        return self._bytes[2].decode("utf-8", "replace")

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        """Keep what it wrote (called by Twisted)."""
        self._bytes[childFD] += data
        self._changes.changed()

    def processEnded(self, reason: Failure) -> None:
        """It has ended, and all that it wrote is here (called by Twisted)."""
        value = reason.value
        self.exit_code = 128 + value.signal if value.signal else value.exitCode
        self._changes.changed()

    async def wait_for_text(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until it has written a line that holds a text; that line."""
        await self._until(lambda: self._line_with(text) is not None, f"the text {text!r}", seconds)
        return self._line_with(text) or ""

    async def wait_for_file(self, path: str | Path, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until a file with something in it is there (a ready file, a socket); its text if it has one."""
        path = Path(path)
        notifier = INotify()
        notifier.startReading()
        try:
            notifier.watch(FilePath(str(path.parent)), callbacks=[lambda *_: self._changes.changed()])
            await self._until(lambda: _is_there(path), f"the file {path}", seconds)
        finally:
            notifier.loseConnection()
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    async def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until it ends; its exit code."""
        if not await self._changes.until(lambda: self.exit_code is not None, seconds):
            pytest.fail(f"{self} did not end within {seconds} s{self._written()}")
        assert self.exit_code is not None
        return self.exit_code

    def send_signal(self, number: int) -> None:
        """Send it a signal; it must run."""
        assert self.exit_code is None, f"{self} has ended{self._written()}"
        os.kill(self.pid, number)

    async def stop(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_SECONDS) -> int:
        """Send it a signal and wait until it ends; its exit code."""
        self.send_signal(number)
        return await self.wait(seconds)

    async def stop_impatiently(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal again and again until it has ended; its exit code."""
        while self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            await deferLater(reactor, 0.002)
        return self.exit_code

    async def kill(self) -> None:
        """End it and everything it started, in any state."""
        # The group outlives its leader when a child of it does; the id is only free when all are gone.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.exit_code is None:
            with suppress(ProcessLookupError):  # setsid has not made the group yet
                os.kill(self.pid, signal.SIGKILL)
        await self.wait()

    def __str__(self) -> str:
        return " ".join(self.command)

    async def _until(self, is_so: Callable[[], bool], what: str, seconds: float) -> None:
        arrived = await self._changes.until(lambda: is_so() or self.exit_code is not None, seconds)
        if not is_so():
            state = f"ended with {self.exit_code}" if arrived else f"runs, but after {seconds} s"
            pytest.fail(f"{self} {state} without {what}{self._written()}")

    def _line_with(self, text: str) -> str | None:
        for written in (self.stdout, self.stderr):
            # A line that has not ended may lack its rest.
            for line in written.splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line.rstrip("\r\n")
        return None

    def _written(self) -> str:
        return f"\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


#: Starts a program, as ``AsyncProgram(command, ...)`` does.
StartAsync = Callable[..., AsyncProgram]


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


class _Body(Protocol):  # type: ignore[misc]
    """The body of an answer.

    :ivar whole: fires with it when all of it is here, and fails when the connection breaks before.
    """

    def __init__(self) -> None:
        self.whole: Deferred[bytes] = Deferred()
        self._parts: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        """Keep a part (called by Twisted)."""
        self._parts.append(data)

    def connectionLost(self, reason: Failure) -> None:
        """The body has ended (called by Twisted)."""
        if reason.check(ResponseDone):
            self.whole.callback(b"".join(self._parts))
        else:
            self.whole.errback(reason)


async def fetch(
    address: str, path: str, body: str | None = None, method: str = "GET", headers: dict[str, str] | None = None
) -> Page:
    """The answer to a request on a connection of its own."""
    host = "localhost" if address.startswith("/") else address.replace("*", "127.0.0.1")
    producer = None if body is None else FileBodyProducer(BytesIO(body.encode()))
    asked = Headers({name: [value] for name, value in (headers or {}).items()})
    agent = Agent.usingEndpointFactory(reactor, _Address(address))
    answer = await agent.request(method.encode(), f"http://{host}{path}".encode(), asked, producer).addTimeout(
        PATIENCE_SECONDS, reactor
    )
    body_of = _Body()
    answer.deliverBody(body_of)
    content = await body_of.whole.addTimeout(PATIENCE_SECONDS, reactor)
    found = {name.decode().lower(): values[0].decode() for name, values in answer.headers.getAllRawHeaders()}
    return Page(answer.code, found, content)


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


def _is_there(path: Path) -> bool:
    try:
        return path.is_socket() or path.stat().st_size > 0
    except OSError:
        return False
