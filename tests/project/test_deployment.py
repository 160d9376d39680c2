"""The unit, the image and the build files: what can be checked of them without systemd and Docker running."""

from __future__ import annotations

import configparser
import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.programs.processes import clean_environment, console

UNITS = sorted((ROOT / "systemd").glob("*.service"))
EACH_UNIT = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def values(unit: Path, key: str) -> list[str]:
    """All values of a key of a unit."""
    return re.findall(rf"^{key}=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)


def unit_values(key: str) -> list[str]:
    """All values of a key of the service's unit."""
    return values(ROOT / "systemd" / "fakedev.service", key)


@pytest.mark.real
@pytest.mark.requires_program("systemd-analyze")
@EACH_UNIT
def test_the_unit_is_understood(unit: Path, tmp_path: Path) -> None:
    """systemd itself has no remark about it."""
    # Program and user are made when it is installed.
    text = re.sub(r"/opt/fakedev/bin/\S+ ", f"{sys.executable} ", unit.read_text(encoding="utf-8"))
    copy = tmp_path / unit.name.replace("@.", "@queue.")
    told = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    if int(told.split()[1]) < 253:  # it does not know this type, and ignores it
        text = text.replace("Type=notify-reload\n", "Type=notify\n")
    copy.write_text(text.replace("=fakedev\n", "=root\n"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.real
@pytest.mark.requires_program("systemd-analyze")
@EACH_UNIT
def test_the_exposure_of_the_unit(unit: Path, tmp_path: Path) -> None:
    """What a program that was taken over could reach: at most 3 of 10 by systemd; the document has the number."""
    copy = tmp_path / unit.name.replace("@.", "@queue.")
    shutil.copy(unit, copy)
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze rates only units that run")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None
    assert found[1] in (ROOT / "systemd" / "README.md").read_text(encoding="utf-8")


@EACH_UNIT
def test_the_unit_has_limits(unit: Path) -> None:
    """Of memory and of processes: one that grows ends before the machine suffers."""
    assert [len(values(unit, key)) for key in ("MemoryMax", "TasksMax")] == [1, 1]


@EACH_UNIT
def test_the_unit_starts_a_program_that_is_installed(unit: Path) -> None:
    """A wrong use is not tried again; there is time for jobs to finish (25 s), and to close connections."""
    (started,) = values(unit, "ExecStart")
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    installed = {line.partition(" =")[0] for line in parser["options.entry_points"]["console_scripts"].split("\n")}
    assert started.split()[0].removeprefix("/opt/fakedev/bin/") in installed | {"twistd"}
    assert values(unit, "RestartPreventExitStatus") == ["2"]
    assert int(values(unit, "TimeoutStopSec")[0]) > 30


def test_the_unit_of_the_backend_lets_commands_finish() -> None:
    """systemd would send SIGTERM to them, too."""
    assert values(ROOT / "systemd" / "fakedev-backend@.service", "KillMode") == ["mixed"]


def test_the_unit_says_what_the_program_does() -> None:
    """It starts, reloads and is held in as the documents say."""
    start = "/opt/fakedev/bin/twistd -n --pidfile= fakedev --config /etc/fakedev/fakedev.yaml"
    assert unit_values("ExecStart") == [start]
    assert unit_values("RuntimeDirectory") == ["fakedev"]
    assert unit_values("ExecReload") == ["/bin/kill -HUP $MAINPID"]
    assert unit_values("CapabilityBoundingSet") == [""]
    assert set(unit_values("RestrictAddressFamilies")[0].split()) == {"AF_INET", "AF_INET6", "AF_UNIX"}


def test_the_unit_of_a_shard() -> None:
    """It is held in as the one of a whole fleet; systemd has no way to say that once."""
    own = ("#", "Description", "RuntimeDirectory=", "Environment", "ExecStart=")
    whole, shard = (
        [line for line in (ROOT / "systemd" / name).read_text("utf-8").splitlines() if not line.startswith(own)]
        for name in ("fakedev.service", "fakedev@.service")
    )
    assert whole == shard
    assert values(ROOT / "systemd" / "fakedev@.service", "ExecStart")[0].endswith(" --shard %I $OPTIONS")


@pytest.mark.real
@pytest.mark.requires_program("systemd-analyze")
@pytest.mark.parametrize("unit", sorted((ROOT / "systemd").glob("*.socket")), ids=lambda unit: unit.stem)
def test_the_sockets_are_understood(unit: Path, tmp_path: Path) -> None:
    """systemd has no remark, and the configuration in their first lines names them."""
    (tmp_path / unit.name).write_text(unit.read_text("utf-8").replace("=fakedev\n", "=root\n"), "utf-8")
    (tmp_path / "fakedev.service").write_text(f"[Service]\nExecStart={sys.executable}\n", encoding="utf-8")
    command = ["systemd-analyze", "verify", str(tmp_path / unit.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = values(unit, "FileDescriptorName")
    assert f":name={name}" in unit.read_text(encoding="utf-8").splitlines()[1]


def test_the_image() -> None:
    """What can be checked without an engine: not as root, wheels only, and every file and program it names is there."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 55
    assert "USER 9400:0" in lines
    assert "EXPOSE 9400" in lines
    (entry,) = [line for line in lines if line.startswith("ENTRYPOINT")]
    assert entry.endswith('"-m", "fakedev.commands.dropins.container"]')
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    assert copied == [["."], ["etc/container.yaml"]]
    assert '--only-binary :all: "/source[fast,kubernetes,node,tls]"' in text
    assert "gcc" not in text.partition(" AS image\n")[2]
    assert lines[-1] == "FROM image"
    assert (ROOT / "etc" / "image" / "devices" / "devlist.json").is_file()


def test_what_is_sent_to_the_image_build_is_enough(tmp_path: Path) -> None:
    """The package's metadata needs no file that .dockerignore keeps back, and no rubbish is sent."""
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*"
    assert {"fakedev", "twisted", "etc", "setup.cfg", "pyproject.toml"} <= sent
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    assert parser["metadata"]["long_description"].removeprefix("file: ") in sent
    assert parser["metadata"]["license_files"] in sent
    assert any(fnmatch.fnmatch("fakedev/fleet/__pycache__", rule) for rule in rules)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "etc").glob("*.yaml")))
def test_shipped_configurations_are_good(name: str, tmp_path: Path) -> None:
    """Everything in etc/ loads, also where no environment variable helps."""
    done = subprocess.run(
        [*console("fakedev"), "serve", "--check", "--config", str(ROOT / "etc" / name)],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class TestMake:
    """The messages of the Makefile on machines that cannot do it."""

    def make(self, tmp_path: Path, python: str) -> str:
        """What make says with some Python; it must fail without leaving half a .venv."""
        shutil.copy(ROOT / "Makefile", tmp_path)
        for name in ("setup.cfg", "pyproject.toml"):
            shutil.copy(ROOT / name, tmp_path)
        done = subprocess.run(
            ["make", "run", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert not (tmp_path / ".venv").exists()
        return done.stderr

    def fake_python(self, tmp_path: Path, body: str) -> str:
        """A program that answers in the place of Python."""
        path = tmp_path / "python-of-this-test"
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    @pytest.mark.requires_program("make")
    def test_no_python(self, tmp_path: Path) -> None:
        """No such program."""
        assert "there is no no-such-python" in self.make(tmp_path, "no-such-python")

    @pytest.mark.requires_program("make")
    def test_an_old_python(self, tmp_path: Path) -> None:
        """One that is too old is named with its version."""
        python = self.fake_python(tmp_path, '[ "$1" = -V ] && echo Python 3.9.2 && exit 0; exit 1')
        assert "needs Python 3.11 or newer; " in (said := self.make(tmp_path, python))
        assert "Python 3.9.2" in said

    @pytest.mark.requires_program("make")
    def test_no_venv(self, tmp_path: Path) -> None:
        """Debian's Python without its venv package."""
        python = self.fake_python(tmp_path, 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
        assert "package python3-venv" in self.make(tmp_path, python)


def test_continuous_integration_is_a_program() -> None:
    """It can be started, and has no mistake that bash sees."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
