"""An address that is taken ends the program: code 1, one line, nothing left; alone, under twistd, as a daemon."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import StartAsync, console, twistd

pytestmark = pytest.mark.real

TEXT = "the address is in use by another program; change web.1.listen (--set web.1.listen=ADDRESS)"


@pytest.fixture
def busy() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def options(port: int, folder: Path) -> list[str]:
    """A free UNIX socket first, then the busy port: the socket must not stay behind."""
    web = f'[{{"listen": "{folder}/metrics.sock"}}, {{"listen": "127.0.0.1:{port}", "serve": "metrics"}}]'
    return ["--set", f"web={web}", "--set", f'workloads.listen=[{{"listen": "{folder}/workload.sock"}}]']


@pytest_twisted.ensureDeferred
async def test_serve(start_async: StartAsync, busy: int, tmp_path: Path) -> None:
    """One line on standard error."""
    program = start_async([*console("fakedev"), "serve", *options(busy, tmp_path)], folder=tmp_path)
    assert await program.wait() == 1
    (line,) = program.stderr.splitlines()
    assert line.endswith(f"critical cannot listen on 127.0.0.1:{busy}: {TEXT}")
    assert os.listdir(tmp_path) == []


@pytest_twisted.ensureDeferred
async def test_twistd(start_async: StartAsync, busy: int, tmp_path: Path) -> None:
    """The same, and twistd removes its pid file."""
    program = start_async([*twistd(), "-n", "fakedev", *options(busy, tmp_path)], folder=tmp_path)
    assert await program.wait() == 1
    (line,) = program.stderr.splitlines()
    assert TEXT in line
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", [[*console("fakedev"), "serve"], [*twistd(), "-n", "fakedev"]], ids=["", "twistd"])
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--ready-file", "none/ready"], "the ready file cannot be written: {}/none/ready: no such file or folder"),
        (["--set", 'journal={"file": "none/journal"}'], "the journal cannot be written: {}/none/journal: no such file"),
    ],
    ids=["ready file", "journal"],
)
@pytest_twisted.ensureDeferred
async def test_a_file(
    start_async: StartAsync, tmp_path: Path, command: list[str], more: list[str], reason: str
) -> None:
    """A file that cannot be written ends the program in the same way, before it listens or after."""
    program = start_async([*command, *options(0, tmp_path), *more], folder=tmp_path)
    assert await program.wait() == 1
    assert reason.format(tmp_path) in program.stderr
    assert "Traceback" not in program.stderr
    assert os.listdir(tmp_path) == []


@pytest_twisted.ensureDeferred
async def test_a_daemon(start_async: StartAsync, busy: int, tmp_path: Path) -> None:
    """The command that starts the daemon fails at once; the whole reason is in the log, without a traceback."""
    program = start_async([*twistd(), "fakedev", *options(busy, tmp_path)], folder=tmp_path)
    assert await program.wait() == 1
    assert "cannot listen" in program.stderr
    # twistd tells the parent why before it removes the pid file.
    await eventually(lambda: os.listdir(tmp_path) == ["twistd.log"], "the pid file is removed")
    (line,) = (tmp_path / "twistd.log").read_text(encoding="utf-8").splitlines()
    assert line.endswith(TEXT)


@pytest_twisted.ensureDeferred
async def test_a_good_daemon(start_async: StartAsync, tmp_path: Path) -> None:
    """It logs to twistd.log, rotates it on SIGUSR1, and removes its files when it ends."""
    (tmp_path / "run").mkdir()
    program = start_async([*twistd(), "fakedev", *options(0, tmp_path / "run")], folder=tmp_path)
    assert await program.wait() == 0
    daemon = int((tmp_path / "twistd.pid").read_text(encoding="utf-8"))
    watched = os.pidfd_open(daemon)
    try:
        assert "workload.sock" in (tmp_path / "twistd.log").read_text(encoding="utf-8")
        assert {path.name for path in (tmp_path / "run").iterdir()} == {"metrics.sock", "workload.sock"}
        os.kill(daemon, signal.SIGUSR1)
        await eventually((tmp_path / "twistd.log.1").exists, "the log is rotated")
        os.kill(daemon, signal.SIGTERM)
        # The descriptor of a process is readable once it has ended.
        await eventually(lambda: select.select([watched], [], [], 0)[0], "the daemon has ended")
    finally:
        with suppress(ProcessLookupError):
            os.kill(daemon, signal.SIGKILL)
        os.close(watched)
    assert list((tmp_path / "run").iterdir()) == []
    assert not (tmp_path / "twistd.pid").exists()
