"""twistd and ``fakedev serve`` run the same program: logs, sockets and exit codes; and twistd's own files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import StartAsync, console, twistd

pytestmark = [pytest.mark.real, pytest.mark.slow]

CONFIG = """\
version: 1
fleet: {pools: [{name: p, nodes: 1, device: h100, devices-per-node: 1, identity: dcgm}]}
web: [./web.sock]
workloads: {listen: [{listen: ./workload.sock, mode: 660}]}
"""
SERVE = [*console("fakedev"), "serve"]
TWISTD = [*twistd(), "-n", "fakedev"]


async def seen(start_async: StartAsync, command: list[str], folder: Path) -> tuple[str, dict[str, str], int]:
    """The log of a program that starts, refuses a reload and is stopped; the modes of its files; its exit code."""
    config = folder / "f.yaml"
    config.write_text(CONFIG)
    program = start_async([*command, "--config", "f.yaml", "--ready-file", "ready.json"], folder=folder)
    await program.wait_for_file(folder / "ready.json")
    modes = {path.name: stat.filemode(path.stat().st_mode) for path in sorted(folder.iterdir())}
    config.write_text(CONFIG + "webb: []\n")
    program.send_signal(signal.SIGHUP)
    await program.wait_for_text("unknown key")
    code = await program.stop(signal.SIGTERM)
    assert sorted(os.listdir(folder)) == ["f.yaml"]
    return re.sub(r"^\S+Z ", "", program.stderr, flags=re.MULTILINE), modes, code


@pytest_twisted.ensureDeferred
async def test_side_by_side(start_async: StartAsync, short_folder: Path) -> None:
    """All is the same, but SIGTERM ends twistd by the signal."""
    outcomes = []
    for command in (SERVE, TWISTD):
        folder = short_folder / "s"
        folder.mkdir()
        outcomes.append(await seen(start_async, command, folder))
        shutil.rmtree(folder)
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[0][1]["workload.sock"] == "srw-rw----"
    assert [code for _, _, code in outcomes] == [0, 128 + signal.SIGTERM]


@pytest_twisted.ensureDeferred
async def test_the_log_file_of_twistd(start_async: StartAsync, short_folder: Path) -> None:
    """logrotate truncates or moves it, and its mode stays; the pid file of a killed container stops nothing."""
    log, moved = short_folder / "d.log", short_folder / "moved"
    (short_folder / "f.yaml").write_text(CONFIG)
    (short_folder / "twistd.pid").write_text("1")
    log.touch()
    log.chmod(0o640)
    command = [*twistd(), "-n", "--logfile", "d.log", "fakedev", "--config", "f.yaml"]
    program = start_async(command, folder=short_folder)
    await eventually(lambda: "workload.sock" in log.read_text(), "it has started")
    os.truncate(log, 0)
    program.send_signal(signal.SIGHUP)
    await eventually(lambda: "was reloaded" in log.read_text(), "it has reloaded")
    assert "\0" not in log.read_text()
    log.rename(moved)
    program.send_signal(signal.SIGUSR1)
    await eventually(log.exists, "the log is opened again")
    program.send_signal(signal.SIGHUP)
    await eventually(lambda: "was reloaded" in log.read_text(), "it has reloaded again")
    assert moved.read_text().count("was reloaded") == 1
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    assert await program.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    assert (short_folder / "twistd.pid").read_text() == "1"
