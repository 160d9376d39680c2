"""What fakedev-workload does in its process: the conversation over a real socket, signals, its log."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakedev.commands.console import log
from fakedev.commands.workload.exchange import Verdict
from fakedev.commands.workload.main import converse, main
from fakedev.commands.workload.socket import Stopped, StopSignals, connect, send_all
from fakedev.config.peer_address import parse_address

MESSAGE = b'{"op":"run"}\n'
OK = b'{"id":1,"ok":true,"workload":"w1"}\n'
ENDED = b'{"event":"ended","workload":"w1","code":1,"text":"Limit <memory> reached, terminated"}\n'
PATIENCE = 20.0  # seconds until a test that hangs fails


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection: the client's does not block."""
    client, server = socket.socketpair()
    client.setblocking(False)
    server.settimeout(PATIENCE)
    with client, server:
        yield client, server


# The conversation, in memory


def test_waits_for_the_verdict(pair: tuple[socket.socket, socket.socket]) -> None:
    """The request leaves in one piece; the acceptance is logged, the verdict returned."""
    client, peer = pair
    peer.sendall(OK + ENDED)
    said: list[str] = []
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, said.append)
    assert peer.recv(1000) == MESSAGE
    assert verdict == Verdict(1, "Limit <memory> reached, terminated")
    assert said == ["Sent, waiting for the end", "Accepted as w1"]


def test_the_token_goes_first(pair: tuple[socket.socket, socket.socket]) -> None:
    """In one write with the request; its answer says nothing about the workload."""
    client, peer = pair
    peer.sendall(b'{"ok":true}\n' + OK + ENDED)
    said: list[str] = []
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, said.append, "correct-horse")
    assert peer.recv(1000) == b'{"op":"auth","token":"correct-horse"}\n' + MESSAGE
    assert verdict == Verdict(1, "Limit <memory> reached, terminated")
    assert said == ["Sent, waiting for the end", "Accepted as w1"]


def test_a_wrong_token(pair: tuple[socket.socket, socket.socket]) -> None:
    """The server's reason is the verdict's."""
    client, peer = pair
    peer.sendall(b'{"ok":false,"error":{"code":"denied","message":"the token is wrong"}}\n')
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, lambda text: None, "correct-horse")
    assert verdict == Verdict(1, "the server refuses: denied the token is wrong")


def test_a_lost_connection_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    """A server that leaves while the workload runs: 1."""
    client, peer = pair
    peer.sendall(OK)
    peer.shutdown(socket.SHUT_RDWR)
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, lambda text: None)
    assert verdict.code == 1
    assert verdict.text.startswith("the server closed the connection while the workload ran")


def test_a_refusal_is_read_although_the_request_was_not_read(pair: tuple[socket.socket, socket.socket]) -> None:
    """A full server answers and closes before we have written: its reason is the error, not the broken pipe."""
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
    """A signal that other code handles wakes the poll and nothing more."""
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
    """HOST:PORT connects, also where the name has an address at which no program listens."""
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


# Before it connects


def test_usage_errors_exit_2(misuse: Callable[..., str]) -> None:
    """An argument that cannot be used is an error before any socket is opened."""
    assert "load 101" in misuse(main, "-devnames", "card0", "-activity", "101:0:0")


@pytest.mark.parametrize("missing", ["no-socket", "x" * 300])
def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    """No socket, or a path too long for one: 1 with the reason."""
    assert main(["-devnames", "card0", "-socket", f"{tmp_path}/{missing}"]) == 1
    assert "ERROR: cannot connect to" in capsys.readouterr().err
