"""Drop-ins listen before they load their modules: they wait at a gate inside an import, where no time passes."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
import pytest_twisted

from tests.service.real.test_early_signals import Gated, gated
from tests.support.paths import DATA
from tests.support.programs.asynchronous import fetch
from tests.support.programs.processes import console

pytestmark = pytest.mark.real
__all__ = ["gated"]

FILES = [part for option, name in (("devtype", "device"), ("devlist", "devices"), ("identity", "identity"))
         for part in (f"-{option}", str(DATA / f"original-{name}.json"))]  # fmt: skip


@pytest.fixture
def port() -> int:
    """A free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
        return number


def exporter(port: int, path: Path, *more: str) -> list[str]:
    return [*console("fakedev-exporter"), "-address", f"127.0.0.1:{port}", "-socket", str(path), *FILES, *more]


@pytest_twisted.ensureDeferred
async def test_connections_wait(gated: Gated, port: int, short_folder: Path) -> None:
    """Over TCP and a UNIX socket, whose file has its rights at once and is removed at the end."""
    path = short_folder / "w.sock"
    program = await gated.start_at("fakedev.commands.dropins.exporter", *exporter(port, path))
    assert path.stat().st_mode & 0o777 == 0o600
    page = fetch(f"127.0.0.1:{port}", "/metrics")
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(b"help\n")
        gated.open()
        assert (await page).status == 200
        assert "[open to its owner]" in await program.wait_for_text("workloads: ")
        assert peer.recv(2) == b"ok"
        assert await program.stop() == 0
    assert not path.exists()


@pytest_twisted.ensureDeferred
async def test_a_signal_before_the_start(gated: Gated, port: int, tmp_path: Path) -> None:
    program = await gated.start_at("fakedev.commands.dropins.exporter", *exporter(port, tmp_path / "w.sock"))
    assert (tmp_path / "w.sock").exists()
    assert await program.stop(signal.SIGTERM) == 0
    assert not (tmp_path / "w.sock").exists()


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        (["-count", "x"], 2, "-count: 'x' is no whole number"),
        (["-identity", "/none.json"], 2, "/none.json"),
        (["-record", "/nowhere/at/all"], 1, "the record cannot be written"),
    ],
    ids=["option", "file", "record"],
)
@pytest_twisted.ensureDeferred
async def test_a_start_that_fails(
    gated: Gated, port: int, tmp_path: Path, more: list[str], code: int, text: str
) -> None:
    program = gated.start_async(exporter(port, tmp_path / "w.sock", *more))
    assert await program.wait() == code
    assert text in program.stderr
    assert os.listdir(tmp_path) == []


@pytest_twisted.ensureDeferred
async def test_a_busy_port(gated: Gated, tmp_path: Path) -> None:
    """The reason, with the option; the UNIX socket is removed again."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        program = gated.start_async(exporter(port, tmp_path / "w.sock"))
        assert await program.wait() == 1
    assert f"cannot listen on 127.0.0.1:{port}: the address is in use by another program" in program.stderr
    assert "-address" in program.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["fakedev-frontend", "fakedev-client", "fakedev-dcgm-exporter"])
@pytest_twisted.ensureDeferred
async def test_other_programs(gated: Gated, port: int, name: str) -> None:
    """Each hands its socket to the service of the address."""
    option = "--address" if "dcgm" in name else "-caddr"
    more = ["-maddr", "127.0.0.1:0", "-waddr", "127.0.0.1:0", "q"] if name == "fakedev-frontend" else []
    module = f"fakedev.commands.dropins.{name.removeprefix('fakedev-').replace('-', '_')}"
    program = await gated.start_at(module, *console(name), option, f"127.0.0.1:{port}", *more)
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" if not more else b"help\n")
        gated.open()
        await program.wait_for_text(f"127.0.0.1:{port}")
        assert peer.recv(2) in (b"HT", b"ok")
    await program.stop()
