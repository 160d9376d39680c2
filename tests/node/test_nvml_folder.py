"""What containers get of NVML: files in a folder of the node, mounts, variables, and a device for the runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakedev.base.errors import CannotWrite
from fakedev.node.nvml import NvmlFolder
from fakedev.nvml.library import AMD_COMMAND, COMMAND, SONAME, library_folder, portable_command
from tests.support.application import application
from tests.support.driver.nvml import boards


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A library that is built already, as in an image; what is in it does not matter here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built = tmp_path / "cache" / "fakedev" / library_folder() / SONAME
    built.parent.mkdir(parents=True)
    built.write_bytes(b"a library")
    return b"a library"


def test_files_and_mounts(tmp_path: Path, library: bytes) -> None:
    """The folder, the command and the library; a second start replaces the files in one step."""
    folder = tmp_path / "nvml"
    for _ in range(2):
        found = NvmlFolder("a", str(folder))
        assert (folder / SONAME).read_bytes() == library
        assert sorted(each.name for each in folder.iterdir()) == sorted((SONAME, "nvidia-smi", "amd-smi"))
    assert found.provision.envs == {
        "FAKEDEV_NODE": "a", "NODE_NAME": "a", "FAKEDEV_NVML_FILE": "/run/fakedev-nvml/nvml.map",
    }  # fmt: skip
    assert {mount.container_path: mount.host_path.removeprefix(str(tmp_path)) for mount in found.provision.mounts} == {
        "/run/fakedev-nvml": "/nvml",
        "/bin/nvidia-smi": "/nvml/nvidia-smi",
        "/bin/amd-smi": "/nvml/amd-smi",
        f"/usr/lib/{SONAME}": f"/nvml/{SONAME}",
        f"/usr/lib64/{SONAME}": f"/nvml/{SONAME}",
    }
    assert (folder / "nvidia-smi").stat().st_mode & 0o777 == 0o755


def test_without_a_folder() -> None:
    found = NvmlFolder("a", "")
    assert (found.provision.envs, found.provision.mounts, found.map_path) == (
        {"FAKEDEV_NODE": "a", "NODE_NAME": "a"}, (), "",
    )  # fmt: skip


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    found = NvmlFolder("a", str(tmp_path / "nvml"))
    places = [mount.container_path for mount in found.provision.mounts]
    assert places == ["/run/fakedev-nvml", "/bin/nvidia-smi", "/bin/amd-smi"]
    assert "containers get nvidia-smi, but not the NVML library: there is no C compiler" in caplog.text


def test_a_device_for_claims(tmp_path: Path, library: bytes) -> None:
    """The runtime finds the same variables and mounts by a name; at the end the name is taken away."""
    cdi = tmp_path / "cdi"
    cdi.mkdir()
    found = NvmlFolder("a", str(tmp_path / "nvml"), str(cdi))
    (file,) = cdi.iterdir()
    written = json.loads(file.read_text())
    (device,) = written["devices"]
    assert found.provision.cdi_device == f"{written['kind']}={device['name']}" == "fakedev/nvml=node"
    assert device["containerEdits"]["env"] == [f"{name}={value}" for name, value in found.provision.envs.items()]
    assert [(each["containerPath"], each["hostPath"]) for each in device["containerEdits"]["mounts"]] == [
        tuple(mount) for mount in found.provision.mounts
    ]
    assert all("ro" in each["options"] for each in device["containerEdits"]["mounts"])
    found.remove()
    assert not file.exists()


@pytest.mark.parametrize("folder", ["file/below", "file"])
def test_a_folder_that_cannot_be_written(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match=str(tmp_path / "file")):
        NvmlFolder("a", str(tmp_path / folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "device", "identity", "shown"),
    [
        (COMMAND, ["-L"], "h100", "nvidia-gpu-exporter@1-nvml", "GPU-"),
        (AMD_COMMAND, ["list"], "mi300x", "amd-device-metrics", "BDF: "),
    ],
)
def test_the_command_in_a_container(
    tmp_path: Path, name: str, words: list[str], device: str, identity: str, shown: str
) -> None:
    """One file, which needs Python but nothing of fakedev; without Python it says so, and ends with 255."""
    command = tmp_path / name
    command.write_bytes(portable_command(name))
    command.chmod(0o755)
    programs = tmp_path / "bin"
    programs.mkdir()
    environ = {"PATH": str(programs), "FAKEDEV_NVML_FILE": str(tmp_path / "nvml.map"), "FAKEDEV_NODE": "dgx-0"}
    text = boards(tmp_path / "nvml.map", identity).replace("device: h100", f"device: {device}")
    assert device in text
    with application(text):
        done = subprocess.run([command, *words], env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (255, "")
        assert "needs Python 3.11 or newer in this container" in done.stderr
        (programs / "python3").symlink_to(os.path.realpath(sys.executable))
        done = subprocess.run([command, *words], env=environ, capture_output=True, text=True, cwd="/", check=True)
    assert done.stdout.count(shown) == 8
    assert portable_command(name) == command.read_bytes()
