"""fakedev as systemd runs it: sockets that it holds, and what it is told. A process of the test is in its place."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from tests.support.programs.asynchronous import addresses, eventually, fetch
from tests.support.programs.processes import StartAsync, clean_environment, twistd

pytestmark = pytest.mark.real

FLEET = "fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]}\n"
HELD = """
web: [{listen: "systemd:domain=INET:name=web", serve: metrics}, "systemd:domain=UNIX:name=local"]
workloads: {listen: []}
"""
#: As the unit starts it; it ends by the signal, which systemd counts as clean.
UNIT = [*twistd(), "-n", "--pidfile=", "fakedev"]
CLEAN = 128 + signal.SIGTERM
#: systemd passes the sockets as 3 and 4, with the number of the process.
ACTIVATE = 'LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:local exec "$@"'


@contextmanager
def held_sockets(folder: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Sockets that listen: of TCP, and a UNIX socket that only its owner may use."""
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        tcp.bind(("127.0.0.1", 0))
        local.bind(str(folder / "local.sock"))
        os.chmod(folder / "local.sock", 0o600)
        for each in (tcp, local):
            each.listen(100)
        yield tcp, local


@pytest_twisted.ensureDeferred
async def test_a_restart(start_async: StartAsync, tmp_path: Path) -> None:
    """Clients that ask all the time are answered all the time; the file of the UNIX socket and its rights stay."""
    config = tmp_path / "f.yaml"
    config.write_text(FLEET + HELD)
    command = ["sh", "-c", ACTIVATE, "sh", *UNIT, "--config", str(config)]
    with held_sockets(tmp_path) as (tcp, local):
        addresses_of = [f"127.0.0.1:{tcp.getsockname()[1]}", str(tmp_path / "local.sock")]
        statuses: list[int] = []
        is_over = False

        async def ask(address: str) -> None:
            while not is_over:
                statuses.append((await fetch(address, "/metrics")).status)
                await deferLater(reactor, 0.02)

        askers = [Deferred.fromCoroutine(ask(address)) for address in addresses_of]
        for _ in range(3):
            program = start_async(command, descriptors={3: tcp.fileno(), 4: local.fileno()})
            await program.wait_for_text(f"{addresses_of[1]} (curl")
            seen = len(statuses)
            await eventually(lambda: len(statuses) > seen + 10, "requests are answered")  # noqa: B023
            assert await program.stop(signal.SIGTERM) == CLEAN
        is_over = True
        last = start_async(command, descriptors={3: tcp.fileno(), 4: local.fileno()})
        await gatherResults(askers)
        assert set(statuses) == {200}
        assert (tmp_path / "local.sock").stat().st_mode & 0o777 == 0o600
        assert await last.stop(signal.SIGTERM) == CLEAN


@pytest_twisted.ensureDeferred
async def test_a_socket_that_is_not_passed(start_async: StartAsync, tmp_path: Path) -> None:
    """The program tells what to do."""
    config = tmp_path / "f.yaml"
    config.write_text(FLEET + HELD)
    program = start_async([*UNIT, "--config", str(config)])
    assert await program.wait() == 1
    assert "systemd:domain=INET:name=web: systemd has passed no such socket" in program.stderr
    assert "Traceback" not in program.stderr


@pytest_twisted.ensureDeferred
async def test_what_systemd_is_told(start_async: StartAsync, tmp_path: Path) -> None:
    """Ready when all answers, a reload from its beginning to its end, alive again and again, the end."""
    config, notify = tmp_path / "f.yaml", tmp_path / "notify"
    config.write_text(FLEET + addresses(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(notify))
        systemd.setblocking(False)
        environment = clean_environment(NOTIFY_SOCKET=str(notify), WATCHDOG_USEC="600000")
        program = start_async([*UNIT, "--config", str(config)], environment=environment)
        heard: list[str] = []

        def hears(text: str) -> bool:
            try:
                while True:
                    heard.append(systemd.recv(4096).decode())
            except BlockingIOError:
                return any(text in each for each in heard)

        await eventually(lambda: hears("READY=1"), "it is ready")
        assert heard[0].startswith("READY=1\nSTATUS=2 devices on 1 node, tick ")
        assert (tmp_path / "web.sock").exists()
        await eventually(lambda: hears("WATCHDOG=1"), "it says that it lives")
        heard.clear()
        program.send_signal(signal.SIGHUP)
        await eventually(lambda: hears("READY=1"), "it has reloaded")
        reloading = next(each for each in heard if "RELOADING=1" in each)
        assert "MONOTONIC_USEC=" in reloading
        program.send_signal(signal.SIGTERM)
        await eventually(lambda: hears("STOPPING=1"), "it stops")
        assert await program.wait() == CLEAN
