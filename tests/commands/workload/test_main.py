"""What fakedev-workload does in its process: the conversation over a real socket, signals, its log."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakedev.base.console import log
from fakedev.commands.workload.exchange import Stopped, StopSignals, Verdict, connect, send_all
from fakedev.commands.workload.main import converse, main
from fakedev.schema.peer_addresses import parse_address

MESSAGE = b'{"op":"run"}\n'
OK = b'{"id":1,"ok":true,"workload":"w1"}\n'
ENDED = b'{"event":"ended","workload":"w1","code":1,"text":"Limit <memory> reached, terminated"}\n'
Pair = tuple[socket.socket, socket.socket]
PATIENCE = 20.0  # seconds until a test that hangs fails


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two ends of a connection: the client's does not block."""
    client, server = socket.socketpair()
    client.setblocking(False)
    server.settimeout(PATIENCE)
    with client, server:
        yield client, server


# The conversation, in memory


REFUSED = b'{"ok":false,"error":{"code":"denied","message":"the token is wrong"}}\n'
LIMIT = Verdict(1, "Limit <memory> reached, terminated")


@pytest.mark.parametrize(
    ("token", "answers", "sent", "verdict", "said"),
    [
        ("", OK + ENDED, MESSAGE, LIMIT, ["Sent, waiting for the end", "Accepted as w1"]),
        # In one write with the request; its answer says nothing about the workload.
        ("correct-horse", b'{"ok":true}\n' + OK + ENDED, b'{"op":"auth","token":"correct-horse"}\n' + MESSAGE, LIMIT,
         ["Sent, waiting for the end", "Accepted as w1"]),
        ("correct-horse", REFUSED, b'{"op":"auth","token":"correct-horse"}\n' + MESSAGE,
         Verdict(1, "the server refuses: denied the token is wrong"), ["Sent, waiting for the end"]),
    ],
    ids=["a-verdict", "the-token-goes-first", "a-wrong-token"],
)  # fmt: skip
def test_conversation(
    pair: Pair, token: str, answers: bytes, sent: bytes, verdict: Verdict, said: list[str]
) -> None:
    client, peer = pair
    peer.sendall(answers)
    heard: list[str] = []
    with StopSignals() as stop:
        assert converse(client, MESSAGE, stop, heard.append, token) == verdict
    assert (peer.recv(1000), heard) == (sent, said)


@pytest.mark.parametrize(
    ("answers", "unread", "text"),
    [
        (OK, b"", r"the server closed the connection while the workload ran.*"),
        # A full server answers and closes before we have written: its reason is the error, not the broken pipe.
        (b"error busy 10000 connections\n", b"", r"the server refuses: busy 10000 connections"),
        (b"", b"unread", r"the server closed the connection before it had answered \(.*\)"),
    ],
    ids=["while-it-runs", "a-refusal", "a-reset"],
)
def test_a_lost_connection_is_an_error(pair: Pair, answers: bytes, unread: bytes, text: str) -> None:
    client, peer = pair
    peer.sendall(answers)
    client.send(unread)
    peer.close()
    with StopSignals() as stop:
        verdict = converse(client, MESSAGE, stop, lambda text: None)
    assert verdict.code == 1
    assert re.fullmatch(text, verdict.text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_any_wait(pair: Pair, number: signal.Signals) -> None:
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


def test_other_signals_do_not_end_a_wait(pair: Pair) -> None:
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


def test_a_long_message_to_a_server_that_hangs(pair: Pair) -> None:
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
    assert "load 101" in misuse(main, "-devnames", "card0", "-activity", "101:0:0")


@pytest.mark.parametrize("missing", ["no-socket", "x" * 300])
def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    """No socket, or a path too long for one: 1 with the reason."""
    assert main(["-devnames", "card0", "-socket", f"{tmp_path}/{missing}"]) == 1
    assert "ERROR: cannot connect to" in capsys.readouterr().err


def test_another_socket_of_the_user(
    short_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right -socket, the error names the service that runs."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(short_folder))
    command = ["-devnames", "card0", "-socket", f"{short_folder}/none"]
    assert main(command) == 1
    assert capsys.readouterr().err.endswith(": no such file or folder\n")
    (short_folder / "workload.sock").touch()
    assert main(command) == 1
    hint = f"; a service of this user listens on {short_folder}/workload.sock: give it with -socket\n"
    assert capsys.readouterr().err.endswith(hint)
