"""fakedev-backend as a program: real commands, real signals, with a stand-in for the original frontend."""

from __future__ import annotations

import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.original_tester import OriginalFrontend, answer_of
from tests.support.programs.processes import StartAsync, clean_environment, console

pytestmark = pytest.mark.real

SH = "/bin/sh"


@pytest_twisted.async_yield_fixture
async def frontend() -> AsyncIterator[OriginalFrontend]:
    """An original frontend with the queue q."""
    async with OriginalFrontend("q") as running:
        yield running


@pytest.fixture
def token() -> str:
    return f"3600.{uuid.uuid4().int % 10**12}"


def backend(port: int, *arguments: str) -> list[str]:
    return [*console("fakedev-backend"), "-faddr", f"localhost:{port}", "-name", "q", *arguments]


def alive(token: str) -> list[str]:
    """The processes that live and have this text among their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            except (OSError, IndexError):
                continue
            if token.encode() in command and state != "Z":
                found.append(command.replace(b"\0", b" ").decode())
    return found


@pytest_twisted.ensureDeferred
async def test_commands_and_how_they_end(start_async: StartAsync, frontend: OriginalFrontend, tmp_path: Path) -> None:
    """Exit code, signal, device file, working folder, output; an empty queue ends the backend with 0."""
    (tmp_path / "card7").touch()
    clients = [
        await frontend.put("q", ["-c", script, *more])
        for script, more in (
            ("exit 0", []),
            ("exit 3", []),
            ("kill -USR1 $$", []),
            ('pwd; echo "to stderr $0" >&2', ["FILENAME"]),
        )
    ]
    program = start_async(
        backend(frontend.backend_port, "-glob", f"{tmp_path}/card*", "-dir", str(tmp_path), "-node-env", "HERE", SH),
        environment=clean_environment(HERE="n1"),
    )
    answers = [await answer_of(client) for client in clients]
    assert [answer["Retcode"] for answer in answers] == [0, 3, 128 + signal.SIGUSR1, 0]
    assert [bool(answer["Error"]) for answer in answers] == [False, True, True, False]
    assert {(answer["Node"], answer["Pod"], answer["Device"]) for answer in answers} == {
        ("n1", socket.gethostname(), "card7")
    }
    assert await program.wait() == 0
    assert program.stdout == f"{tmp_path}\n"
    assert f"to stderr {tmp_path}/card7\n" in program.stderr


@pytest_twisted.ensureDeferred
async def test_no_output_and_no_input(start_async: StartAsync, frontend: OriginalFrontend) -> None:
    """``-null-out`` and ``-null-in``; ``-ignore`` leaves the request's arguments out."""
    client = await frontend.put("q", ["ignored"])
    program = start_async(
        backend(frontend.backend_port, "-null-in", "-null-out", "-ignore", SH, "-c", "echo heard; ! read x && exit $#")
    )
    assert (await answer_of(client))["Retcode"] == 0
    assert await program.wait() == 0
    assert program.stdout == ""


@pytest_twisted.ensureDeferred
async def test_the_time_limit_leaves_nothing_behind(
    start_async: StartAsync, frontend: OriginalFrontend, token: str
) -> None:
    """A command that does not listen to SIGTERM, with children and grandchildren that do not either."""
    script = f'trap "" TERM; (sleep {token} & sleep {token}) & sleep {token}'
    client = await frontend.put("q", ["-c", script], limit=0.3)
    program = start_async(backend(frontend.backend_port, "-limit", "60", "-kill-after", "0.3", SH))
    answer = await answer_of(client)
    assert (answer["Timeout"], answer["Retcode"]) == (0.3, 124)
    await eventually(lambda: not alive(token), "all that the command started is gone")
    assert await program.wait() == 0


@pytest_twisted.ensureDeferred
async def test_a_command_that_ends_leaves_nothing_behind(
    start_async: StartAsync, frontend: OriginalFrontend, token: str
) -> None:
    """The children of one that ended by itself are killed before its result is sent; the kernel ends them soon."""
    client = await frontend.put("q", ["-c", f"sleep {token} & exit 5"])
    start_async(backend(frontend.backend_port, SH))
    assert (await answer_of(client))["Retcode"] == 5
    await eventually(lambda: not alive(token), "all that the command started is gone")


@pytest_twisted.ensureDeferred
async def test_several_workers(start_async: StartAsync, frontend: OriginalFrontend, tmp_path: Path) -> None:
    script = 'touch "$0"; while [ $(ls | wc -l) -lt 3 ]; do sleep 0.02; done'
    clients = [await frontend.put("q", ["-c", script, name]) for name in ("a", "b", "c")]
    program = start_async(backend(frontend.backend_port, "-workers", "3", "-dir", str(tmp_path), SH))
    assert [(await answer_of(client))["Retcode"] for client in clients] == [0, 0, 0]
    assert await program.wait() == 0


@pytest_twisted.ensureDeferred
async def test_a_running_job_is_finished_before_the_end(
    start_async: StartAsync, frontend: OriginalFrontend, tmp_path: Path
) -> None:
    """SIGTERM ends the backend, not the command; no further job is taken."""
    client = await frontend.put("q", ["-c", "echo begun; while [ ! -e end ]; do sleep 0.02; done; exit 4"])
    program = start_async(backend(frontend.backend_port, "-dir", str(tmp_path), SH))
    await program.wait_for_text("begun")
    await frontend.put("q", ["-c", "echo again"])
    program.send_signal(signal.SIGTERM)
    await program.wait_for_text("stops taking jobs")
    (tmp_path / "end").touch()
    assert (await answer_of(client))["Retcode"] == 4
    assert await program.wait() == 0
    assert "again" not in program.stdout


@pytest_twisted.ensureDeferred
async def test_a_second_interrupt_ends_everything(
    start_async: StartAsync, frontend: OriginalFrontend, token: str
) -> None:
    """The command too, which does not listen to SIGTERM."""
    await frontend.put("q", ["-c", f'trap "" TERM INT; echo begun; sleep {token}; sleep {token}'])
    program = start_async(backend(frontend.backend_port, SH))
    await program.wait_for_text("begun")
    program.send_signal(signal.SIGINT)
    await program.wait_for_text("stops taking jobs")
    assert await program.stop(signal.SIGINT) == 0
    await eventually(lambda: not alive(token), "all that the command started is gone")


@pytest_twisted.ensureDeferred
async def test_signals_to_the_very_end(start_async: StartAsync, frontend: OriginalFrontend) -> None:
    """A signal sent again and again changes nothing: exit code 0, and no traceback."""
    await frontend.put("q", ["-c", "echo begun; sleep 60"])
    program = start_async(backend(frontend.backend_port, SH))
    await program.wait_for_text("begun")
    assert await program.stop_impatiently() == 0
    assert "Traceback" not in program.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest_twisted.ensureDeferred
async def test_a_stopped_frontend_does_not_hold_up_the_end(start_async: StartAsync, number: signal.Signals) -> None:
    """It is stopped by SIGSTOP: it takes connections, by its kernel, and never answers."""
    frontend = start_async([sys.executable, "-m", "tests.support.programs.original_tester", "q"])
    port = int((await frontend.wait_for_text("ready")).split()[2])
    frontend.send_signal(signal.SIGSTOP)
    program = start_async(backend(port, "-verbose", "-workers", "3", "sleep"))
    await program.wait_for_text("sends")
    assert await program.stop(number) == 0


@pytest_twisted.ensureDeferred
async def test_a_frontend_that_comes_back(start_async: StartAsync, frontend: OriginalFrontend) -> None:
    """The backend tries to connect again; it works for the next frontend on that port."""
    first = await frontend.put("q", ["0"])
    program = start_async(backend(frontend.backend_port, "-backoff", "0.05", "sleep"))
    assert (await answer_of(first))["Retcode"] == 0
    await frontend.close()
    await program.wait_for_text("trying again")
    async with OriginalFrontend("q", port=frontend.backend_port) as again:
        assert (await answer_of(await again.put("q", ["0"])))["Retcode"] == 0
    assert await program.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["-reconnect", "0", "sleep"], 1, "lost: cannot connect to localhost:1: no program listens there"),
        (["-reconnect", "0.3", "sleep"], 1, "the frontend is lost, tried for 0.3 s"),
        (["/no/such"], 1, "the command /no/such is not there"),
        (["-dir", "/no/such", "/bin/true"], 1, "the working directory /no/such is not there"),
        (["true"], 2, "absolute path"),
        (["-once", "/bin/true"], 0, "/bin/true took"),
        (["-once", "/bin/false"], 1, "/bin/false ended with exit code 1"),
        (["-once", "-limit", "0.1", "sleep", "60"], 1, "time limit"),
        (["-once", "/bin/echo", "FILENAME"], 2, "needs -glob"),
        (["-once", "-glob", "/dev/no-such-card*", "/bin/echo", "FILENAME"], 1, "no device file"),
        (["-help"], 0, "-backoff-max"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_exit_codes(start_async: StartAsync, arguments: list[str], code: int, part: str) -> None:
    """What each kind of mistake and failure ends with; there is no frontend."""
    program = start_async(backend(1, *arguments))
    assert await program.wait() == code
    assert part in program.stderr + program.stdout
    assert "Traceback" not in program.stderr
