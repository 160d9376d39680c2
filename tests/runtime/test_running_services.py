"""The files by which commands find running services: who wrote them, and whether the service still runs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fakedev.base.errors import CannotWrite
from fakedev.commands.main import main
from fakedev.runtime.announcement import Announcement
from fakedev.runtime.running_services import Registration, ServedAddress, process_start, running_services

WEB = ServedAddress("web", "http://127.0.0.1:9400", has_control=True, token_file="/run/token")


def environ_of(folder: Path) -> dict[str, str]:
    """Variables with this default folder of sockets."""
    return {"RUNTIME_DIRECTORY": str(folder / "fakedev")}


def test_a_registration(tmp_path: Path) -> None:
    """A private file, as long as the service runs."""
    registration = Registration("/etc/my.yaml", environ_of(tmp_path))
    registration.write([])
    registration.write([WEB])
    (path,) = (tmp_path / "fakedev" / "services").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (service,), problems = running_services(environ_of(tmp_path))
    assert (service.name, service.pid, service.configuration) == ("my", os.getpid(), "/etc/my.yaml")
    assert (service.addresses, service.stale, problems) == ((WEB,), "", [])
    registration.remove()
    assert running_services(environ_of(tmp_path)) == ([], [])


def test_a_process_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file stays, is called stale, and goes with the next service; a number used again does not deceive."""
    registration = Registration(None, environ_of(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: process.pid)
        registration.write([WEB])
    (path,) = (tmp_path / "fakedev" / "services").iterdir()
    (service,), _ = running_services(environ_of(tmp_path))
    assert (service.name, service.stale) == ("demo", "")
    process.kill()
    assert process.wait() != 0
    assert service.stale == "its process has ended"
    tree = json.loads(path.read_text())
    for start, reason in (("later", "its process has ended"), ("", "its process is of another container or machine")):
        number = process_start(os.getpid()).partition(":")[0]
        tree |= {"pid": os.getpid(), "start": f"{number}:{start}" if start else "1:1"}
        path.write_text(json.dumps(tree))
        (service,), _ = running_services(environ_of(tmp_path))
        assert service.stale.startswith(reason)
    path.write_text(json.dumps(tree | {"start": f"{number}:1"}))
    Registration(None, environ_of(tmp_path)).write([])
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "does not describe a service"),
        ("[" * 100_000, "does not describe a service"),
        ('{"addresses": []}', "does not describe a service: 'name'"),
        ('{"addresses": [], "name": 7}', "does not describe a service: name is '7'"),
        ('{"addresses": [{"key": "\\u001b[31m", "address": []}]}', "does not describe a service: address is '[]'"),
    ],
)
def test_files_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """They are named with what is wrong, and do no harm; what others can write is not read."""
    folder = tmp_path / "fakedev" / "services"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(text)
    (folder / "a.json").chmod(0o600)
    (folder / "b.json").symlink_to("/dev/zero")
    (folder / "c.json").write_text(text)
    (folder / "c.json").chmod(0o666)
    os.mkfifo(folder / "d.json", 0o600)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "fakedev"))
    assert main(["ps"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "no service of this user runs\n"
    lines = shown.err.splitlines()
    assert said in lines[0]
    assert "symbolic links" in lines[1]
    assert "no private file of this user" in lines[2]
    assert "no private file of this user" in lines[3]


def test_a_folder_that_others_can_change(tmp_path: Path) -> None:
    """Nothing is registered there."""
    folder = tmp_path / "fakedev"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CannotWrite, match="others may write there"):
        Registration(None, environ_of(tmp_path)).write([])
    assert list(folder.iterdir()) == []


def test_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A table, or JSON with all that is known."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "fakedev"))
    Registration("/etc/my.yaml", os.environ).write([WEB])
    assert main(["ps"]) == 0
    title, row = capsys.readouterr().out.splitlines()
    assert title.split() == ["NAME", "PID", "VERSION", "STATE", "ADDRESSES", "CONFIGURATION"]
    assert row.split()[:2] == ["my", str(os.getpid())]
    assert row.split()[3:] == ["runs", "http://127.0.0.1:9400", "/etc/my.yaml"]
    assert main(["ps", "--json"]) == 0
    (service,) = json.loads(capsys.readouterr().out)
    assert (service["pid"], service["stale"]) == (os.getpid(), "")
    assert service["addresses"] == [
        {"key": "web", "address": "http://127.0.0.1:9400", "has-control": True, "token-file": "/run/token"}
    ]


def test_a_program_with_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A drop-in has its name and no file."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "fakedev"))
    Registration(None, os.environ, "dcgm-exporter").write([WEB])
    assert main(["ps"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert (row[0], " ".join(row[5:])) == ("dcgm-exporter", "none: it has options")


def test_found_as_soon_as_it_is_announced(tmp_path: Path) -> None:
    """Who waits for the ready file, or reads the lines of the log, can ask for the service by its name at once."""
    environ, ready, found = environ_of(tmp_path), tmp_path / "ready.json", []

    def summary() -> list[str]:
        found.append((running_services(environ)[0][0].pid, ready.exists()))
        return []

    announcement = Announcement(summary, lambda: [], str(ready), registration=Registration(None, environ))
    announcement.announce()
    assert found == [(os.getpid(), False)]
    assert ready.exists()
