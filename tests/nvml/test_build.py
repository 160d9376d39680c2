"""How the library is compiled and found, and that its names and structures are the driver's."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from fakedev.commands.nvml import nvml
from fakedev.nvml.library import (
    DRIVERS,
    CannotBuild,
    built_command,
    built_library,
    compile_library,
    library_folder,
    sources,
    symbols,
)
from fakedev.nvml.records import CLOSED, HEAD
from fakedev.nvml.shell_environment import Unreadable, default_file, nodes_of
from tests.support.application import application
from tests.support.driver.nvml import boards, compiled
from tests.support.paths import ROOT

#: Our structures, and those of NVIDIA's bindings.
STRUCTURES = {
    "utilization_t": "c_nvmlUtilization_t", "memory_t": "c_nvmlMemory_t", "memory_v2_t": "c_nvmlMemory_v2_t",
    "pci_info_t": "nvmlPciInfo_t", "process_v2_t": "c_nvmlProcessInfo_v2_t",
    "process_detail_t": "c_nvmlProcessDetail_v1_t", "process_details_t": "c_nvmlProcessDetailList_v1_t",
    "process_sample_t": "c_nvmlProcessUtilizationSample_t", "process_usage_t": "c_nvmlProcessUtilizationInfo_v1_t",
    "process_usages_t": "c_nvmlProcessesUtilizationInfo_v1_t", "field_t": "c_nvmlFieldValue_t",
    "sample_t": "c_nvmlSample_t", "violation_t": "c_nvmlViolationTime_t", "temperature_t": "c_nvmlTemperature_v1_t",
    "ecc_counts_t": "c_nvmlEccErrorCounts_t", "sram_status_t": "c_nvmlEccSramErrorStatus_v1_t",
    "histogram_t": "c_nvmlRowRemapperHistogramValues", "fabric_t": "c_nvmlGpuFabricInfo_t",
    "fabric_v2_t": "c_nvmlGpuFabricInfo_v2_t", "fabric_v3_t": "c_nvmlGpuFabricInfo_v3_t",
    "platform_t": "c_nvmlPlatformInfo_v2_t", "attributes_t": "c_nvmlDeviceAttributes",
    "event_data_t": "c_nvmlEventData_t", "gpm_metric_t": "c_nvmlGpmMetric_t", "pci_info_ext_t": "nvmlPciInfoExt_v1_t",
    "fbc_stats_t": "c_nvmlFBCStats_t", "margin_t": "c_nvmlMarginTemperature_v1_t",
    "gpu_profile_t": "c_nvmlGpuInstanceProfileInfo_t", "gpu_profile_v2_t": "c_nvmlGpuInstanceProfileInfo_v2_t",
    "gpu_instance_t": "c_nvmlGpuInstanceInfo_t", "compute_profile_t": "c_nvmlComputeInstanceProfileInfo_t",
    "compute_profile_v2_t": "c_nvmlComputeInstanceProfileInfo_v2_t", "placement_t": "c_nvmlGpuInstancePlacement_t",
    "compute_instance_t": "c_nvmlComputeInstanceInfo_t", "bar1_t": "c_nvmlBAR1Memory_t",
}  # fmt: skip


@pytest.mark.slow
def test_sizes_of_structures(tmp_path: Path) -> None:
    pynvml = pytest.importorskip("pynvml")
    compiled("plain")
    lines = [f'printf("{ours} %zu\\n", sizeof({ours}));' for ours in STRUCTURES]
    text = '#include <stdio.h>\n#include "nvml.h"\nint main(void) { ' + " ".join(lines) + " }\n"
    (tmp_path / "nvml.h").write_text(sources()["nvml.h"])
    (tmp_path / "sizes.c").write_text(text)
    subprocess.run(["cc", "-std=c11", "sizes.c", "-o", "sizes"], cwd=tmp_path, check=True)
    sizes = dict(line.split() for line in subprocess.check_output([tmp_path / "sizes"], text=True).splitlines())
    theirs = {ours: str(ctypes.sizeof(getattr(pynvml, name))) for ours, name in STRUCTURES.items()}
    assert sizes == theirs


@pytest.mark.slow
def test_exported_names() -> None:
    """All names of the driver's generation, and no others; those that are not supported say so."""
    library = ctypes.CDLL(str(compiled("plain")))
    names = symbols()
    assert len(names) == 405
    assert [name for name in names if not hasattr(library, name)] == []
    assert not hasattr(library, "nvmlDeviceGetRemappedRows_v2")
    assert not hasattr(library, "session_enter")
    assert library.nvmlDeviceGetVgpuMetadata(None) == 3


def test_names_of_drivers() -> None:
    """Each branch has the names of the one before it and more: programs fall back to older calls without them."""
    names = [set(symbols(driver)) for driver in DRIVERS]
    assert all(older < newer for older, newer in pairwise(names))
    first = {name: DRIVERS[sum(name not in each for each in names)] for name in names[-1]}
    assert first["nvmlDeviceGetMemoryInfo_v2"] == 535
    assert first["nvmlDeviceGetC2cModeInfoV"] == 550
    assert first["nvmlDeviceGetTemperatureV"] == 570
    assert first["nvmlDeviceGetPdi"] == 580
    assert first["nvmlDeviceGetRemappedRows_v2"] == 610
    exported = sources(535)["symbols.map"]
    assert "nvmlDeviceGetMemoryInfo_v2;" in exported
    assert "nvmlDeviceGetTemperatureV;" not in exported


def without_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Programs are searched in a folder that has none, and the cache is empty."""
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))


def test_environment_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """nvidia-smi is on the path and works; one line says that the library is not there, and the exit code is 1."""
    without_compiler(monkeypatch, tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    with application(boards(tmp_path / "nvml.map")):
        assert nvml(["env", "--file", str(tmp_path / "nvml.map")]) == 1
        printed = capsys.readouterr()
        shown = subprocess.run(["/bin/sh", "-c", f"{printed.out}\nnvidia-smi -L"], capture_output=True, text=True,
                               env={"PATH": str(tmp_path)}, check=True)  # fmt: skip
    assert shown.stdout.count("GPU-") == 8
    assert "LD_LIBRARY_PATH" not in printed.out
    reason = "fakedev nvml: nvidia-smi works, other programs do not see the boards: there is no C compiler cc: install"
    assert printed.err.startswith(reason)
    assert printed.err.count("\n") == 1


def test_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 1, and nothing is left."""
    without_compiler(monkeypatch, tmp_path)
    for arguments in (["build"], ["build", "--output", str(tmp_path / "library.so")]):
        assert nvml(arguments) == 1
        printed = capsys.readouterr()
        assert printed.err.startswith("fakedev nvml: there is no C compiler cc: install one")
        assert printed.err.count("\n") == 1
        assert printed.out == ""
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_compiler_that_fails(tmp_path: Path) -> None:
    compiled("plain")
    with pytest.raises(CannotBuild, match="cc failed with 1"):
        compile_library(tmp_path / "library.so", ("-DHANDLE_SHIFT=oops",))
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines name the library, the file and the node; what is missing is said on standard error."""
    library = tmp_path / "fakedev" / library_folder() / "libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes(compiled("plain").read_bytes())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/opt/lib:{library.parent}")
    command = built_command()
    monkeypatch.setenv("PATH", f"/opt/bin:{command.parent}")
    file = tmp_path / "nvml.map"
    assert nvml(["env", "--file", str(file)]) == 0
    assert "there is no file" in capsys.readouterr().err
    with application(boards(file).replace("nodes: [dgx-0]", "nodes: 3")):
        assert nvml(["env", "--file", str(file)]) == 0
        remark = "has 3 nodes: choose one with --node, or set FAKEDEV_NODE: dgx-0, dgx-1, dgx-2"
        assert remark in capsys.readouterr().err
        assert nvml(["env", "--file", str(file), "--node", "dgx-7"]) == 0
        assert "no node 'dgx-7'; did you mean" in capsys.readouterr().err
        assert nvml(["env", "--file", str(file), "--node", "dgx-1"]) == 0
        printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[1:] == [
        f"export LD_LIBRARY_PATH={library.parent}:/opt/lib",
        f"export PATH={command.parent}:/opt/bin",
        f"export FAKEDEV_NVML_FILE={file}",
        "export FAKEDEV_NODE=dgx-1",
    ]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi is a script for this interpreter, in a folder with dcgmi alone, and written once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = built_command()
    assert (command.name, command.stat().st_mode & 0o777) == ("nvidia-smi", 0o755)
    assert sorted(command.parent.iterdir()) == [command.with_name("dcgmi"), command]
    assert sys.executable in command.read_text()
    before = command.stat()
    assert built_command().stat() == before
    monkeypatch.setenv("XDG_CACHE_HOME", str(command))
    with pytest.raises(CannotBuild, match="a part of the path is a file"):
        built_command()
    monkeypatch.setenv("XDG_CACHE_HOME", f"/{'a' * 300}")
    for build in (built_command, built_library):
        with pytest.raises(CannotBuild, match="the name is too long"):
            build()


def test_default_file_is_that_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Command, library and service look in the same place."""
    assert default_file({"RUNTIME_DIRECTORY": "/run/a:/run/b", "XDG_RUNTIME_DIR": "/x"}) == "/run/a/nvml.map"
    assert default_file({"XDG_RUNTIME_DIR": "/x", "TMPDIR": "/y"}) == "/x/fakedev/nvml.map"
    assert default_file({"TMPDIR": "/y"}) == f"/y/fakedev-{os.getuid()}/nvml.map"
    assert default_file({"FAKEDEV_NVML_FILE": "/z"}) == "/z"


def test_nodes_of_a_file(tmp_path: Path) -> None:
    """The names of its nodes; a file that is none, or whose service has ended, is refused."""
    file, other = tmp_path / "nvml.map", tmp_path / "other"
    with application(boards(file)):
        assert nodes_of(str(file)) == {"dgx-0": 0}
        content = file.read_bytes()
    for text, reason in ((b"", "is no file for NVML"), (content[:-8], "another version")):
        other.write_bytes(text)
        with pytest.raises(Unreadable, match=reason):
            nodes_of(str(other))
    place = HEAD.offsets["state"]
    other.write_bytes(content[:place] + CLOSED.to_bytes(8, sys.byteorder) + content[place + 8 :])
    with pytest.raises(Unreadable, match="has ended"):
        nodes_of(str(other))
    other.unlink()
    os.mkfifo(other)  # to open it would wait
    with pytest.raises(Unreadable, match="there is no file"):
        nodes_of(str(other))


def test_nodes_of_damaged_files(tmp_path: Path) -> None:
    """Whatever numbers the head has: names, or a reason."""
    file, other = tmp_path / "nvml.map", tmp_path / "other"
    with application(boards(file)):
        content = file.read_bytes()
    for field, place in HEAD.offsets.items():
        for number in (0, -1, 1, 2**63 - 1, -(2**63), 2**40):
            damage = number.to_bytes(8, sys.byteorder, signed=True)
            other.write_bytes(content[:place] + damage + content[place + 8 :])
            try:
                assert list(nodes_of(str(other))) == ["dgx-0"] or field == "published"
            except Unreadable as reason:
                assert str(other) in str(reason)


def test_commands_start_light() -> None:
    """They start without NumPy, Twisted and YAML."""
    code = "import sys, fakedev.commands.nvml; print({'numpy', 'twisted', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
