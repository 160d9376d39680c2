"""How the commands find a service, and what they say when there is none."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread

import pytest

from fakedev.client import Fleet
from fakedev.client.http import NoAnswer
from fakedev.commands.completion import values_after
from fakedev.commands.control import ANSWERS, VERBS, ask_port, summary_of
from fakedev.commands.main import main
from fakedev.commands.reach import CannotAsk, Reached, reach, service_options
from fakedev.runtime.running_services import RunningService, ServedAddress, described, process_start
from fakedev.schema.options import Parser
from fakedev.schema.peer_addresses import HTTP_SOCKET, WORKLOAD_SOCKET, Address, parse_address


def reached(environ: dict[str, str], *arguments: str, takes_port: bool = True) -> Reached:
    parser = Parser("fakedev x", *service_options(takes_port=takes_port), description=None)
    return reach(parser.parse_args(arguments), environ)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Variables with a default folder of sockets that nothing uses."""
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


@pytest.fixture
def registered(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Popen[bytes]]]:
    """Registers services of other processes, which run as long as the test."""
    processes = []

    def register(configuration: str, *addresses: ServedAddress) -> Popen[bytes]:
        process = Popen([sys.executable, "-c", "input()"], stdin=PIPE)
        processes.append(process)
        folder = tmp_path / "fakedev" / "services"
        folder.mkdir(0o700, parents=True, exist_ok=True)
        start = process_start(process.pid)
        service = RunningService(Path(configuration).stem, process.pid, start, "1", configuration, addresses)
        (folder / f"{process.pid}.json").write_text(json.dumps(described(service)))
        (folder / f"{process.pid}.json").chmod(0o600)
        return process

    yield register
    for process in processes:
        process.communicate(b"\n")


SOCKET = ServedAddress("workloads", "/run/w.sock")
CONTROL = ServedAddress("web", "http://127.0.0.1:9501", has_control=True)


def test_the_named_address_comes_first(environ: dict[str, str], registered: Callable[..., Popen[bytes]]) -> None:
    """An option, then a variable, then the only service of this user that runs."""
    registered("/etc/my.yaml", ServedAddress("web", "http://127.0.0.1:9500"), CONTROL, SOCKET)
    assert (reached(environ).port or Address("")).path == "/run/w.sock"
    assert reached(environ, takes_port=False).url == "http://127.0.0.1:9501"
    environ["FAKEDEV_URL"] = "http://host:9400"
    assert reached(environ).url == "http://host:9400"
    assert reached(environ, "--service", "my", takes_port=False).url == "http://127.0.0.1:9501"
    environ["FAKEDEV_SOCKET"] = "host:9999"
    assert (reached(environ).port or Address("")).host == "host"
    assert reached(environ, takes_port=False).url == "http://host:9400"
    assert (reached(environ, "--socket", "/other.sock").port or Address("")).path == "/other.sock"
    assert reached(environ, "--url", "/web.sock").url == "/web.sock"
    with pytest.raises(CannotAsk, match="is no port") as refused:
        reached(environ, "--url", "localhost:http")
    assert refused.value.code == 2


def test_several_services(environ: dict[str, str], registered: Callable[..., Popen[bytes]]) -> None:
    """The error has the option that chooses each; two of one name are chosen by their pids."""
    registered("/etc/my.yaml", CONTROL)
    registered("/etc/ours.yaml", SOCKET)
    with pytest.raises(CannotAsk, match=r"2 services .*--service my \(http://127\.0\.0\.1:9501\)") as several:
        reached(environ)
    assert "--service ours (/run/w.sock)" in str(several.value)
    with pytest.raises(CannotAsk, match=r"ours \(pid \d+\) has no HTTP address with serve: all"):
        reached(environ, "--service", "ours", takes_port=False)
    with pytest.raises(CannotAsk, match="no running service 'our'; did you mean ours"):
        reached(environ, "--service", "our")
    registered("/home/my.yaml", SOCKET)
    with pytest.raises(CannotAsk, match=r"--service (\d+) \(http:.*, or --service (\d+) \(/run/w.sock\)") as several:
        reached(environ, "--service", "my")
    pids = re.findall(r"--service (\d+)", str(several.value))
    found = [reached(environ, "--service", pid) for pid in pids]
    assert sorted((each.url, str(each.port)) for each in found) == [("", "/run/w.sock"), (CONTROL.address, "None")]


def test_without_a_registered_service(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets in the default folder, then the usual port; else the error says what to do."""
    with socket.socket() as closed, socket.socket() as server:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr("fakedev.commands.reach._USUAL_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(CannotAsk, match="start one with fakedev serve, or name one by --url, --service or FAKE"):
            reached(environ)
        server.bind(("127.0.0.1", 0))
        server.listen()
        usual = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr("fakedev.commands.reach._USUAL_URL", usual)
        assert reached(environ).url == usual
    folder = tmp_path / "fakedev"
    folder.mkdir()
    (folder / HTTP_SOCKET).touch()
    assert reached(environ).url == str(folder / HTTP_SOCKET)
    (folder / WORKLOAD_SOCKET).touch()
    assert str(reached(environ).port) == str(folder / WORKLOAD_SOCKET)


def test_the_token(environ: dict[str, str], registered: Callable[..., Popen[bytes]], tmp_path: Path) -> None:
    """That of the option, then the variable, then the file that the service registered."""
    files = {name: tmp_path / name for name in ("registered", "given")}
    for name, path in files.items():
        path.write_text(f"{name}-token")
    registered("/etc/my.yaml", replace(CONTROL, token_file=str(files["registered"])))
    assert reached(environ).token == "registered-token"
    environ["FAKEDEV_TOKEN"] = "variable-token"
    assert reached(environ).token == "variable-token"
    assert reached(environ, "--token-file", str(files["given"])).token == "given-token"
    environ["FAKEDEV_TOKEN"] = "a b"
    with pytest.raises(CannotAsk, match="FAKEDEV_TOKEN: a token is"):
        reached(environ)
    del environ["FAKEDEV_TOKEN"]
    files["registered"].unlink()
    with pytest.raises(CannotAsk, match=r"the token of the service: /.*registered: no such file"):
        reached(environ)


def test_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that is named needs no folder; else an error says what to set."""

    def no_folder() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", no_folder)
    assert str(reached({}, "--socket", "/run/x.sock").port) == "/run/x.sock"
    with pytest.raises(CannotAsk, match="set RUNTIME_DIRECTORY or TMPDIR"):
        reached({})


def test_the_token_goes_first(tmp_path: Path) -> None:
    """Its answer is not shown; that of the verb is, and an error in place of both."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        denied = b'{"ok":false,"error":{"code":"denied","message":"the token is wrong"}}\n'
        for answer in (b'{"ok":true}\n{"ok":true,"workloads":[]}\n', denied, b"error denied the token is wrong\n"):
            client = Thread(target=_answer_one, args=(server, answer))
            client.start()
            if b"true" in answer:
                assert ask_port(parse_address(str(path)), {"op": "list"}, "a=correct-horse") == {"workloads": []}
            else:
                with pytest.raises(CannotAsk, match="the token is wrong"):
                    ask_port(parse_address(str(path)), {"op": "list"}, "a=correct-horse")
            client.join()


def test_progress_of_an_advance(tmp_path: Path) -> None:
    """Events before the answer are shown, and are no part of it."""
    path = tmp_path / "s"
    events = [{"event": "advancing", "percent": 12.3}, {"event": "advancing", "percent": 90}, {"ok": True, "tick": 9}]
    answer = "".join(f"{json.dumps(event)}\n" for event in events).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        client = Thread(target=_answer_one, args=(server, answer, b'{"op": "advance"}\n'))
        client.start()
        shown: list[float] = []
        found = ask_port(parse_address(str(path)), {"op": "advance"}, show=shown.append)
        client.join()
    assert found == {"tick": 9}
    assert shown == pytest.approx([0.123, 0.9])


def _answer_one(
    server: socket.socket, answer: bytes,
    expected: bytes = b'{"op": "auth", "token": "a=correct-horse"}\n{"op": "list"}\n',
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
        assert shown.startswith(f"usage: fakedev {command} [--url URL | --service NAME | --socket ADDRESS]")
        assert summary_of(command)[1:] in shown
        assert VERBS[command] in ANSWERS


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Callable[[bytes], str]]:
    """Starts a server on a UNIX socket that answers each connection with some bytes; gives its path."""
    listeners = []

    def start(answer: bytes) -> str:
        path = str(tmp_path / f"{len(listeners)}.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)

        def serve() -> None:
            with suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    peer.recv(65536)
                    peer.sendall(answer)

        Thread(target=serve, daemon=True).start()
        return path

    yield start
    for listener in listeners:
        listener.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'HTTP/1.1 500 No\r\n\r\n{"error": {"message": "\\u001b]0;t\\u0007\\u202e"}}', "\\x1b]0;t\\x07\\u202e"),
        (HEAD + b"data: {}\n\ndata: {}\n\n", "does not answer as fakedev does"),
        (HEAD + b"data: [1]\n\ndata: " + b"[" * 100_000 + b"\n\n", "does not answer any more"),
        (HEAD + b"data: " + b"a" * 100_000, "has sent 0 MiB without an event"),
        (HEAD + b":\n" * 50_000, "has sent 0 MiB without an event"),
    ],
)
def test_servers_that_are_hostile(
    hostile: Callable[[bytes], str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    answer: bytes, said: str,
) -> None:  # fmt: skip
    """One line that a terminal can show, and no more memory than a limit."""
    monkeypatch.setattr("fakedev.commands.status._MOST_BYTES", 50_000 if b"[[" not in answer else 2**20)
    assert main(["status", "--url", hostile(answer)]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.removesuffix("\n").isprintable()


STATS = (
    b'{"ok": true, "queues": [{"queue": "q", "state": "open", "waiting": 3, "running": 0, "workers-idle": 0,'
    b' "workers-busy": 0, "oldest-seconds": 0.5}]}\n'
)


def test_queues_of_a_frontend(
    hostile: Callable[[bytes], str], registered: Callable[..., Popen[bytes]], environ: dict[str, str],
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It is found by its registration where no service runs, or by its address; other commands do not count it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", environ["XDG_RUNTIME_DIR"])
    registered("frontend", ServedAddress("queue-clients", hostile(STATS)))
    for arguments in (["--service", "frontend"], ["--frontend", hostile(STATS)]):
        assert main(["queues", *arguments]) == 0
        assert capsys.readouterr().out == (
            "q is open: 3 waiting, 0 running, workers 0 idle, 0 busy\n"
            "  no worker takes its jobs: start a backend, or see why a started one takes none\n"
        )
    assert main(["queues", "--frontend", hostile(b"\x1b[31m\n")]) == 1
    assert "this is no port of queues; it says '\\x1b[31m'" in capsys.readouterr().err
    assert main(["queues", "--frontend", hostile(b'{"ok": true, "queues": [{"queue": "q"}]}\n')]) == 1
    assert "does not answer as fakedev does" in capsys.readouterr().err
    with pytest.raises(CannotAsk, match="has queues alone: fakedev queues shows them"):
        reached(environ, "--service", "frontend")
    registered("/etc/my.yaml", CONTROL)
    assert reached(environ).url == CONTROL.address


@pytest.mark.parametrize("command", ["status", "top --json", "why dgx-0/0", "workloads", "speed 2", "queues"])
def test_a_suspended_service(
    environ: dict[str, str], registered: Callable[..., Popen[bytes]], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str,
) -> None:  # fmt: skip
    """Its sockets take connections; the error has its name, its pid, and what resumes it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", environ["XDG_RUNTIME_DIR"])
    for module in ("reach", "control"):
        monkeypatch.setattr(f"fakedev.commands.{module}.ANSWER_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        process = registered("/etc/my.yaml", ServedAddress("web", str(tmp_path / "s"), has_control=True))
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert main(command.split()) == 1
        shown = capsys.readouterr().err
        assert f"the service my (pid {process.pid}) is suspended: kill -CONT {process.pid} resumes it" in shown
        assert main(["ps"]) == 0
        assert "suspended" in capsys.readouterr().out
        process.send_signal(signal.SIGCONT)


def test_completion_without_an_answer(
    environ: dict[str, str], hostile: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A service that is not there, silent or none of fakedev's completes nothing, and says nothing."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", environ["XDG_RUNTIME_DIR"])
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert values_after(["why", "--url", url]) == []
        silent.listen()
        monkeypatch.setattr("fakedev.commands.completion._PATIENCE_SECONDS", 0.01)
        assert values_after(["why", "--url", url]) == []
    for answer in (b"HTTP/1.1 200 OK\r\n\r\n[]", b'HTTP/1.1 200 OK\r\n\r\n{"nodes": [1]}', b"nothing\n"):
        assert values_after(["fault", "fan", "--url", hostile(answer)]) == []
    assert capsys.readouterr() == ("", "")


def test_why_by_a_workload_port(
    environ: dict[str, str], registered: Callable[..., Popen[bytes]], hostile: Callable[[bytes], str],
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It explains devices; what else there is, and where it is explained, is said."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", environ["XDG_RUNTIME_DIR"])
    path = hostile(b"error unknown-name no device 'train': name a device as dgx-0/0\n")
    registered("/etc/my.yaml", CONTROL, ServedAddress("workloads", path))
    assert main(["why", "train", "--socket", path]) == 2
    assert f"only devices, parts and links: --url {CONTROL.address} explains the rest" in capsys.readouterr().err


def test_why_of_a_file(
    tmp_path: Path, hostile: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of rules is no word of the service: the command that reads such files is named."""
    (tmp_path / "rules.yml").write_text("groups: []")
    body = b'{"error": {"code": "unknown-name", "message": "nothing has this name", "where": "of"}}'
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    answer = head % len(body) + body
    for name, hint in (("rules.yml", f"fakedev faults --for {tmp_path}/rules.yml"), ("no.yml", "")):
        assert main(["why", f"{tmp_path}/{name}", "--url", hostile(answer)]) == 2
        shown = capsys.readouterr().err
        assert "nothing has this name" in shown and hint in shown and ("faults --for" in shown) is bool(hint)


@pytest.mark.parametrize("answer", [b"[1]\n", b"{}\n", b'{"ok": false}\n', b"ok 1 lines\n", b"[" * 9999 + b"\n"])
def test_json_of_a_hostile_workload_port(
    hostile: Callable[[bytes], str], capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    assert main(["workloads", "--json", "--socket", hostile(answer)]) == 1
    assert "this is no workload port of fakedev; it says" in capsys.readouterr().err


def test_a_hostile_workload_port(hostile: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]) -> None:
    """Its answers are shown, not obeyed; one of another form is an error."""
    answer = b'{"ok": true, "workload": "\\u001b[31mred\\u009b"}\n'
    assert main(["run", "x", "devices=a/0", "profile=9:0:0", "--socket", hostile(answer)]) == 0
    assert capsys.readouterr().out == "\\x1b[31mred\\x9b\n"
    assert main(["stop", "x", "--socket", hostile(b'{"ok": true, "stopped": 3}\n')]) == 1
    assert "does not answer as fakedev does" in capsys.readouterr().err


def test_an_answer_without_end(hostile: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fakedev.client.http.MOST_BYTES", 1000)
    with pytest.raises(NoAnswer, match="the answer is larger than"):
        Fleet(hostile(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 5000)).page()
