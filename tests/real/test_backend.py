"""fakedev-backend as a program: real commands, real signals, with a stand-in for the original frontend."""

from __future__ import annotations

import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.programs.original_tester import OriginalFrontend, answer_of, from_go, work
from tests.support.programs.processes import PATIENCE_SECONDS, Program, clean_environment, console

pytestmark = pytest.mark.real

Start = Callable[..., Program]
SH = "/bin/sh"


@pytest.fixture
def frontend() -> Iterator[OriginalFrontend]:
    """An original frontend with the queue q."""
    with OriginalFrontend("q") as running:
        yield running


@pytest.fixture
def token() -> str:
    """Seconds that no other process sleeps."""
    return f"3600.{uuid.uuid4().int % 10**12}"


def backend(port: int, *arguments: str) -> list[str]:
    """The command that starts a backend for the queue q."""
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


def wait_until_gone(token: str) -> None:
    """Wait until no process with this text lives."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := alive(token):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def test_commands_and_how_they_end(start_program: Start, frontend: OriginalFrontend, tmp_path: Path) -> None:
    """Exit code, signal, device file, working folder, output; an empty queue ends the backend with 0."""
    (tmp_path / "card7").touch()
    clients = [
        frontend.put("q", ["-c", script, *more])
        for script, more in (
            ("exit 0", []),
            ("exit 3", []),
            ("kill -USR1 $$", []),
            ('pwd; echo "to stderr $0" >&2', ["FILENAME"]),
        )
    ]
    program = start_program(
        backend(frontend.backend_port, "-glob", f"{tmp_path}/card*", "-dir", str(tmp_path), "-node-env", "HERE", SH),
        environment=clean_environment(HERE="n1"),
    )
    answers = [answer_of(client) for client in clients]
    assert [answer["Retcode"] for answer in answers] == [0, 3, 128 + signal.SIGUSR1, 0]
    assert [bool(answer["Error"]) for answer in answers] == [False, True, True, False]
    assert {(answer["Node"], answer["Pod"], answer["Device"]) for answer in answers} == {
        ("n1", socket.gethostname(), "card7")
    }
    assert program.wait() == 0
    assert program.stdout == f"{tmp_path}\n"
    assert f"to stderr {tmp_path}/card7\n" in program.stderr


def test_no_output_and_no_input(start_program: Start, frontend: OriginalFrontend) -> None:
    """``-null-out`` and ``-null-in``; ``-ignore`` leaves the request's arguments out."""
    client = frontend.put("q", ["ignored"])
    program = start_program(
        backend(frontend.backend_port, "-null-in", "-null-out", "-ignore", SH, "-c", "echo heard; ! read x && exit $#")
    )
    assert answer_of(client)["Retcode"] == 0
    assert program.wait() == 0
    assert program.stdout == ""


def test_the_time_limit_leaves_nothing_behind(start_program: Start, frontend: OriginalFrontend, token: str) -> None:
    """A command that does not listen to SIGTERM, with children and grandchildren that do not either."""
    script = f'trap "" TERM; (sleep {token} & sleep {token}) & sleep {token}'
    client = frontend.put("q", ["-c", script], limit=0.3)
    program = start_program(backend(frontend.backend_port, "-limit", "60", "-kill-after", "0.3", SH))
    answer = answer_of(client)
    assert (answer["Timeout"], answer["Retcode"]) == (0.3, 124)
    assert alive(token) == []
    assert program.wait() == 0


def test_a_command_that_ends_leaves_nothing_behind(
    start_program: Start, frontend: OriginalFrontend, token: str
) -> None:
    """The children of one that ended by itself are ended before its result is told."""
    client = frontend.put("q", ["-c", f"sleep {token} & exit 5"])
    start_program(backend(frontend.backend_port, SH))
    assert answer_of(client)["Retcode"] == 5
    assert alive(token) == []


def test_several_workers(start_program: Start, frontend: OriginalFrontend, tmp_path: Path) -> None:
    """Each of three jobs waits for the other two."""
    script = 'touch "$0"; while [ $(ls | wc -l) -lt 3 ]; do sleep 0.02; done'
    clients = [frontend.put("q", ["-c", script, name]) for name in ("a", "b", "c")]
    program = start_program(backend(frontend.backend_port, "-workers", "3", "-dir", str(tmp_path), SH))
    assert [answer_of(client)["Retcode"] for client in clients] == [0, 0, 0]
    assert program.wait() == 0


def test_a_running_job_is_finished_before_the_end(start_program: Start, frontend: OriginalFrontend) -> None:
    """SIGTERM ends the backend, not the command; no further job is taken."""
    client = frontend.put("q", ["-c", "echo begun; read line < /dev/stdin; sleep 0.5; exit 4"])
    program = start_program(backend(frontend.backend_port, SH))
    program.wait_for_text("begun")
    frontend.put("q", ["-c", "echo again"])
    program.process.send_signal(signal.SIGTERM)
    assert answer_of(client)["Retcode"] == 4
    assert program.wait() == 0
    assert "again" not in program.stdout


def test_a_job_that_outlasts_the_grace_period(start_program: Start, frontend: OriginalFrontend, token: str) -> None:
    """It is stopped, and its client told, for bare JSON knows no way back."""
    client = frontend.put("q", ["-c", f"echo begun; sleep {token}; sleep {token}"])
    program = start_program(backend(frontend.backend_port, "-grace", "0.2", SH))
    program.wait_for_text("begun")
    assert program.stop(signal.SIGTERM) == 0
    answer = answer_of(client)
    assert answer["Retcode"] == 1
    assert "backend ended" in answer["Error"]
    assert alive(token) == []


def test_a_second_interrupt_ends_everything(start_program: Start, frontend: OriginalFrontend, token: str) -> None:
    """The command too, which does not listen to SIGTERM."""
    frontend.put("q", ["-c", f'trap "" TERM INT; echo begun; sleep {token}; sleep {token}'])
    program = start_program(backend(frontend.backend_port, SH))
    program.wait_for_text("begun")
    program.process.send_signal(signal.SIGINT)
    program.wait_for_text("no more jobs")
    assert program.stop(signal.SIGINT) == 0
    wait_until_gone(token)


def test_signals_to_the_very_end(start_program: Start, frontend: OriginalFrontend) -> None:
    """Whoever is impatient gets no other end: 0, and no word of a fault."""
    frontend.put("q", ["-c", "echo begun; sleep 60"])
    program = start_program(backend(frontend.backend_port, SH))
    program.wait_for_text("begun")
    assert program.stop_impatiently() == 0
    assert "Traceback" not in program.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_frontend_holds_nobody(start_program: Start, number: signal.Signals) -> None:
    """It is stopped by SIGSTOP: it takes connections, by its kernel, and never answers."""
    frontend = start_program([sys.executable, "-m", "tests.support.programs.original_tester", "q"])
    port = int(frontend.wait_for_text("ready").split()[2])
    frontend.process.send_signal(signal.SIGSTOP)
    program = start_program(backend(port, "-verbose", "-workers", "3", "sleep"))
    program.wait_for_text("sends")
    assert program.stop(number, seconds=10) == 0


def test_a_frontend_that_hangs_in_its_answer_holds_nobody(start_program: Start) -> None:
    """Half an answer has come."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = start_program(backend(listening.getsockname()[1], "-verbose", "sleep"))
        connection, _ = listening.accept()
        with connection:
            assert from_go(connection.recv(1024)) == {"queue": "q"}
            connection.sendall(work(["1"])[:30])
            program.wait_for_text("received")
            assert program.stop(signal.SIGINT, seconds=10) == 0


def test_a_frontend_that_comes_back(start_program: Start, frontend: OriginalFrontend) -> None:
    """A lost frontend is looked for; the next one on its port is served."""
    first = frontend.put("q", ["0"])
    program = start_program(backend(frontend.backend_port, "-backoff", "0.05", "sleep"))
    assert answer_of(first)["Retcode"] == 0
    frontend.close()
    program.wait_for_text("trying again")
    with OriginalFrontend("q", port=frontend.backend_port) as again:
        assert answer_of(again.put("q", ["0"]))["Retcode"] == 0
    assert program.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["-reconnect", "0", "sleep"], 1, "the frontend is lost: cannot connect to localhost:1: Connection refused"),
        (["-reconnect", "0.3", "sleep"], 1, "the frontend is lost, tried for 0.3 s"),
        (["/no/such"], 1, "the command /no/such is not there"),
        (["-dir", "/no/such", "/bin/true"], 1, "the working directory /no/such is not there"),
        (["true"], 2, "absolute path"),
        (["-once", "/bin/true"], 0, "/bin/true took"),
        (["-once", "/bin/false"], 1, "/bin/false ended with exit code 1"),
        (["-once", "-limit", "0.1", "sleep", "60"], 1, "time limit"),
        (["-once", "/bin/echo", "FILENAME"], 1, "no device file"),
        (["-help"], 0, "-backoff-max"),
    ],
)
def test_exit_codes(start_program: Start, arguments: list[str], code: int, part: str) -> None:
    """Without any frontend."""
    program = start_program(backend(1, *arguments))
    assert program.wait() == code
    assert part in program.stderr + program.stdout
    assert "Traceback" not in program.stderr


def test_an_unknown_queue(start_program: Start) -> None:
    """The frontend's words, and exit code 1."""
    with OriginalFrontend("other") as frontend:
        program = start_program(backend(frontend.backend_port, "sleep"))
        assert program.wait() == 1
    assert "Unknown 'q' queue" in program.stderr


def test_many_jobs(start_program: Start, frontend: OriginalFrontend) -> None:
    """A connection for each; every client is answered once."""
    clients = [frontend.put("q", ["0"]) for _ in range(300)]
    programs = [start_program(backend(frontend.backend_port, "-workers", "4", "sleep")) for _ in range(2)]
    assert [answer_of(client)["Retcode"] for client in clients] == [0] * 300
    assert [program.wait() for program in programs] == [0, 0]
    assert len(frontend.results) == 300
