"""Real services in tests: started with unused addresses, and the clients that talk to them."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs.processes import PATIENCE_SECONDS, Program, clean_environment, console

StartProgram = Callable[..., Program]

#: Two nodes of two devices; addresses are appended by :func:`serve`.
FLEET = """
version: 1
fleet:
  seed: 7
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
"""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = connected(self._path)


@dataclass
class Page:
    """What a request was answered with."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Service:
    """A fakedev that runs.

    :ivar web: its HTTP addresses, HOST:PORT or a path.
    :ivar workloads: the addresses of its workload ports.
    """

    program: Program
    web: list[str]
    workloads: list[str]

    def fetch(
        self, path: str, body: Any = None, method: str = "", place: int = 0, headers: dict[str, str] | None = None
    ) -> Page:
        """The answer to a request on a connection of its own."""
        content = None if body is None else json.dumps(body)
        return fetch(self.web[place], path, content, method or ("GET" if body is None else "POST"), headers)

    def get_json(self, path: str) -> Any:
        """What GET gives, which must be good."""
        page = self.fetch(path)
        assert page.status == 200, page
        return json.loads(page.body)

    def connect(self, place: int = 0) -> Peer:
        """A new connection to a workload port."""
        return Peer(self.workloads[place])


class Peer:
    """A peer of a workload port."""

    def __init__(self, address: str) -> None:
        self.socket = connected(address)
        self._input = self.socket.makefile("rb")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def send(self, *segments: bytes) -> None:
        """Send each segment by a separate call."""
        for segment in segments:
            self.socket.sendall(segment)

    def line(self) -> str:
        """The next line that comes."""
        return self._input.readline().decode().rstrip("\n")

    def say(self, line: str) -> str:
        """Send a line; the first line that comes back."""
        self.send(f"{line}\n".encode())
        return self.line()

    def rest(self) -> bytes:
        """All that comes until the connection is closed."""
        return self._input.read()

    def leave(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._input.close()
            self.socket.close()


def connected(address: str) -> socket.socket:
    """A socket that is connected to HOST:PORT or a path."""
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(address)
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]").replace("*", "127.0.0.1"), int(port)), PATIENCE_SECONDS)


def fetch(
    address: str, path: str, body: str | None = None, method: str = "GET", headers: dict[str, str] | None = None
) -> Page:
    """The answer to a request on a connection of its own."""
    connection = (
        UnixConnection(address)
        if address.startswith("/")
        else http.client.HTTPConnection(address.replace("*", "127.0.0.1"), timeout=PATIENCE_SECONDS)
    )
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Page(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def addresses(folder: Path, base: str = "") -> str:
    """Keys for a configuration: HTTP on TCP and a UNIX socket, workloads on a UNIX socket and TCP."""
    port = f"{{listen: '{folder}/workload.sock', allow: [workloads, clock]}}"
    web = f'web: ["127.0.0.1:0", "{folder}/web.sock"]'
    return f"{web}\nworkloads: {{listen: [{port}, '127.0.0.1:0']{base}}}\n"


def ready(program: Program, file: Path) -> Service:
    """A service with its addresses in its ready file."""
    said = json.loads(program.wait_for_file(file))
    return Service(program, said["web"], said["workloads"])


def serve(
    start_program: StartProgram, folder: Path, *arguments: str, fleet: str = FLEET, base: str = "",
    command: Sequence[str] | None = None,
) -> Service:  # fmt: skip
    """Start ``fakedev serve`` (or another command that takes its options) on free addresses and wait for it."""
    config, file = folder / "fakedev.yaml", folder / "ready.json"
    config.write_text(fleet + addresses(folder, base))
    starts = list(command or [*console("fakedev"), "serve"])
    program = start_program([*starts, "--config", str(config), "--ready-file", str(file), *arguments], folder=folder)
    return ready(program, file)


def eventually(found: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """What ``found`` gives as soon as that is true; a failure when it never is."""
    deadline, never = time.monotonic() + seconds, threading.Event()
    while not (value := found()):
        if time.monotonic() > deadline:
            pytest.fail(f"after {seconds} s still not: {what}")
        never.wait(0.02)
    return value


def at_once(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """What calls give that are made at the same time, each in a thread."""
    results: dict[int, Any] = {}

    def call(place: int, act: Callable[[], Any]) -> None:
        results[place] = act()

    threads = [threading.Thread(target=call, args=each, daemon=True) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert len(results) == len(threads), "a call failed or hangs"
    return [results[place] for place in range(len(threads))]


def assert_run_again(record: Path, seen: dict[int, bytes], pages: Path) -> None:
    """A record of ten ticks a second, run again without sockets, has the same pages, byte for byte.

    :param seen: some pages by their ticks.
    :param pages: a folder to be made, for the pages of all ticks.
    """
    span = ["--for", f"{max(seen) / 10}s", "--every", "100ms", "--output", str(pages)]
    again = subprocess.run(
        [*console("fakedev"), "render", "--events", str(record), *span],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=clean_environment(),
    )  # fmt: skip
    assert (again.returncode, again.stderr) == (0, "")
    for tick, page in seen.items():
        assert (pages / f"{tick}.prom").read_bytes() == page, tick
