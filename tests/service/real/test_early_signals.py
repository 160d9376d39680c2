"""Signals while a program still imports: each program is stopped at a gate inside an import, where no time passes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.paths import ROOT
from tests.support.programs.asynchronous import FLEET, addresses, eventually
from tests.support.programs.processes import AsyncProgram, StartAsync, clean_environment, console, run, twistd

pytestmark = pytest.mark.real

#: Python imports it before all else. At the import of the module it tells that it is there, and waits for a writer.
GATE = """
import os, sys

class Gate:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["GATE_MODULE"]:
            sys.meta_path.remove(self)
            os.write(1, b"at the gate\\n")
            os.close(os.open(os.environ["GATE_PIPE"], os.O_RDONLY))

sys.meta_path.insert(0, Gate())
"""
TERM, INT, HUP, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1


@dataclass
class Gated:
    """Starts programs that wait at a gate."""

    folder: Path
    start_async: StartAsync
    _writer: int = -1

    async def start_at(self, module: str, *command: str) -> AsyncProgram:
        """Start a command; return when it imports a module."""
        (self.folder / "sitecustomize.py").write_text(GATE)
        os.mkfifo(self.folder / "pipe")
        environment = clean_environment(GATE_MODULE=module, GATE_PIPE=str(self.folder / "pipe"))
        environment["PYTHONPATH"] = f"{self.folder}:{environment['PYTHONPATH']}"
        program = self.start_async(command, environment=environment, folder=self.folder)
        await program.wait_for_text("at the gate")
        return program

    async def start(self, name: str, *before: str) -> AsyncProgram:
        """Start ``serve``, ``twistd`` or a drop-in; return when it is at the gate.

        :param before: a command that starts the program.
        """
        config = self.folder / "fakedev.yaml"
        config.write_text(FLEET + addresses(self.folder))
        options = ["--config", str(config), "--ready-file", str(self.folder / "ready.json")]
        if name == "serve":
            command, module = [*console("fakedev"), "serve", *options], "fakedev.service.options"
        elif name == "twistd":
            command, module = [*twistd(), "-n", "--pidfile=", "fakedev", *options], "fakedev.service.options"
        else:
            module = f"fakedev.commands.dropins.{name.removeprefix('fakedev-').replace('-', '_')}"
            command = console(name)
        return await self.start_at(module, *before, *command)

    def open(self) -> None:
        """Let the program go on."""
        # Also for reading: that does not wait for the program, which may have ended.
        self._writer = os.open(self.folder / "pipe", os.O_RDWR)

    def close(self) -> None:
        """The test is over."""
        if self._writer >= 0:
            os.close(self._writer)


@pytest.fixture
def gated(tmp_path: Path, start_async: StartAsync) -> Iterator[Gated]:
    """Programs in a folder of their own."""
    gate = Gated(tmp_path, start_async)
    yield gate
    gate.close()


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("serve", TERM, 0), ("serve", INT, 0), ("twistd", TERM, 128 + TERM),
        ("fakedev-exporter", TERM, 0), ("fakedev-exporter", HUP, 0), ("fakedev-dcgm-exporter", TERM, 0),
        ("fakedev-frontend", TERM, 0), ("fakedev-backend", INT, 0), ("fakedev-backend", HUP, 0),
    ],
)  # fmt: skip
@pytest_twisted.ensureDeferred
async def test_the_end(gated: Gated, name: str, number: int, code: int) -> None:
    program = await gated.start(name)
    assert await program.stop(number) == code
    assert program.stderr == ""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("fakedev.commands.main", "--help"), ("fakedev.fleet.verbs", "stop w1"), ("http.client", "status"),
        ("numpy", "render --for 0s"), ("numpy", "sd"), ("numpy", "devices"), ("numpy", "diff dcgm dcgm@3.0"),
        ("numpy", "conform --against x"), ("twisted.internet", "scale-test"), ("numpy", "serve --check"),
        ("numpy", "serve --print-config"),
    ],
)  # fmt: skip
@pytest_twisted.ensureDeferred
async def test_ctrl_c_of_a_command(gated: Gated, module: str, command: str) -> None:
    """130 at once, without a traceback."""
    program = await gated.start_at(module, *console("fakedev"), *command.split())
    assert await program.stop(INT) == 128 + INT
    assert program.stderr == ""


@pytest.mark.parametrize("number", [INT, TERM])
@pytest_twisted.ensureDeferred
async def test_the_workload(gated: Gated, number: int) -> None:
    """0, as after a later signal."""
    program = await gated.start_at("fakedev.commands.workload.main", *console("fakedev-workload"), "-devnames", "a")
    assert await program.stop(number) == 0
    assert program.stderr == ""


#: Runs ``fakedev replay``, which gets a signal when all is announced, before the reactor runs.
AT_ONCE = """
import os, signal, sys
from fakedev.commands.main import main
from fakedev.runtime.announcement import Announcement

class AtOnce(Announcement):
    def announce(self):
        announce(self)
        os.kill(os.getpid(), int(sys.argv[1]))

announce, Announcement.announce = Announcement.announce, AtOnce.announce
sys.exit(main(["replay", *sys.argv[2:]]))
"""


@pytest.mark.parametrize("number", [INT, TERM])
@pytest_twisted.ensureDeferred
async def test_a_program_that_was_just_announced(start_async: StartAsync, tmp_path: Path, number: int) -> None:
    """Who reads its ready file may stop it at once: it ends in order, and the file goes."""
    trace, file = str(ROOT / "etc" / "traces" / "small"), tmp_path / "ready.json"
    command = [sys.executable, "-c", AT_ONCE, str(int(number)), "jobs", trace, "--usage", "60", "--port", "0"]
    program = await run(start_async, *command, "--ready-file", str(file), folder=tmp_path)
    assert program.exit_code == 0
    assert not file.exists()


@pytest_twisted.ensureDeferred
async def test_ctrl_c_while_pages_are_printed(start_async: StartAsync, tmp_path: Path) -> None:
    """130, and complete files up to then; nothing on standard error, which is no terminal."""
    command = [*console("fakedev"), "render", "--for", "1000h", "--every", "1s", "--output", str(tmp_path / "pages")]
    program = start_async(command, folder=tmp_path)
    (tmp_path / "pages").mkdir()
    await program.wait_for_file(tmp_path / "pages" / "0.prom")
    assert await program.stop(INT) == 128 + INT
    assert (program.stdout, program.stderr) == ("", "")


def has_ended(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest_twisted.ensureDeferred
async def test_ctrl_c_of_a_scale_test(start_async: StartAsync, tmp_path: Path) -> None:
    """130 after an orderly end: the backends that it has started are stopped."""
    backend = f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000'"
    command = [*console("fakedev"), "scale-test", "--protocol", "bare", "--start", backend]
    program = start_async(command, folder=tmp_path)
    pid = int(await program.wait_for_file(tmp_path / "pid"))
    assert await program.stop(INT) == 128 + INT
    assert "it was stopped" in program.stderr
    assert "Traceback" not in program.stderr
    await eventually(lambda: has_ended(pid), "the backend has ended")


@pytest.mark.parametrize(("name", "code"), [("serve", 0), ("twistd", 128 + TERM)])
@pytest_twisted.ensureDeferred
async def test_signals_that_do_not_end_it(gated: Gated, name: str, code: int) -> None:
    """The service starts; SIGHUP reloads when it has, because the file may have changed since it was read."""
    program = await gated.start(name)
    for number in (USR1, HUP, HUP):
        program.send_signal(number)
    gated.open()
    await program.wait_for_text("the configuration was reloaded")
    assert await program.stop() == code


@pytest_twisted.ensureDeferred
async def test_the_client_judges_also_then(gated: Gated) -> None:
    """Its exit code is a verdict: it starts, ends and reports as after a later signal."""
    program = await gated.start("fakedev-client")
    program.send_signal(TERM)
    gated.open()
    assert await program.wait() == 0
    assert "Requests to sleep" in program.stdout


@pytest.mark.parametrize("name", ["serve", "fakedev-exporter"])
@pytest.mark.requires_program("unshare")
@pytest_twisted.ensureDeferred
async def test_process_1_of_a_container(gated: Gated, name: str) -> None:
    """The kernel drops signals that process 1 has no handler for."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a namespace of processes")
    program = await gated.start(name, *unshare)
    (child,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    os.kill(int(child), TERM)
    assert await program.wait() == 0
