"""The commands that watch and control a running service find it by themselves: no option names an address."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.processes import AsyncProgram, StartAsync, console, run

pytestmark = pytest.mark.real


async def demo(start_async: StartAsync, folder: Path, *options: str) -> AsyncService:
    """The built-in demo, with its sockets in the default folder."""
    file = folder / "ready.json"
    command = [*console("fakedev"), "serve", "--set", "web.0.listen=127.0.0.1:0", "--ready-file", str(file), *options]
    return await ready(start_async(command, folder=folder), file)


@pytest_twisted.ensureDeferred
async def test_a_session(start_async: StartAsync, tmp_path: Path) -> None:
    """Look, start, inject, explain, advance, clear, stop; what is wrong is one line and its exit code."""
    await demo(start_async, tmp_path, "--set", "fleet.speed=0")

    async def fakedev(*words: str, code: int = 0) -> str:
        program = await run(start_async, *console("fakedev"), *words)
        assert program.exit_code == code, (program.stdout, program.stderr)
        return program.stderr if code else program.stdout

    assert "health     good" in await fakedev("status")
    assert (await fakedev("run", "train", "devices=dgx-0/7", "profile=80:0:0")).startswith("w")
    assert await fakedev("advance", "2s") == "tick 2 seconds 2\n"
    assert "train state=running" in await fakedev("workloads")
    fault = (await fakedev("fault", "lost", "devices=dgx-0/7")).strip()
    await fakedev("advance", "1s")
    assert "1 lost" in await fakedev("status")
    assert f"{fault} lost state=active" in await fakedev("faults", "--active")
    assert "not shown: the device is lost" in await fakedev("explain", "dgx-0/7", "power")
    assert await fakedev("clear", "all") == "cleared 1\n"
    assert "dgx-0/0 type=h100" in await fakedev("devices", "--active")
    assert "lost dgx-0/7" in await fakedev("journal", "kind=lost")
    assert await fakedev("speed", "60") == "speed 60\n"
    assert "speed 60" in await fakedev("status")
    assert await fakedev("stop", "nothing", code=2) == "fakedev stop: no workload 'nothing'\n"
    assert "did you mean" in await fakedev("fault", "lots", "devices=dgx-0/7", code=2)


@pytest_twisted.ensureDeferred
async def test_without_a_service(start_async: StartAsync) -> None:
    """The sockets that were looked for, and what to do."""
    program = await run(start_async, *console("fakedev"), "workloads")
    assert program.exit_code == 1
    assert "workload.sock: start one with fakedev serve, or name its address with --socket" in program.stderr


@pytest_twisted.ensureDeferred
async def test_an_advance_ends_with_ctrl_c(start_async: StartAsync, tmp_path: Path) -> None:
    """130, no traceback; the clock stays where it is, and takes the next order."""
    service = await demo(start_async, tmp_path, "--set", "fleet.speed=0")
    advance: AsyncProgram = start_async([*console("fakedev"), "advance", "100d"])

    async def is_advancing() -> bool:
        return (await service.get_json("/api/v1/clock"))["advance"] is not None

    async def stands() -> bool:
        return not await is_advancing()

    await eventually(is_advancing, "the clock advances")
    assert await advance.stop(signal.SIGINT) == 130
    assert advance.stderr == ""
    await eventually(stands, "the advance has ended")
    assert (await run(start_async, *console("fakedev"), "advance", "1s")).exit_code == 0


@pytest_twisted.ensureDeferred
async def test_top(start_async: StartAsync, tmp_path: Path) -> None:
    """A line for each device on a terminal, live; q ends it and gives the terminal back. Elsewhere it says so."""
    service = await demo(start_async, tmp_path)
    in_terminal = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]
    top: AsyncProgram = start_async([*in_terminal, *console("fakedev"), "top"], descriptors={0: "w"})
    await top.wait_for_text("dgx-0/7")
    await top.wait_for_text("training")
    assert "\x1b[?1049h" in top.stdout
    top.write("q")
    assert await top.wait() == 0
    assert top.stdout.endswith("\x1b[?25h\x1b[?1049l")
    assert (await service.fetch("/health")).status == 200
    program = await run(start_async, *console("fakedev"), "top")
    assert (program.exit_code, "fakedev status prints the same once" in program.stderr) == (2, True)


@pytest_twisted.ensureDeferred
async def test_top_ends_with_ctrl_c(start_async: StartAsync, tmp_path: Path) -> None:
    """130, and the terminal is as it was."""
    await demo(start_async, tmp_path)
    in_terminal = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]
    top: AsyncProgram = start_async([*in_terminal, *console("fakedev"), "top"], descriptors={0: "w"})
    await top.wait_for_text("dgx-0/7")
    top.write("\x03")
    assert await top.wait() == 130
    assert top.stdout.endswith("\x1b[?25h\x1b[?1049l")
