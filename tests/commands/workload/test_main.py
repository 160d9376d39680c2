"""fakedev-workload as a program: conversations over real sockets, signals, memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakedev.commands.console import log
from fakedev.commands.workload.exchange import Verdict
from fakedev.commands.workload.main import converse, main
from fakedev.commands.workload.socket import Stopped, StopSignals, connect, send_all
from fakedev.config.peer_address import parse_address
from tests.support.paths import ROOT

MESSAGE = b'{"op":"run"}\n'
OK = b'{"id":1,"ok":true,"workload":"w1"}\n'
ENDED = b'{"event":"ended","workload":"w1","code":1,"text":"Limit <memory> reached, terminated"}\n'
PATIENCE = 20.0  # seconds until a program that hangs fails its test; nothing waits for them to pass


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection: the client's does not block."""
    client, server = socket.socketpair()
    client.setblocking(False)
    server.settimeout(PATIENCE)
    with client, server:
        yield client, server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[socket.socket]:
    """A listening UNIX socket; who does not accept on it is a server that hangs."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen(1)
    listening.settimeout(PATIENCE)
    with listening:
        yield listening


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A real fakedev-workload, with nothing of our environment that it looks at."""
    child = subprocess.Popen(
        [sys.executable, "-m", "fakedev.commands.workload.main", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE, child.kill)
    watchdog.start()
    try:
        yield child
    finally:
        watchdog.cancel()
        child.kill()
        child.wait()
        assert child.stderr is not None
        child.stderr.close()


def log_until(child: subprocess.Popen[str], part: str) -> str:
    """The first log line that holds a text; waits for it."""
    assert child.stderr is not None
    for line in child.stderr:
        if part in line:
            return line
    raise AssertionError(f"the log ended without {part!r}")


# The conversation, in memory


def test_waits_for_the_verdict(pair: tuple[socket.socket, socket.socket]) -> None:
    """The request is sent in one piece; the acceptance is printed, the verdict returned."""
    client, peer = pair
    peer.sendall(OK + ENDED)
    said: list[str] = []
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, said.append)
    assert peer.recv(1000) == MESSAGE
    assert verdict == Verdict(1, "Limit <memory> reached, terminated")
    assert said == ["Sent, waiting for the end", "Accepted as w1"]


def test_a_lost_connection_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    """A server that leaves while the workload runs: 1."""
    client, peer = pair
    peer.sendall(OK)
    peer.shutdown(socket.SHUT_RDWR)
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, lambda text: None)
    assert verdict.code == 1
    assert verdict.text.startswith("the server closed the connection while the workload ran")


def test_a_refusal_is_heard_though_the_request_was_not_read(pair: tuple[socket.socket, socket.socket]) -> None:
    """A full server answers and closes before we have written: its reason is shown, not the broken pipe."""
    client, peer = pair
    peer.sendall(b"error busy 10000 connections\n")
    peer.close()
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, lambda text: None)
    assert verdict == Verdict(1, "the server refuses: busy 10000 connections")


def test_a_reset_connection_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    """A server that closes without reading or answering: 1, with the system's reason."""
    client, peer = pair
    client.send(b"unread")
    peer.close()
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, lambda text: None)
    assert verdict.code == 1
    assert re.fullmatch(r"the server closed the connection before it had answered \((.*)\)", verdict.text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_any_wait(pair: tuple[socket.socket, socket.socket], number: signal.Signals) -> None:
    """A signal that came before the wait, or between two, is not lost; the old handlers come back."""
    client, _ = pair
    before = signal.getsignal(number)
    with StopSignals() as stop:
        os.kill(os.getpid(), number)
        with pytest.raises(Stopped, match=number.name):
            converse(client, MESSAGE, stop, lambda text: None)
        with pytest.raises(Stopped):
            stop.wait()
    assert signal.getsignal(number) == before


def test_other_signals_do_not_end_a_wait(pair: tuple[socket.socket, socket.socket]) -> None:
    """A signal that somebody else handles wakes the poll and nothing more."""
    client, peer = pair
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGUSR1)
            peer.sendall(b"0")
            assert converse(client, MESSAGE, stop, lambda text: None) == Verdict(0, "", bare=True)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]


def test_a_long_message_to_a_server_that_hangs(pair: tuple[socket.socket, socket.socket]) -> None:
    """A request that does not fit the socket's buffer waits for room, and a signal ends that wait too."""
    client, _ = pair
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped):
            send_all(client, b"x" * 10_000_000, stop)


def test_tcp_tries_all_addresses() -> None:
    """HOST:PORT connects, also where the name has an address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listening, StopSignals() as stop:
        port = listening.getsockname()[1]
        with connect(parse_address(f"localhost:{port}"), stop) as client:
            assert client.getpeername()[1] == port
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_an_abstract_name() -> None:
    """@name is a socket without a file, as for the original."""
    name = f"fakedev-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening, StopSignals() as stop:
        listening.bind(f"\0{name}")
        listening.listen(1)
        connect(parse_address(f"@{name}"), stop).close()


# The log


def test_log_lines_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Date, time, text; control characters of a peer cannot write to the terminal."""
    log("a\n\x1b[2Jé\udcff")
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d a\\n\\x1b\[2Jé\\udcff\n", capsys.readouterr().err)


@pytest.mark.parametrize("how", ["-help >&-", "-help | true", "-help >/dev/full", "-x 2>&-", "-x 2>&1 | true"])
def test_output_that_is_not_read(how: str) -> None:
    """A closed or full stream changes neither the exit code nor, by a trace, the other stream."""
    command = f"{sys.executable} -m fakedev.commands.workload.main {how}; exit ${{PIPESTATUS[0]}}"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2 if how.startswith("-x") else 0, "", "")


# The whole program


def test_usage_errors_exit_2(misuse: Callable[..., str]) -> None:
    """Unusable values are reported before any socket is opened."""
    assert "load 101" in misuse(main, "-devnames", "card0", "-activity", "101:0:0")


@pytest.mark.parametrize("missing", ["no-socket", "x" * 300])
def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    """No socket, or a path too long for one: 1 with the reason."""
    assert main(["-devnames", "card0", "-socket", f"{tmp_path}/{missing}"]) == 1
    assert "ERROR: cannot connect to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [
        (OK + ENDED, 1, "Exiting with code 1: Limit <memory> reached, terminated"),
        (b"0", 0, "Exiting with code 0, all that an original server says; it knows nothing of limits"),
        (b"1", 1, "Exiting with code 1, all that an original server says: its log has the reason"),
        (b"", 1, "Exiting with code 1: the server closed the connection before it had answered"),
    ],
)
def test_exits_with_the_code_it_is_told(server: socket.socket, answer: bytes, code: int, line: str) -> None:
    """A real program against our server and an original one: code and last log line."""
    with program("-socket", server.getsockname(), "-devnames", "card0,card1", "-limit", "memory=1GiB") as child:
        peer, _ = server.accept()
        with peer:
            request = json.loads(peer.recv(1024))
            peer.sendall(answer)
        assert (request["op"], request["devices"]) == ("run", ["card0", "card1"])
        log_until(child, line)
        assert child.wait(PATIENCE) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_load(server: socket.socket, number: signal.Signals) -> None:
    """The connection is closed, which ends the workload, and the exit code is 0."""
    with program("-socket", server.getsockname(), "-devnames", "card0") as child:
        peer, _ = server.accept()
        with peer:
            peer.settimeout(PATIENCE)
            peer.recv(1024)
            peer.sendall(OK)
            log_until(child, "Accepted as w1")
            child.send_signal(number)
            assert peer.recv(1024) == b""
        log_until(child, f"Stopped by {number.name}")
        assert child.wait(PATIENCE) == 0


def test_a_server_that_hangs_does_not_hold_it(server: socket.socket) -> None:
    """No server accepts, as when it is stopped: the signal still ends the program."""
    with program("-socket", server.getsockname(), "-devnames", "card0") as child:
        log_until(child, "Sent, waiting")
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0


@contextlib.contextmanager
def full_queue(server: socket.socket) -> Iterator[None]:
    """While entered, connections wait before the server until it takes no more."""
    with contextlib.ExitStack() as crowd:
        try:
            while True:
                one = crowd.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(server.getsockname())
        except BlockingIOError:
            yield


def test_a_full_queue_does_not_hold_it(server: socket.socket) -> None:
    """A program that cannot even connect yet, as in a crowd before a server that hangs, can be stopped."""
    with full_queue(server), program("-socket", server.getsockname(), "-devnames", "card0") as child:
        log_until(child, "Connecting to")
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0


def test_a_full_queue_is_waited_for(server: socket.socket) -> None:
    """Once the server takes connections again, the program that waited is served."""
    with contextlib.ExitStack() as programs:
        with full_queue(server):
            child = programs.enter_context(program("-socket", server.getsockname(), "-devnames", "card0"))
            log_until(child, "Connecting to")
        request = b""
        while not request:  # those of the crowd have left without a word
            peer = programs.enter_context(server.accept()[0])
            peer.settimeout(PATIENCE)
            request = peer.recv(1024)
        peer.sendall(b"0")
        assert child.wait(PATIENCE) == 0


def test_it_is_small(server: socket.socket) -> None:
    """At most 20 MB resident at its peak, and none of the large packages, while it waits."""
    with program("-socket", server.getsockname(), "-devnames", "card0") as child:
        log_until(child, "Sent, waiting")
        status = Path(f"/proc/{child.pid}/status")
        if not status.exists():
            pytest.skip("this system has no /proc to read the memory from")
        peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert peak is not None
    assert int(peak[1]) * 1024 < 20_000_000


def test_it_imports_no_large_package() -> None:
    """Neither Twisted nor NumPy, nor anything else that is not of Python itself or ours."""
    listing = subprocess.run(
        [sys.executable, "-c", "import sys; b = set(sys.modules); import fakedev.commands.workload.main; "
         "print(*{m.split('.')[0] for m in sys.modules if m not in b})"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert set(listing) - sys.stdlib_module_names == {"fakedev"}
