"""How the commands find a service, and what they say when there is none."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from threading import Thread

import pytest

from fakedev.commands.control.connection import CannotAsk, ask_in_words, service_address
from fakedev.commands.control.verbs import VERBS, summary_of
from fakedev.commands.main import main
from fakedev.commands.workload.socket import StopSignals
from fakedev.config.peer_address import HTTP_SOCKET, WORKLOAD_SOCKET, parse_address


def test_the_named_address_comes_first(tmp_path: Path) -> None:
    """Then the variable, then the socket in the default folder."""
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    folder = tmp_path / "fakedev"
    folder.mkdir()
    (folder / WORKLOAD_SOCKET).touch()
    assert service_address(None, WORKLOAD_SOCKET, environ).path == str(folder / WORKLOAD_SOCKET)
    environ["FAKEDEV_SOCKET"] = "host:9999"
    assert (service_address(None, WORKLOAD_SOCKET, environ).host) == "host"
    assert service_address("/other.sock", WORKLOAD_SOCKET, environ).path == "/other.sock"


def test_without_a_service(tmp_path: Path) -> None:
    """A line that names the socket, and what to do; HTTP is also tried at its usual port."""
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with pytest.raises(CannotAsk, match=r"workload\.sock: start one with fakedev serve, or name its address with --s"):
        service_address(None, WORKLOAD_SOCKET, environ)
    assert service_address(None, HTTP_SOCKET, environ).port == 9400
    assert service_address("http://[::1]:8080/", HTTP_SOCKET, environ).host == "::1"
    with pytest.raises(CannotAsk, match="is no port") as refused:
        service_address("localhost:http", HTTP_SOCKET, environ)
    assert refused.value.code == 2


def test_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that is named needs no folder; else an error says what to set."""

    def no_folder() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", no_folder)
    assert service_address("/run/x.sock", WORKLOAD_SOCKET, {}).path == "/run/x.sock"
    with pytest.raises(CannotAsk, match="set RUNTIME_DIRECTORY or TMPDIR"):
        service_address(None, WORKLOAD_SOCKET, {})


def test_the_token_goes_first(tmp_path: Path) -> None:
    """Its answer is not shown; that of the verb is, and an error in place of both."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server, StopSignals() as stop:
        server.bind(str(path))
        server.listen()
        for answer in (b"ok\nok 1 lines\nw1 train\n", b"error denied the token is wrong\n"):
            asked = ask_in_words(parse_address(str(path)), "list", stop, "a=correct-horse")
            client = Thread(target=_answer_one, args=(server, answer))
            client.start()
            if answer.startswith(b"ok"):
                assert list(asked) == ["w1 train"]
            else:
                with pytest.raises(CannotAsk, match="the token is wrong"):
                    list(asked)
            client.join()


def test_progress_of_an_advance(tmp_path: Path) -> None:
    """Events before the answer are shown, and are no part of it."""
    path = tmp_path / "s"
    answer = b"advancing 12.3 tick 123 target 1000\nadvancing 90 tick 900 target 1000\nok tick 1000 seconds 1000\n"
    with socket.socket(socket.AF_UNIX) as server, StopSignals() as stop:
        server.bind(str(path))
        server.listen()
        client = Thread(target=_answer_one, args=(server, answer, b"advance 1000\n"))
        client.start()
        shown: list[float] = []
        lines = list(ask_in_words(parse_address(str(path)), "advance 1000", stop, show=shown.append))
        client.join()
    assert lines == ["tick 1000 seconds 1000"]
    assert shown == pytest.approx([0.123, 0.9])


def _answer_one(
    server: socket.socket, answer: bytes, expected: bytes = b"auth a=correct-horse\nlist\n"
) -> None:
    connection, _ = server.accept()
    with connection:
        assert connection.recv(1000) == expected
        connection.sendall(answer)


def test_every_verb_has_a_command_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of a command is that of the verb."""
    for command in VERBS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: fakedev {command} [--socket ADDRESS]")
        assert summary_of(command)[1:] in shown


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """One line with the remedy, and 2."""
    assert main(["statsu"]) == 2
    assert capsys.readouterr().err == "fakedev: no subcommand 'statsu'; did you mean status?\n"
    with pytest.raises(SystemExit) as ended:
        main(["status", "--frobnicate"])
    assert ended.value.code == 2
    wrong = "fakedev status: there is no option --frobnicate; --help lists the options\n"
    assert capsys.readouterr().err == wrong


@pytest.mark.parametrize("command", ["devices", "identities", "faults"])
def test_catalogs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table with a title line, or JSON with the same columns."""
    assert main([command]) == 0
    title, *rows = capsys.readouterr().out.splitlines()
    assert main([command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert title.split() == list(values[0])
    assert [row.split()[0] for row in rows] == [next(iter(value.values())) for value in values]
    assert len(rows) > 5
